/* The CUDA mover's source on the host, with its lanes executed one after the other, for
 * test_move_cuda.c. */
#include "primitives/move.h"

extern "C" int df_test_move_cuda(const df_move *move, uint32_t n_lanes);

extern "C" void df_test_move_cuda_some(const df_move *move, uint32_t n_lanes, uint64_t which);

/* Only the lanes whose bits are set execute the move; the others have not reached it yet. */
void df_test_move_cuda_some(const df_move *move, uint32_t n_lanes, uint64_t which) {
  for (uint32_t i = 0; i < n_lanes; i++) {
    df_lanes lanes = {i, n_lanes, NULL, NULL, 0, 0, 0};
    if (which >> i & 1) df_move_execute(&lanes, move);
  }
}

/* Returns 0, and moves nothing, if some lane misses a word or a line. */
int df_test_move_cuda(const df_move *move, uint32_t n_lanes) {
  static df_lanes lanes[96];
  int arrived = 1;
  for (uint32_t i = 0; i < n_lanes; i++) {
    lanes[i] = {i, n_lanes, NULL, NULL, 0, 0, 0};
    arrived &= df_move_has_arrived(&lanes[i], move);
  }
  for (uint32_t i = 0; i < n_lanes && arrived; i++) df_move_execute(&lanes[i], move);
  return arrived;
}
