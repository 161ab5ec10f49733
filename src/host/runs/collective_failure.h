/* How a collective and the context fail. */
#ifndef DF_HOST_RUNS_COLLECTIVE_FAILURE_H
#define DF_HOST_RUNS_COLLECTIVE_FAILURE_H

#include "base/mutex.h"
#include "host/state/context.h"

dfcclResult_t df_remember_failure(dfcclContext_t context, dfcclResult_t result);
/* The calling thread's sentence becomes the context's latest failure. Returns result. */
static inline dfcclResult_t df_remember(dfcclContext_t context, dfcclResult_t result) {
  return DF_LIKELY(result == dfcclSuccess) ? result : df_remember_failure(context, result);
}
dfcclResult_t df_say_why_broken(dfcclContext_t context);
/* The context's failure; its sentence becomes this thread's. Takes a lock only if broken. */
static inline dfcclResult_t df_say_broken(dfcclContext_t context) {
  if (DF_LIKELY(df_load_relaxed_u32((const uint32_t *)&context->failure.broken) == dfcclSuccess))
    return dfcclSuccess;
  return df_say_why_broken(context);
}
void df_fail_collective(dfcclContext_t context, df_coll *coll, dfcclResult_t status, int tell,
                        const char *sentence) DF_RANK_LOCKED;
/* A block has found that a member's count of this run differs. */
void df_fail_differing(dfcclContext_t context, df_coll *coll, uint64_t run) DF_RANK_LOCKED;
void df_break(dfcclContext_t context, dfcclResult_t status, const char *sentence) DF_RANK_LOCKED;
/* A message that keeps peers in step was lost: breaks the context, and ends every
 * collective here and on its members. */
void df_give_up(dfcclContext_t context, dfcclResult_t status, const char *sentence) DF_RANK_LOCKED;
void df_check_run_limit(dfcclContext_t context, df_coll *coll) DF_RANK_LOCKED;
/* Why the run after the limit never completes. Returns that run's status. */
dfcclResult_t df_describe_limit(dfcclContext_t context, const df_coll *coll, char *text,
                                size_t bytes) DF_RANK_LOCKED;
/* The peer left, or its context broke, before it announced the collective. */
void df_fail_unannounced(dfcclContext_t context, df_coll *coll, uint32_t peer) DF_RANK_LOCKED;
df_message df_failure_message(const df_coll *coll);

#endif
