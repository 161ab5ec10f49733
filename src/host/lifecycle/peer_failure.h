/* What makes collectives fail: lost or leaving ranks, deadlines, aborts. */
#ifndef DF_HOST_LIFECYCLE_PEER_FAILURE_H
#define DF_HOST_LIFECYCLE_PEER_FAILURE_H

#include "host/state/context.h"

int df_is_late(dfcclContext_t context); /* [lock] df_check_deadlines would find something */
void df_check_deadlines(dfcclContext_t context); /* [lock] */
void df_peer_lost(dfcclContext_t context, uint32_t peer, df_peer_state state,
                  const char *why); /* [lock] as this rank sees it */
/* [lock] A peer that lives, or has left in order, while nothing reaches it any more: a live one is
 * told, since it may wait for what this rank has given up. */
void df_peer_unreachable(dfcclContext_t context, uint32_t peer, const char *why);
/* [lock] A live peer that sends nonsense: this rank tells it, and hears it no more. */
void df_peer_refuse(dfcclContext_t context, uint32_t peer);
/* [lock] Once, to all others: what broke this rank's context, and how many runs of each collective
 * it has accepted. Else peers would wait for more, and take this rank's leaving for the cause. */
void df_tell_broken(dfcclContext_t context);
void df_handle_failure_reason(dfcclContext_t context, uint32_t from,
                              const df_message *message); /* [lock] */
void df_peer_left(dfcclContext_t context, uint32_t peer); /* [lock] in order */
dfcclResult_t df_abort(dfcclContext_t context);
/* All, or none if one is not registered. Does not wait. */
dfcclResult_t df_abort_collectives(dfcclContext_t context, const dfcclCollId_t *ids, int n);

#endif
