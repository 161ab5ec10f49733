/*
 * Hosts' clocks differ. On one host all ranks read one clock. A run of an all-reduce ends on no
 * member before each other member has submitted it: so a pair of hosts has a least and a greatest
 * difference of their clocks, as in NTP, and a host is moved by the least that keeps both.
 */
#include <stdlib.h>
#include <string.h>

#include "trace/job.h"

/* Ranks of a host whose wall clock was not set in between differ by less. */
#define ONE_CLOCK_NS 1000000000

static bool shares_clock(const df_traced_rank *a, const df_traced_rank *b) {
  const int64_t difference = a->offset_ns - b->offset_ns;
  return strcmp(a->host, b->host) == 0 && difference < ONE_CLOCK_NS && difference > -ONE_CLOCK_NS;
}

static int by_run(const void *a, const void *b) {
  const df_span *left = a, *right = b;
  if (left->kind != right->kind) return left->kind < right->kind ? -1 : 1;
  if (left->row != right->row) return left->row < right->row ? -1 : 1;
  if (left->run != right->run) return left->run < right->run ? -1 : 1;
  if (left->rank != right->rank) return left->rank < right->rank ? -1 : 1;
  return left->from < right->from ? -1 : left->from > right->from;
}

/* Pieces of vector collectives may be empty. */
bool df_traced_needs_all(const df_traced_collective *traced) {
  static const char *const known[] = {"AllReduce", "AllGather", "ReduceScatter",
                                      "AllToAll",  "Barrier",   "AllToAllDynamic"};
  for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
    if (traced->bytes > 0 && strcmp(traced->operation, known[i]) == 0) return true;
  return false;
}

static void move_rank(df_job_trace *job, uint32_t rank, int64_t by) {
  for (size_t i = 0; i < job->n_collectives; i++)
    for (size_t j = 0; job->collectives[i].rank == rank && j < job->collectives[i].n_configurations;
         j++)
      if (job->collectives[i].configurations[j].at) job->collectives[i].configurations[j].at += by;
  for (size_t i = 0; i < job->n_collectives; i++)
    if (job->collectives[i].rank == rank) job->collectives[i].failure.at += by;
  job->ranks[rank].moved_ns += by;
  job->ranks[rank].last_ns += by;
  job->ranks[rank].failure.at += by;
  for (size_t i = 0; i < job->n_spans; i++)
    if (job->spans[i].rank == rank) job->spans[i].from += by, job->spans[i].to += by;
  for (size_t i = 0; i < job->n_turns; i++)
    if (job->turns[i].rank == rank) job->turns[i].from += by, job->turns[i].to += by;
  for (size_t i = 0; i < job->n_messages; i++)
    if (job->messages[i].rank == rank) job->messages[i].from += by, job->messages[i].to += by;
}

static int by_path(const void *a, const void *b) {
  const df_traced_message *left = a, *right = b;
  if (left->rank != right->rank) return left->rank < right->rank ? -1 : 1;
  if (left->peer != right->peer) return left->peer < right->peer ? -1 : 1;
  if (left->is_sent != right->is_sent) return left->is_sent ? -1 : 1;
  return left->from < right->from ? -1 : left->from > right->from;
}

/* The records of a block are in the order of time, also those of one moment. */
static int by_block(const void *a, const void *b) {
  const df_traced_turn *left = a, *right = b;
  if (left->rank != right->rank) return left->rank < right->rank ? -1 : 1;
  if (left->block != right->block) return left->block < right->block ? -1 : 1;
  return left->order < right->order ? -1 : left->order > right->order;
}

/* Ranks of one host get the offset of the first of them, since each read its clocks for itself. */
static void join_clocks(df_job_trace *job, uint32_t *host_of) {
  for (uint32_t r = 0; r < job->n_ranks; r++) {
    host_of[r] = r;
    for (uint32_t other = 0; other < r && job->ranks[r].is_there; other++)
      if (job->ranks[other].is_there && shares_clock(&job->ranks[other], &job->ranks[r])) {
        host_of[r] = host_of[other];
        move_rank(job, r, job->ranks[host_of[r]].offset_ns - job->ranks[r].offset_ns);
        job->ranks[r].moved_ns = 0;
        break;
      }
  }
}

typedef struct bounds {
  int64_t least, greatest; /* by which the host may be moved */
} bounds;

/* One run of all its members: what its ranks on two hosts say of the difference. */
static void narrow(const df_span *run, size_t n, const uint32_t *host_of, uint32_t base,
                   uint32_t host, bounds *b) {
  for (size_t i = 0; i < n; i++)
    for (size_t k = 0; k < n; k++) {
      if (host_of[run[i].rank] != base || host_of[run[k].rank] != host) continue;
      if (run[i].to - run[k].from < b->greatest) b->greatest = run[i].to - run[k].from;
      if (run[i].from - run[k].to > b->least) b->least = run[i].from - run[k].to;
    }
}

/* All its members have completed it. */
static bool is_good(const df_span *run, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (run[i].status != 0) return false;
  return true;
}

static size_t length_of_run(const df_job_trace *job, size_t first) {
  size_t n = 1;
  const df_span *spans = job->spans;
  while (first + n < job->n_spans && spans[first + n].kind == DF_SPAN_RUN &&
         spans[first + n].row == spans[first].row && spans[first + n].run == spans[first].run)
    n++;
  return n;
}

static void align_host(df_job_trace *job, const uint32_t *host_of, uint32_t base, uint32_t host) {
  bounds b = {INT64_MIN, INT64_MAX};
  for (size_t i = 0; i < job->n_spans && job->spans[i].kind == DF_SPAN_RUN;) {
    const size_t n = length_of_run(job, i);
    const df_traced_collective *traced = job->rows[job->spans[i].row].first;
    if (df_traced_needs_all(traced) && is_good(&job->spans[i], n))
      narrow(&job->spans[i], n, host_of, base, host, &b);
    i += n;
  }
  int64_t by = 0;
  if (b.least > b.greatest) /* the clocks drift: the middle */
    by = b.greatest + (b.least - b.greatest) / 2;
  else if (b.least > 0)
    by = b.least;
  else if (b.greatest < 0)
    by = b.greatest;
  for (uint32_t r = 0; by != 0 && r < job->n_ranks; r++)
    if (host_of[r] == host) move_rank(job, r, by);
}

static void find_runs(df_job_trace *job) {
  for (size_t i = 0; i < job->n_spans && job->spans[i].kind == DF_SPAN_RUN; i++) {
    df_traced_row *row = &job->rows[job->spans[i].row];
    if (row->n_spans++ == 0) row->spans = i;
  }
}

void df_job_align(df_job_trace *job) {
  uint32_t *host_of = calloc(job->n_ranks, sizeof *host_of), base = 0;
  if (job->n_spans > 0) qsort(job->spans, job->n_spans, sizeof *job->spans, by_run);
  if (job->n_turns > 0) qsort(job->turns, job->n_turns, sizeof *job->turns, by_block);
  if (job->n_messages > 0) qsort(job->messages, job->n_messages, sizeof *job->messages, by_path);
  find_runs(job);
  while (base < job->n_ranks && !job->ranks[base].is_there) base++;
  if (host_of == NULL || base == job->n_ranks) {
    free(host_of);
    return;
  }
  join_clocks(job, host_of);
  for (uint32_t r = 0; r < job->n_ranks; r++)
    if (job->ranks[r].is_there && host_of[r] == r && r != base) align_host(job, host_of, base, r);
  free(host_of);
}
