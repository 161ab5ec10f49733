/* The counts of AllToAllDynamic, which each run has of its own. */
#ifndef DF_HOST_RUNS_DYNAMIC_COUNTS_H
#define DF_HOST_RUNS_DYNAMIC_COUNTS_H

#include "base/mutex.h"
#include "host/state/context.h"

/* The caller's arrays. If a displacement array is NULL, the pieces are packed (sends), or each has
 * the room of the registered count (receives). If recv_counts is NULL, the received counts are not
 * reported. */
typedef struct df_given_counts {
  const size_t *send_counts, *send_displs;
  size_t *recv_counts;
  const size_t *recv_displs;
} df_given_counts;

/* Checks run->given, and sets run->pair_counts to a copy, which the collective frees. */
dfcclResult_t df_pair_counts_take(df_coll *coll, df_run *run) DF_RANK_LOCKED;

#endif
