#include "control/relay.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

static void forward(const df_relay_giver *to, uint32_t hop, uint32_t source, uint64_t hops,
                    const uint32_t *ranks, uint32_t n, const df_message *message,
                    const void *payload) {
  const df_relayed head = {.source = source, .n = n};
  const uint32_t before = df_relayed_head_bytes(n);
  const df_message envelope = {.kind = DF_MESSAGE_RELAYED,
                               .payload_bytes =
                                   before + (uint32_t)sizeof *message + message->payload_bytes,
                               .id = hops};
  uint8_t *whole = malloc(envelope.payload_bytes);
  if (whole == NULL) {
    to->lose(to->giver, hop);
    return;
  }
  memcpy(whole, &head, sizeof head);
  memset(whole + sizeof head, 0, before - sizeof head);
  memcpy(whole + sizeof head, ranks, n * sizeof *ranks);
  memcpy(whole + before, message, sizeof *message);
  if (message->payload_bytes)
    memcpy(whole + before + sizeof *message, payload, message->payload_bytes);
  to->give(to->giver, hop, &envelope, whole);
  free(whole);
}

/* Moves the ranks that have the same first hop to the beginning. Returns their number. */
static uint32_t gather_first_hop(const df_routes *routes, uint32_t *ranks, uint32_t n) {
  const uint32_t hop = df_routes_next(routes, ranks[0]);
  uint32_t taken = 1;
  for (uint32_t i = 1; i < n; i++)
    if (df_routes_next(routes, ranks[i]) == hop) {
      const uint32_t rank = ranks[i];
      ranks[i] = ranks[taken];
      ranks[taken++] = rank;
    }
  return taken;
}

void df_relay_split(const df_relay_giver *to, const df_routes *routes, uint32_t source,
                    uint64_t hops, uint32_t *ranks, uint32_t n, const df_message *message,
                    const void *payload) {
  while (n > 0) {
    const uint32_t taken = gather_first_hop(routes, ranks, n);
    forward(to, df_routes_next(routes, ranks[0]), source, hops, ranks, taken, message, payload);
    ranks += taken;
    n -= taken;
  }
}

int df_relay_read(const df_routes *routes, const df_message *message, uint32_t *source,
                  uint32_t *ranks, uint32_t *n, int *is_mine, const df_message **inner) {
  const uint8_t *payload = df_message_payload(message);
  df_relayed head;
  memcpy(&head, payload, sizeof head);
  *n = 0;
  *is_mine = 0;
  *source = head.source;
  if (message->id < 1 || message->id > DF_HOPS_MOST || head.source >= routes->n_ranks ||
      head.source == routes->rank)
    return 0;
  for (uint32_t i = 0; i < head.n; i++) {
    uint32_t rank;
    memcpy(&rank, payload + sizeof head + i * sizeof rank, sizeof rank);
    if (rank >= routes->n_ranks || rank == head.source) return 0;
    if (rank == routes->rank)
      *is_mine = 1;
    else
      ranks[(*n)++] = rank;
  }
  *inner = (const df_message *)(const void *)(payload + df_relayed_head_bytes(head.n));
  /* A rank that has a connection with this rank needs no relay. */
  *is_mine &= df_routes_next(routes, head.source) != head.source;
  if (message->id == 1) *n = 0;
  return 1;
}
