/*
 * Messages that pass relays (bootstrap/net/routes.h). The sender gives a message to the next rank
 * of the route, with the list of its destinations; each relay delivers it to the destinations on
 * its host and forwards it to the next relays. Messages between two ranks keep their order. This
 * file has no state, and no function waits.
 */
#ifndef DF_CONTROL_RELAY_H
#define DF_CONTROL_RELAY_H

#include "bootstrap/net/routes.h"
#include "control/message.h"

/* The functions that send. give: the payload has message->payload_bytes and is valid during the
 * call. lose: there was no memory for the message to hop. */
typedef struct df_relay_giver {
  void *giver;
  void (*give)(void *giver, uint32_t hop, const df_message *message, const void *payload);
  void (*lose)(void *giver, uint32_t hop);
} df_relay_giver;

enum { DF_HOPS_MOST = DF_RELAYS_MOST + 1 };

/* Sends one DF_MESSAGE_RELAYED to each next rank. ranks: the destinations, without this rank; their
 * order changes. */
void df_relay_split(const df_relay_giver *to, const df_routes *routes, uint32_t source,
                    uint64_t hops, uint32_t *ranks, uint32_t n, const df_message *message,
                    const void *payload);

/* Reads a valid DF_MESSAGE_RELAYED. ranks: room for DF_MAX_RANKS; receives the *n destinations to
 * which the message goes on. *is_mine: this rank is a destination too. *inner: points into the
 * message. Returns 0 if the message is malformed. */
int df_relay_read(const df_routes *routes, const df_message *message, uint32_t *source,
                  uint32_t *ranks, uint32_t *n, int *is_mine, const df_message **inner);

#endif
