/* The format is Chrome's trace events. A rank is a process there. Runs of one collective
 * overlap, so each gets the first lane of its collective that is free. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cli.h"
#include "trace/job.h"

enum { MOST_LANES = 64, LANES_OF_CALLBACKS = 1 };

typedef struct writer {
  FILE *file;
  uint64_t events;
  int64_t zero; /* the first time of all */
  const df_job_trace *job;
} writer;

static void next_event(writer *w) { fputs(w->events++ ? ",\n" : "\n", w->file); }

static void write_string(writer *w, const char *text) {
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

static void write_thread(writer *w, uint32_t rank, uint64_t thread, const char *name,
                         const char *kind) {
  char whole[512];
  snprintf(whole, sizeof whole, "%s%s", name, kind);
  next_event(w);
  fprintf(w->file,
          "{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":%u,\"tid\":%" PRIu64
          ",\"args\":{\"name\":",
          rank, thread);
  write_string(w, whole);
  fputs("}}", w->file);
}

/* Threads of a rank: synchronisations are 0; then MOST_LANES for each row, the last for
 * callbacks. */
static uint64_t thread_of(const df_span *span, uint32_t lane) {
  if (span->kind == DF_SPAN_SYNCHRONISATION) return 0;
  return 1 + (uint64_t)span->row * MOST_LANES +
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

static void write_configuration(writer *w, const df_traced_configuration *c) {
  char configuration[160];
  df_traced_choice(c, configuration, sizeof configuration);
  fputs(",\"algorithm\":", w->file);
  write_string(w, c->algorithm);
  fputs(",\"manner\":", w->file);
  write_string(w, configuration);
  fputs(",\"purpose\":", w->file);
  write_string(w, c->purpose);
  fputs(",\"why\":", w->file);
  write_string(w, c->why);
}

/* Each change of each member, as a mark on the first lane of its collective. */
static void write_changes(writer *w) {
  for (size_t i = 0; i < w->job->n_collectives; i++) {
    const df_traced_collective *traced = &w->job->collectives[i];
    const df_span first_lane = {.row = traced->row};
    for (size_t j = 1; j < traced->n_configurations; j++) {
      const df_traced_configuration *c = &traced->configurations[j];
      if (c->at == 0) continue;
      next_event(w);
      fputs("{\"name\":", w->file);
      write_string(w, c->purpose);
      fprintf(w->file,
              ",\"ph\":\"i\",\"s\":\"t\",\"pid\":%u,\"tid\":%" PRIu64
              ",\"ts\":%.3f,\"args\":{\"from_run\":%" PRIu64,
              traced->rank, thread_of(&first_lane, 0), (double)(c->at - w->zero) / 1e3,
              c->from_run);
      write_configuration(w, c);
      fputs("}}", w->file);
    }
  }
}

static void write_span(writer *w, const df_span *span, uint32_t lane) {
  const df_traced_collective *traced =
      span->kind == DF_SPAN_SYNCHRONISATION ? NULL : w->job->rows[span->row].first;
  next_event(w);
  fputs("{\"name\":", w->file);
  if (traced == NULL)
    fputs("\"dfcclDeviceSynchronize\"", w->file);
  else
    write_string(w, traced->name);
  fprintf(w->file, ",\"ph\":\"X\",\"pid\":%u,\"tid\":%" PRIu64 ",\"ts\":%.3f,\"dur\":%.3f",
          span->rank, thread_of(span, lane), (double)(span->from - w->zero) / 1e3,
          (double)(span->to - span->from) / 1e3);
  if (span->kind == DF_SPAN_RUN) {
    const df_span *last = last_to_come(w->job, span);
    fprintf(w->file, ",\"args\":{\"run\":%" PRIu64 ",\"operation\":", span->run);
    write_string(w, traced->operation);
    write_configuration(w, df_traced_configuration_of(&w->job->collectives[span->of], span->run));
    fprintf(w->file,
            ",\"bytes\":%" PRIu64 ",\"status\":%d,\"last_rank\":%u,\"waited_for_it_us\":%.3f}",
            traced->bytes, span->status, last->rank, (double)(last->from - span->from) / 1e3);
  }
  fputc('}', w->file);
}

static int by_time(const void *a, const void *b) {
  const df_span *left = *(const df_span *const *)a, *right = *(const df_span *const *)b;
  if (left->rank != right->rank) return left->rank < right->rank ? -1 : 1;
  if (left->kind != right->kind) return left->kind < right->kind ? -1 : 1;
  if (left->row != right->row) return left->row < right->row ? -1 : 1;
  return left->from < right->from ? -1 : left->from > right->from;
}

/* The spans of one rank and row (or kind), in order of time. */
static void write_row(writer *w, const df_span *const *spans, size_t n) {
  int64_t ends[MOST_LANES - LANES_OF_CALLBACKS];
  uint32_t lanes = 0;
  const char *name = spans[0]->kind == DF_SPAN_SYNCHRONISATION
                         ? "synchronisation"
                         : w->job->rows[spans[0]->row].first->name;
  const char *kind = spans[0]->kind == DF_SPAN_CALLBACK ? " (callbacks)" : "";
  for (size_t i = 0; i < n; i++) {
    uint32_t lane = 0;
    while (lane < lanes && ends[lane] > spans[i]->from) lane++;
    /* With more at one time the oldest of the last lane is drawn over. */
    if (lane == MOST_LANES - LANES_OF_CALLBACKS) lane--;
    if (lane == lanes) {
      write_thread(w, spans[i]->rank, thread_of(spans[i], lane), name, kind);
      lanes++;
    }
    ends[lane] = spans[i]->to;
    write_span(w, spans[i], lane);
  }
}

static void write_all(writer *w, const df_span **order) {
  const df_job_trace *job = w->job;
  for (size_t i = 0; i < job->n_spans; i++) order[i] = &job->spans[i];
  qsort(order, job->n_spans, sizeof *order, by_time);
  for (uint32_t r = 0; r < job->n_ranks; r++) {
    if (!job->ranks[r].is_there) continue;
    char name[320];
    snprintf(name, sizeof name, "rank %u on %s", r, job->ranks[r].host);
    next_event(w);
    fprintf(w->file, "{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%u,\"args\":{\"name\":", r);
    write_string(w, name);
    fputs("}}", w->file);
  }
  for (size_t i = 0; i < job->n_spans;) {
    size_t n = 1;
    while (i + n < job->n_spans && order[i + n]->rank == order[i]->rank &&
           order[i + n]->kind == order[i]->kind && order[i + n]->row == order[i]->row)
      n++;
    write_row(w, order + i, n);
    i += n;
  }
  write_changes(w);
}

bool df_job_write(const df_job_trace *job, const char *file) {
  writer w = {.job = job};
  const df_span **order = calloc(job->n_spans + 1, sizeof *order);
  w.file = order ? fopen(file, "we") : NULL;
  if (w.file == NULL) {
    df_tool_error("%s cannot be written: %s", file, order ? strerror(errno) : "no memory");
    free(order);
    return false;
  }
  for (size_t i = 0; i < job->n_spans; i++)
    if (i == 0 || job->spans[i].from < w.zero) w.zero = job->spans[i].from;
  fputs("{\"traceEvents\":[", w.file);
  write_all(&w, order);
  fputs("\n]}\n", w.file);
  free(order);
  const bool failed = ferror(w.file) != 0;
  if (fclose(w.file) != 0 || failed) {
    df_tool_error("%s cannot be written", file);
    return false;
  }
  return true;
}
