/* The format is Chrome's trace events. A rank is a process there. Runs of the collectives of one
 * signature overlap, so each gets the first lane of its signature that is free. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cli.h"
#include "trace/perfetto.h"
#include "trace/report.h"

void df_perfetto_next(df_perfetto *w) { fputs(w->events++ ? ",\n" : "\n", w->file); }

void df_perfetto_string(df_perfetto *w, const char *text) {
  fputc('"', w->file);
  for (; *text; text++) {
    const unsigned char c = (unsigned char)*text;
    if (c == '"' || c == '\\')
      fprintf(w->file, "\\%c", c);
    else if (c < 0x20)
      fprintf(w->file, "\\u%04x", c);
    else
      fputc(c, w->file);
  }
  fputc('"', w->file);
}

void df_perfetto_thread(df_perfetto *w, uint32_t rank, uint64_t thread, int64_t order,
                        const char *name, const char *kind) {
  char whole[512];
  snprintf(whole, sizeof whole, "%s%s", name, kind);
  df_perfetto_next(w);
  fprintf(w->file,
          "{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":%u,\"tid\":%" PRIu64
          ",\"args\":{\"name\":",
          rank, thread);
  df_perfetto_string(w, whole);
  fputs("}}", w->file);
  df_perfetto_next(w);
  fprintf(w->file,
          "{\"name\":\"thread_sort_index\",\"ph\":\"M\",\"pid\":%u,\"tid\":%" PRIu64
          ",\"args\":{\"sort_index\":%" PRId64 "}}",
          rank, thread, order);
}

/* Threads of a rank: synchronisations are 0; then MOST_LANES for each signature in its order, the
 * last for callbacks. */
uint64_t df_perfetto_lane(const df_perfetto *w, const df_span *span, uint32_t lane) {
  if (span->kind == DF_SPAN_SYNCHRONISATION) return 0;
  return 1 + (uint64_t)w->lines->of_row[span->row] * MOST_LANES +
         (span->kind == DF_SPAN_CALLBACK ? MOST_LANES - 1 : lane);
}

/* For the runs of one collective, which are adjacent: the last member, and its time. */
static const df_span *last_to_come(const df_job_trace *job, const df_span *span) {
  const df_span *first = span, *end = job->spans + job->n_spans, *last = span;
  while (first > job->spans && first[-1].kind == DF_SPAN_RUN && first[-1].row == span->row &&
         first[-1].run == span->run)
    first--;
  for (const df_span *at = first;
       at < end && at->kind == DF_SPAN_RUN && at->row == span->row && at->run == span->run; at++)
    if (at->from > last->from) last = at;
  return last;
}

static void write_configuration(df_perfetto *w, const df_traced_configuration *c) {
  char configuration[160];
  df_traced_choice(c, configuration, sizeof configuration);
  fputs(",\"algorithm\":", w->file);
  df_perfetto_string(w, c->algorithm);
  fputs(",\"manner\":", w->file);
  df_perfetto_string(w, configuration);
  fputs(",\"purpose\":", w->file);
  df_perfetto_string(w, c->purpose);
  fputs(",\"why\":", w->file);
  df_perfetto_string(w, c->why);
}

/* Each change of each member, as a mark on the first lane of its collective. */
static void write_changes(df_perfetto *w) {
  for (size_t i = 0; i < w->job->n_collectives; i++) {
    const df_traced_collective *traced = &w->job->collectives[i];
    const df_span first_lane = {.row = traced->row};
    for (size_t j = 1; j < traced->n_configurations; j++) {
      const df_traced_configuration *c = &traced->configurations[j];
      if (c->at == 0) continue;
      df_perfetto_next(w);
      fputs("{\"name\":", w->file);
      df_perfetto_string(w, c->purpose);
      fprintf(w->file,
              ",\"ph\":\"i\",\"s\":\"t\",\"pid\":%u,\"tid\":%" PRIu64
              ",\"ts\":%.3f,\"args\":{\"from_run\":%" PRIu64,
              traced->rank, df_perfetto_lane(w, &first_lane, 0), (double)(c->at - w->zero) / 1e3,
              c->from_run);
      write_configuration(w, c);
      fputs("}}", w->file);
    }
  }
}

static void write_span(df_perfetto *w, const df_span *span, uint32_t lane) {
  const df_traced_collective *traced =
      span->kind == DF_SPAN_SYNCHRONISATION ? NULL : w->job->rows[span->row].first;
  df_perfetto_next(w);
  fputs("{\"name\":", w->file);
  if (traced == NULL)
    fputs("\"dfcclDeviceSynchronize\"", w->file);
  else
    df_perfetto_string(w, traced->name);
  fprintf(w->file, ",\"ph\":\"X\",\"pid\":%u,\"tid\":%" PRIu64 ",\"ts\":%.3f,\"dur\":%.3f",
          span->rank, df_perfetto_lane(w, span, lane), (double)(span->from - w->zero) / 1e3,
          (double)(span->to - span->from) / 1e3);
  if (span->kind == DF_SPAN_RUN) {
    const df_span *last = last_to_come(w->job, span);
    fprintf(w->file, ",\"args\":{\"run\":%" PRIu64 ",\"operation\":", span->run);
    df_perfetto_string(w, traced->operation);
    write_configuration(w, df_traced_configuration_of(&w->job->collectives[span->of], span->run));
    fprintf(w->file,
            ",\"bytes\":%" PRIu64 ",\"status\":%d,\"last_rank\":%u,\"waited_for_it_us\":%.3f",
            traced->bytes, span->status, last->rank, (double)(last->from - span->from) / 1e3);
    if (span->status != 0) {
      fputs(",\"error\":", w->file);
      df_perfetto_string(w, dfcclGetErrorString((dfcclResult_t)span->status));
    }
    fputc('}', w->file);
    if (span->status != 0) /* a colour of chrome://tracing */
      fprintf(w->file, ",\"cname\":\"%s\"", span->status == dfcclInProgress ? "bad" : "terrible");
  }
  fputc('}', w->file);
}

/* A mark on the rank's process. */
static void write_mark(df_perfetto *w, uint32_t rank, int64_t at, const char *name,
                       const char *why) {
  df_perfetto_next(w);
  fputs("{\"name\":", w->file);
  df_perfetto_string(w, name);
  fprintf(w->file,
          ",\"ph\":\"i\",\"s\":\"p\",\"pid\":%u,\"tid\":0,\"ts\":%.3f,\"args\":{\"why\":", rank,
          (double)(at - w->zero) / 1e3);
  df_perfetto_string(w, why);
  fputs("}}", w->file);
}

/* On each member whose trace lacks the runs, a mark at the first submission by another member. */
static void write_problems(df_perfetto *w) {
  const df_job_trace *job = w->job;
  for (size_t i = 0; i < w->summary->n_problems; i++) {
    const df_problem *problem = &w->summary->problems[i];
    const df_traced_collective *traced = job->rows[problem->row].first;
    for (uint32_t m = 0; m < traced->members; m++) {
      int status;
      char name[320];
      const df_outcome outcome = df_outcome_on(job, problem, traced->group[m], &status);
      if (outcome != DF_OUTCOME_NEVER_SUBMITTED && outcome != DF_OUTCOME_NOT_IN_TRACE) continue;
      snprintf(name, sizeof name, "%s: %.200s, run %" PRIu64, df_outcome_names[outcome],
               traced->name, problem->first_run);
      write_mark(w, traced->group[m], problem->from, name, "another member has submitted it");
    }
  }
}

static void write_failures(df_perfetto *w) {
  const df_job_trace *job = w->job;
  for (size_t i = 0; i < job->n_collectives; i++) {
    const df_traced_collective *traced = &job->collectives[i];
    char name[320];
    if (traced->failure.status == 0) continue;
    snprintf(name, sizeof name, "failure of %.200s", traced->name);
    write_mark(w, traced->rank, traced->failure.at, name, traced->failure.why);
  }
  for (uint32_t r = 0; r < job->n_ranks; r++)
    if (job->ranks[r].failure.status != 0)
      write_mark(w, r, job->ranks[r].failure.at, "failure of all collectives",
                 job->ranks[r].failure.why);
}

static void write_process(df_perfetto *w, uint32_t rank) {
  const df_rank_summary *sums = &w->summary->ranks[rank];
  char text[320];
  snprintf(text, sizeof text, "rank %u on %s", rank, w->job->ranks[rank].host);
  df_perfetto_next(w);
  fprintf(w->file, "{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%u,\"args\":{\"name\":", rank);
  df_perfetto_string(w, text);
  fputs("}}", w->file);
  df_perfetto_next(w);
  fprintf(w->file,
          "{\"name\":\"process_sort_index\",\"ph\":\"M\",\"pid\":%u,\"args\":{\"sort_index\":%u}}",
          rank, rank);
  snprintf(text, sizeof text,
           "%" PRIu64 " runs of %.3f ms, %.3f ms of waiting, last in %" PRIu64 ", %" PRIu64
           " failed, %" PRIu64 " waiting, %" PRIu64 " missing",
           sums->runs, sums->time_us / 1e3, sums->wait_us / 1e3, sums->last, sums->failed,
           sums->waiting, sums->missing);
  df_perfetto_next(w);
  fprintf(w->file,
          "{\"name\":\"process_labels\",\"ph\":\"M\",\"pid\":%u,\"args\":{\"labels\":", rank);
  df_perfetto_string(w, text);
  fputs("}}", w->file);
}

static const df_signatures *sorted_lines; /* for qsort */

static int by_time(const void *a, const void *b) {
  const df_span *left = *(const df_span *const *)a, *right = *(const df_span *const *)b;
  if (left->rank != right->rank) return left->rank < right->rank ? -1 : 1;
  if (left->kind != right->kind) return left->kind < right->kind ? -1 : 1;
  const uint32_t line = sorted_lines->of_row[left->row], other = sorted_lines->of_row[right->row];
  if (left->kind != DF_SPAN_SYNCHRONISATION && line != other) return line < other ? -1 : 1;
  return left->from < right->from ? -1 : left->from > right->from;
}

/* The spans of one rank and signature (or kind), in order of time. */
static void write_line(df_perfetto *w, const df_span *const *spans, size_t n) {
  int64_t ends[MOST_LANES - LANES_OF_CALLBACKS];
  uint32_t lanes = 0;
  char name[256] = "synchronisation";
  if (spans[0]->kind != DF_SPAN_SYNCHRONISATION)
    df_signature_name(w->job, &w->lines->all[w->lines->of_row[spans[0]->row]], name, sizeof name);
  const char *kind = spans[0]->kind == DF_SPAN_CALLBACK ? " (callbacks)" : "";
  for (size_t i = 0; i < n; i++) {
    uint32_t lane = 0;
    while (lane < lanes && ends[lane] > spans[i]->from) lane++;
    /* With more at one time the oldest of the last lane is drawn over. */
    if (lane == MOST_LANES - LANES_OF_CALLBACKS) lane--;
    if (lane == lanes) {
      const uint64_t thread = df_perfetto_lane(w, spans[i], lane);
      df_perfetto_thread(w, spans[i]->rank, thread, (int64_t)thread, name, kind);
      lanes++;
    }
    ends[lane] = spans[i]->to;
    w->lanes[spans[i] - w->job->spans] = (uint8_t)lane;
    write_span(w, spans[i], lane);
  }
}

static bool on_one_line(const df_perfetto *w, const df_span *a, const df_span *b) {
  return a->kind == DF_SPAN_SYNCHRONISATION || w->lines->of_row[a->row] == w->lines->of_row[b->row];
}

static void write_all(df_perfetto *w, const df_span **order) {
  const df_job_trace *job = w->job;
  for (size_t i = 0; i < job->n_spans; i++) order[i] = &job->spans[i];
  sorted_lines = w->lines;
  qsort(order, job->n_spans, sizeof *order, by_time);
  for (uint32_t r = 0; r < job->n_ranks; r++)
    if (job->ranks[r].is_there) write_process(w, r);
  for (size_t i = 0; i < job->n_spans;) {
    size_t n = 1;
    while (i + n < job->n_spans && order[i + n]->rank == order[i]->rank &&
           order[i + n]->kind == order[i]->kind && on_one_line(w, order[i + n], order[i]))
      n++;
    write_line(w, order + i, n);
    i += n;
  }
  df_perfetto_turns(w);
  df_perfetto_messages(w);
  write_changes(w);
  write_problems(w);
  write_failures(w);
}

int64_t df_job_first_time(const df_job_trace *job) {
  int64_t first = INT64_MAX;
  for (size_t i = 0; i < job->n_spans; i++)
    if (job->spans[i].from < first) first = job->spans[i].from;
  for (size_t i = 0; i < job->n_turns; i++)
    if (job->turns[i].from < first) first = job->turns[i].from;
  for (size_t i = 0; i < job->n_messages; i++)
    if (job->messages[i].from < first) first = job->messages[i].from;
  for (size_t i = 0; i < job->n_collectives; i++) {
    const df_traced_collective *traced = &job->collectives[i];
    if (traced->failure.status && traced->failure.at < first) first = traced->failure.at;
    for (size_t c = 1; c < traced->n_configurations; c++) /* as in write_changes */
      if (traced->configurations[c].at && traced->configurations[c].at < first)
        first = traced->configurations[c].at;
  }
  for (uint32_t r = 0; r < job->n_ranks; r++)
    if (job->ranks[r].failure.status && job->ranks[r].failure.at < first)
      first = job->ranks[r].failure.at;
  return first == INT64_MAX ? 0 : first;
}

bool df_job_write(const df_job_summary *summary, const df_signatures *lines, const char *file) {
  const df_job_trace *job = summary->job;
  df_perfetto w = {.job = job, .summary = summary, .lines = lines};
  const df_span **order = calloc(job->n_spans + 1, sizeof *order);
  w.lanes = calloc(job->n_spans + 1, sizeof *w.lanes);
  const bool has_memory = order != NULL && w.lanes != NULL;
  w.file = has_memory ? fopen(file, "we") : NULL;
  if (w.file == NULL) {
    df_tool_error("%s cannot be written: %s", file, has_memory ? strerror(errno) : "no memory");
    free(order);
    free(w.lanes);
    return false;
  }
  w.zero = df_job_first_time(job);
  fputs("{\"traceEvents\":[", w.file);
  write_all(&w, order);
  fputs("\n]}\n", w.file);
  free(order);
  free(w.lanes);
  const bool failed = ferror(w.file) != 0 || w.has_failed;
  if (fclose(w.file) != 0 || failed) {
    df_tool_error("%s cannot be written", file);
    return false;
  }
  return true;
}
