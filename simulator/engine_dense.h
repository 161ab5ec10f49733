/* The dense engine: a worklist over all events. A schedule deadlocks if and only if something is
 * left over when nothing can move any more; in which order things move makes no difference. */
#ifndef DF_SIM_ENGINE_DENSE_H
#define DF_SIM_ENGINE_DENSE_H

#include "sequences.h"

typedef struct {
  uint32_t gpu_count;
  uint64_t coll_count;
  uint64_t *next;      /* GPU -> its first event that has not begun */
  uint32_t *pending;   /* GPU -> collectives executing there and not successful */
  uint32_t *executing; /* collective -> members on which it executes */
  uint32_t *stack;     /* GPUs that may be able to move */
  bool *stacked;
} df_dense;

dfcclResult_t df_dense_create(df_dense *dense, uint32_t gpu_count, uint64_t coll_count);

/* True if the sequences deadlock: some GPU cannot finish, or some collective that began cannot. The
 * final standstill stays in *dense until the next call. */
bool df_dense_deadlocks(df_dense *dense, const df_sequences *sequences);
void df_dense_destroy(df_dense *dense);

#endif
