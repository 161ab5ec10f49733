/*
 * Batches of eight all-reduces, each rank in random orders of its own, with the daemon's events
 * (dfcclGetEvents). By collective: how often it was set aside, how long the task queue was when it
 * was fetched, how long it was prepared (fetched to first step) and executed (first step to last).
 * Events are those of each block of each rank; the ring holds the latest of them only.
 */
#include "events.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "buffers.h"
#include "common/cli.h"
#include "common/launch.h"
#include "common/memory.h"
#include "common/random.h"
#include "common/sort.h"
#include "common/tuning.h"

enum { COLLECTIVES = 8, DEFAULT_BATCHES = 200, RING = 8192, RUN_TIMEOUT_MS = 120000 };

/* The events of one rank. */
typedef struct {
  dfcclEvent_t *events;
  size_t count;
} rank_events;

typedef struct {
  const df_bench_options *options;
  int batches;
  size_t bytes[COLLECTIVES];
  rank_events *ranks;
} events_job;

/* The sums of one collective over all ranks and blocks. */
typedef struct {
  uint64_t runs, set_aside, fetched, queue_sum, queue_most;
  double *prepare_us, *execute_us; /* [prepared], [executed] */
  size_t prepared, executed;
} collective_sum;

/* ---- playing */

static bool play_batches(df_tool_rank *self, const events_job *job, void *send, void **recv) {
  df_tool_random random = {df_tool_mix3(job->options->seed, (uint64_t)self->rank, 1)};
  int order[COLLECTIVES];
  for (int batch = -job->options->warmup; batch < job->batches; batch++) {
    df_tool_random_order(&random, order, COLLECTIVES);
    for (int i = 0; i < COLLECTIVES; i++)
      if (!df_tool_rank_check(self,
                              dfcclRunAllReduce(self->context, (dfcclCollId_t)order[i], send,
                                                recv[order[i]], NULL, NULL),
                              "dfcclRunAllReduce"))
        return false;
    if (!df_tool_rank_check(self, dfcclWaitAll(self->context), "dfcclWaitAll")) return false;
  }
  return true;
}

static bool read_events(df_tool_rank *self, rank_events *to) {
  /* The daemon shows its notes when it leaves. */
  if (!df_tool_rank_check(self, dfcclDeviceSynchronize(self->context), "dfcclDeviceSynchronize") ||
      !df_tool_rank_check(self, dfcclGetEvents(self->context, NULL, &to->count), "dfcclGetEvents"))
    return false;
  size_t room = to->count + RING; /* a launch that comes meanwhile notes some */
  to->events = calloc(room, sizeof *to->events);
  if (to->events == NULL) {
    df_tool_rank_fail(self, dfcclOutOfMemory, "out of memory for %zu events", room);
    return false;
  }
  to->count = room;
  if (!df_tool_rank_check(self, dfcclGetEvents(self->context, to->events, &to->count),
                          "dfcclGetEvents"))
    return false;
  if (to->count > room) to->count = room;
  return true;
}

static void events_rank_main(df_tool_rank *self) {
  events_job *job = self->argument;
  void *send, *recv[COLLECTIVES];
  bool fine = df_bench_buffer_take(self, job->options, self->context, &send) &&
              df_tool_memory_zero(send, job->options->max_bytes);
  for (int c = 0; c < COLLECTIVES && fine; c++)
    fine = df_bench_buffer_take(self, job->options, self->context, &recv[c]) &&
           df_tool_rank_check(self,
                              dfcclRegisterAllReduce(self->context, (dfcclCollId_t)c,
                                                     job->bytes[c] / sizeof(float), dfcclFloat32,
                                                     dfcclSum, NULL),
                              "dfcclRegisterAllReduce");
  fine = fine && play_batches(self, job, send, recv) && read_events(self, &job->ranks[self->rank]);
  if (!fine) return; /* the buffers go with the process */
  df_bench_buffer_give(self, job->options, self->context, send);
  for (int c = 0; c < COLLECTIVES; c++)
    df_bench_buffer_give(self, job->options, self->context, recv[c]);
}

/* ---- adding up */

/* One block's events, oldest first. A run whose beginning the ring has lost counts nowhere. */
static void add_block(collective_sum *sums, const dfcclEvent_t *events, size_t count) {
  struct {
    uint64_t fetched, begun;
  } runs[COLLECTIVES] = {{0}};
  for (size_t i = 0; i < count; i++) {
    const dfcclEvent_t *event = &events[i];
    if (event->collective >= COLLECTIVES) continue;
    collective_sum *sum = &sums[event->collective];
    switch (event->kind) {
    case dfcclEventFetched:
      sum->fetched++;
      sum->queue_sum += event->queueLength;
      if (event->queueLength > sum->queue_most) sum->queue_most = event->queueLength;
      runs[event->collective].fetched = event->moment;
      runs[event->collective].begun = 0;
      break;
    case dfcclEventBegun:
      if (runs[event->collective].fetched == 0 || runs[event->collective].begun != 0) break;
      runs[event->collective].begun = event->moment;
      sum->prepare_us[sum->prepared++] =
          (double)(event->moment - runs[event->collective].fetched) * 1e-3;
      break;
    case dfcclEventSetAside:
      sum->set_aside++;
      break;
    case dfcclEventDone:
      sum->runs++;
      if (runs[event->collective].begun != 0)
        sum->execute_us[sum->executed++] =
            (double)(event->moment - runs[event->collective].begun) * 1e-3;
      runs[event->collective].fetched = runs[event->collective].begun = 0;
      break;
    case dfcclEventLaunched:
    case dfcclEventLeft:
    case dfcclEventLoaded:
    case dfcclEventSaved:
    case dfcclEventKept:
      break;
    }
  }
}

static void add_rank(collective_sum *sums, const rank_events *rank) {
  for (size_t first = 0, end; first < rank->count; first = end) {
    end = first;
    while (end < rank->count && rank->events[end].block == rank->events[first].block) end++;
    add_block(sums, &rank->events[first], end - first);
  }
}

static double median(double *values, size_t count) {
  if (count == 0) return 0;
  df_tool_sort_doubles(values, count);
  return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

static double share(uint64_t part, uint64_t whole) {
  return whole ? (double)part / (double)whole : 0;
}

/* ---- printing */

static bool print_text(const events_job *job, collective_sum *sums) {
  printf(
      "# dfccl-bench events: ranks %d backend %s, %d batches of %d all-reduces in random orders\n"
      "#\n# %10s  %8s  %11s  %11s  %10s  %12s  %12s\n# %10s  %8s  %11s  %11s  %10s  %12s  %12s\n",
      job->options->n_ranks, df_tool_backend_name(job->options->backend), job->batches, COLLECTIVES,
      "size", "runs", "preemptions", "queue", "queue", "preparing", "executing", "(B)", "",
      "(per run)", "(mean)", "(most)", "(us)", "(us)");
  for (int c = 0; c < COLLECTIVES; c++)
    printf("  %10zu  %8llu  %11.2f  %11.2f  %10llu  %12.2f  %12.2f\n", job->bytes[c],
           (unsigned long long)sums[c].runs, share(sums[c].set_aside, sums[c].runs),
           share(sums[c].queue_sum, sums[c].fetched), (unsigned long long)sums[c].queue_most,
           median(sums[c].prepare_us, sums[c].prepared),
           median(sums[c].execute_us, sums[c].executed));
  return df_tool_flush();
}

/* The ring of rank 0's first block: rows of ns since its oldest event, kind, collective, queue. */
static void add_ring(cJSON *object, const rank_events *rank) {
  cJSON *rows = cJSON_AddArrayToObject(object, "ring");
  for (size_t i = 0; i < rank->count && rank->events[i].block == rank->events[0].block; i++) {
    const dfcclEvent_t *event = &rank->events[i];
    double row[] = {(double)(event->moment - rank->events[0].moment), (double)event->kind,
                    event->collective == UINT64_MAX ? -1 : (double)event->collective,
                    (double)event->queueLength};
    cJSON_AddItemToArray(rows, cJSON_CreateDoubleArray(row, 4));
  }
}

static bool print_json(const events_job *job, collective_sum *sums) {
  cJSON *object = cJSON_CreateObject();
  cJSON_AddStringToObject(object, "op", "events");
  cJSON_AddNumberToObject(object, "ranks", job->options->n_ranks);
  cJSON_AddStringToObject(object, "backend", df_tool_backend_name(job->options->backend));
  cJSON_AddNumberToObject(object, "batches", job->batches);
  cJSON *collectives = cJSON_AddArrayToObject(object, "collectives");
  for (int c = 0; c < COLLECTIVES; c++) {
    const struct {
      const char *name;
      double value;
    } members[] = {{"collective", c},
                   {"bytes", (double)job->bytes[c]},
                   {"runs", (double)sums[c].runs},
                   {"preemptions_per_run", share(sums[c].set_aside, sums[c].runs)},
                   {"queue_mean", share(sums[c].queue_sum, sums[c].fetched)},
                   {"queue_most", (double)sums[c].queue_most},
                   {"prepare_us_median", median(sums[c].prepare_us, sums[c].prepared)},
                   {"execute_us_median", median(sums[c].execute_us, sums[c].executed)}};
    cJSON *one = cJSON_CreateObject();
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++)
      cJSON_AddNumberToObject(one, members[i].name, members[i].value);
    cJSON_AddItemToArray(collectives, one);
  }
  add_ring(object, &job->ranks[0]);
  return df_tool_print_json(object);
}

static bool conclude(const events_job *job) {
  collective_sum sums[COLLECTIVES] = {{0}};
  size_t all = 0;
  bool fine = true;
  for (int r = 0; r < job->options->n_ranks; r++) all += job->ranks[r].count;
  for (int c = 0; c < COLLECTIVES; c++) {
    sums[c].prepare_us = calloc(all + 1, sizeof(double));
    sums[c].execute_us = calloc(all + 1, sizeof(double));
    fine = fine && sums[c].prepare_us != NULL && sums[c].execute_us != NULL;
  }
  if (fine) {
    for (int r = 0; r < job->options->n_ranks; r++) add_rank(sums, &job->ranks[r]);
    fine = job->options->json ? print_json(job, sums) : print_text(job, sums);
  } else {
    df_tool_error("out of memory for %zu events", all);
  }
  for (int c = 0; c < COLLECTIVES; c++) {
    free(sums[c].prepare_us);
    free(sums[c].execute_us);
  }
  return fine;
}

int df_bench_events(const df_bench_options *options) {
  events_job job = {.options = options,
                    .batches = options->iterations ? options->iterations : DEFAULT_BATCHES,
                    .ranks = calloc((size_t)options->n_ranks, sizeof(rank_events))};
  char *reports = calloc((size_t)options->n_ranks, 1);
  df_tool_job launch = {.n_ranks = options->n_ranks,
                        .config = DFCCL_CONFIG_INITIALIZER,
                        .rank_main = events_rank_main,
                        .argument = &job,
                        .report_bytes = 1,
                        .reports = reports};
  launch.config.backend = options->backend;
  launch.config.timeoutMs = RUN_TIMEOUT_MS;
  double span = log2((double)options->max_bytes / (double)options->min_bytes);
  for (int c = 0; c < COLLECTIVES; c++)
    job.bytes[c] =
        (size_t)((double)options->min_bytes * exp2(span * c / (COLLECTIVES - 1))) / 4 * 4;
  bool fine = job.ranks != NULL && reports != NULL;
  if (!fine) df_tool_error("out of memory for %d ranks", options->n_ranks);
  setenv("DFCCL_TRACE_TURNS", "1", 1); /* CPU */
  fine = fine && df_tool_tuning_add("cuda_timers=1") && df_tool_launch(&launch) && conclude(&job);
  for (int r = 0; job.ranks != NULL && r < options->n_ranks; r++) free(job.ranks[r].events);
  free(job.ranks);
  free(reports);
  return fine ? DF_TOOL_SUCCESS : DF_TOOL_FAILED;
}
