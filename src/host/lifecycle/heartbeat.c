#include "host/lifecycle/heartbeat.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/text.h"
#include "control/service.h"
#include "host/lifecycle/metronome.h"
#include "host/lifecycle/peer_failure.h"
#include "host/state/registry.h"
#include "host/state/survival.h"
#include "host/runs/runs.h"

/* Silence is counted in ticks of this rank: a rank that was stopped itself received nothing
 * meanwhile, and must not blame others. */
enum {
  TICKS = 16 /* silent ticks mean a loss */,
  TICKS_TO_A_QUESTION = 4,
  QUESTION = 1,
  ANSWER = 0
};
/* With a shorter timeout, heartbeats also decide about a host that is cut off. TCP counts silence
 * in seconds, and checks only when it sends again: it reported cuts up to 2 s late. */
enum { TCP_REPORTS_FROM_MS = 3000 };

typedef struct df_pings {
  df_metronome metronome;
  uint64_t ticks;
  uint64_t accepted; /* runs, at the latest tick */
  uint32_t is_idle;  /* the service thread does not tick */
  uint8_t *awaited;  /* [n_ranks] whether a run waited for the rank at the latest tick */
  uint8_t *silent;   /* [n_ranks] ticks since a message arrived */
} df_pings;

static int is_needed(dfcclContext_t context) {
  return df_has_outstanding(context) ||
         df_observe_u64(&context->runs.accepted) != context->transports.pings->accepted ||
         (context->survival && df_load_relaxed_u32(&context->survival->is_frozen));
}

/* Ticks end one period after the latest run; otherwise each short run would wake the service
 * thread. As in deadline_tick, a fence on both sides ensures that at least one of the two sees the
 * other. */
static int tick(void *room) {
  dfcclContext_t context = room;
  df_pings *pings = context->transports.pings;
  df_store_relaxed_u32(&pings->is_idle, 1);
  df_wake_fence();
  if (!is_needed(context)) return -1;
  df_store_relaxed_u32(&pings->is_idle, 0);
  return df_metronome_wait_ms(&pings->metronome, df_clock_ns());
}

void df_pings_begin(dfcclContext_t context) {
  const df_pings *pings = context->transports.pings;
  if (pings == NULL) return;
  df_wake_fence(); /* after the store of runs.accepted */
  if (df_load_relaxed_u32(&pings->is_idle)) df_service_wake(&context->control);
}

/* Finds the ranks that runs wait for: 2 instead of 1 if no run waited at the latest tick. */
static void find_awaited(dfcclContext_t context) DF_RANK_LOCKED {
  df_pings *pings = context->transports.pings;
  uint8_t *awaited = pings->awaited;
  for (uint32_t r = 0; r < context->n_ranks; r++) awaited[r] = awaited[r] ? 2 : 0;
  for (uint32_t i = 0; i < context->registry.n_indices; i++) {
    const df_coll *coll = df_registered(context, i);
    if (coll == NULL || coll->runs.taken == coll->runs.submitted) continue;
    for (uint32_t m = 0; m < coll->n; m++) awaited[coll->ranks[m]] |= 1;
  }
  /* An agreement waits for all members. */
  const df_survival *survival = context->survival;
  for (uint32_t r = 0; survival && survival->is_frozen && r < context->n_ranks; r++)
    if (r != context->rank && df_is_member(survival, r)) awaited[r] |= 1;
  for (uint32_t r = 0; r < context->n_ranks; r++)
    if (awaited[r] == 2) awaited[r] = 0;
  /* A stopped relay also stops the messages about itself, so a relay counts as awaited. */
  for (uint32_t r = 0; context->mesh.routes && r < context->n_ranks; r++)
    if (awaited[r] && context->control.peers[r].next != r)
      awaited[context->control.peers[r].next] |= 1;
}

/* Whether control messages to other hosts are relayed, and that rank is another process of this
 * rank's host. Ranks of the own process cannot be stopped alone, and need no question. */
static int is_beside_relay(dfcclContext_t context, uint32_t rank) {
  const df_peer *peer = &context->control.peers[rank];
  return context->mesh.routes && !peer->is_remote && !peer->local;
}

static void send(dfcclContext_t context, uint32_t rank, int what) DF_RANK_LOCKED {
  df_message message = {.kind = DF_MESSAGE_PING, .a = (uint64_t)what};
  df_messenger_send(&context->control, rank, &message, NULL, -1);
}

static void describe_traffic(dfcclContext_t context, uint32_t rank, df_text *out) {
  df_endpoint *wire = context->transports.wire;
  df_traffic traffic;
  for (uint32_t i = 0; wire && wire->network->traffic(wire, rank, i, &traffic); i++)
    if (traffic.received_ns)
      df_say(out, "; the connection %s has brought nothing for %" PRIu64 " ms", traffic.ends,
             (df_clock_ns() - traffic.received_ns) / 1000000);
}

static void notify_silent(dfcclContext_t context, uint32_t rank) DF_RANK_LOCKED {
  const df_peer *peer = &context->control.peers[rank];
  char why[DF_SENTENCE_BYTES], address[DF_ADDRESS_TEXT];
  df_text out = {.at = why, .left = sizeof why};
  df_address_text(&peer->address, address);
  df_say(&out, "has not answered for %lld ms", context->settings.net_timeout_ms);
  if (peer->is_remote)
    df_say(&out, " (%s, %s): ", peer->host[0] ? peer->host : "host unknown", address);
  if (!peer->is_remote)
    df_say(&out, ": its process is stopped or hangs");
  else if (peer->channel == NULL)
    df_say(&out, "its process or a relay is stopped, or cut off (messages to it pass rank %u)",
           peer->next);
  else if (df_peer_has_unsent(peer))
    df_say(&out, "its host acknowledges nothing, so it or the network between is cut off");
  else
    df_say(&out, "its process is stopped or hangs, since its host's system still answers");
  describe_traffic(context, rank, &out);
  df_peer_unreachable(context, rank, why);
}

/* Whether this rank asks that one. A rank behind relays is asked by the ranks that have links with
 * it, and these notify the others. Links within a host are not seen here, so with relays each rank
 * also asks the ranks of its own host that it waits for. Otherwise no rank would ask a stopped rank
 * that has links on its own host only. */
static int asks(dfcclContext_t context, uint32_t rank) {
  const df_peer *peer = &context->control.peers[rank];
  df_endpoint *wire = context->transports.wire;
  df_traffic traffic;
  if (peer->state != DF_PEER_ALIVE) return 0;
  if (context->survival && !peer->local) return 1; /* a stopped process is given up */
  return peer->channel != NULL || is_beside_relay(context, rank) ||
         (peer->is_remote && wire->network->traffic(wire, rank, 0, &traffic));
}

/* Ticks of silence that mean a loss. If a relay stops, the ranks behind it are silent too. They get
 * more time, so that the ranks that ask the relay itself report it first. */
static uint8_t patience(const df_peer *peer) {
  const int is_behind_relay = peer->is_remote && peer->channel == NULL;
  return is_behind_relay ? TICKS + TICKS / 2 : TICKS;
}

static void ask_awaited(dfcclContext_t context) DF_RANK_LOCKED {
  df_pings *pings = context->transports.pings;
  const int is_due = pings->ticks++ % TICKS_TO_A_QUESTION == 0;
  pings->accepted = df_observe_u64(&context->runs.accepted);
  find_awaited(context);
  for (uint32_t r = 0; r < context->n_ranks; r++) {
    const df_peer *peer = &context->control.peers[r];
    if (!pings->awaited[r] || !asks(context, r)) {
      pings->silent[r] = 0;
      continue;
    }
    pings->silent[r]++;
    /* A host that is cut off acknowledges nothing. TCP then reports the cut or the host's return.
     * */
    if (peer->channel && context->settings.net_timeout_ms >= TCP_REPORTS_FROM_MS &&
        df_peer_has_unsent(peer))
      pings->silent[r] = DF_MIN(pings->silent[r], TICKS / 2);
    if (pings->silent[r] >= patience(peer))
      notify_silent(context, r);
    else if (is_due || pings->awaited[r] == 1)
      send(context, r, QUESTION);
  }
  df_report_broken(context);
}

static void send_heartbeats(void *room) {
  dfcclContext_t context = room;
  df_pings *pings = context->transports.pings;
  if (!is_needed(context)) return;
  if (!df_metronome_ticks(&pings->metronome, df_clock_ns())) return;
  df_rank_lock(&context->lock);
  if (!context->control.said_goodbye) ask_awaited(context);
  df_rank_unlock(&context->lock);
}

void df_pings_receive(dfcclContext_t context, uint32_t from, const df_message *message) {
  DF_ASSERT_RANK_LOCKED(&context->lock);
  df_pings *pings = context->transports.pings;
  if (pings) pings->silent[from] = 0;
  if (message->a == QUESTION) send(context, from, ANSWER);
}

static int has_other_hosts(const dfcclContext_t context) {
  for (uint32_t r = 0; r < context->n_ranks; r++)
    if (context->control.peers[r].is_remote) return 1;
  return 0;
}

dfcclResult_t df_pings_add(dfcclContext_t context) {
  const long long ms = context->settings.net_timeout_ms;
  if (context->transports.pings) return dfcclSuccess;
  if (ms == 0 || (!has_other_hosts(context) && context->survival == NULL)) return dfcclSuccess;
  df_pings *pings = calloc(1, sizeof *pings + 2 * (size_t)context->n_ranks);
  if (pings == NULL) return df_fail(dfcclOutOfMemory, "no memory for heartbeats");
  pings->metronome.period_ns = (uint64_t)DF_MAX(ms / TICKS, 1) * 1000000;
  pings->awaited = (uint8_t *)(pings + 1);
  pings->silent = pings->awaited + context->n_ranks;
  context->transports.pings = pings;
  df_service_add_job(&context->control, context, tick, send_heartbeats);
  return dfcclSuccess;
}

void df_pings_free(dfcclContext_t context) {
  free(context->transports.pings);
  context->transports.pings = NULL;
}
