#include "control/relay.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HOPS_MOST = DF_RELAYS_MOST + 1 };

static void forward(df_control *control, uint32_t hop, uint32_t source, uint64_t hops,
                    const uint32_t *ranks, uint32_t n, const df_message *message,
                    const void *payload) {
  const df_relayed head = {.source = source, .n = n};
  const uint32_t before = df_relayed_head_bytes(n);
  uint8_t *whole = malloc(before + sizeof *message + message->payload_bytes);
  if (whole == NULL) {
    df_post_lose(control, hop);
    return;
  }
  memcpy(whole, &head, sizeof head);
  memset(whole + sizeof head, 0, before - sizeof head);
  memcpy(whole + sizeof head, ranks, n * sizeof *ranks);
  memcpy(whole + before, message, sizeof *message);
  if (message->payload_bytes)
    memcpy(whole + before + sizeof *message, payload, message->payload_bytes);
  const df_message envelope = {.kind = DF_MESSAGE_RELAYED,
                               .payload_bytes =
                                   before + (uint32_t)sizeof *message + message->payload_bytes,
                               .id = hops};
  df_post_send(control, hop, &envelope, whole, -1);
  free(whole);
}

/* One message for each next rank, with those behind it. ranks: changed. */
static void split(df_control *control, uint32_t source, uint64_t hops, uint32_t *ranks, uint32_t n,
                  const df_message *message, const void *payload) {
  uint32_t *of_one = malloc(n * sizeof *of_one);
  if (of_one == NULL) {
    for (uint32_t i = 0; i < n; i++) df_post_lose(control, control->peers[ranks[i]].next);
    return;
  }
  while (n > 0) {
    const uint32_t hop = control->peers[ranks[0]].next;
    uint32_t taken = 0, kept = 0;
    for (uint32_t i = 0; i < n; i++)
      if (control->peers[ranks[i]].next == hop)
        of_one[taken++] = ranks[i];
      else
        ranks[kept++] = ranks[i];
    n = kept;
    forward(control, hop, source, hops, of_one, taken, message, payload);
  }
  free(of_one);
}

void df_relay_send(df_control *control, const uint32_t *ranks, uint32_t n,
                   const df_message *message, const void *payload) {
  df_message whole = *message;
  whole.magic = DF_MESSAGE_MAGIC;
  uint32_t *copy = malloc(n * sizeof *copy);
  if (copy) {
    memcpy(copy, ranks, n * sizeof *copy);
    split(control, control->rank, HOPS_MOST, copy, n, &whole, payload);
  } else {
    for (uint32_t i = 0; i < n; i++) df_post_lose(control, control->peers[ranks[i]].next);
  }
  free(copy);
}

/* Who sends what makes no sense is refused, as with any message. A source that this rank hears
 * directly has no need of relays. */
static int makes_sense(const df_control *control, const df_relayed *head, const uint32_t *ranks,
                       uint64_t hops) {
  if (control->routes == NULL || hops < 1 || hops > HOPS_MOST || head->source >= control->n_ranks ||
      head->source == control->rank)
    return 0;
  for (uint32_t i = 0; i < head->n; i++)
    if (ranks[i] >= control->n_ranks || ranks[i] == head->source) return 0;
  return 1;
}

static void hear(void *room, uint32_t from, const df_message *message, int fd) {
  df_control *control = room;
  const uint8_t *payload = df_message_payload(message);
  df_relayed head;
  (void)fd;
  memcpy(&head, payload, sizeof head);
  uint32_t *ranks = malloc(head.n * sizeof *ranks);
  if (ranks == NULL) {
    df_post_lose(control, from);
    return;
  }
  memcpy(ranks, payload + sizeof head, head.n * sizeof *ranks);
  const df_message *inner =
      (const df_message *)(const void *)(payload + df_relayed_head_bytes(head.n));
  if (!makes_sense(control, &head, ranks, message->id)) {
    if (control->peers[from].state != DF_PEER_LEFT)
      control->events.refused(control->events.owner, from);
    free(ranks);
    return;
  }
  uint32_t kept = 0;
  int is_mine = 0;
  for (uint32_t i = 0; i < head.n; i++)
    if (ranks[i] == control->rank)
      is_mine = 1;
    else
      ranks[kept++] = ranks[i];
  if (kept > 0 && message->id > 1)
    split(control, head.source, message->id - 1, ranks, kept, inner, df_message_payload(inner));
  free(ranks);
  if (is_mine && control->peers[head.source].next != head.source)
    df_post_deliver(control, head.source, inner, -1);
}

void df_relay_leave_those_behind(df_control *control, uint32_t relay) {
  const df_control_events *events = &control->events;
  char why[DF_SENTENCE_BYTES / 2];
  if (control->routes == NULL) return;
  if (!control->said_goodbye && control->peers[relay].state != DF_PEER_LEFT) return;
  snprintf(why, sizeof why, "cannot be reached: rank %u, which passed its messages on, has left",
           relay);
  for (uint32_t r = 0; r < control->n_ranks; r++) {
    if (r == control->rank || r == relay || control->peers[r].state != DF_PEER_ALIVE ||
        !df_routes_pass(control->routes, r, relay))
      continue;
    if (control->said_goodbye)
      events->left(events->owner, r);
    else
      events->lost(events->owner, r, DF_PEER_GIVEN_UP, why);
  }
}

void df_relay_tell_lost(df_control *control, uint32_t rank, const char *why) {
  char sentence[DF_SENTENCE_BYTES];
  if (control->routes == NULL) return;
  snprintf(sentence, sizeof sentence, "%.400s (seen by rank %u)", why, control->rank);
  const df_message message = {
      .kind = DF_MESSAGE_LOST, .payload_bytes = (uint32_t)strlen(sentence) + 1, .id = rank};
  df_post_send_all(control, &message, sentence);
}

void df_relay_open(df_control *control) {
  df_post_subscribe(control, DF_MESSAGE_RELAYED, hear, control, 0);
}

int df_relay_is_needed(const df_control *control) {
  if (control->routes == NULL || !df_routes_is_relay(control->routes)) return 0;
  for (uint32_t r = 0; r < control->n_ranks; r++)
    if (r != control->rank && control->peers[r].state == DF_PEER_ALIVE) return 1;
  return 0;
}
