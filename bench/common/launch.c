#include "common/launch.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cli.h"
#include "common/env.h"
#include "common/launch_internal.h"
#include "common/memory.h"

bool df_tool_launch(const df_tool_job *job) {
  return job->processes ? df_tool_launch_processes(job) : df_tool_launch_threads(job);
}

void df_tool_rank_fail(df_tool_rank *rank, int code, const char *format, ...) {
  if (rank->outcome.code != 0) return;
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(rank->outcome.sentence, sizeof rank->outcome.sentence, format, arguments);
  va_end(arguments);
  rank->outcome.code = code;
}

bool df_tool_rank_meet(df_tool_rank *rank, df_tool_barrier *barrier) {
  uint64_t one = 1;
  if (rank->env_job) return df_tool_env_reduce(rank, &one, 1, dfcclSum);
  if (df_tool_barrier_wait(barrier)) return true;
  df_tool_rank_fail(rank, dfcclRemoteError, "another rank failed");
  return false;
}

bool df_tool_rank_check(df_tool_rank *rank, dfcclResult_t result, const char *what) {
  if (result == dfcclSuccess) return true;
  df_tool_rank_fail(rank, result, "%s: %s (%s)", what, dfcclGetErrorString(result),
                    dfcclGetLastError(rank->context));
  return false;
}

void df_tool_rank_run(const df_tool_job *job, df_tool_rank *rank) {
  if (rank->outcome.code == 0) job->rank_main(rank);
  if (rank->outcome.code != 0) {
    if (job->on_failure != NULL) job->on_failure(job->argument);
    if (rank->context != NULL) dfcclAbort(rank->context);
  }
  if (rank->context == NULL) return;
  dfcclResult_t result = dfcclDestroy(rank->context);
  rank->context = NULL;
  df_tool_rank_check(rank, result, "dfcclDestroy");
}

bool df_tool_report_failures(const df_tool_outcome *outcomes, int n_ranks) {
  int reported = -1;
  int failed = 0;
  for (int r = 0; r < n_ranks; r++) {
    if (outcomes[r].code == 0) continue;
    failed++;
    bool consequence = outcomes[r].code == dfcclRemoteError || outcomes[r].code == dfcclAborted;
    bool reported_consequence = reported >= 0 && (outcomes[reported].code == dfcclRemoteError ||
                                                  outcomes[reported].code == dfcclAborted);
    if (reported < 0 || (reported_consequence && !consequence)) reported = r;
  }
  if (failed == 0) return true;
  if (failed == 1)
    df_tool_error("rank %d failed: %s", reported, outcomes[reported].sentence);
  else
    df_tool_error("rank %d failed, and %d more with it: %s", reported, failed - 1,
                  outcomes[reported].sentence);
  return false;
}

typedef struct {
  const df_tool_job *job;
  df_tool_rank rank;
  pthread_t thread;
} rank_thread;

static void *rank_thread_main(void *argument) {
  rank_thread *self = argument;
  int device;
  const char *problem = df_tool_memory_open(self->job->config.backend, self->rank.rank, &device);
  if (problem != NULL) df_tool_rank_fail(&self->rank, -1, "%s", problem);
  df_tool_rank_run(self->job, &self->rank);
  return NULL;
}

/* Ranks use the GPUs in turn, as processes do. */
static bool make_contexts(const df_tool_job *job, dfcclContext_t *contexts) {
  if (job->without_library) return true;
  const char *problem = NULL;
  int *devices = calloc((size_t)job->n_ranks, sizeof *devices);
  if (devices == NULL) problem = "out of memory";
  for (int r = 0; r < job->n_ranks && problem == NULL; r++)
    problem = df_tool_memory_choose(job->config.backend, r, &devices[r]);
  if (problem != NULL) {
    df_tool_error("%s", problem);
    free(devices);
    return false;
  }
  dfcclResult_t result = dfcclInitAllDevices(contexts, job->n_ranks, devices, &job->config);
  free(devices);
  if (result != dfcclSuccess)
    df_tool_error("dfcclInitAllDevices of %d ranks: %s (%s)", job->n_ranks,
                  dfcclGetErrorString(result), dfcclGetLastError(NULL));
  return result == dfcclSuccess;
}

/* Starts the threads; returns how many. One that cannot be started has failed. */
static int start_threads(rank_thread *threads, const df_tool_job *job) {
  for (int r = 0; r < job->n_ranks; r++) {
    int error = pthread_create(&threads[r].thread, NULL, rank_thread_main, &threads[r]);
    if (error == 0) continue;
    df_tool_rank_fail(&threads[r].rank, -1, "its thread could not be started: %s", strerror(error));
    if (job->on_failure != NULL) job->on_failure(job->argument);
    for (int later = r; later < job->n_ranks; later++)
      if (threads[later].rank.context != NULL) dfcclAbort(threads[later].rank.context);
    return r;
  }
  return job->n_ranks;
}

bool df_tool_launch_threads(const df_tool_job *job) {
  size_t ranks = (size_t)job->n_ranks;
  bool fine = false;
  rank_thread *threads = calloc(ranks, sizeof *threads);
  dfcclContext_t *contexts = calloc(ranks, sizeof(dfcclContext_t));
  df_tool_outcome *outcomes = calloc(ranks, sizeof *outcomes);
  if (threads == NULL || contexts == NULL || outcomes == NULL) {
    df_tool_error("out of memory for %d ranks", job->n_ranks);
  } else if (make_contexts(job, contexts)) {
    for (int r = 0; r < job->n_ranks; r++) {
      threads[r].job = job;
      threads[r].rank =
          (df_tool_rank){.rank = r,
                         .n_ranks = job->n_ranks,
                         .context = contexts[r],
                         .argument = job->argument,
                         .report = (char *)job->reports + (size_t)r * job->report_bytes};
      memset(threads[r].rank.report, 0, job->report_bytes);
    }
    int started = start_threads(threads, job);
    for (int r = 0; r < started; r++) pthread_join(threads[r].thread, NULL);
    for (int r = started; r < job->n_ranks; r++)
      if (contexts[r] != NULL) dfcclDestroy(contexts[r]);
    for (int r = 0; r < job->n_ranks; r++) outcomes[r] = threads[r].rank.outcome;
    fine = df_tool_report_failures(outcomes, job->n_ranks);
  }
  free(outcomes);
  free(contexts);
  free(threads);
  return fine;
}
