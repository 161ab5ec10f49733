/* The CUDA mover's source on the host, its lanes one after the other: for test_move_cuda.c. */
#include "primitives/move.h"

extern "C" void df_test_move_cuda(const df_move *move, uint32_t n_lanes);

void df_test_move_cuda(const df_move *move, uint32_t n_lanes) {
  for (uint32_t i = 0; i < n_lanes; i++) {
    df_lanes lanes = {i, n_lanes, NULL, NULL, 0};
    df_move_execute(&lanes, move);
  }
}
