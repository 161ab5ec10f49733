/* What goes wrong: collectives, ranks, the context. [lock]: the caller holds context->lock. */
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
int df_is_late(dfcclContext_t context);          /* [lock] df_check_deadlines will find something */
void df_check_deadlines(dfcclContext_t context); /* [lock] */
void df_peer_lost(dfcclContext_t context, uint32_t peer, df_peer_state state,
                  const char *why); /* [lock] as this rank sees it */
/* [lock] It is alive, but says what makes no sense: nothing more is heard from it, and it is told.
 */
void df_peer_refuse(dfcclContext_t context, uint32_t peer);
/* [lock] Once, to all others: what broke this rank's context, and how many runs of each collective
 * it has accepted, since it will accept no more. Else peers would wait for those, and, when it
 * leaves, take that for the cause. */
void df_tell_broken(dfcclContext_t context);
void df_hear_cause(dfcclContext_t context, uint32_t from, const df_message *message); /* [lock] */
void df_peer_left(dfcclContext_t context, uint32_t peer); /* [lock] in order */
/* [lock] A member that has left, or whose context is broken, never announced it. */
void df_fail_unannounced(dfcclContext_t context, df_coll *coll, uint32_t peer);
dfcclResult_t df_abort(dfcclContext_t context);
/* All of these or, if one is not registered, none. Does not wait. */
dfcclResult_t df_abort_collectives(dfcclContext_t context, const dfcclCollId_t *ids, int n);
const char *df_coll_label(const df_coll *coll, char *text,
                          size_t bytes); /* "collective 7 (\"grad\")" */

#endif
