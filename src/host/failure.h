/* How a collective and the context fail. [lock]: the caller holds context->lock. */
#ifndef DF_HOST_FAILURE_H
#define DF_HOST_FAILURE_H

#include "host/context.h"

dfcclResult_t df_remember_failure(dfcclContext_t context, dfcclResult_t result);
/* A failing call's sentence is the context's latest failure too. Returns result. */
static inline dfcclResult_t df_remember(dfcclContext_t context, dfcclResult_t result) {
  return DF_LIKELY(result == dfcclSuccess) ? result : df_remember_failure(context, result);
}
dfcclResult_t df_say_why_broken(dfcclContext_t context);
/* What broke the context, and its sentence as this thread's; without the lock. */
static inline dfcclResult_t df_say_broken(dfcclContext_t context) {
  if (DF_LIKELY(df_load_relaxed_u32((const uint32_t *)&context->failure.broken) == dfcclSuccess))
    return dfcclSuccess;
  return df_say_why_broken(context);
}
void df_fail_collective(dfcclContext_t context, df_coll *coll, dfcclResult_t status, int tell,
                        const char *sentence);                                     /* [lock] */
void df_break(dfcclContext_t context, dfcclResult_t status, const char *sentence); /* [lock] */
/* [lock] What keeps peers in step was lost (a message, for want of memory): breaks the context and
 * ends every collective, here and on its members. */
void df_give_up(dfcclContext_t context, dfcclResult_t status, const char *sentence);
void df_check_run_limit(dfcclContext_t context, df_coll *coll); /* [lock] */
/* [lock] Why the run after the limit can never complete; returns its status. */
dfcclResult_t df_describe_limit(dfcclContext_t context, const df_coll *coll, char *text,
                                size_t bytes);
/* [lock] A member that has left, or whose context is broken, never announced it. */
void df_fail_unannounced(dfcclContext_t context, df_coll *coll, uint32_t peer);
/* The message that tells of it. */
df_message df_failure_message(const df_coll *coll);
const char *df_coll_label(const df_coll *coll, char *text,
                          size_t bytes); /* "collective 7 (\"grad\")" */

#endif
