#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "top/top.h"

const char *const df_top_state_names[STATES] = {
    [STATE_UNKNOWN] = "unknown",   [STATE_RUNNING] = "running", [STATE_WAITING] = "waiting",
    [STATE_CALLBACK] = "callback", [STATE_IDLE] = "idle",       [STATE_BROKEN] = "broken",
    [STATE_SILENT] = "silent",     [STATE_CLOSED] = "closed",   [STATE_GONE] = "gone"};

const char *const df_verdict_names[VERDICTS] = {
    [VERDICT_NONE] = "none",     [VERDICT_MISSING] = "missing",   [VERDICT_STOPPED] = "stopped",
    [VERDICT_CIRCLE] = "circle", [VERDICT_MISMATCH] = "mismatch", [VERDICT_SLOW] = "slow"};

/* A run that has waited for this long in vain is a wait, not progress. */
#define WAIT_NS UINT64_C(100000000)

/* ---- collectives in snapshots ---- */

const df_snapshot_coll *df_top_coll(const df_snapshot_buffer *buffer, uint64_t id) {
  for (uint32_t i = 0; buffer && i < buffer->snapshot.n_colls; i++) {
    const df_snapshot_coll *coll = &df_snapshot_colls(&buffer->snapshot)[i];
    if (coll->id == id) return coll;
  }
  return NULL;
}

bool df_top_is_stuck(const df_top_rank *rank, const df_snapshot_coll *coll) {
  const df_snapshot_coll *before = df_top_coll(rank->before, coll->id);
  return coll->taken < coll->submitted && coll->cause != DF_WAIT_FAILED && before &&
         before->taken == coll->taken && before->submitted > before->taken;
}

void df_top_choose_asked(df_top_session *session) {
  session->n_asked = 0;
  for (uint32_t r = 0; r < session->n_ranks; r++) {
    const df_snapshot_buffer *now = session->ranks[r].now;
    for (uint32_t i = 0; now && i < now->snapshot.n_colls; i++) {
      const df_snapshot_coll *coll = &df_snapshot_colls(&now->snapshot)[i];
      uint32_t at = 0;
      while (at < session->n_asked && session->asked[at] != coll->id) at++;
      if (at < session->n_asked || session->n_asked == DF_SNAPSHOT_ASKED) continue;
      if (coll->taken < coll->submitted) session->asked[session->n_asked++] = coll->id;
    }
  }
}

/* ---- rows ---- */

static double per_second(uint64_t now, uint64_t before, double seconds) {
  return now > before && seconds > 0 ? (double)(now - before) / seconds : 0;
}

static void add_rates(const df_snapshot *now, const df_snapshot *before, df_top_row *row) {
  const double seconds = (double)(now->now_ns - before->now_ns) * 1e-9;
  row->has_rates = now->now_ns > before->now_ns;
  row->runs_per_s = per_second(now->completed, before->completed, seconds);
  row->bytes_per_s = per_second(now->bytes_sent, before->bytes_sent, seconds);
  row->preemptions_per_s = per_second(now->preemptions, before->preemptions, seconds);
  row->quits_per_s = per_second(now->quits, before->quits, seconds);
}

/* The oldest collective under way; without one, the collective with the most runs since the
 * snapshot before. */
static const df_snapshot_coll *choose_coll(const df_top_rank *rank) {
  const df_snapshot *s = &rank->now->snapshot;
  const df_snapshot_coll *oldest = NULL, *busiest = NULL, *calling_back = NULL;
  uint64_t most = 0;
  for (uint32_t i = 0; i < s->n_colls; i++) {
    const df_snapshot_coll *coll = &df_snapshot_colls(s)[i];
    const df_snapshot_coll *before = df_top_coll(rank->before, coll->id);
    const uint64_t runs = coll->timed_runs - (before ? before->timed_runs : 0);
    if (coll->taken < coll->submitted && (oldest == NULL || coll->age_ns > oldest->age_ns))
      oldest = coll;
    if (coll->flags & DF_SNAPSHOT_CALLS_BACK) calling_back = coll;
    if (rank->before && runs > most) {
      most = runs;
      busiest = coll;
    }
  }
  return oldest ? oldest : busiest ? busiest : calling_back;
}

static df_top_state state_of(const df_top_rank *rank, const df_top_row *row) {
  const df_snapshot_coll *coll = row->coll;
  if (rank->now->snapshot.status) return STATE_BROKEN;
  if (coll == NULL) return row->runs_per_s > 0 ? STATE_RUNNING : STATE_IDLE;
  if (coll->taken == coll->submitted) return row->runs_per_s > 0 ? STATE_RUNNING : STATE_CALLBACK;
  return df_top_is_stuck(rank, coll) && coll->age_ns >= WAIT_NS && coll->n_awaited ? STATE_WAITING
                                                                                   : STATE_RUNNING;
}

static void fill_row(const df_top_rank *rank, df_top_row *row) {
  static const df_top_state of_contact[] = {[RANK_UNKNOWN] = STATE_UNKNOWN,
                                            [RANK_ANSWERS] = STATE_UNKNOWN,
                                            [RANK_SILENT] = STATE_SILENT,
                                            [RANK_CLOSED] = STATE_CLOSED,
                                            [RANK_GONE] = STATE_GONE};
  *row = (df_top_row){.state = of_contact[rank->contact], .since_s = -1, .late_ms = -1};
  if (rank->contact != RANK_ANSWERS) return;
  const df_snapshot *now = &rank->now->snapshot;
  if (rank->before) add_rates(now, &rank->before->snapshot, row);
  row->queue = now->task_queue + now->backlog;
  row->coll = choose_coll(rank);
  row->state = state_of(rank, row);
  if (row->coll && row->coll->taken < row->coll->submitted) {
    row->since_s = (double)row->coll->age_ns * 1e-9;
    row->since_is_least = row->coll->flags & DF_SNAPSHOT_AGE_IS_LEAST;
  }
}

/* ---- lateness ---- */

/* The mean time of the runs between two snapshots, from submission to end; negative: there was no
 * run. */
static double mean_ms(const df_top_rank *rank, uint64_t id, uint64_t *runs) {
  const df_snapshot_coll *now = df_top_coll(rank->now, id), *before = df_top_coll(rank->before, id);
  *runs = 0;
  if (rank->contact != RANK_ANSWERS || now == NULL || rank->before == NULL) return -1;
  const uint64_t earlier_runs = before ? before->timed_runs : 0,
                 earlier_ns = before ? before->timed_ns : 0;
  if (now->timed_runs <= earlier_runs || now->timed_ns < earlier_ns) return -1;
  *runs = now->timed_runs - earlier_runs;
  return (double)(now->timed_ns - earlier_ns) / (double)*runs * 1e-6;
}

typedef struct df_mean {
  uint64_t id;
  double ms;
} df_mean;

typedef struct df_means {
  df_mean *means; /* by id, the longest first */
  size_t n;
} df_means;

static int compare_means(const void *a, const void *b) {
  const df_mean *x = a, *y = b;
  if (x->id != y->id) return x->id < y->id ? -1 : 1;
  return (x->ms < y->ms) - (x->ms > y->ms);
}

static bool collect_means(const df_top_session *session, df_means *means) {
  uint64_t runs;
  *means = (df_means){calloc((size_t)session->n_ranks * DF_SNAPSHOT_COLLS + 1, sizeof(df_mean)), 0};
  if (means->means == NULL) return false;
  for (uint32_t r = 0; r < session->n_ranks; r++) {
    const df_top_rank *rank = &session->ranks[r];
    for (uint32_t i = 0; rank->now && i < rank->now->snapshot.n_colls; i++) {
      const uint64_t id = df_snapshot_colls(&rank->now->snapshot)[i].id;
      const double ms = mean_ms(rank, id, &runs);
      if (ms >= 0) means->means[means->n++] = (df_mean){id, ms};
    }
  }
  qsort(means->means, means->n, sizeof *means->means, compare_means);
  return true;
}

/* All members end a run at about the same time, so the member with the longest time came first, and
 * the difference to it is the lateness of each other member. */
static double longest_ms(const df_means *means, uint64_t id) {
  size_t low = 0, high = means->n;
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (means->means[middle].id < id)
      low = middle + 1;
    else
      high = middle;
  }
  return means->means[low].ms;
}

static void find_lateness(const df_means *means, const df_top_rank *rank, df_top_row *row) {
  double sum_ms = 0, most = -1;
  uint64_t all_runs = 0;
  for (uint32_t i = 0; rank->now && i < rank->now->snapshot.n_colls; i++) {
    const df_snapshot_coll *coll = &df_snapshot_colls(&rank->now->snapshot)[i];
    uint64_t runs;
    const double mean = mean_ms(rank, coll->id, &runs);
    if (mean < 0) continue;
    const double late = longest_ms(means, coll->id) - mean;
    sum_ms += late * (double)runs;
    all_runs += runs;
    if (late * (double)runs <= most) continue;
    most = late * (double)runs;
    row->late_in = coll;
  }
  if (all_runs) row->late_ms = sum_ms / (double)all_runs;
}

/* ---- the view ---- */

bool df_top_view_make(df_top_view *view, const df_top_session *session) {
  *view = (df_top_view){.session = session};
  view->rows = calloc(DF_MAX(session->n_ranks, 1u), sizeof *view->rows);
  df_means means = {NULL, 0};
  if (view->rows == NULL || !collect_means(session, &means)) {
    df_top_view_free(view);
    return false;
  }
  for (uint32_t r = 0; r < session->n_ranks; r++) {
    fill_row(&session->ranks[r], &view->rows[r]);
    if (session->ranks[r].contact == RANK_ANSWERS)
      find_lateness(&means, &session->ranks[r], &view->rows[r]);
  }
  free(means.means);
  df_top_diagnose(view);
  return true;
}

void df_top_view_free(df_top_view *view) {
  free(view->rows);
  view->rows = NULL;
}

/* ---- words ---- */

const char *df_top_label(uint64_t id, const char *name, char *text, size_t bytes) {
  if (name[0])
    snprintf(text, bytes, "collective %llu (\"%s\")", (unsigned long long)id, name);
  else
    snprintf(text, bytes, "collective %llu", (unsigned long long)id);
  return text;
}

const char *df_top_rank_words(const uint32_t *ranks, uint32_t n, char *text, size_t bytes) {
  size_t used = (size_t)snprintf(text, bytes, n == 1 ? "rank" : "ranks");
  for (uint32_t i = 0; i < n && used < bytes; i++) {
    const char *before = i == 0 ? " " : i + 1 == n ? " and " : ", ";
    if (used + 24 > bytes) {
      snprintf(text + used, bytes - used, ", ...");
      break;
    }
    used += (size_t)snprintf(text + used, bytes - used, "%s%u", before, ranks[i]);
  }
  return text;
}

const char *df_top_host(const df_top_session *session, uint32_t rank) {
  const df_top_rank *one = &session->ranks[rank];
  if (one->now) return one->now->snapshot.host;
  return one->path[0] ? session->host : one->host;
}
