#include "engine_dense.h"

#include <stdlib.h>
#include <string.h>

dfcclResult_t df_dense_create(df_dense *dense, uint32_t gpu_count, uint64_t coll_count) {
  *dense = (df_dense){.gpu_count = gpu_count, .coll_count = coll_count};
  dense->next = malloc((gpu_count + 1u) * sizeof *dense->next);
  dense->pending = malloc((gpu_count + 1u) * sizeof *dense->pending);
  dense->executing = malloc((coll_count + 1) * sizeof *dense->executing);
  dense->stack = malloc((gpu_count + 1u) * sizeof *dense->stack);
  dense->stacked = malloc((gpu_count + 1u) * sizeof *dense->stacked);
  if (dense->next && dense->pending && dense->executing && dense->stack && dense->stacked)
    return dfcclSuccess;
  df_dense_destroy(dense);
  return df_fail(dfcclOutOfMemory, "no memory to judge %u GPUs", gpu_count);
}

void df_dense_destroy(df_dense *dense) {
  free(dense->next);
  free(dense->pending);
  free(dense->executing);
  free(dense->stack);
  free(dense->stacked);
  memset(dense, 0, sizeof *dense);
}

/* Lets gpu go on until it has to wait; pushes GPUs that this sets free. Returns the new depth of
 * the stack. */
static uint32_t advance(df_dense *dense, const df_sequences *sequences, uint32_t gpu,
                        uint32_t depth) {
  uint64_t end = sequences->first[gpu + 1];
  while (dense->next[gpu] < end) {
    uint32_t event = sequences->event[dense->next[gpu]];
    bool waits = event == DF_EVENT_SYNC || sequences->single_queue;
    if (waits && dense->pending[gpu] > 0) break;
    dense->next[gpu]++;
    if (event == DF_EVENT_SYNC) continue;
    dense->pending[gpu]++;
    if (++dense->executing[event] < df_sequences_members(sequences, event)) continue;
    uint32_t group = sequences->group_of[event];
    for (uint32_t i = sequences->member_first[group]; i < sequences->member_first[group + 1]; i++) {
      uint32_t member = sequences->member[i];
      if (--dense->pending[member] > 0 || member == gpu || dense->stacked[member]) continue;
      dense->stack[depth++] = member;
      dense->stacked[member] = true;
    }
  }
  return depth;
}

bool df_dense_deadlocks(df_dense *dense, const df_sequences *sequences) {
  uint32_t gpus = sequences->gpu_count;
  memcpy(dense->next, sequences->first, gpus * sizeof *dense->next);
  memset(dense->pending, 0, gpus * sizeof *dense->pending);
  memset(dense->executing, 0, sequences->coll_count * sizeof *dense->executing);
  for (uint32_t i = 0; i < gpus; i++) {
    dense->stack[i] = gpus - 1 - i;
    dense->stacked[i] = true;
  }
  for (uint32_t depth = gpus; depth > 0;) {
    uint32_t gpu = dense->stack[--depth];
    dense->stacked[gpu] = false;
    depth = advance(dense, sequences, gpu, depth);
  }
  for (uint32_t gpu = 0; gpu < gpus; gpu++)
    if (dense->next[gpu] < sequences->first[gpu + 1] || dense->pending[gpu] > 0) return true;
  return false;
}
