#include "host/subscriptions.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host/failure.h"
#include "host/link_setup.h"
#include "host/match.h"
#include "host/memory.h"
#include "host/registry.h"
#include "transports/ipc/unmap.h"
#include "transports/shm/common_slots.h"

/* ---- memory ---- */

/* A segment's number says what it is for: so it cannot be unmapped while links point into it. */
static int is_sound_segment(const df_message *message) {
  switch (message->b) {
  case DF_SEGMENT_HOME:
    return message->id == 0 && message->a >= sizeof(df_bell);
  case DF_SEGMENT_LINKS:
    return message->id >= DF_FIRST_LINKS_SEGMENT;
  default:
    return message->b == DF_SEGMENT_USER && message->id > 0 && message->id < DF_FIRST_LINKS_SEGMENT;
  }
}

/* Without a window the memory is copied through slots: the peer is not told that it may be lent. A
 * device does not see windows. */
static int may_lend(dfcclContext_t context, df_peer *peer, const df_segment *segment) {
  if (!context->device.memory->host_sees_links) return 1;
  return peer->windows && df_windows_open(peer->windows, segment->base, segment->bytes);
}

static void hear_segment(void *room, uint32_t from, const df_message *message, int fd) {
  dfcclContext_t context = room;
  df_peer *peer = &context->control.peers[from];
  df_segment *segment;
  char sentence[DF_SENTENCE_BYTES];
  if (fd < 0 && message->payload_bytes == 0) {
    snprintf(sentence, sizeof sentence,
             "rank %u announced shared memory to rank %u without its descriptor", from,
             context->rank);
    df_give_up(context, dfcclRemoteError, sentence);
    return;
  }
  if (!is_sound_segment(message)) {
    if (fd >= 0) close(fd);
    df_peer_refuse(context, from);
    return;
  }
  for (segment = peer->segments; segment; segment = segment->next)
    if (segment->id == message->id) { /* told again */
      if (fd >= 0) close(fd);
      return;
    }
  /* The device may let the call wait; nobody else changes the list of segments. */
  pthread_mutex_unlock(&context->lock);
  dfcclResult_t result = context->device.memory->map(&context->device, from, &segment, message, fd);
  pthread_mutex_lock(&context->lock);
  if (result != dfcclSuccess) {
    snprintf(sentence, sizeof sentence, "rank %u cannot map rank %u's memory: %.300s",
             context->rank, from, df_last_sentence());
    if (message->b == DF_SEGMENT_USER) return; /* that memory is copied through slots then */
    df_give_up(context, result, sentence);
    return;
  }
  segment->next = peer->segments;
  peer->segments = segment;
  if (message->b == DF_SEGMENT_HOME) peer->bell = (df_bell *)segment->base;
  if (message->b == DF_SEGMENT_USER && may_lend(context, peer, segment)) {
    df_message reply = {
        .kind = DF_MESSAGE_MAPPED, .id = message->id, .a = (uint64_t)(uintptr_t)segment->base};
    df_post_send(&context->control, from, &reply, NULL, -1);
  }
}

static void hear_unmap(void *room, uint32_t from, const df_message *message, int fd) {
  (void)fd;
  dfcclContext_t context = room;
  uint64_t id = message->id;
  int may_be_read = message->a != 0;
  if (id == 0 || id >= DF_FIRST_LINKS_SEGMENT) return; /* home and links stay mapped */
  if (context->device.memory->exports_memory) {
    df_unmap(context, from, id, may_be_read);
    return;
  }
  /* Its owner says so when nobody reads it; who is broken keeps everything until the end. */
  if (context->failure.broken != dfcclSuccess) return;
  df_segment **at = &context->control.peers[from].segments;
  while (*at && (*at)->id != id) at = &(*at)->next;
  df_segment *segment = *at;
  if (segment == NULL) return;
  *at = segment->next;
  if (context->control.peers[from].windows)
    df_windows_close(context->control.peers[from].windows, segment->base);
  df_segment_destroy(segment);
}

static void hear_mapped(void *room, uint32_t from, const df_message *message, int fd) {
  (void)fd;
  dfcclContext_t context = room;
  df_memory_mapped(context, from, message->id, message->a);
  df_common_mapped(context, from, message->id, message->a);
}

static void hear_unmapped(void *room, uint32_t from, const df_message *message, int fd) {
  (void)fd;
  df_unmapped(room, from, message->id);
}

/* ---- collectives ---- */

static void hear_announcement(void *room, uint32_t from, const df_message *message, int fd) {
  (void)fd;
  dfcclContext_t context = room;
  df_peer *peer = &context->control.peers[from];
  if (peer->local && peer->bell == NULL) peer->bell = df_world_bell(context->control.world, from);
  if (peer->bell == NULL) /* its home comes first: links need its bell */
    df_peer_refuse(context, from);
  else if (df_match_announced(context, from, message) != dfcclSuccess)
    df_give_up(context, dfcclOutOfMemory, df_last_sentence());
}

static void hear_links(void *room, uint32_t from, const df_message *message, int fd) {
  (void)fd;
  df_remote *remote = df_match_newest(room, from, message->id);
  if (remote) df_links_told(room, remote, message->a, message->b);
}

static void hear_deregistration(void *room, uint32_t from, const df_message *message, int fd) {
  (void)fd;
  df_remote *remote = df_match_newest(room, from, message->id);
  if (remote && !remote->deregistered)
    df_match_deregistered(room, remote, message->a, message->b != 0);
}

static void hear_limit(void *room, uint32_t from, const df_message *message, int fd) {
  (void)fd;
  df_remote *remote = df_match_newest(room, from, message->id);
  if (remote && !remote->deregistered) df_match_limited(room, remote, message->a);
}

/* ---- failures ---- */

/* The sender's announcement of it may be what was lost: our registration would wait for it. */
static void fail_unmet(dfcclContext_t context, uint32_t from, dfcclCollId_t id,
                       dfcclResult_t status, const char *sentence) {
  df_coll *coll = df_find(context, id);
  for (uint32_t i = 0; coll && i < coll->n; i++)
    if (coll->ranks[i] == from && coll->remotes[i] == NULL) {
      df_fail_collective(context, coll, status, 0, sentence);
      return;
    }
}

static void hear_failure(void *room, uint32_t from, const df_message *message, int fd) {
  (void)fd;
  dfcclContext_t context = room;
  df_remote *remote = df_match_newest(context, from, message->id);
  dfcclResult_t status = message->a == dfcclMismatch || message->a == dfcclTimeout
                             ? (dfcclResult_t)message->a
                             : dfcclRemoteError;
  const char *sentence = df_message_payload(message);
  if (status != dfcclMismatch) df_break(context, status, sentence);
  if (status != dfcclMismatch && (remote == NULL || remote->bound == NULL))
    fail_unmet(context, from, message->id, status, sentence);
  if (remote == NULL) return;
  remote->failed = status;
  free(remote->sentence);
  remote->sentence = strdup(sentence);
  if (remote->bound) df_fail_collective(context, remote->bound, status, 0, sentence);
}

static void hear_abort(void *room, uint32_t from, const df_message *message, int fd) {
  (void)message;
  (void)fd;
  df_peer_lost(room, from, DF_PEER_GIVEN_UP, "called dfcclAbort");
}

static void hear_cause(void *room, uint32_t from, const df_message *message, int fd) {
  (void)fd;
  df_hear_cause(room, from, message);
}

static void hear_goodbye(void *room, uint32_t from, const df_message *message, int fd) {
  (void)message;
  (void)fd;
  df_peer_left(room, from);
  df_unmap_all(room, from);
}

void df_subscribe(dfcclContext_t context) {
  static df_message_handler *const handlers[DF_MESSAGE_KINDS] = {
      [DF_MESSAGE_SEGMENT] = hear_segment,
      [DF_MESSAGE_MAPPED] = hear_mapped,
      [DF_MESSAGE_UNMAP] = hear_unmap,
      [DF_MESSAGE_UNMAPPED] = hear_unmapped,
      [DF_MESSAGE_ANNOUNCE] = hear_announcement,
      [DF_MESSAGE_LINKS] = hear_links,
      [DF_MESSAGE_DEREGISTER] = hear_deregistration,
      [DF_MESSAGE_LIMIT] = hear_limit,
      [DF_MESSAGE_FAIL] = hear_failure,
      [DF_MESSAGE_ABORT] = hear_abort,
      [DF_MESSAGE_CAUSE] = hear_cause,
      [DF_MESSAGE_BYE] = hear_goodbye,
  };
  for (int kind = DF_MESSAGE_SEGMENT; kind < DF_MESSAGE_KINDS; kind++)
    df_post_subscribe(&context->control, (df_message_kind)kind, handlers[kind], context,
                      kind == DF_MESSAGE_SEGMENT);
}

/* ---- what control notices ---- */

static void refused(void *owner, uint32_t peer) { df_peer_refuse(owner, peer); }
static void left(void *owner, uint32_t peer) { df_peer_left(owner, peer); }
static void lost(void *owner, uint32_t peer, df_peer_state state, const char *why) {
  df_peer_lost(owner, peer, state, why);
}
static void disconnected(void *owner, uint32_t peer) {
  (void)peer;
  dfcclContext_t context = owner;
  context->endpoint.unmaps_due = context->device.memory->exports_memory;
}
static void message_lost(void *owner, dfcclResult_t status, const char *sentence) {
  df_give_up(owner, status, sentence);
}

df_control_events df_control_events_of(dfcclContext_t context) {
  return (df_control_events){.owner = context,
                             .refused = refused,
                             .lost = lost,
                             .left = left,
                             .disconnected = disconnected,
                             .message_lost = message_lost};
}
