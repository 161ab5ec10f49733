#include "host/lifecycle/message_handlers.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mutex.h"
#include "control/service.h"
#include "host/switching/plan_switch.h"
#include "host/runs/collective_failure.h"
#include "host/registration/link_setup.h"
#include "host/lifecycle/peer_failure.h"
#include "host/registration/match.h"
#include "host/registration/successor.h"
#include "host/lifecycle/heartbeat.h"
#include "host/observe/awaited_ranks.h"
#include "host/observe/snapshot_server.h"
#include "host/state/registry.h"
#include "transports/shm/unmap.h"

/* ---- collectives ---- */

static void handle_announcement(void *room, uint32_t from, const df_message *message,
                                int fd) DF_RANK_LOCKED {
  (void)fd;
  dfcclContext_t context = room;
  DF_ASSERT_RANK_LOCKED(&context->lock);
  if (context->failure.given_up)
    return; /* perhaps because the descriptor of its memory could not be sent */
            /* the peer's memory must be mapped first: links need its bell */
  if (context->transports.serves[from] && df_shm_bell(context->transports.shm, from) == NULL)
    df_peer_refuse(context, from);
  else if (df_match_announced(context, from, message) != dfcclSuccess)
    df_give_up(context, dfcclOutOfMemory, df_last_sentence());
}

static void handle_links(void *room, uint32_t from, const df_message *message,
                         int fd) DF_RANK_LOCKED {
  (void)fd;
  df_remote *remote = df_match_newest(room, from, message);
  df_offer offer;
  memcpy(&offer, df_message_payload(message), sizeof offer);
  if (remote) df_links_take_offer(room, remote, (uint32_t)message->a, &offer);
}

static void handle_deregistration(void *room, uint32_t from, const df_message *message,
                                  int fd) DF_RANK_LOCKED {
  (void)fd;
  const dfcclContext_t context = room;
  df_remote *remote = df_match_newest(room, from, message);
  if (remote == NULL || remote->deregistered) return;
  if (message->b == DF_DEREGISTER_MOVED)
    df_match_moved(room, remote);
  else if (message->b == 0 ||
           context->survival == NULL) /* the next view is without a rank that leaves */
    df_match_deregistered(room, remote, message->a, message->b == DF_DEREGISTER_LEAVES);
}

static void handle_limit(void *room, uint32_t from, const df_message *message,
                         int fd) DF_RANK_LOCKED {
  (void)fd;
  const dfcclContext_t context = room;
  df_remote *remote = df_match_newest(room, from, message);
  if (context->survival == NULL && remote && !remote->deregistered)
    df_match_limited(room, remote, message->a);
}

/* ---- failures ---- */

/* If the sender's announcement was lost, this rank's registration would wait for it forever, so it
 * fails. The message may also belong to an earlier registration, and the sender may match this one
 * later: so the sender is notified. */
static void fail_unmet(dfcclContext_t context, uint32_t from, dfcclCollId_t id,
                       dfcclResult_t status, const char *sentence) DF_RANK_LOCKED {
  df_coll *coll = df_find(context, id);
  for (uint32_t i = 0; coll && i < coll->n; i++)
    if (coll->ranks[i] == from && coll->members.remotes[i] == NULL) {
      df_fail_collective(context, coll, status, 1, sentence);
      return;
    }
}

/* The sender of a timeout names the rank that it waits for. That may be this rank, which waits for
 * another one itself, or has no outstanding run: so the sentence goes on with this rank. */
static void extend_timeout(dfcclContext_t context, const df_coll *coll, const char *sentence,
                           char longer[DF_SENTENCE_BYTES]) DF_RANK_LOCKED {
  char state[256];
  df_describe_wait(context, coll, state, sizeof state);
  if (df_runs_in_device(coll) == 0 && coll->runs.backlog_length == 0)
    snprintf(longer, DF_SENTENCE_BYTES,
             "%s; rank %u has no outstanding run (its next one is run %" PRIu64 ")", sentence,
             context->rank, coll->runs.submitted);
  else
    snprintf(longer, DF_SENTENCE_BYTES, "%s; on rank %u: %s", sentence, context->rank, state);
}

static void handle_failure(void *room, uint32_t from, const df_message *message,
                           int fd) DF_RANK_LOCKED {
  (void)fd;
  dfcclContext_t context = room;
  DF_ASSERT_RANK_LOCKED(&context->lock);
  df_remote *remote = df_match_newest(context, from, message);
  dfcclResult_t status = message->a == dfcclMismatch || message->a == dfcclTimeout
                             ? (dfcclResult_t)message->a
                             : dfcclRemoteError;
  const char *sentence = df_message_payload(message);
  char longer[DF_SENTENCE_BYTES];
  if (status == dfcclTimeout && df_is_home(message->variant) && remote && remote->bound &&
      remote->bound->failure.failed == dfcclSuccess) {
    extend_timeout(context, remote->bound, sentence, longer);
    sentence = longer;
  }
  /* A mismatch, an abort or a buffer that cannot be read does not affect other collectives. */
  const int is_alone = message->a == dfcclRemoteError && message->b != 0;
  int breaks = status != dfcclMismatch && message->a != dfcclAborted &&
               df_is_home(message->variant) && !is_alone;
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

static void handle_of_switch(void *room, uint32_t from, const df_message *message,
                             int fd) DF_RANK_LOCKED {
  (void)fd;
  df_plan_switch_receive(room, from, message);
}

static void handle_abort(void *room, uint32_t from, const df_message *message,
                         int fd) DF_RANK_LOCKED {
  (void)fd;
  df_peer_lost(room, from, DF_PEER_GIVEN_UP, df_message_payload(message));
}

static void handle_failure_reason(void *room, uint32_t from, const df_message *message,
                                  int fd) DF_RANK_LOCKED {
  (void)fd;
  df_handle_failure_reason(room, from, message);
}

/* The lost rank may be alive, so it is notified of the collectives that this rank gives up. */
static void handle_lost(void *room, uint32_t from, const df_message *message,
                        int fd) DF_RANK_LOCKED {
  (void)from;
  (void)fd;
  dfcclContext_t context = room;
  DF_ASSERT_RANK_LOCKED(&context->lock);
  const uint32_t lost = (uint32_t)message->id;
  if (context->mesh.routes == NULL || message->id >= context->n_ranks || lost == context->rank)
    return;
  const df_peer_state state = context->control.peers[lost].state;
  if (state == DF_PEER_LEFT) df_service_lose_ranks_behind(&context->control, lost);
  if (state != DF_PEER_ALIVE) return;
  if (context->control.said_goodbye) {
    df_service_announce_lost(&context->control, lost, df_message_payload(message));
    df_peer_left(context, lost);
    df_service_lose_ranks_behind(&context->control, lost);
  } else {
    df_peer_unreachable(context, lost, df_message_payload(message));
  }
}

static void handle_goodbye(void *room, uint32_t from, const df_message *message,
                           int fd) DF_RANK_LOCKED {
  (void)message;
  (void)fd;
  dfcclContext_t context = room;
  DF_ASSERT_RANK_LOCKED(&context->lock);
  df_peer_left(context, from);
  df_unmap_all(context->transports.shm, from);
}

static void handle_ping(void *room, uint32_t from, const df_message *message,
                        int fd) DF_RANK_LOCKED {
  (void)fd;
  df_pings_receive(room, from, message);
}

static void handle_question(void *room, uint32_t from, const df_message *message,
                            int fd) DF_RANK_LOCKED {
  (void)fd;
  df_snapshot_receive_question(room, from, message);
}

static void handle_snapshot(void *room, uint32_t from, const df_message *message,
                            int fd) DF_RANK_LOCKED {
  (void)fd;
  df_snapshot_receive_answer(room, from, message);
}

void df_subscribe(dfcclContext_t context) {
  static df_message_handler *const handlers[DF_MESSAGE_KINDS] = {
      [DF_MESSAGE_ANNOUNCE] = handle_announcement,
      [DF_MESSAGE_LINKS] = handle_links,
      [DF_MESSAGE_DEREGISTER] = handle_deregistration,
      [DF_MESSAGE_LIMIT] = handle_limit,
      [DF_MESSAGE_FAIL] = handle_failure,
      [DF_MESSAGE_ABORT] = handle_abort,
      [DF_MESSAGE_FAILURE_REASON] = handle_failure_reason,
      [DF_MESSAGE_LOST] = handle_lost,
      [DF_MESSAGE_BYE] = handle_goodbye,
      [DF_MESSAGE_PING] = handle_ping,
      [DF_MESSAGE_PROPOSE] = handle_of_switch,
      [DF_MESSAGE_READY] = handle_of_switch,
      [DF_MESSAGE_COMMIT] = handle_of_switch,
      [DF_MESSAGE_CANCEL] = handle_of_switch,
      [DF_MESSAGE_RETIRED] = handle_of_switch,
      [DF_MESSAGE_PURPOSE] = handle_of_switch,
      [DF_MESSAGE_TIMES] = handle_of_switch,
      [DF_MESSAGE_QUESTION] = handle_question,
      [DF_MESSAGE_SNAPSHOT] = handle_snapshot,
  };
  for (int kind = 0; kind < DF_MESSAGE_KINDS; kind++)
    if (handlers[kind])
      df_messenger_subscribe(&context->control, (df_message_kind)kind, handlers[kind], context, 0);
}

/* ---- events of control ---- */

static void refused(void *owner, uint32_t peer) DF_RANK_LOCKED { df_peer_refuse(owner, peer); }
static void left(void *owner, uint32_t peer) DF_RANK_LOCKED { df_peer_left(owner, peer); }
static void lost(void *owner, uint32_t peer, df_peer_state state, const char *why) DF_RANK_LOCKED {
  df_peer_lost(owner, peer, state, why);
}
/* A relay may have lost a rank since, and other ranks cannot see that. */
static void leaving(void *owner) DF_RANK_LOCKED { df_report_broken(owner); }
static void disconnected(void *owner, uint32_t peer) DF_RANK_LOCKED {
  (void)peer;
  dfcclContext_t context = owner;
  DF_ASSERT_RANK_LOCKED(&context->lock);
  df_unmap_disconnected(context->transports.shm);
}
static void message_lost(void *owner, dfcclResult_t status, const char *sentence) DF_RANK_LOCKED {
  dfcclContext_t context = owner;
  DF_ASSERT_RANK_LOCKED(&context->lock);
  df_give_up(context, status, sentence);
  /* The peers are notified now, since control then ends connections; and again, since the lost
   * message may have been this notification. */
  context->failure.has_reported_broken = 0;
  df_report_broken(context);
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
