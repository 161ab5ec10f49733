#include "trace/summary.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cli.h"
#include "common/sort.h"

const char *const df_sort_names[DF_SORTS] = {"id",     "name",    "operation", "bytes", "runs",
                                             "failed", "partial", "time",      "wait",  "total"};

/* ---- runs ---- */

size_t df_length_of_run(const df_job_trace *job, size_t first) {
  size_t n = 1;
  const df_span *spans = job->spans;
  while (first + n < job->n_spans && spans[first + n].kind == DF_SPAN_RUN &&
         spans[first + n].row == spans[first].row && spans[first + n].run == spans[first].run)
    n++;
  return n;
}

/* A row's spans are in order of runs. */
static size_t first_span_of(const df_job_trace *job, uint32_t row, uint64_t run) {
  size_t low = job->rows[row].spans, high = low + job->rows[row].n_spans;
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (job->spans[middle].run < run)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static double median(double *values, size_t n) {
  if (n == 0) return 0;
  df_tool_sort_doubles(values, n);
  return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

typedef struct run_facts {
  bool is_partial, has_failed;
  double least_us, most_us;
  uint32_t last_rank;
} run_facts;

static double duration_us(const df_span *span) { return (double)(span->to - span->from) / 1e3; }

bool df_run_has_all(const df_job_trace *job, const df_span *run, size_t n) {
  if (n == job->rows[run->row].traced) return true;
  for (size_t i = 0; i < n; i++)
    if (run[i].status == 0) return df_traced_needs_all(job->rows[run->row].first);
  return false;
}

static run_facts examine(const df_job_trace *job, const df_span *run, size_t n) {
  run_facts facts = {.is_partial = !df_run_has_all(job, run, n), .last_rank = run->rank};
  int64_t latest = run->from;
  for (size_t i = 0; i < n; i++) {
    const double took = duration_us(&run[i]);
    if (i == 0 || took < facts.least_us) facts.least_us = took;
    if (i == 0 || took > facts.most_us) facts.most_us = took;
    if (run[i].status == dfcclInProgress)
      facts.is_partial = true;
    else if (run[i].status != 0)
      facts.has_failed = true;
    if (run[i].from > latest) {
      latest = run[i].from;
      facts.last_rank = run[i].rank;
    }
  }
  return facts;
}

typedef struct collected {
  double *times, *waits;
  uint32_t *last_of;
} collected;

static void add_run(const run_facts *facts, const collected *c, df_run_summary *summary) {
  if (facts->is_partial) {
    summary->partial++;
  } else if (facts->has_failed) {
    summary->failed++;
  } else {
    c->times[summary->runs] = facts->least_us;
    c->waits[summary->runs++] = facts->most_us - facts->least_us;
    c->last_of[facts->last_rank]++;
    summary->total_us += facts->least_us;
  }
}

static void end_summary(const df_job_trace *job, const collected *c, df_run_summary *summary) {
  for (uint32_t r = 0; r < job->n_ranks; r++)
    if (c->last_of[r] > c->last_of[summary->last_rank]) summary->last_rank = r;
  if (summary->runs > 0)
    summary->last_share = (double)c->last_of[summary->last_rank] / (double)summary->runs;
  summary->time_us = median(c->times, summary->runs);
  summary->wait_us = median(c->waits, summary->runs);
}

df_run_summary df_summarise_runs(const df_job_trace *job, const uint32_t *rows, size_t n_rows,
                                 uint64_t from, uint64_t until) {
  df_run_summary summary = {0};
  size_t most = 1;
  for (size_t i = 0; i < n_rows; i++) most += job->rows[rows[i]].n_spans;
  const collected c = {calloc(most, sizeof *c.times), calloc(most, sizeof *c.waits),
                       calloc(job->n_ranks, sizeof *c.last_of)};
  const bool has_room = c.times && c.waits && c.last_of;
  for (size_t i = 0; has_room && i < n_rows; i++) {
    const size_t end = first_span_of(job, rows[i], until);
    for (size_t at = first_span_of(job, rows[i], from); at < end;) {
      const size_t n = df_length_of_run(job, at);
      const run_facts facts = examine(job, &job->spans[at], n);
      add_run(&facts, &c, &summary);
      at += n;
    }
  }
  if (has_room) end_summary(job, &c, &summary);
  free(c.times);
  free(c.waits);
  free(c.last_of);
  return summary;
}

/* ---- ranks ---- */

static void add_span_of_rank(df_rank_summary *rank, const df_span *span, const run_facts *facts) {
  if (span->status == dfcclInProgress) {
    rank->waiting++;
  } else if (span->status != 0) {
    rank->failed++;
  } else {
    rank->runs++;
    rank->time_us += duration_us(span);
    if (!facts->is_partial && !facts->has_failed)
      rank->wait_us += duration_us(span) - facts->least_us;
  }
}

const df_span *df_span_of_rank(const df_span *run, size_t n, uint32_t rank) {
  size_t low = 0, high = n;
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (run[middle].rank < rank)
      low = middle + 1;
    else
      high = middle;
  }
  return low < n && run[low].rank == rank ? &run[low] : NULL;
}

static void summarise_ranks(df_job_summary *summary) {
  const df_job_trace *job = summary->job;
  size_t at = 0;
  while (at < job->n_spans && job->spans[at].kind == DF_SPAN_RUN) {
    const size_t n = df_length_of_run(job, at);
    const df_span *run = &job->spans[at];
    const df_traced_row *row = &job->rows[run->row];
    const run_facts facts = examine(job, run, n);
    for (size_t i = 0; i < n; i++) add_span_of_rank(&summary->ranks[run[i].rank], &run[i], &facts);
    if (!facts.is_partial && !facts.has_failed) summary->ranks[facts.last_rank].last++;
    const bool has_all = df_run_has_all(job, run, n);
    for (uint32_t m = 0; !has_all && m < row->first->members; m++) {
      const uint32_t rank = row->first->group[m];
      if (job->ranks[rank].is_there && df_span_of_rank(run, n, rank) == NULL)
        summary->ranks[rank].missing++;
    }
    at += n;
  }
  for (; at < job->n_spans; at++) {
    df_rank_summary *rank = &summary->ranks[job->spans[at].rank];
    if (job->spans[at].kind == DF_SPAN_CALLBACK)
      rank->callbacks_us += duration_us(&job->spans[at]);
    else
      rank->synchronisations_us += duration_us(&job->spans[at]);
  }
}

/* ---- signatures ---- */

static int compare_groups(const df_traced_collective *a, const df_traced_collective *b) {
  if (a->members != b->members) return a->members < b->members ? -1 : 1;
  return memcmp(a->group, b->group, a->members * sizeof *a->group);
}

static int compare_signatures(const df_traced_collective *a, const df_traced_collective *b) {
  int order = strcmp(a->operation, b->operation);
  if (order == 0) order = strcmp(a->type, b->type);
  if (order == 0) order = (a->bytes > b->bytes) - (a->bytes < b->bytes);
  return order ? order : compare_groups(a, b);
}

/* For qsort, which passes no argument on. */
static const df_job_trace *being_sorted;
static df_sort sorted_by;

/* Rows are in order of ids already. */
static int by_signature(const void *a, const void *b) {
  const uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
  const df_traced_row *rows = being_sorted->rows;
  const int order = compare_signatures(rows[left].first, rows[right].first);
  return order ? order : (left > right) - (left < right);
}

static double figure_of(const df_signature *signature) {
  const df_run_summary *s = &signature->summary;
  switch (sorted_by) {
  case DF_SORT_BYTES:
    return (double)being_sorted->rows[signature->rows[0]].first->bytes;
  case DF_SORT_RUNS:
    return (double)s->runs;
  case DF_SORT_FAILED:
    return (double)s->failed;
  case DF_SORT_PARTIAL:
    return (double)s->partial;
  case DF_SORT_TIME:
    return s->time_us;
  case DF_SORT_WAIT:
    return s->wait_us;
  case DF_SORT_TOTAL:
    return s->total_us;
  default:
    return 0;
  }
}

static int in_order(const void *a, const void *b) {
  const df_signature *left = a, *right = b;
  const df_traced_collective *one = being_sorted->rows[left->rows[0]].first,
                             *other = being_sorted->rows[right->rows[0]].first;
  const double figure = figure_of(left), other_figure = figure_of(right);
  int order = (figure < other_figure) - (figure > other_figure);
  if (sorted_by == DF_SORT_NAME) order = strcmp(one->name, other->name);
  if (sorted_by == DF_SORT_OPERATION) order = strcmp(one->operation, other->operation);
  return order ? order : (left->rows[0] > right->rows[0]) - (left->rows[0] < right->rows[0]);
}

static bool make_signatures(const df_job_trace *job, df_sort sort, bool each,
                            df_signatures *signatures) {
  const size_t n = job->n_rows + 1;
  *signatures = (df_signatures){.all = calloc(n, sizeof *signatures->all),
                                .of_row = calloc(n, sizeof *signatures->of_row),
                                .rows = calloc(n, sizeof *signatures->rows)};
  if (!signatures->all || !signatures->of_row || !signatures->rows) return false;
  for (uint32_t i = 0; i < job->n_rows; i++) signatures->rows[i] = i;
  being_sorted = job;
  sorted_by = sort;
  if (!each) qsort(signatures->rows, job->n_rows, sizeof *signatures->rows, by_signature);
  for (size_t i = 0; i < job->n_rows; i++) {
    const uint32_t *row = &signatures->rows[i];
    if (i == 0 || each || compare_signatures(job->rows[row[0]].first, job->rows[row[-1]].first))
      signatures->all[signatures->n++].rows = row;
    signatures->all[signatures->n - 1].n_rows++;
  }
  for (size_t i = 0; i < signatures->n; i++) {
    df_signature *signature = &signatures->all[i];
    signature->summary = df_summarise_runs(job, signature->rows, signature->n_rows, 0, UINT64_MAX);
  }
  qsort(signatures->all, signatures->n, sizeof *signatures->all, in_order);
  for (uint32_t i = 0; i < signatures->n; i++)
    for (size_t k = 0; k < signatures->all[i].n_rows; k++)
      signatures->of_row[signatures->all[i].rows[k]] = i;
  return true;
}

static void free_signatures(df_signatures *signatures) {
  free(signatures->all);
  free(signatures->of_row);
  free(signatures->rows);
}

void df_signature_name(const df_job_trace *job, const df_signature *signature, char *text,
                       size_t bytes) {
  const char *name = job->rows[signature->rows[0]].first->name;
  if (signature->n_rows == 1)
    snprintf(text, bytes, "%s", name);
  else
    snprintf(text, bytes, "%.200s and %zu more", name, signature->n_rows - 1);
}

/* ---- all of it ---- */

bool df_job_summarise(const df_job_trace *job, df_sort sort, df_job_summary *summary) {
  *summary = (df_job_summary){.job = job, .ranks = calloc(job->n_ranks, sizeof *summary->ranks)};
  if (summary->ranks && make_signatures(job, sort, false, &summary->signatures) &&
      make_signatures(job, sort, true, &summary->collectives) && df_find_problems(summary) &&
      df_turns_summarise(job, &summary->turns)) {
    summarise_ranks(summary);
    return true;
  }
  df_tool_error("no memory for a summary of %zu collectives", job->n_rows);
  df_job_summary_free(summary);
  return false;
}

void df_job_summary_free(df_job_summary *summary) {
  free_signatures(&summary->signatures);
  free_signatures(&summary->collectives);
  free(summary->ranks);
  free(summary->problems);
  df_turns_free(&summary->turns);
  *summary = (df_job_summary){0};
}
