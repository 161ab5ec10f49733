/*
 * Messages that pass relays (bootstrap/net/routes.h). One is given to the next rank of its way with a list
 * of those for whom it is; each relay hands it to those of its host, and on to the next relays.
 * Between two ranks messages keep their order. No state of its own; nothing waits.
 */
#ifndef DF_CONTROL_RELAY_H
#define DF_CONTROL_RELAY_H

#include "bootstrap/net/routes.h"
#include "control/message.h"

/* Who sends. give: payload: message->payload_bytes, valid within the call. lose: there was no memory
 * for what hop should have. */
typedef struct df_relay_giver {
  void *giver;
  void (*give)(void *giver, uint32_t hop, const df_message *message, const void *payload);
  void (*lose)(void *giver, uint32_t hop);
} df_relay_giver;

enum { DF_HOPS_MOST = DF_RELAYS_MOST + 1 };

/* One DF_MESSAGE_RELAYED for each next rank. ranks: not this one; their order changes. */
void df_relay_split(const df_relay_giver *to, const df_routes *routes, uint32_t source,
                    uint64_t hops, uint32_t *ranks, uint32_t n, const df_message *message,
                    const void *payload);

/* A valid DF_MESSAGE_RELAYED. ranks: DF_MAX_RANKS at most; becomes those for whom it goes on; *n: how
 * many. *is_mine: it is for this rank, too. *inner: within the message. 0: it makes no sense. */
int df_relay_read(const df_routes *routes, const df_message *message, uint32_t *source,
                  uint32_t *ranks, uint32_t *n, int *is_mine, const df_message **inner);

#endif
