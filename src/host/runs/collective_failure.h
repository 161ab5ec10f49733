/* Failure of a collective and of the context. */
#ifndef DF_HOST_RUNS_COLLECTIVE_FAILURE_H
#define DF_HOST_RUNS_COLLECTIVE_FAILURE_H

#include "base/mutex.h"
#include "host/state/context.h"

dfcclResult_t df_remember_failure(dfcclContext_t context, dfcclResult_t result);
/* Makes the calling thread's sentence the context's latest failure. Returns result. */
static inline dfcclResult_t df_remember(dfcclContext_t context, dfcclResult_t result) {
  return DF_LIKELY(result == dfcclSuccess) ? result : df_remember_failure(context, result);
}
dfcclResult_t df_say_why_broken(dfcclContext_t context);
/* Returns the context's failure, and makes its sentence the calling thread's. Takes a lock only if
 * the context is broken. */
static inline dfcclResult_t df_say_broken(dfcclContext_t context) {
  if (DF_LIKELY(df_load_relaxed_u32((const uint32_t *)&context->failure.broken) == dfcclSuccess))
    return dfcclSuccess;
  return df_say_why_broken(context);
}
void df_fail_collective(dfcclContext_t context, df_coll *coll, dfcclResult_t status, int notifies,
                        const char *sentence) DF_RANK_LOCKED;
/* Ends the collective because a block has found that a member's count of this run differs. */
void df_fail_differing(dfcclContext_t context, df_coll *coll, uint64_t run) DF_RANK_LOCKED;
/* Ends the collective because a block could not read a buffer that a member has lent by a call. */
void df_fail_unread(dfcclContext_t context, df_coll *coll, uint64_t run) DF_RANK_LOCKED;
void df_break(dfcclContext_t context, dfcclResult_t status, const char *sentence) DF_RANK_LOCKED;
/* Breaks the context, and ends every collective here and on its members, because a message was lost
 * that peers need to stay in step. */
void df_give_up(dfcclContext_t context, dfcclResult_t status, const char *sentence) DF_RANK_LOCKED;
void df_check_run_limit(dfcclContext_t context, df_coll *coll) DF_RANK_LOCKED;
/* Describes why the run after the limit never completes. Returns that run's status. */
dfcclResult_t df_describe_limit(dfcclContext_t context, const df_coll *coll, char *text,
                                size_t bytes) DF_RANK_LOCKED;
/* Describes why runs are refused: the collective has failed, or all runs up to the limit were
 * submitted. Returns the refused run's status. */
dfcclResult_t df_describe_failure(dfcclContext_t context, const df_coll *coll, char *text,
                                  size_t bytes) DF_RANK_LOCKED;
/* Ends the collective because the peer left, or its context broke, before it announced the
 * collective. */
void df_fail_unannounced(dfcclContext_t context, df_coll *coll, uint32_t peer) DF_RANK_LOCKED;
df_message df_failure_message(const df_coll *coll);

#endif
