/* Snapshots of ranks that have no socket on this host: their service threads are asked by control
 * messages, at most DF_PEERS_A_STEP in each step, and each of them has one question at most. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mutex.h"
#include "control/messenger.h"
#include "host/observe/snapshot_callers.h"

static int contains(const df_rank_set *set, uint32_t rank) {
  return (int)(set->words[rank / 64] >> (rank % 64) & 1);
}
static void put_in(df_rank_set *set, uint32_t rank) {
  set->words[rank / 64] |= UINT64_C(1) << (rank % 64);
}
static void take_out(df_rank_set *set, uint32_t rank) {
  set->words[rank / 64] &= ~(UINT64_C(1) << (rank % 64));
}

/* ---- answers to peers ---- */

static void send_snapshot(dfcclContext_t context, uint32_t to,
                          const df_snapshot *snapshot) DF_RANK_LOCKED {
  const df_message message = {.kind = DF_MESSAGE_SNAPSHOT, .payload_bytes = snapshot->header.bytes};
  df_messenger_send(&context->control, to, &message, snapshot, -1);
}

void df_snapshot_receive_question(dfcclContext_t context, uint32_t from,
                                  const df_message *message) {
  DF_ASSERT_RANK_LOCKED(&context->lock);
  df_snapshot_buffer buffer;
  uint64_t asked[DF_SNAPSHOT_ASKED];
  if (!context->settings.view) {
    df_snapshot_begin(context, context->rank, DF_SNAPSHOT_CLOSED, &buffer.snapshot);
    send_snapshot(context, from, &buffer.snapshot);
    return;
  }
  memcpy(asked, df_message_payload(message), message->payload_bytes);
  df_snapshot_take(context, asked, message->payload_bytes / (uint32_t)sizeof asked[0], &buffer);
  send_snapshot(context, from, &buffer.snapshot);
}

/* ---- answers of peers ---- */

static void pass_on(df_snapshot_server *server, df_caller *caller, df_snapshot *snapshot) {
  snapshot->number = caller->number;
  if (!df_caller_send(caller, snapshot, snapshot->header.bytes)) df_caller_hang_up(server, caller);
}

static void satisfy(df_snapshot_server *server, df_caller *caller, df_snapshot *snapshot) {
  take_out(&caller->awaits, snapshot->rank);
  take_out(&caller->sent, snapshot->rank);
  caller->n_awaited--;
  pass_on(server, caller, snapshot);
}

void df_snapshot_receive_answer(dfcclContext_t context, uint32_t from, const df_message *message) {
  DF_ASSERT_RANK_LOCKED(&context->lock);
  df_snapshot_server *server = context->snapshots;
  df_snapshot_buffer buffer;
  const void *payload = df_message_payload(message);
  if (message->payload_bytes > sizeof buffer) {
    df_control_refuse(&context->control, from);
    return;
  }
  memcpy(&buffer, payload, message->payload_bytes);
  if (!df_snapshot_is_valid(&buffer, message->payload_bytes) || buffer.snapshot.rank != from) {
    df_control_refuse(&context->control, from);
    return;
  }
  if (server == NULL || !contains(&server->pending, from)) return;
  take_out(&server->pending, from);
  for (int i = 0; i < DF_SNAPSHOT_CALLERS; i++) {
    df_caller *caller = &server->callers[i];
    if (caller->fd >= 0 && contains(&caller->awaits, from))
      satisfy(server, caller, &buffer.snapshot);
  }
}

/* ---- questions ---- */

void df_callers_want(dfcclContext_t context, df_caller *caller,
                     const df_snapshot_question *question) {
  df_snapshot_server *server = context->snapshots;
  int wants = 0;
  for (uint32_t r = 0; r < context->n_ranks; r++) {
    if (r == context->rank || !(question->ranks[r / 64] >> (r % 64) & 1)) continue;
    wants = 1;
    if (contains(&caller->awaits, r)) continue;
    put_in(&caller->awaits, r);
    caller->n_awaited++;
  }
  if (!wants) return;
  caller->number = question->number;
  server->n_asked = question->n_asked;
  memcpy(server->asked, question->asked, question->n_asked * sizeof server->asked[0]);
}

static void report_absent(dfcclContext_t context, df_caller *caller, uint32_t rank) DF_RANK_LOCKED {
  const df_peer *peer = &context->control.peers[rank];
  df_snapshot absent;
  df_snapshot_begin(context, rank, DF_SNAPSHOT_ABSENT, &absent);
  snprintf(absent.host, sizeof absent.host, "%s", peer->host);
  if (peer->state == DF_PEER_LEFT)
    snprintf(absent.sentence, sizeof absent.sentence, "has left the job");
  else if (peer->state == DF_PEER_DEAD)
    snprintf(absent.sentence, sizeof absent.sentence, "is dead for rank %u", context->rank);
  else
    snprintf(absent.sentence, sizeof absent.sentence, "was given up by rank %u", context->rank);
  take_out(&context->snapshots->pending, rank);
  satisfy(context->snapshots, caller, &absent);
}

static void request(dfcclContext_t context, df_caller *caller, uint32_t rank) DF_RANK_LOCKED {
  df_snapshot_server *server = context->snapshots;
  const df_message message = {.kind = DF_MESSAGE_QUESTION,
                              .payload_bytes = server->n_asked * (uint32_t)sizeof server->asked[0]};
  df_snapshot sent;
  put_in(&caller->sent, rank);
  if (!contains(&server->pending, rank)) {
    put_in(&server->pending, rank);
    df_messenger_send(&context->control, rank, &message, server->asked, -1);
  }
  df_snapshot_begin(context, rank, DF_SNAPSHOT_SENT, &sent);
  snprintf(sent.host, sizeof sent.host, "%s", context->control.peers[rank].host);
  pass_on(server, caller, &sent);
}

/* Visits the ranks that the caller waits for, from where the step before has ended. */
static void step_for(dfcclContext_t context, df_caller *caller, int *budget) DF_RANK_LOCKED {
  const uint32_t n = context->n_ranks, first = caller->next % n;
  for (uint32_t i = 0; i<n && * budget> 0 && caller->fd >= 0 && caller->n_awaited; i++) {
    const uint32_t rank = (first + i) % n;
    if (!contains(&caller->awaits, rank)) continue;
    const int is_alive = context->control.peers[rank].state == DF_PEER_ALIVE;
    if (is_alive && contains(&caller->sent, rank)) continue;
    if (is_alive)
      request(context, caller, rank);
    else
      report_absent(context, caller, rank);
    caller->next = rank + 1;
    --*budget;
  }
}

void df_callers_step(dfcclContext_t context) {
  df_snapshot_server *server = context->snapshots;
  const uint64_t now = df_clock_ns();
  int budget = DF_PEERS_A_STEP;
  if (df_callers_wait_ms(server) < 0 || now < server->step_ns) return;
  server->step_ns = now + DF_PEERS_STEP_MS * UINT64_C(1000000);
  df_rank_lock(&context->lock);
  for (int i = 0; i < DF_SNAPSHOT_CALLERS; i++)
    if (server->callers[i].fd >= 0) step_for(context, &server->callers[i], &budget);
  df_rank_unlock(&context->lock);
}

int df_callers_wait_ms(const df_snapshot_server *server) {
  for (int i = 0; i < DF_SNAPSHOT_CALLERS; i++)
    if (server->callers[i].fd >= 0 && server->callers[i].n_awaited) return DF_PEERS_STEP_MS;
  return -1;
}
