/* The socket at which a rank answers dfccl-top. The service thread answers; it waits for nobody,
 * and its work for callers is bounded: at most DF_SNAPSHOT_CALLERS callers, and a pass over them
 * every DF_SNAPSHOT_PASS_MS. For ranks that have no socket on this host, it asks their service
 * threads by control messages. A caller of another user, a malformed question and a caller that
 * does not read end the connection. */
#ifndef DF_HOST_OBSERVE_SNAPSHOT_SERVER_H
#define DF_HOST_OBSERVE_SNAPSHOT_SERVER_H

#include "host/observe/snapshot.h"

enum {
  DF_SNAPSHOT_CALLERS = 8,
  DF_SNAPSHOT_PASS_MS = 50,
  DF_SNAPSHOT_IDLE_MS = 3000 /* a caller that asks nothing for this long is disconnected */
};

/* ---- snapshots of other ranks (snapshot_peers.c) ---- */

/* A peer requests a snapshot of this rank. */
void df_snapshot_receive_question(dfcclContext_t context, uint32_t from,
                                  const df_message *message) DF_RANK_LOCKED;
/* A peer answers. The answer goes to the callers that wait for it. */
void df_snapshot_receive_answer(dfcclContext_t context, uint32_t from,
                                const df_message *message) DF_RANK_LOCKED;

/* Before the service thread starts. Without a socket the rank works as well, so a failure is only
 * logged. */
void df_snapshot_server_open(dfcclContext_t context);
/* The service thread does not run. Safe without open. */
void df_snapshot_server_close(dfcclContext_t context);
/* In a forked child: closes the descriptors. The socket's name is the parent's. */
void df_snapshot_server_close_in_child(dfcclContext_t context);

#endif
