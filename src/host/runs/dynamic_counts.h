/* Counts of the moment: AllToAllDynamic's runs. */
#ifndef DF_HOST_RUNS_DYNAMIC_COUNTS_H
#define DF_HOST_RUNS_DYNAMIC_COUNTS_H

#include "base/mutex.h"
#include "host/state/context.h"

/* As the caller gave them. NULL: displacements are the packed pieces' (sends), or the places of
 * pieces of the registered count (receives); recv_counts need not be told. */
typedef struct df_given_counts {
  const size_t *send_counts, *send_displs;
  size_t *recv_counts;
  const size_t *recv_displs;
} df_given_counts;

/* Run->count is the address of a df_given_counts. Replaces it by that of a df_pair_counts,
 * which the collective frees. */
dfcclResult_t df_pair_counts_take(df_coll *coll, df_run *run) DF_RANK_LOCKED;

#endif
