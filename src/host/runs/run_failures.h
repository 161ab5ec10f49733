/* The status and the sentence of one run that has failed. A registered collective has them itself;
 * of deregistered ones the last DF_KEPT_FAILURES failures are kept, so the memory is bounded. */
#ifndef DF_HOST_RUNS_RUN_FAILURES_H
#define DF_HOST_RUNS_RUN_FAILURES_H

#include "host/state/context.h"

/* The first run of the collective has failed with this status, and all later runs do. */
void df_keep_failure(dfcclContext_t context, df_coll *coll, uint64_t run,
                     dfcclResult_t status) DF_RANK_LOCKED;

/* The failure that is kept of a registration (df_wait_words.latest); NULL: none. */
const df_kept_failure *df_find_failure(dfcclContext_t context,
                                       uint64_t registration) DF_RANK_LOCKED;

/* dfcclGetRunError. */
dfcclResult_t df_run_error(dfcclContext_t context, dfcclCollId_t id, uint64_t run,
                           dfcclResult_t *status, char *text, size_t bytes);

#endif
