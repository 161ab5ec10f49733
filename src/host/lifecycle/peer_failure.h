/* Events that make collectives fail: lost or leaving ranks, deadlines, aborts. */
#ifndef DF_HOST_LIFECYCLE_PEER_FAILURE_H
#define DF_HOST_LIFECYCLE_PEER_FAILURE_H

#include "base/mutex.h"
#include "host/state/context.h"

/* Whether df_check_deadlines would find a late run. */
int df_is_late(dfcclContext_t context) DF_RANK_LOCKED;
void df_check_deadlines(dfcclContext_t context) DF_RANK_LOCKED;
/* This rank has lost the peer. */
void df_peer_lost(dfcclContext_t context, uint32_t peer, df_peer_state state,
                  const char *why) DF_RANK_LOCKED;
/* The peer is alive, or has left in order, but messages no longer reach it. A live one is notified,
 * since it may wait for runs that this rank has given up. */
void df_peer_unreachable(dfcclContext_t context, uint32_t peer, const char *why) DF_RANK_LOCKED;
/* A live peer sent a malformed message: this rank notifies it, and ignores its later messages. */
void df_peer_refuse(dfcclContext_t context, uint32_t peer) DF_RANK_LOCKED;
/* Sends all others, once, the reason why this rank's context broke, and the number of runs of each
 * collective that it has accepted. Otherwise peers would wait for more runs, and report that this
 * rank left. */
void df_report_broken(dfcclContext_t context) DF_RANK_LOCKED;
void df_handle_failure_reason(dfcclContext_t context, uint32_t from,
                              const df_message *message) DF_RANK_LOCKED;
/* The peer left in order. */
void df_peer_left(dfcclContext_t context, uint32_t peer) DF_RANK_LOCKED;
dfcclResult_t df_abort(dfcclContext_t context, const char *reason);
/* Aborts all of the collectives, or none if one is not registered. Does not wait. */
dfcclResult_t df_abort_collectives(dfcclContext_t context, const dfcclCollId_t *ids, int n,
                                   const char *reason);

#endif
