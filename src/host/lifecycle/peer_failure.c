/* Failures of peers, deadlines and aborts. The failure of one collective is in
 * collective_failure.c. Only df_abort waits, until blocks have seen the cancellation. */
#include "host/lifecycle/peer_failure.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mutex.h"
#include "control/messenger.h"
#include "control/service.h"
#include "host/state/context.h"
#include "host/membership/membership.h"
#include "host/observe/awaited_ranks.h"
#include "host/observe/flight.h"
#include "host/runs/collective_failure.h"
#include "host/registration/match.h"
#include "host/runs/user_memory.h"
#include "host/state/registry.h"
#include "host/state/survival.h"
#include "host/runs/runs.h"

static void send_failure_reason(dfcclContext_t context,
                                const df_failure_reason *failure_reason) DF_RANK_LOCKED {
  df_message message = {.kind = DF_MESSAGE_FAILURE_REASON,
                        .payload_bytes = (uint32_t)strlen(failure_reason->why) + 1,
                        .id = failure_reason->lost,
                        .a = (uint64_t)context->failure.broken,
                        .b = failure_reason->witness};
  df_messenger_send_all(&context->control, &message, failure_reason->why);
}

/* Fails the collectives with members behind a lost relay. Their other members are notified if this
 * rank reaches them, because they may reach the ranks behind the relay. */
static void lose_those_behind(dfcclContext_t context, uint32_t relay) DF_RANK_LOCKED {
  const df_routes *routes = context->mesh.routes;
  df_peer *peers = context->control.peers;
  char sentence[DF_SENTENCE_BYTES], label[DF_MAX_NAME + 40];
  if (routes == NULL) return;
  for (uint32_t r = 0; r < context->n_ranks; r++)
    if (r != context->rank && peers[r].state == DF_PEER_ALIVE && df_routes_pass(routes, r, relay))
      peers[r].state = DF_PEER_GIVEN_UP;
  for (uint32_t i = 0; i < context->registry.n_indices; i++) {
    df_coll *coll = df_registered(context, i);
    if (coll == NULL || coll->registered || coll->failure.failed != dfcclSuccess) continue;
    uint32_t m = 0;
    while (m < coll->n &&
           (coll->ranks[m] == context->rank || peers[coll->ranks[m]].state != DF_PEER_GIVEN_UP ||
            !df_routes_pass(routes, coll->ranks[m], relay)))
      m++;
    if (m == coll->n) continue;
    snprintf(sentence, sizeof sentence,
             "%s on rank %u: its member rank %u cannot be reached: rank %u, which passes its "
             "messages on, is lost",
             df_coll_label(coll, label, sizeof label), context->rank, coll->ranks[m], relay);
    df_fail_collective(context, coll, dfcclRemoteError, 1, sentence);
  }
}

/* notifies_it: the lost rank may be alive, and wait for runs that this rank has given up. The other
 * members notice the loss themselves, or receive its reason. */
static void lose_peer(dfcclContext_t context, uint32_t peer, df_peer_state state, uint32_t witness,
                      int notifies_it, const char *why) DF_RANK_LOCKED {
  char sentence[DF_SENTENCE_BYTES], label[DF_MAX_NAME + 40];
  df_peer_state before = context->control.peers[peer].state;
  int is_later = 0, gave_up = 0;
  if (before == DF_PEER_DEAD || before == state) return;
  context->control.peers[peer].state = state;
  df_flight_lose(context, peer, why);
  snprintf(sentence, sizeof sentence, "rank %u %.400s (seen by rank %u)", peer, why, witness);
  df_failure_reason failure_reason = {.lost = peer, .witness = witness};
  snprintf(failure_reason.why, sizeof failure_reason.why, "%s", why);
  if (context->failure.broken == dfcclSuccess) {
    df_break(context, dfcclRemoteError, sentence);
    context->failure.failure_reason = failure_reason; /* for df_report_broken */
  } else if (state == DF_PEER_DEAD && before == DF_PEER_ALIVE &&
             context->failure.broken != dfcclAborted) {
    is_later = 1;
  }
  for (uint32_t i = 0; i < context->registry.n_indices; i++) {
    df_coll *coll = df_registered(context, i);
    if (coll == NULL || coll->registered || df_coll_place_of(coll, peer, coll->n) == coll->n)
      continue;
    snprintf(sentence, sizeof sentence, "%s on rank %u: its member rank %u %.300s",
             df_coll_label(coll, label, sizeof label), context->rank, peer, why);
    if (coll->failure.failed != dfcclSuccess)
      continue; /* one of the two ranks has notified the other */
    df_fail_collective(context, coll, dfcclRemoteError, 0, sentence);
    gave_up = 1;
    if (!notifies_it) continue;
    df_message message = df_failure_message(coll);
    df_messenger_send(&context->control, peer, &message, coll->failure.sentence, -1);
  }
  if (before == DF_PEER_ALIVE) df_service_announce_lost(&context->control, peer, why);
  lose_those_behind(context, peer);
  if (!is_later || !gave_up) return;
  df_report_broken(context); /* the first reason is sent first */
  /* Other ranks may not notice the loss: the connection was this rank's. */
  send_failure_reason(context, &failure_reason);
}

void df_peer_refuse(dfcclContext_t context, uint32_t peer) {
  DF_ASSERT_RANK_LOCKED(&context->lock);
  if (context->survival) {
    df_membership_suspect(context, peer, "sent a malformed message");
    return;
  }
  df_failure_reason failure_reason = {
      .lost = peer, .witness = context->rank, .why = "sent a malformed message"};
  int known = context->control.peers[peer].state != DF_PEER_ALIVE ||
              context->failure.broken == dfcclSuccess;
  lose_peer(context, peer, DF_PEER_GIVEN_UP, context->rank, 1, failure_reason.why);
  if (!known) {
    df_report_broken(context);
    send_failure_reason(context, &failure_reason);
  }
  df_messenger_cut_off(&context->control, peer);
}

/* A rank that has sent its failure reason ends its connection without having died. */
void df_peer_lost(dfcclContext_t context, uint32_t peer, df_peer_state state, const char *why) {
  DF_ASSERT_RANK_LOCKED(&context->lock);
  if (context->survival) {
    if (state == DF_PEER_DEAD)
      df_membership_lost(context, peer);
    else
      df_membership_gave_up(context, peer, why);
    return;
  }
  const char *failure_reason = context->control.peers[peer].failure_reason;
  char sentence[DF_SENTENCE_BYTES];
  if (failure_reason && context->failure.broken == dfcclSuccess) {
    snprintf(sentence, sizeof sentence, "gave up, because: %s", failure_reason);
    why = sentence;
  }
  lose_peer(context, peer, state, context->rank, 0, why);
}

void df_peer_unreachable(dfcclContext_t context, uint32_t peer, const char *why) {
  if (context->survival) {
    df_membership_suspect(context, peer, why);
    return;
  }
  lose_peer(context, peer, DF_PEER_GIVEN_UP, context->rank, 1, why);
}

void df_report_broken(dfcclContext_t context) {
  DF_ASSERT_RANK_LOCKED(&context->lock);
  if (context->failure.broken == dfcclSuccess || context->failure.broken == dfcclAborted)
    return; /* no reason, or all peers have it */
  if (context->failure.has_reported_broken) return;
  context->failure.has_reported_broken = 1;
  send_failure_reason(context, &context->failure.failure_reason);
  for (uint32_t i = 0; i < context->registry.n_indices; i++) {
    df_coll *coll = df_registered(context, i);
    if (coll == NULL) continue;
    df_message limit = {
        .kind = DF_MESSAGE_LIMIT, .id = coll->id, .a = coll->runs.submitted, .variant = coll->home};
    df_coll_send(context, coll, &limit, NULL);
  }
}

/* The peer will register nothing more. */
static void fail_all_unannounced(dfcclContext_t context, uint32_t peer) DF_RANK_LOCKED {
  for (uint32_t i = 0; i < context->registry.n_indices; i++) {
    df_coll *coll = df_registered(context, i);
    if (coll == NULL || coll->registered) continue;
    uint32_t position = df_coll_place_of(coll, peer, coll->n);
    if (position < coll->n && coll->members.remotes[position] == NULL)
      df_fail_unannounced(context, coll, peer);
  }
}

void df_handle_failure_reason(dfcclContext_t context, uint32_t from, const df_message *message) {
  DF_ASSERT_RANK_LOCKED(&context->lock);
  df_peer *peer = &context->control.peers[from];
  const char *why = df_message_payload(message);
  if (context->survival) {
    char gave_up[DF_SENTENCE_BYTES];
    snprintf(gave_up, sizeof gave_up, "gave up, because: %.400s", why);
    df_membership_gave_up(context, from, gave_up);
    return;
  }
  char failure_reason[DF_SENTENCE_BYTES];
  uint64_t lost = message->id;
  int names = lost < context->n_ranks && lost != from; /* the sender may regard this rank as lost */
  int of_another = names && lost != context->rank;
  uint32_t witness = message->b < context->n_ranks ? (uint32_t)message->b : from;
  int first = !peer->broken;
  peer->broken = 1;
  snprintf(failure_reason, sizeof failure_reason, "%s", why);
  if (names)
    snprintf(failure_reason, sizeof failure_reason, "rank %u %.400s (seen by rank %u)",
             (uint32_t)lost, why, witness);
  if (first) {
    peer->failure_reason = strdup(failure_reason); /* if NULL, later messages lack the reason */
    peer->failure_reason_status = message->a == dfcclTimeout ? dfcclTimeout : dfcclRemoteError;
  }
  /* This includes a peer that left in order: it died between two goodbyes, and the sender has given
   * up runs that this rank waits for. */
  if (of_another) lose_peer(context, (uint32_t)lost, DF_PEER_GIVEN_UP, witness, 1, why);
  if (first) fail_all_unannounced(context, from);
}

void df_peer_left(dfcclContext_t context, uint32_t peer) {
  DF_ASSERT_RANK_LOCKED(&context->lock);
  if (context->control.peers[peer].state != DF_PEER_ALIVE) return;
  df_endpoint *wire = context->transports.wire;
  context->control.peers[peer].state = DF_PEER_LEFT;
  if (context->survival) {
    df_membership_left(context, peer);
    return;
  }
  if (wire) wire->network->peer_left(wire, peer);
  fail_all_unannounced(context, peer);
  for (uint32_t i = 0; i < context->registry.n_indices; i++) {
    df_coll *coll = df_registered(context, i);
    uint32_t position = coll ? df_coll_place_of(coll, peer, coll->n) : 0;
    if (coll && position < coll->n && coll->members.remotes[position])
      df_match_left(context, coll->members.remotes[position]);
  }
}

/* ---- deadlines ---- */

static uint64_t oldest_submission_ns(const df_coll *coll) DF_RANK_LOCKED {
  if (coll->survival && coll->survival->n_held > 0) return coll->survival->held[0].run.submitted_ns;
  if (df_runs_in_device(coll) > 0)
    return coll->runs.in_device[df_slot_of(coll, coll->runs.retired)].submitted_ns;
  if (coll->runs.backlog_length > 0)
    return coll->runs.backlog[coll->runs.backlog_head].submitted_ns;
  return UINT64_MAX;
}

static void time_out(dfcclContext_t context, df_coll *coll) DF_RANK_LOCKED {
  char sentence[DF_SENTENCE_BYTES], label[DF_MAX_NAME + 40], state[256];
  df_describe_wait(context, coll, state, sizeof state);
  snprintf(sentence, sizeof sentence,
           "%s: run %" PRIu64 " of rank %u did not complete within %lld ms; %s",
           df_coll_label(coll, label, sizeof label), coll->runs.taken, context->rank,
           context->settings.timeout_ms, state);
  context->failure.timed_out = 1;
  df_break(context, dfcclTimeout, sentence);
  df_fail_collective(context, coll, dfcclTimeout, 1, sentence);
}

/* The next collective from *at on that has a late run; NULL: none. */
static df_coll *next_late(dfcclContext_t context, uint32_t *at) DF_RANK_LOCKED {
  if (context->settings.timeout_ms == 0) return NULL;
  uint64_t now = df_clock_ns(), limit = (uint64_t)context->settings.timeout_ms * 1000000u;
  while (*at < context->registry.n_indices) {
    df_coll *coll = df_registered(context, (*at)++);
    if (coll == NULL || coll->failure.failed != dfcclSuccess) continue;
    uint64_t since = oldest_submission_ns(coll);
    if (since != UINT64_MAX && now - since >= limit && now > since) return coll;
  }
  return NULL;
}

int df_is_late(dfcclContext_t context) {
  uint32_t at = 0;
  return next_late(context, &at) != NULL;
}

void df_check_deadlines(dfcclContext_t context) {
  uint32_t at = 0;
  for (df_coll *coll; (coll = next_late(context, &at)) != NULL;) time_out(context, coll);
}

/* ---- abort ---- */

/* Writes the end of a sentence that begins with the rank: "called dfcclAbort". */
static void describe_abort(char *text, size_t bytes, const char *function, const char *reason) {
  if (reason == NULL)
    snprintf(text, bytes, "called %s", function);
  else
    snprintf(text, bytes, "aborted, because: %.300s", reason);
  for (; *text; text++)
    if ((unsigned char)*text < ' ') *text = '?';
}

dfcclResult_t df_abort(dfcclContext_t context, const char *reason) {
  char sentence[DF_SENTENCE_BYTES], did[400];
  df_system_add_u32(&context->runs.waiters, 1);
  describe_abort(did, sizeof did, "dfcclAbort", reason);
  snprintf(sentence, sizeof sentence, "rank %u %s", context->rank, did);
  df_rank_lock(&context->lock);
  df_break(context, dfcclAborted, sentence);
  df_message message = {.kind = DF_MESSAGE_ABORT, .payload_bytes = (uint32_t)strlen(did) + 1};
  df_messenger_send_all(&context->control, &message, did);
  for (uint32_t i = 0; i < context->registry.n_indices; i++) {
    df_coll *coll = df_registered(context, i);
    if (coll && coll->registered == NULL)
      df_fail_collective(context, coll, dfcclAborted, 0, sentence);
  }
  df_rank_unlock(&context->lock);
  /* Cancellations take effect at each block's next step. The wait does not include callbacks,
   * because they may block. */
  if (!df_in_callback()) df_wait_decided(context, 200 * 1000 * 1000);
  df_system_sub_u32(&context->runs.waiters, 1);
  return dfcclSuccess;
}

dfcclResult_t df_abort_collectives(dfcclContext_t context, const dfcclCollId_t *ids, int n,
                                   const char *reason) {
  char sentence[DF_SENTENCE_BYTES], label[DF_MAX_NAME + 40], did[340];
  describe_abort(did, sizeof did, "dfcclAbortCollectives", reason);
  dfcclResult_t result = dfcclSuccess;
  df_rank_lock(&context->lock);
  for (int i = 0; i < n && result == dfcclSuccess; i++)
    if (df_find(context, ids[i]) == NULL)
      result = df_fail(dfcclInvalidArgument,
                       "ids[%d]: collective %" PRIu64 " is not registered on rank %u", i, ids[i],
                       context->rank);
  for (int i = 0; i < n && result == dfcclSuccess; i++) {
    df_coll *coll = df_find(context, ids[i]);
    snprintf(sentence, sizeof sentence, "%s: rank %u %s", df_coll_label(coll, label, sizeof label),
             context->rank, did);
    df_fail_collective(context, coll, dfcclAborted, 1, sentence);
  }
  df_rank_unlock(&context->lock);
  return result;
}
