/* What makes collectives fail: lost or leaving ranks, deadlines, aborts. */
#ifndef DF_HOST_LIFECYCLE_PEER_FAILURE_H
#define DF_HOST_LIFECYCLE_PEER_FAILURE_H

#include "base/mutex.h"
#include "host/state/context.h"

int df_is_late(dfcclContext_t context) DF_RANK_LOCKED; /* Df_check_deadlines would find something */
void df_check_deadlines(dfcclContext_t context) DF_RANK_LOCKED;
void df_peer_lost(dfcclContext_t context, uint32_t peer, df_peer_state state,
                  const char *why) DF_RANK_LOCKED; /* As this rank sees it */
/* A peer that lives, or has left in order, while nothing reaches it any more: a live one is
 * told, since it may wait for what this rank has given up. */
void df_peer_unreachable(dfcclContext_t context, uint32_t peer, const char *why) DF_RANK_LOCKED;
/* A live peer that sends nonsense: this rank tells it, and hears it no more. */
void df_peer_refuse(dfcclContext_t context, uint32_t peer) DF_RANK_LOCKED;
/* Once, to all others: what broke this rank's context, and how many runs of each collective
 * it has accepted. Else peers would wait for more, and take this rank's leaving for the cause. */
void df_tell_broken(dfcclContext_t context) DF_RANK_LOCKED;
void df_handle_failure_reason(dfcclContext_t context, uint32_t from,
                              const df_message *message) DF_RANK_LOCKED;
void df_peer_left(dfcclContext_t context, uint32_t peer) DF_RANK_LOCKED; /* In order */
dfcclResult_t df_abort(dfcclContext_t context);
/* All, or none if one is not registered. Does not wait. */
dfcclResult_t df_abort_collectives(dfcclContext_t context, const dfcclCollId_t *ids, int n);

#endif
