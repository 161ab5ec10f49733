#include "host/membership/membership.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mutex.h"
#include "control/messenger.h"
#include "control/service.h"
#include "host/membership/admits.h"
#include "host/membership/membership_parts.h"
#include "host/observe/flight.h"
#include "host/registration/successor.h"
#include "host/runs/collective_failure.h"
#include "host/runs/recall.h"
#include "host/runs/runs.h"
#include "host/switching/online_tuner.h"
#include "host/state/registry.h"
#include "transports/shm/home.h"

/* How long a suspicion of a lower rank is held back: longer than a message and its handling. */
#if defined(DF_SIMULATION) /* simulated time passes slowly */
enum { DF_GRACE_MS = 1, DF_GRACE_BETWEEN_HOSTS_MS = 2 };
#else
enum { DF_GRACE_MS = 200, DF_GRACE_BETWEEN_HOSTS_MS = 500 };
#endif

enum {
  LEAVING_MS = 5000, /* for an agreement without silence, after which a leaving rank goes */
  DF_MOST_REPORTED = DF_MAX_COLLECTIVES /* collectives that may lose a member at once */
};

static df_membership *of(const dfcclContext_t context) { return df_membership_of(context); }

/* Returns 0 while runs of a collective with a suspected member are in the device. */
static int all_are_quiet(const dfcclContext_t context) DF_RANK_LOCKED {
  for (uint32_t i = 0; i < context->registry.n_indices; i++) {
    const df_coll *coll = df_registered(context, i);
    if (coll && coll->survival && df_coll_has_suspect(context, coll) &&
        coll->failure.failed == dfcclSuccess && !df_recall_is_quiet(coll))
      return 0;
  }
  return 1;
}

static void report(dfcclContext_t context) DF_RANK_LOCKED {
  df_membership *membership = of(context);
  const uint32_t n = df_run_report_make(context, &membership->report);
  if (n > DF_MOST_REPORTED)
    df_give_up(context, dfcclOutOfMemory, "no memory for the agreement on members");
  else
    df_view_report(&membership->view, membership->report.entries, n, df_clock_ns());
}

void df_membership_drive(dfcclContext_t context) {
  DF_ASSERT_RANK_LOCKED(&context->lock);
  while (context->failure.broken == dfcclSuccess && df_view_awaits_report(&of(context)->view) &&
         all_are_quiet(context))
    report(context);
  df_store_relaxed_u32(&context->survival->is_frozen, of(context)->view.phase == DF_VIEW_FROZEN);
}

/* ---- requests of the agreement */

static void send_message(void *owner, uint32_t to, const void *payload,
                         uint32_t bytes) DF_RANK_LOCKED {
  dfcclContext_t context = owner;
  const df_message message = {.kind = DF_MESSAGE_VIEW, .payload_bytes = bytes};
  df_messenger_send(&context->control, to, &message, payload, -1);
}

static void cut(void *owner, uint32_t rank) DF_RANK_LOCKED {
  dfcclContext_t context = owner;
  df_peer *peer = &context->control.peers[rank];
  if (peer->state == DF_PEER_ALIVE) peer->state = DF_PEER_GIVEN_UP;
  df_process_ends_notify(context, rank);
  if (!peer->local) df_messenger_cut_off(&context->control, rank);
  df_endpoint *wire = context->transports.wire;
  if (wire) wire->network->peer_left(wire, rank); /* nobody calls it any more */
}

static void mark_suspects(dfcclContext_t context) {
  df_survival *survival = context->survival;
  for (uint32_t rank = 0; rank < context->n_ranks; rank++)
    survival->suspected[rank] =
        df_is_member(survival, rank) && !df_view_survives(&of(context)->view, rank);
}

static void freeze(void *owner) DF_RANK_LOCKED {
  dfcclContext_t context = owner;
  mark_suspects(context);
  for (uint32_t i = 0; i < context->registry.n_indices; i++) {
    df_coll *coll = df_registered(context, i);
    if (coll && coll->survival && df_coll_has_suspect(context, coll))
      df_recall_begin(context, coll);
  }
  context->survival->has_news = 1;
}

static int compare_outcome(const void *key, const void *entry) {
  const df_coll *coll = key;
  const df_view_outcome *outcome = entry;
  const uint32_t registration = coll->survival->registration;
  if (coll->id != outcome->collective) return coll->id < outcome->collective ? -1 : 1;
  return (registration > outcome->registration) - (registration < outcome->registration);
}

/* NULL: no survivor had begun a run. */
static const df_view_outcome *outcome_of(const df_view_content *content, const df_coll *coll) {
  return bsearch(coll, content->outcomes, content->n_outcomes, sizeof *content->outcomes,
                 compare_outcome);
}

static int loses_member(const dfcclContext_t context, const df_view_content *content,
                        const df_coll *coll) {
  const uint64_t *joined_in = context->survival->joined_in;
  for (uint32_t i = 0; i < content->n_lost; i++)
    for (uint32_t m = 0; m < coll->survival->n; m++)
      if (coll->survival->ranks[m] == content->lost[i].rank &&
          joined_in[content->lost[i].rank] <= coll->survival->since)
        return 1;
  return 0;
}

/* First all runs are decided: the application is notified when their callbacks have returned. */
static void go_on_without(dfcclContext_t context, const df_view_content *content) DF_RANK_LOCKED {
  for (uint32_t i = 0; i < context->registry.n_indices; i++) {
    df_coll *coll = df_registered(context, i);
    if (coll == NULL || coll->survival == NULL || !loses_member(context, content, coll)) continue;
    const df_view_outcome *outcome = outcome_of(content, coll);
    df_recall_begin(context, coll);
    if (coll->failure.failed != dfcclSuccess) continue;
    const int counts = outcome && !df_run_report_leaves_out(coll);
    df_recall_decide(context, coll, counts ? outcome->base : coll->runs.taken,
                     counts ? outcome->fails_below : 0);
  }
  for (uint32_t i = 0; i < context->registry.n_indices; i++) {
    df_coll *coll = df_registered(context, i);
    if (coll && coll->survival && loses_member(context, content, coll))
      df_successor_expect(context, coll);
  }
}

/* Runs of collectives that this rank has not registered yet fail here too. */
static void keep_failures(dfcclContext_t context, const df_view_content *content) DF_RANK_LOCKED {
  for (uint32_t i = 0; i < content->n_outcomes; i++) {
    const df_view_outcome *outcome = &content->outcomes[i];
    const df_coll *coll = df_find(context, outcome->collective);
    if (outcome->fails_below <= outcome->base) continue;
    if (coll && coll->survival->registration == outcome->registration) continue;
    if (!df_survival_keep_outcome(context->survival, outcome))
      df_break(context, dfcclOutOfMemory, "no memory for the failed runs of a collective");
  }
}

/* The first view of a newcomer. It has no collectives yet. */
static void begin_in(dfcclContext_t context, const df_view_content *content) DF_RANK_LOCKED {
  df_survival *survival = context->survival;
  for (uint32_t rank = 0; rank < context->n_ranks; rank++)
    survival->lost_in[rank] = content->number;
  for (uint32_t i = 0; i < content->n_members; i++) survival->lost_in[content->members[i].rank] = 0;
  survival->admitted_in = survival->told = content->number;
  of(context)->is_newcomer = 0;
  df_views_skip(&of(context)->views);
}

static void take_in(dfcclContext_t context, const df_view_content *content) DF_RANK_LOCKED {
  df_survival *survival = context->survival;
  if (content->flags & DF_VIEW_ADMITTED) {
    survival->joined_in[content->newcomer.rank] = content->number;
    survival->admitted_in = content->number;
    df_log(DF_LOG_WARN, "rank %u: view %" PRIu64 " has %u members: rank %u has joined",
           context->rank, content->number - 1, content->n_members, content->newcomer.rank);
    df_newcomers_forget(context, content->newcomer.rank);
  }
  if (content->flags) df_admit_installed(context, content);
}

static void install(void *owner, const df_view_content *content) DF_RANK_LOCKED {
  dfcclContext_t context = owner;
  df_survival *survival = context->survival;
  if (!of(context)->view.peers[context->rank].member) return; /* it has left */
  df_store_relaxed_u64(&survival->view, content->number);
  for (uint32_t i = 0; i < content->n_lost; i++) {
    const uint32_t rank = content->lost[i].rank;
    df_peer *peer = &context->control.peers[rank];
    survival->lost_in[rank] = content->number;
    df_flight_lose(context, rank, df_evidence_words(df_view_evidence(content->lost[i])));
    /* A rank that leaves will say goodbye. */
    if (peer->state == DF_PEER_ALIVE && df_view_evidence(content->lost[i]) != DF_EVIDENCE_LEFT)
      peer->state = DF_PEER_GIVEN_UP;
    df_log(DF_LOG_WARN, "rank %u: view %" PRIu64 " has %u members: rank %u is lost (%s)",
           context->rank, content->number - 1, content->n_members, rank,
           df_evidence_words(df_view_evidence(content->lost[i])));
  }
  take_in(context, content);
  mark_suspects(context);
  if (!df_views_add(&of(context)->views, content)) {
    df_break(context, dfcclOutOfMemory, "no memory for the members of a view");
    return;
  }
  if (of(context)->is_newcomer) {
    begin_in(context, content);
    return;
  }
  go_on_without(context, content);
  keep_failures(context, content);
  df_ring_poller(context);
}

static void end(void *owner, int left, const char *sentence) DF_RANK_LOCKED {
  dfcclContext_t context = owner;
  if (left) return; /* df_membership_leave waits for it */
  df_break(context, dfcclRemoteError, sentence);
  for (uint32_t i = 0; i < context->registry.n_indices; i++) {
    df_coll *coll = df_registered(context, i);
    if (coll && coll->registered == NULL)
      df_fail_collective(context, coll, dfcclRemoteError, 0, sentence);
  }
}

static void refused(void *owner, uint32_t from, const char *why) {
  dfcclContext_t context = owner;
  df_log(DF_LOG_ERROR, "rank %u refuses a message of rank %u about members: %s", context->rank,
         from, why);
}

/* ---- evidence */

void df_membership_lost(dfcclContext_t context, uint32_t rank) {
  DF_ASSERT_RANK_LOCKED(&context->lock);
  if (df_newcomers_lost(context, rank)) return;
  df_process_ends_await(&of(context)->ends, rank, df_clock_ns());
  df_service_wake(&context->control);
}

void df_membership_left(dfcclContext_t context, uint32_t rank) {
  DF_ASSERT_RANK_LOCKED(&context->lock);
  if (!df_membership_may_tell(context)) return;
  if (df_newcomers_lost(context, rank)) return;
  df_view_suspect(&of(context)->view, rank, DF_EVIDENCE_BYE, df_clock_ns());
  df_membership_drive(context);
}

void df_membership_gave_up(dfcclContext_t context, uint32_t rank, const char *why) {
  DF_ASSERT_RANK_LOCKED(&context->lock);
  if (!df_membership_may_tell(context)) return;
  df_log(DF_LOG_WARN, "rank %u goes on without rank %u, which %s", context->rank, rank, why);
  df_view_suspect(&of(context)->view, rank, DF_EVIDENCE_GAVE_UP, df_clock_ns());
  df_membership_drive(context);
}

void df_membership_suspect(dfcclContext_t context, uint32_t rank, const char *why) {
  DF_ASSERT_RANK_LOCKED(&context->lock);
  if (!df_membership_may_tell(context)) return;
  df_log(DF_LOG_WARN, "rank %u suspects rank %u: it %s", context->rank, rank, why);
  df_view_suspect(&of(context)->view, rank, DF_EVIDENCE_SILENT, df_clock_ns());
  df_membership_drive(context);
}

static void handle_message(void *room, uint32_t from, const df_message *message,
                           int fd) DF_RANK_LOCKED {
  dfcclContext_t context = room;
  (void)fd;
  if (!df_membership_may_tell(context)) return;
  df_view_receive(&of(context)->view, from, df_message_payload(message), message->payload_bytes,
                  df_clock_ns());
  df_membership_drive(context);
}

/* ---- leaving */

static int may_go(const dfcclContext_t context) DF_RANK_LOCKED {
  const df_view_phase phase = of(context)->view.phase;
  return phase == DF_VIEW_LEFT || phase == DF_VIEW_STOPPED || phase == DF_VIEW_JOINING ||
         context->failure.broken != dfcclSuccess;
}

/* On one host the goodbye of a rank is proof enough that it takes part in nothing any more. Between
 * hosts, and where proofs do not count, those that are left must also be a quorum, so they agree
 * on the departure while this rank still has a vote. */
void df_membership_leave(dfcclContext_t context) {
  if (context->survival == NULL) return;
  df_admit_end(context);
  df_newcomers_close_entrance(context);
  if (of(context)->view.config.on_one_host && context->settings.quorum != DF_QUORUM_STRICT) return;
  const uint64_t begin = df_clock_ns();
  /* A rank that is stopped meanwhile is found within the time of silence. */
  const uint64_t patience_ns =
      (2 * (uint64_t)context->settings.net_timeout_ms + LEAVING_MS) * 1000000;
  df_rank_lock(&context->lock);
  if (!may_go(context)) {
    df_view_leave(&of(context)->view, df_clock_ns());
    df_membership_drive(context);
  }
  while (!may_go(context) && df_clock_ns() - begin < patience_ns) {
    df_rank_unlock(&context->lock);
    usleep(500);
    df_rank_lock(&context->lock);
  }
  df_rank_unlock(&context->lock);
}

/* ---- the service thread */

static int tick_ms(void *room) {
  dfcclContext_t context = room;
  df_rank_lock(&context->lock);
  int ms = df_process_ends_tick_ms(&of(context)->ends);
  const uint64_t now = df_clock_ns(), deadline = df_view_deadline(&of(context)->view);
  if (df_membership_may_tell(context) && deadline != UINT64_MAX) {
    const int left = deadline > now ? (int)DF_MIN((deadline - now) / 1000000 + 1, 1000u) : 0;
    if (ms < 0 || left < ms) ms = left;
  }
  const int admit_ms = df_admit_tick_ms(context);
  if (admit_ms >= 0 && (ms < 0 || admit_ms < ms)) ms = admit_ms;
  df_rank_unlock(&context->lock);
  return ms;
}

/* Next homes that are due, and those that are ready. */
static void look_at_homes(dfcclContext_t context) DF_RANK_LOCKED {
  for (uint32_t i = 0; i < context->registry.n_indices; i++) {
    df_coll *coll = df_registered(context, i);
    if (coll == NULL || coll->survival == NULL || !coll->runs.is_recalled) continue;
    df_successor_progress(context, coll);
    if (df_successor_take_over(context, coll))
      df_tuner_begin_anew(context, coll, coll->survival->tune);
  }
}

static void look(void *room) {
  dfcclContext_t context = room;
  df_membership *membership = of(context);
  df_rank_lock(&context->lock);
  const uint64_t now = df_clock_ns();
  uint32_t rank;
  int is_proved;
  while (df_process_ends_take(context, &membership->ends, now, &rank, &is_proved)) {
    df_peer *peer = &context->control.peers[rank];
    is_proved |= peer->has_refused && context->settings.quorum != DF_QUORUM_STRICT;
    /* Nothing of the rank is used any more once its collectives have other homes. */
    if (is_proved && peer->state != DF_PEER_LEFT) peer->state = DF_PEER_DEAD;
    if (peer->state == DF_PEER_ALIVE) peer->state = DF_PEER_GIVEN_UP;
    if (!df_membership_may_tell(context)) continue;
    if (!df_is_member(context->survival, rank)) df_newcomers_forget(context, rank);
    df_view_disconnected(&membership->view, rank, is_proved, now);
    df_membership_drive(context);
  }
  if (df_membership_may_tell(context) && df_view_deadline(&membership->view) <= now) {
    df_view_tick(&membership->view, now);
    df_membership_drive(context);
  }
  if (df_membership_may_tell(context)) df_newcomers_progress(context);
  df_admit_progress(context);
  if (context->survival->has_news) {
    context->survival->has_news = 0;
    df_membership_drive(context);
    look_at_homes(context);
  }
  df_rank_unlock(&context->lock);
}

/* ---- the application */

static int tell(dfcclContext_t context) {
  if (df_load_relaxed_u64(&context->survival->told) !=
          df_load_relaxed_u64(&context->survival->view) &&
      df_views_tell(context, &of(context)->views))
    return 1;
  return df_admit_tell(context);
}

/* ---- opening and closing */

static dfcclResult_t check_job(dfcclContext_t context) {
  const int survive = context->settings.survive;
  if (context->settings.max_ranks != 0 && context->settings.max_ranks < (int)context->n_ranks)
    return df_fail(dfcclInvalidArgument, "config.maxRanks is %d, but the job has %u ranks",
                   context->settings.max_ranks, context->n_ranks);
  if (context->settings.max_ranks > (int)context->n_ranks)
    return df_fail(dfcclInvalidUsage,
                   "config.maxRanks is %d, but the job has %u ranks: ranks cannot join later yet",
                   context->settings.max_ranks, context->n_ranks);
  if (survive == 0) return dfcclSuccess;
  if (context->mesh.routes)
    return df_fail(dfcclInvalidUsage,
                   "config.survive is %d, but control messages of this job of %u ranks pass "
                   "relays; jobs with relays cannot go on without a lost rank (DFCCL_NET_RELAYS "
                   "sets the number of ranks from which a job has relays)",
                   survive, context->n_ranks);
  if (context->settings.backend != dfcclBackendCpu)
    return df_fail(dfcclInvalidUsage,
                   "config.survive is %d, but rank %u uses the %s device; only jobs of the CPU "
                   "device can go on without a lost rank",
                   survive, context->rank, context->device.kind->name);
  return dfcclSuccess;
}

static int is_on_one_host(const dfcclContext_t context) {
  for (uint32_t rank = 0; rank < context->n_ranks; rank++)
    if (context->control.peers[rank].is_remote) return 0;
  return 1;
}

static dfcclResult_t make(dfcclContext_t context) {
  const int on_one_host = is_on_one_host(context);
  const uint64_t grace_ms = on_one_host ? DF_GRACE_MS : DF_GRACE_BETWEEN_HOSTS_MS;
  static const df_view_events events = {send_message, cut, freeze, install, end, refused};
  const df_view_config config = {.rank = context->rank,
                                 .incarnation = context->mesh.incarnation,
                                 .n_ranks = context->n_ranks,
                                 .max_collectives = DF_MOST_REPORTED,
                                 .memory_is_zero = 1,
                                 .quorum = (df_quorum)context->settings.quorum,
                                 .on_one_host = on_one_host,
                                 .reruns = context->settings.survive == 1,
                                 .grace_ns = grace_ms * 1000000};
  df_membership *membership = calloc(1, sizeof *membership);
  df_view_item *members = calloc(context->n_ranks, sizeof *members);
  context->survival->membership = membership;
  if (membership == NULL || members == NULL) goto no_memory;
  membership->memory_bytes = df_view_memory(&config);
  membership->memory = mmap(NULL, membership->memory_bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (membership->memory == MAP_FAILED) membership->memory = NULL;
  membership->buffer = malloc(DF_VIEW_MESSAGE_BYTES);
  if (membership->memory == NULL || membership->buffer == NULL) goto no_memory;
  if (!df_process_ends_open(context, &membership->ends) ||
      !df_admit_counts_open(context, &membership->admit.counts))
    goto no_memory;
  df_view_open(&membership->view, &config, &events, context, membership->memory,
               membership->buffer);
  membership->is_newcomer = context->mesh.members != NULL;
  for (uint32_t rank = 0; rank < context->n_ranks; rank++) {
    members[rank].rank = (uint16_t)rank;
    if (!membership->is_newcomer) continue;
    if (context->mesh.members[rank])
      df_view_connected(&membership->view, rank);
    else if (rank != context->rank)
      context->survival->lost_in[rank] = 1;
  }
  if (!membership->is_newcomer)
    df_view_start(&membership->view, context->survival->view, members, context->n_ranks);
  free(members);
  return df_views_open(context, &membership->views);
no_memory:
  free(members);
  return df_fail(dfcclOutOfMemory, "no memory for the agreement on %u members", context->n_ranks);
}

dfcclResult_t df_membership_open(dfcclContext_t context) {
  dfcclResult_t result = check_job(context);
  if (result != dfcclSuccess || context->settings.survive == 0) return result;
  result = df_survival_open(context, context->settings.survive);
  if (result == dfcclSuccess) result = make(context);
  if (result != dfcclSuccess) return result;
  context->tell_view = tell;
  context->home_progress = df_successor_progress;
  context->control.ignores_lost = 1;
  df_messenger_subscribe(&context->control, DF_MESSAGE_VIEW, handle_message, context, 0);
  df_newcomers_subscribe(context);
  df_service_add_job(&context->control, context, tick_ms, look);
  return dfcclSuccess;
}

void df_membership_close_in_child(dfcclContext_t context) {
  if (context->survival && of(context)) {
    df_process_ends_close_files(&of(context)->ends);
    df_newcomers_close_in_child(context);
  }
}

void df_membership_close(dfcclContext_t context) {
  df_membership *membership = context->survival ? of(context) : NULL;
  if (membership) {
    df_process_ends_close(&membership->ends);
    df_views_close(&membership->views);
    df_admit_counts_close(&membership->admit.counts);
    if (membership->memory) munmap(membership->memory, membership->memory_bytes);
    free(membership->buffer);
    free(membership->report.entries);
    free(membership);
  }
  df_survival_close(context);
}
