/* The counts of AllToAllDynamic, which each run brings. */
#ifndef DF_HOST_RUNS_DYNAMIC_COUNTS_H
#define DF_HOST_RUNS_DYNAMIC_COUNTS_H

#include "base/mutex.h"
#include "host/state/context.h"

/* The caller's arrays. Displacements that are NULL are those of packed pieces (sends) or of pieces of the
 * registered count (receives). recv_counts that are NULL are not reported. */
typedef struct df_given_counts {
  const size_t *send_counts, *send_displs;
  size_t *recv_counts;
  const size_t *recv_displs;
} df_given_counts;

/* Checks run->given, and sets run->pair_counts, which the collective frees. */
dfcclResult_t df_pair_counts_take(df_coll *coll, df_run *run) DF_RANK_LOCKED;

#endif
