#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cjson/cJSON.h>

#include "common/cli.h"
#include "common/sort.h"
#include "trace/job.h"

/* Runs come first, in order of rows, and of their numbers. */
static size_t first_span_of(const df_job_trace *job, uint32_t row, uint64_t run) {
  size_t low = 0, high = job->n_spans;
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    const df_span *span = &job->spans[middle];
    if (span->kind == DF_SPAN_RUN && (span->row < row || (span->row == row && span->run < run)))
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

/* One run: of all members, if n is their number. */
static void add_run(const df_span *run, size_t n, uint32_t *last_of, double *times, double *waits,
                    df_row_summary *summary) {
  double least = 0, most = 0;
  size_t last = 0;
  for (size_t i = 0; i < n; i++) {
    const double took = (double)(run[i].to - run[i].from) / 1e3;
    if (i == 0 || took < least) least = took;
    if (i == 0 || took > most) most = took;
    if (run[i].from > run[last].from) last = i;
    if (run[i].status != 0) {
      summary->failed++;
      return;
    }
  }
  times[summary->runs] = least;
  waits[summary->runs++] = most - least;
  last_of[run[last].rank]++;
}

df_row_summary df_row_summarise_runs(const df_job_trace *job, uint32_t row, uint64_t from,
                                     uint64_t until) {
  df_row_summary summary = {0};
  const size_t first = first_span_of(job, row, from), end = first_span_of(job, row, until);
  double *times = calloc(end - first + 1, sizeof *times),
         *waits = calloc(end - first + 1, sizeof *waits);
  uint32_t *last_of = calloc(job->n_ranks, sizeof *last_of);
  for (size_t i = first; times && waits && last_of && i < end;) {
    size_t n = 1;
    while (i + n < end && job->spans[i + n].run == job->spans[i].run) n++;
    if (n == job->rows[row].seen) add_run(&job->spans[i], n, last_of, times, waits, &summary);
    i += n;
  }
  for (uint32_t r = 0; last_of && r < job->n_ranks; r++)
    if (last_of[r] > last_of[summary.last_rank]) summary.last_rank = r;
  if (summary.runs > 0)
    summary.last_share = (double)last_of[summary.last_rank] / (double)summary.runs;
  summary.time_us = times ? median(times, summary.runs) : 0;
  summary.wait_us = waits ? median(waits, summary.runs) : 0;
  free(times);
  free(waits);
  free(last_of);
  return summary;
}

df_row_summary df_row_summarise(const df_job_trace *job, uint32_t row) {
  return df_row_summarise_runs(job, row, 0, UINT64_MAX);
}

void df_traced_choice(const df_traced_configuration *c, char *text, size_t bytes) {
  snprintf(text, bytes, "%s, %" PRIu64 " block%s, %" PRIu64 " slots of %" PRIu64 " bytes%s%s%s",
           c->algorithm, c->blocks, c->blocks == 1 ? "" : "s", c->slots, c->slot_bytes,
           c->form[0] ? ", " : "", c->form, c->lends ? ", lends" : "");
}

/* From one configuration to the next one. */
static df_row_summary summarise(const df_job_trace *job, uint32_t row,
                                const df_traced_collective *traced, size_t i) {
  const df_traced_configuration *c = &traced->configurations[i];
  return df_row_summarise_runs(job, row, c->from_run,
                               i + 1 < traced->n_configurations ? c[1].from_run : UINT64_MAX);
}

static void add_configurations(cJSON *to, const df_job_trace *job, uint32_t row) {
  const df_traced_collective *traced = job->rows[row].first;
  cJSON *all = cJSON_AddArrayToObject(to, "configurations");
  for (size_t i = 0; i < traced->n_configurations; i++) {
    const df_traced_configuration *c = &traced->configurations[i];
    const df_row_summary summary = summarise(job, row, traced, i);
    cJSON *one = cJSON_CreateObject();
    cJSON_AddNumberToObject(one, "from_run", (double)c->from_run);
    cJSON_AddNumberToObject(one, "switch", (double)c->switches);
    cJSON_AddStringToObject(one, "algorithm", c->algorithm);
    cJSON_AddNumberToObject(one, "split", (double)c->split);
    cJSON_AddNumberToObject(one, "blocks", (double)c->blocks);
    cJSON_AddNumberToObject(one, "slot_bytes", (double)c->slot_bytes);
    cJSON_AddNumberToObject(one, "slots", (double)c->slots);
    cJSON_AddStringToObject(one, "form", c->form);
    cJSON_AddBoolToObject(one, "lends", c->lends);
    cJSON_AddStringToObject(one, "purpose", c->purpose);
    cJSON_AddStringToObject(one, "why", c->why);
    cJSON_AddNumberToObject(one, "runs", (double)summary.runs);
    cJSON_AddNumberToObject(one, "time_us_median", summary.time_us);
    cJSON_AddItemToArray(all, one);
  }
}

static uint32_t missing_ranks(const df_job_trace *job) {
  uint32_t missing = 0;
  for (uint32_t r = 0; r < job->n_ranks; r++) missing += !job->ranks[r].is_there;
  return missing;
}

static const df_traced_configuration *last_of(const df_traced_collective *traced) {
  return &traced->configurations[traced->n_configurations - 1];
}

static void print_configurations(const df_job_trace *job) {
  puts("\nfrom: the first run that was executed so; why: who chose it, or asked for it\n\n"
       "      from     runs    time us  how, and why");
  for (uint32_t i = 0; i < job->n_rows; i++) {
    const df_traced_collective *traced = job->rows[i].first;
    printf("%s, id %" PRIu64 ", %s\n", traced->name, traced->id, traced->operation);
    for (size_t j = 0; j < traced->n_configurations; j++) {
      const df_traced_configuration *c = &traced->configurations[j];
      const df_row_summary summary = summarise(job, i, traced, j);
      char configuration[160];
      df_traced_choice(c, configuration, sizeof configuration);
      printf("%10" PRIu64 " %8" PRIu64 " %10.1f  %s%s%s\n", c->from_run, summary.runs,
             summary.time_us, configuration, c->why[0] ? ": " : "", c->why);
    }
  }
}

static bool print_json(const df_job_trace *job) {
  cJSON *root = cJSON_CreateObject();
  cJSON_AddNumberToObject(root, "ranks", job->n_ranks);
  cJSON *ranks = cJSON_AddArrayToObject(root, "traces");
  for (uint32_t r = 0; r < job->n_ranks; r++) {
    if (!job->ranks[r].is_there) continue;
    cJSON *rank = cJSON_CreateObject();
    cJSON_AddNumberToObject(rank, "rank", r);
    cJSON_AddStringToObject(rank, "host", job->ranks[r].host);
    cJSON_AddBoolToObject(rank, "whole", job->ranks[r].is_whole);
    cJSON_AddNumberToObject(rank, "clock_moved_us", (double)job->ranks[r].moved_ns / 1e3);
    cJSON_AddItemToArray(ranks, rank);
  }
  cJSON *collectives = cJSON_AddArrayToObject(root, "collectives");
  for (uint32_t i = 0; i < job->n_rows; i++) {
    const df_traced_collective *traced = job->rows[i].first;
    const df_row_summary summary = df_row_summarise(job, i);
    char id[32];
    snprintf(id, sizeof id, "%" PRIu64, traced->id);
    cJSON *one = cJSON_CreateObject();
    cJSON_AddStringToObject(one, "id", id);
    cJSON_AddStringToObject(one, "name", traced->name);
    cJSON_AddStringToObject(one, "operation", traced->operation);
    cJSON_AddStringToObject(one, "algorithm", last_of(traced)->algorithm);
    cJSON_AddNumberToObject(one, "bytes", (double)traced->bytes);
    cJSON_AddNumberToObject(one, "members", traced->members);
    cJSON_AddNumberToObject(one, "runs", (double)summary.runs);
    cJSON_AddNumberToObject(one, "failed", (double)summary.failed);
    cJSON_AddNumberToObject(one, "time_us_median", summary.time_us);
    cJSON_AddNumberToObject(one, "wait_us_median", summary.wait_us);
    if (summary.runs > 0) {
      cJSON_AddNumberToObject(one, "last_rank", summary.last_rank);
      cJSON_AddNumberToObject(one, "last_share", summary.last_share);
    }
    add_configurations(one, job, i);
    cJSON_AddItemToArray(collectives, one);
  }
  return df_tool_print_json(root);
}

bool df_job_print(const df_job_trace *job, bool json) {
  if (json) return print_json(job);
  if (missing_ranks(job) > 0)
    printf("The traces of %u of %u ranks are missing.\n", missing_ranks(job), job->n_ranks);
  for (uint32_t r = 0; r < job->n_ranks; r++) {
    const df_traced_rank *rank = &job->ranks[r];
    if (rank->is_there && !rank->is_whole)
      printf("The trace of rank %u has no end: its program runs, was killed, or found no room.\n",
             r);
    if (rank->moved_ns != 0)
      printf("The clock of rank %u (%s) was moved by %.1f us.\n", r, rank->host,
             (double)rank->moved_ns / 1e3);
  }
  puts("time: us from dfcclRun* to the run's end, on the member that waited least (median)\n"
       "wait: how much longer the member waited that waited most (median)\n"
       "last: the rank that came last most often, and in how many of the runs\n\n"
       "      runs   failed    time us    wait us  last         bytes  operation, algorithm, name");
  for (uint32_t i = 0; i < job->n_rows; i++) {
    const df_traced_collective *traced = job->rows[i].first;
    const df_row_summary summary = df_row_summarise(job, i);
    char last[32] = "-";
    if (summary.runs > 0)
      snprintf(last, sizeof last, "%u (%.0f%%)", summary.last_rank, 100 * summary.last_share);
    printf("%10" PRIu64 " %8" PRIu64 " %10.1f %10.1f  %-10s %7" PRIu64 "  %s, %s, %s\n",
           summary.runs, summary.failed, summary.time_us, summary.wait_us, last, traced->bytes,
           traced->operation, last_of(traced)->algorithm, traced->name);
  }
  print_configurations(job);
  return df_tool_flush_or_say();
}
