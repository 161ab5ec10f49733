#include "host/lifecycle/message_handlers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control/service.h"
#include "host/switching/plan_switch.h"
#include "host/runs/collective_failure.h"
#include "host/registration/link_setup.h"
#include "host/lifecycle/peer_failure.h"
#include "host/registration/match.h"
#include "host/lifecycle/heartbeat.h"
#include "host/state/registry.h"
#include "transports/shm/unmap.h"

/* ---- collectives ---- */

static void hear_announcement(void *room, uint32_t from, const df_message *message, int fd) {
  (void)fd;
  dfcclContext_t context = room;
  if (context->failure.given_up) return; /* perhaps for want of a descriptor of its home */
  /* its home comes first: links need its bell */
  if (context->transports.serves[from] && df_shm_bell(context->transports.shm, from) == NULL)
    df_peer_refuse(context, from);
  else if (df_match_announced(context, from, message) != dfcclSuccess)
    df_give_up(context, dfcclOutOfMemory, df_last_sentence());
}

static void hear_links(void *room, uint32_t from, const df_message *message, int fd) {
  (void)fd;
  df_remote *remote = df_match_newest(room, from, message);
  df_offer offer;
  memcpy(&offer, df_message_payload(message), sizeof offer);
  if (remote) df_links_told(room, remote, (uint32_t)message->a, &offer);
}

static void hear_deregistration(void *room, uint32_t from, const df_message *message, int fd) {
  (void)fd;
  df_remote *remote = df_match_newest(room, from, message);
  if (remote && !remote->deregistered)
    df_match_deregistered(room, remote, message->a, message->b != 0);
}

static void hear_limit(void *room, uint32_t from, const df_message *message, int fd) {
  (void)fd;
  df_remote *remote = df_match_newest(room, from, message);
  if (remote && !remote->deregistered) df_match_limited(room, remote, message->a);
}

/* ---- failures ---- */

/* If the sender's announcement was lost, our registration would wait for it. The message may also be
 * of an earlier registration, and the sender meet this one later: so it is told. */
static void fail_unmet(dfcclContext_t context, uint32_t from, dfcclCollId_t id,
                       dfcclResult_t status, const char *sentence) {
  df_coll *coll = df_find(context, id);
  for (uint32_t i = 0; coll && i < coll->n; i++)
    if (coll->ranks[i] == from && coll->remotes[i] == NULL) {
      df_fail_collective(context, coll, status, 1, sentence);
      return;
    }
}

static void hear_failure(void *room, uint32_t from, const df_message *message, int fd) {
  (void)fd;
  dfcclContext_t context = room;
  df_remote *remote = df_match_newest(context, from, message);
  dfcclResult_t status = message->a == dfcclMismatch || message->a == dfcclTimeout
                             ? (dfcclResult_t)message->a
                             : dfcclRemoteError;
  const char *sentence = df_message_payload(message);
  /* A mismatch or an abort leaves other collectives alone. */
  int breaks = status != dfcclMismatch && message->a != dfcclAborted && message->variant == 0;
  if (breaks) df_break(context, status, sentence);
  if (breaks && (remote == NULL || remote->bound == NULL))
    fail_unmet(context, from, message->id, status, sentence);
  if (remote == NULL) return;
  if (status == dfcclMismatch && message->b > 0 && remote->bound) {
    df_match_differing(context, remote, message->b, sentence);
    return;
  }
  remote->failed = status;
  free(remote->sentence);
  remote->sentence = strdup(sentence);
  if (remote->bound) df_fail_collective(context, remote->bound, status, 0, sentence);
}

static void hear_of_switch(void *room, uint32_t from, const df_message *message, int fd) {
  (void)fd;
  df_epoch_hear(room, from, message);
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

/* The lost rank may be alive, so it is told what this rank gives up. */
static void hear_lost(void *room, uint32_t from, const df_message *message, int fd) {
  (void)from;
  (void)fd;
  dfcclContext_t context = room;
  const uint32_t lost = (uint32_t)message->id;
  if (context->mesh.routes == NULL || message->id >= context->n_ranks || lost == context->rank)
    return;
  const df_peer_state state = context->control.peers[lost].state;
  if (state == DF_PEER_LEFT) df_service_leave_those_behind(&context->control, lost);
  if (state != DF_PEER_ALIVE) return;
  if (context->control.said_goodbye) {
    df_service_tell_lost(&context->control, lost, df_message_payload(message));
    df_peer_left(context, lost);
    df_service_leave_those_behind(&context->control, lost);
  } else {
    df_peer_unreachable(context, lost, df_message_payload(message));
  }
}

static void hear_goodbye(void *room, uint32_t from, const df_message *message, int fd) {
  (void)message;
  (void)fd;
  dfcclContext_t context = room;
  df_peer_left(context, from);
  df_unmap_all(context->transports.shm, from);
}

static void hear_ping(void *room, uint32_t from, const df_message *message, int fd) {
  (void)fd;
  df_pings_hear(room, from, message);
}

void df_subscribe(dfcclContext_t context) {
  static df_message_handler *const handlers[DF_MESSAGE_KINDS] = {
      [DF_MESSAGE_ANNOUNCE] = hear_announcement,
      [DF_MESSAGE_LINKS] = hear_links,
      [DF_MESSAGE_DEREGISTER] = hear_deregistration,
      [DF_MESSAGE_LIMIT] = hear_limit,
      [DF_MESSAGE_FAIL] = hear_failure,
      [DF_MESSAGE_ABORT] = hear_abort,
      [DF_MESSAGE_CAUSE] = hear_cause,
      [DF_MESSAGE_LOST] = hear_lost,
      [DF_MESSAGE_BYE] = hear_goodbye,
      [DF_MESSAGE_PING] = hear_ping,
      [DF_MESSAGE_PROPOSE] = hear_of_switch,
      [DF_MESSAGE_READY] = hear_of_switch,
      [DF_MESSAGE_COMMIT] = hear_of_switch,
      [DF_MESSAGE_CANCEL] = hear_of_switch,
      [DF_MESSAGE_RETIRED] = hear_of_switch,
      [DF_MESSAGE_PURPOSE] = hear_of_switch,
      [DF_MESSAGE_TIMES] = hear_of_switch,
  };
  for (int kind = 0; kind < DF_MESSAGE_KINDS; kind++)
    if (handlers[kind])
      df_post_subscribe(&context->control, (df_message_kind)kind, handlers[kind], context, 0);
}

/* ---- what control notices ---- */

static void refused(void *owner, uint32_t peer) { df_peer_refuse(owner, peer); }
static void left(void *owner, uint32_t peer) { df_peer_left(owner, peer); }
static void lost(void *owner, uint32_t peer, df_peer_state state, const char *why) {
  df_peer_lost(owner, peer, state, why);
}
/* A relay may have lost a rank since, which others do not see. */
static void leaving(void *owner) { df_tell_broken(owner); }
static void disconnected(void *owner, uint32_t peer) {
  (void)peer;
  dfcclContext_t context = owner;
  df_unmap_disconnected(context->transports.shm);
}
static void message_lost(void *owner, dfcclResult_t status, const char *sentence) {
  dfcclContext_t context = owner;
  df_give_up(context, status, sentence);
  /* Now, since control then ends connections; and again, since it may be what was lost. */
  context->failure.told_broken = 0;
  df_tell_broken(context);
}

df_control_events df_control_events_of(dfcclContext_t context) {
  return (df_control_events){.owner = context,
                             .refused = refused,
                             .lost = lost,
                             .left = left,
                             .disconnected = disconnected,
                             .leaving = leaving,
                             .message_lost = message_lost};
}
