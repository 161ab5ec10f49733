/* Messages to the other ranks. [lock]: the caller holds context->lock. */
#ifndef DF_CONTROL_PEERS_H
#define DF_CONTROL_PEERS_H

#include "host/context.h"

dfcclResult_t df_peers_init(dfcclContext_t context);
void df_peers_free(dfcclContext_t context);
void df_send(dfcclContext_t context, uint32_t peer, const df_message *message, const void *payload,
             int fd); /* [lock] */
/* [lock] 1: the peer will map memory of our device. */
int df_send_segment(dfcclContext_t context, uint32_t rank, const df_segment *segment, uint64_t use);
void df_peer_flush(dfcclContext_t context, uint32_t peer); /* [lock] */
void df_peer_cut_off(df_peer *peer); /* [lock] ends the connection of a peer that may live */
void df_peers_say_goodbye(dfcclContext_t context);

#endif
