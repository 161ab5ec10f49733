/* The CUDA mover's source on the host, its lanes one after the other: for test_move_cuda.c. */
#include "primitives/move.h"

extern "C" int df_test_move_cuda(const df_move *move, uint32_t n_lanes);

/* Returns 0, and moves nothing, where some lane misses a word. */
int df_test_move_cuda(const df_move *move, uint32_t n_lanes) {
  static df_lanes lanes[96];
  int arrived = 1;
  for (uint32_t i = 0; i < n_lanes; i++) {
    lanes[i] = {i, n_lanes, NULL, NULL, 0, 0};
    arrived &= df_move_has_arrived(&lanes[i], move);
  }
  for (uint32_t i = 0; i < n_lanes && arrived; i++) df_move_execute(&lanes[i], move);
  return arrived;
}
