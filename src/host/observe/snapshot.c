#include "host/observe/snapshot.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mutex.h"
#include "host/observe/wait_graph.h"
#include "host/state/registry.h"

/* After a snapshot, so many runs are timed, or those of so long a time if there are fewer. */
enum { WATCHED_RUNS = 64 };
#define WATCHED_NS UINT64_C(5000000000)

/* ---- times ---- */

static void watch(dfcclContext_t context, uint64_t now) DF_RANK_LOCKED {
  context->runs.watched_until_ns = now + WATCHED_NS;
  context->runs.timed_left = WATCHED_RUNS;
  if (context->runs.is_watched) return;
  df_store_relaxed_u32(&context->runs.is_watched, 1);
  df_store_relaxed_u32(&context->runs.timing, context->runs.timing + 1);
}

int df_snapshot_expire(dfcclContext_t context) {
  if (!df_load_relaxed_u32(&context->runs.is_watched)) return -1;
  df_rank_lock(&context->lock);
  const uint64_t now = df_clock_ns(), until = context->runs.watched_until_ns;
  const int is_due = context->runs.is_watched && now >= until;
  if (is_due) {
    df_store_relaxed_u32(&context->runs.is_watched, 0);
    df_store_relaxed_u32(&context->runs.timing, context->runs.timing - 1);
  }
  const int ms = context->runs.is_watched ? (int)((until - now) / 1000000 + 1) : -1;
  df_rank_unlock(&context->lock);
  return ms;
}

/* 0: the clock was not read at its submission. */
static uint64_t oldest_submission_ns(const df_coll *coll) DF_RANK_LOCKED {
  if (df_runs_in_device(coll) > 0)
    return coll->runs.in_device[df_slot_of(coll, coll->runs.retired)].submitted_ns;
  return coll->runs.backlog_length ? coll->runs.backlog[coll->runs.backlog_head].submitted_ns : 0;
}

/* Returns when the oldest run was submitted. If no clock was read then, the run is at least as old
 * as the first snapshot that saw it, and as the sleep of a thread that waits for it. */
static uint64_t find_since(dfcclContext_t context, df_coll *coll, uint64_t now,
                           uint32_t *flags) DF_RANK_LOCKED {
  df_sleeping_call sleeper;
  uint64_t since = oldest_submission_ns(coll);
  if (since) return since;
  *flags |= DF_SNAPSHOT_AGE_IS_LEAST;
  if (coll->watch.seen_ns == 0 || coll->watch.seen_taken != coll->runs.taken) {
    coll->watch.seen_ns = now;
    coll->watch.seen_taken = coll->runs.taken;
  }
  since = coll->watch.seen_ns;
  for (uint32_t at = 0; df_sleeper_next(context, &at, &sleeper);)
    if (!sleeper.call.is_of_one || sleeper.call.id == coll->id)
      since = DF_MIN(since, sleeper.since_ns);
  return since;
}

/* ---- collectives ---- */

static int is_listed(const df_coll *coll) {
  return coll && coll->registered == NULL && !coll->deregistered;
}

/* A run whose callback has not returned is under way. */
static int is_under_way(const df_coll *coll) {
  return coll->runs.words->completed < coll->runs.submitted || coll->failure.failed != dfcclSuccess;
}

static void add_coll(dfcclContext_t context, df_coll *coll, uint64_t now,
                     df_snapshot_coll *to) DF_RANK_LOCKED {
  df_wait_cause cause;
  int more;
  memset(to, 0, sizeof *to);
  to->id = coll->id;
  to->submitted = coll->runs.submitted;
  to->taken = coll->runs.taken;
  to->timed_runs = coll->watch.timed_runs;
  to->timed_ns = coll->watch.timed_ns;
  to->status = (uint32_t)coll->failure.failed;
  to->operation = (uint32_t)coll->operation;
  to->group_size = coll->n;
  to->n_awaited = df_list_awaited(context, coll, &cause, to->awaited, DF_SNAPSHOT_AWAITED, &more);
  to->cause = (uint32_t)cause;
  if (more) to->flags |= DF_SNAPSHOT_MORE_AWAITED;
  if (coll->runs.words->completed < coll->runs.taken) to->flags |= DF_SNAPSHOT_CALLS_BACK;
  if (coll->runs.taken < coll->runs.submitted) {
    const uint64_t since = find_since(context, coll, now, &to->flags);
    to->age_ns = now > since ? now - since : 0;
  }
  memcpy(to->name, coll->name, sizeof to->name);
}

typedef struct df_candidate {
  df_coll *coll;
  uint64_t since;
} df_candidate;

/* The collectives of a snapshot: those that are under way, the oldest if there are too many, and
 * then those with timed runs. Returns their number. */
static uint32_t choose_colls(dfcclContext_t context, uint64_t now,
                             df_candidate chosen[DF_SNAPSHOT_COLLS]) DF_RANK_LOCKED {
  uint32_t n = 0, flags = 0;
  for (uint32_t i = 0; i < context->registry.n_indices; i++) {
    df_coll *coll = context->registry.by_index[i];
    if (!is_listed(coll) || !is_under_way(coll)) continue;
    const df_candidate candidate = {coll, find_since(context, coll, now, &flags)};
    uint32_t place = n;
    if (n == DF_SNAPSHOT_COLLS) { /* in the place of the youngest */
      place = 0;
      for (uint32_t j = 1; j < n; j++)
        if (chosen[j].since > chosen[place].since) place = j;
      if (chosen[place].since <= candidate.since) continue;
    } else {
      n++;
    }
    chosen[place] = candidate;
  }
  for (uint32_t i = 0; i < context->registry.n_indices && n < DF_SNAPSHOT_COLLS; i++) {
    df_coll *coll = context->registry.by_index[i];
    if (is_listed(coll) && !is_under_way(coll) && coll->watch.timed_runs)
      chosen[n++] = (df_candidate){.coll = coll};
  }
  return n;
}

static uint32_t add_calls(dfcclContext_t context, uint64_t now, df_snapshot_call *to) {
  df_sleeping_call sleeper;
  uint32_t n = 0;
  for (uint32_t at = 0; n < DF_SNAPSHOT_CALLS && df_sleeper_next(context, &at, &sleeper);) {
    df_snapshot_call *call = &to[n++];
    memset(call, 0, sizeof *call);
    call->id = sleeper.call.id;
    call->is_of_one = sleeper.call.is_of_one != 0;
    call->thread = sleeper.thread;
    call->age_ns = now > sleeper.since_ns ? now - sleeper.since_ns : 0;
    snprintf(call->name, sizeof call->name, "%s", sleeper.call.name);
  }
  return n;
}

static void add_states(dfcclContext_t context, const uint64_t *asked, uint32_t n,
                       df_snapshot_state *to) DF_RANK_LOCKED {
  for (uint32_t i = 0; i < n; i++) {
    const df_coll *coll = df_find(context, asked[i]);
    to[i] = (df_snapshot_state){.id = asked[i]};
    if (coll == NULL) continue;
    to[i].is_registered = 1;
    to[i].submitted = coll->runs.submitted;
    to[i].taken = coll->runs.taken;
    to[i].status = (uint32_t)coll->failure.failed;
  }
}

/* ---- the whole ---- */

/* The reason why the context is broken, or the oldest collective that failed alone. */
static void add_sentence(dfcclContext_t context, const df_candidate *chosen, uint32_t n,
                         df_snapshot *s) DF_RANK_LOCKED {
  const char *sentence = s->status ? context->failure.broken_sentence : NULL;
  for (uint32_t i = 0; i < n && sentence == NULL; i++)
    if (chosen[i].coll->failure.failed != dfcclSuccess) sentence = chosen[i].coll->failure.sentence;
  if (sentence)
    snprintf(s->sentence, sizeof s->sentence, "%.*s", (int)sizeof s->sentence - 1, sentence);
}

static void count(dfcclContext_t context, df_snapshot *s) DF_RANK_LOCKED {
  s->accepted = df_observe_u64(&context->runs.accepted);
  s->completed = df_observe_u64(&context->runs.completed);
  s->backlog = context->runs.backlog_length;
  for (uint32_t b = 0; b < context->device.shared->n_blocks; b++) {
    const df_block *block = &context->device.blocks[b];
    s->bytes_sent += df_load_relaxed_u64(&block->stats.bytes_sent);
    s->preemptions += df_load_relaxed_u64(&block->stats.preemptions);
    s->starts += df_load_relaxed_u64(&block->stats.starts);
    s->quits += df_load_relaxed_u64(&block->stats.quits);
    s->task_queue += df_load_relaxed_u32(&block->tasks.length);
  }
  s->registered = context->registry.n_colls;
  s->status = (uint32_t)context->failure.broken;
}

void df_snapshot_begin(dfcclContext_t context, uint32_t rank, df_snapshot_kind kind,
                       df_snapshot *s) {
  memset(s, 0, sizeof *s);
  s->header.magic = DF_SNAPSHOT_MAGIC;
  s->header.version = DF_SNAPSHOT_VERSION;
  s->header.bytes = sizeof *s;
  memcpy(s->job, context->mesh.job, sizeof s->job);
  s->kind = (uint32_t)kind;
  s->rank = rank;
  s->n_ranks = context->n_ranks;
}

void df_snapshot_take(dfcclContext_t context, const uint64_t *asked, uint32_t n_asked,
                      df_snapshot_buffer *buffer) {
  DF_ASSERT_RANK_LOCKED(&context->lock);
  df_candidate chosen[DF_SNAPSHOT_COLLS];
  df_snapshot *s = &buffer->snapshot;
  const uint64_t now = df_clock_ns();
  df_snapshot_begin(context, context->rank, DF_SNAPSHOT_OF_RANK, s);
  s->now_ns = now;
  s->process = (uint32_t)getpid();
  gethostname(s->host, sizeof s->host - 1);
  snprintf(s->program, sizeof s->program, "%s", program_invocation_short_name);
  count(context, s);
  const uint32_t n = choose_colls(context, now, chosen);
  add_sentence(context, chosen, n, s);
  df_snapshot_coll *colls = (df_snapshot_coll *)(void *)(s + 1);
  for (uint32_t i = 0; i < n; i++) add_coll(context, chosen[i].coll, now, &colls[i]);
  s->n_colls = n;
  df_snapshot_call *calls = (df_snapshot_call *)(void *)(colls + n);
  s->n_calls = add_calls(context, now, calls);
  df_snapshot_state *states = (df_snapshot_state *)(void *)(calls + s->n_calls);
  s->n_states = DF_MIN(n_asked, (uint32_t)DF_SNAPSHOT_ASKED);
  add_states(context, asked, s->n_states, states);
  s->header.bytes = (uint32_t)((uint8_t *)(states + s->n_states) - buffer->bytes);
  watch(context, now);
}

static int ends(const char *text, size_t bytes) { return memchr(text, 0, bytes) != NULL; }

int df_snapshot_is_valid(const void *bytes, size_t length) {
  const df_snapshot *s = bytes;
  if (length < sizeof *s || s->header.magic != DF_SNAPSHOT_MAGIC ||
      s->header.version != DF_SNAPSHOT_VERSION || s->header.bytes != length)
    return 0;
  if (s->kind >= DF_SNAPSHOT_KINDS || s->n_ranks > DF_MAX_RANKS || s->rank >= s->n_ranks) return 0;
  if (s->n_colls > DF_SNAPSHOT_COLLS || s->n_calls > DF_SNAPSHOT_CALLS ||
      s->n_states > DF_SNAPSHOT_ASKED ||
      length != sizeof *s + s->n_colls * sizeof(df_snapshot_coll) +
                    s->n_calls * sizeof(df_snapshot_call) + s->n_states * sizeof(df_snapshot_state))
    return 0;
  if (!ends(s->host, sizeof s->host) || !ends(s->program, sizeof s->program) ||
      !ends(s->sentence, sizeof s->sentence))
    return 0;
  for (uint32_t i = 0; i < s->n_colls; i++) {
    const df_snapshot_coll *coll = &df_snapshot_colls(s)[i];
    if (coll->cause >= DF_WAIT_CAUSES || coll->n_awaited > DF_SNAPSHOT_AWAITED ||
        !ends(coll->name, sizeof coll->name))
      return 0;
    for (uint32_t j = 0; j < coll->n_awaited; j++)
      if (coll->awaited[j] >= s->n_ranks) return 0;
  }
  for (uint32_t i = 0; i < s->n_calls; i++)
    if (!ends(df_snapshot_calls(s)[i].name, sizeof df_snapshot_calls(s)[i].name)) return 0;
  return 1;
}
