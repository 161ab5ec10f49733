/*
 * The phases of an empty collective as the GPU's own timers see them (number cuda_timers), in jobs
 * of their own: the daemon that gives "submit to callback" has no timers. With one context slot and
 * two collectives in turn, each run saves one context and loads the other.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/clock.h"
#include "common/cli.h"
#include "common/launch.h"
#include "common/tuning.h"
#include "overhead.h"

enum { COLLECTIVES = 2, MOST_RUNS = 4000, KINDS = dfcclTimeExecute + 1 };

typedef struct {
  int warmup, runs;
  double *submitted_ns, *called_ns; /* [runs] */
  uint64_t *moments[KINDS];         /* [runs], of the latest */
  double *durations_ns[KINDS];      /* [runs] */
  int noted[KINDS];                 /* number of durations_ns, at most runs */
} timed_job;

static void note_time(dfcclCollId_t collective, dfcclResult_t status, void *argument) {
  (void)collective;
  (void)status;
  *(double *)argument = (double)df_tool_now_ns();
}

static bool run_once(df_tool_rank *self, int i, double *submitted, double *called) {
  static char nothing[64];
  const dfcclCollId_t collective = (dfcclCollId_t)(i % COLLECTIVES);
  *submitted = (double)df_tool_now_ns();
  dfcclResult_t result =
      dfcclRunAllReduce(self->context, collective, nothing, nothing, note_time, called);
  if (result == dfcclSuccess) result = dfcclWait(self->context, collective);
  return df_tool_rank_check(self, result, "an empty run");
}

/* The latest of one kind, at most as many as there were runs. */
static bool read_times(df_tool_rank *self, timed_job *job, int kind) {
  size_t count = 0;
  if (!df_tool_rank_check(self, dfcclGetTimes(self->context, (dfcclTime_t)kind, NULL, NULL, &count),
                          "dfcclGetTimes"))
    return false;
  const size_t all = count;
  uint64_t *durations = calloc(all + 1, sizeof *durations);
  uint64_t *moments = calloc(all + 1, sizeof *moments);
  bool fine = durations != NULL && moments != NULL;
  if (!fine) df_tool_rank_fail(self, -1, "out of memory for %zu times", all);
  fine =
      fine && df_tool_rank_check(
                  self, dfcclGetTimes(self->context, (dfcclTime_t)kind, durations, moments, &count),
                  "dfcclGetTimes");
  if (fine && count != all) {
    df_tool_rank_fail(self, -1, "the daemon notes times although nothing runs");
    fine = false;
  }
  const size_t kept = all < (size_t)job->runs ? all : (size_t)job->runs;
  for (size_t i = 0; fine && i < kept; i++) {
    job->durations_ns[kind][i] = (double)durations[all - kept + i];
    job->moments[kind][i] = moments[all - kept + i];
  }
  job->noted[kind] = (int)kept;
  free(durations);
  free(moments);
  return fine;
}

static void timed_rank_main(df_tool_rank *self) {
  timed_job *job = self->argument;
  for (int c = 0; c < COLLECTIVES; c++) {
    dfcclResult_t result =
        dfcclRegisterAllReduce(self->context, (dfcclCollId_t)c, 0, dfcclFloat32, dfcclSum, NULL);
    if (!df_tool_rank_check(self, result, "dfcclRegisterAllReduce")) return;
  }
  for (int i = 0; i < job->warmup; i++)
    if (!run_once(self, i, &job->submitted_ns[0], &job->called_ns[0])) return;
  for (int i = 0; i < job->runs; i++)
    if (!run_once(self, i, &job->submitted_ns[i], &job->called_ns[i])) return;
  /* The daemon shows its notes when it leaves. */
  if (!df_tool_rank_check(self, dfcclDeviceSynchronize(self->context), "dfcclDeviceSynchronize"))
    return;
  for (int kind = 0; kind < KINDS; kind++)
    if (!read_times(self, job, kind)) return;
  if (job->noted[dfcclTimeFetch] != job->runs || job->noted[dfcclTimeCqeWrite] != job->runs)
    df_tool_rank_fail(self, -1, "the daemon noted %d SQEs and %d CQEs of %d runs",
                      job->noted[dfcclTimeFetch], job->noted[dfcclTimeCqeWrite], job->runs);
}

static bool make_job(timed_job *job, const df_bench_options *options, int iterations) {
  *job = (timed_job){.warmup = options->warmup,
                     .runs = iterations < MOST_RUNS ? iterations : MOST_RUNS};
  bool fine = (job->submitted_ns = calloc((size_t)job->runs, sizeof(double))) != NULL &&
              (job->called_ns = calloc((size_t)job->runs, sizeof(double))) != NULL;
  for (int kind = 0; kind < KINDS && fine; kind++)
    fine = (job->moments[kind] = calloc((size_t)job->runs, sizeof(uint64_t))) != NULL &&
           (job->durations_ns[kind] = calloc((size_t)job->runs, sizeof(double))) != NULL;
  return fine;
}

static void free_job(timed_job *job) {
  free(job->submitted_ns);
  free(job->called_ns);
  for (int kind = 0; kind < KINDS; kind++) {
    free(job->moments[kind]);
    free(job->durations_ns[kind]);
  }
}

/* A context reads the environment when it is made. */
static bool play(timed_job *job, const char *cq) {
  char report;
  df_tool_job launch = {.n_ranks = 1,
                        .config = DFCCL_CONFIG_INITIALIZER,
                        .rank_main = timed_rank_main,
                        .argument = job,
                        .report_bytes = sizeof report,
                        .reports = &report};
  launch.config.backend = dfcclBackendCuda;
  char numbers[64];
  snprintf(numbers, sizeof numbers, "cuda_timers=1,cq=%s", cq);
  return setenv("DFCCL_CONTEXT_SLOTS", "1", 1) == 0 && df_tool_tuning_add(numbers) &&
         df_tool_launch(&launch);
}

static void add(df_bench_phase *phases, int *count, const char *name, double *durations_ns, int n) {
  if (n > 0) phases[(*count)++] = df_bench_phase_of(name, durations_ns, n, 1);
}

/* The device's own durations, and those between its moments and the host's. */
static void conclude(timed_job *job, df_bench_phase *phases, int *count) {
  const uint64_t *fetched = job->moments[dfcclTimeFetch],
                 *written = job->moments[dfcclTimeCqeWrite];
  double *submit = job->submitted_ns, *callback = job->called_ns;
  double *inside = calloc((size_t)job->runs, sizeof *inside);
  for (int i = 0; i < job->runs; i++) {
    if (inside) inside[i] = (double)written[i] - (double)fetched[i];
    submit[i] = (double)fetched[i] - submit[i];
    callback[i] -= (double)written[i];
  }
  add(phases, count, "SQE submit to fetch", submit, job->runs);
  add(phases, count, "SQE read across the bus and passed on", job->durations_ns[dfcclTimePass],
      job->noted[dfcclTimePass]);
  add(phases, count, "SQE read by a block", job->durations_ns[dfcclTimeFetch], job->runs);
  add(phases, count, "context load", job->durations_ns[dfcclTimeContextLoad],
      job->noted[dfcclTimeContextLoad]);
  add(phases, count, "context save", job->durations_ns[dfcclTimeContextSave],
      job->noted[dfcclTimeContextSave]);
  add(phases, count, "preparing: SQE fetched to first step", job->durations_ns[dfcclTimePrepare],
      job->noted[dfcclTimePrepare]);
  add(phases, count, "executing: first step to last", job->durations_ns[dfcclTimeExecute],
      job->noted[dfcclTimeExecute]);
  if (inside) add(phases, count, "SQE fetch to CQE written", inside, job->runs);
  add(phases, count, "CQE written to callback", callback, job->runs);
  free(inside);
}

int df_bench_overhead_cuda(const df_bench_options *options, int iterations,
                           df_bench_phase *phases) {
  static const char *const variants[][2] = {
      {"packed", "CQE write, packed"}, {"ring", "CQE write, ring"}, {"slots", "CQE write, slots"}};
  int count = 0;
  for (size_t v = 0; v < sizeof variants / sizeof variants[0]; v++) {
    timed_job job;
    bool fine = make_job(&job, options, iterations);
    if (!fine) df_tool_error("out of memory for %d iterations", iterations);
    fine = fine && play(&job, variants[v][0]);
    if (fine && v == 0) conclude(&job, phases, &count);
    if (fine)
      add(phases, &count, variants[v][1], job.durations_ns[dfcclTimeCqeWrite],
          job.noted[dfcclTimeCqeWrite]);
    free_job(&job);
    if (!fine) return -1;
  }
  return count;
}
