#include "overhead.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/cli.h"
#include "common/clock.h"
#include "common/launch.h"
#include "common/memory.h"
#include "common/sort.h"
#include "reference_cuda.h"

enum { DEFAULT_ITERATIONS = 20000, COLLECTIVE = 1 };

typedef struct {
  const df_bench_options *options;
  int iterations;
  double *to_callback_ns, *to_return_ns;
  double *launches_ns; /* CUDA: of an empty kernel, for comparison */
} overhead_job;

df_bench_phase df_bench_phase_of(const char *phase, double *durations_ns, int count,
                                 double divisor) {
  df_tool_sort_doubles(durations_ns, (size_t)count);
  double median = (durations_ns[(count - 1) / 2] + durations_ns[count / 2]) / 2;
  return (df_bench_phase){phase, durations_ns[0] / divisor, median / divisor};
}

static void note_time(dfcclCollId_t collective, dfcclResult_t status, void *argument) {
  (void)collective;
  (void)status;
  *(double *)argument = (double)df_tool_now_ns();
}

/* One empty all-reduce: nothing moves, so that what is left is the way through the queues. */
static bool run_once(df_tool_rank *self, double *to_callback_ns, double *to_return_ns) {
  static char nothing[64];
  double called = 0, start = (double)df_tool_now_ns();
  dfcclResult_t result =
      dfcclRunAllReduce(self->context, COLLECTIVE, nothing, nothing, note_time, &called);
  if (result == dfcclSuccess) result = dfcclWait(self->context, COLLECTIVE);
  *to_return_ns = (double)df_tool_now_ns() - start;
  *to_callback_ns = called - start;
  return df_tool_rank_check(self, result, "an empty run");
}

static void overhead_rank_main(df_tool_rank *self) {
  overhead_job *job = self->argument;
  dfcclResult_t result =
      dfcclRegisterAllReduce(self->context, COLLECTIVE, 0, dfcclFloat32, dfcclSum, NULL);
  if (!df_tool_rank_check(self, result, "dfcclRegisterAllReduce")) return;
  for (int i = 0; i < job->options->warmup; i++)
    if (!run_once(self, &job->to_callback_ns[0], &job->to_return_ns[0])) return;
  for (int i = 0; i < job->iterations; i++)
    if (!run_once(self, &job->to_callback_ns[i], &job->to_return_ns[i])) return;
  if (job->options->backend == dfcclBackendCuda &&
      !df_bench_time_launches(job->launches_ns, job->iterations))
    df_tool_rank_fail(self, dfcclUnhandledCudaError, "timing launches of an empty kernel failed");
}

static int print_phases(const df_bench_options *options, const df_bench_phase *phases, int count) {
  if (!options->json) {
    printf("# dfccl-bench overhead: one rank, backend %s\n#\n# %-52s  %10s  %10s\n# %-52s  %10s  "
           "%10s\n",
           df_tool_backend_name(options->backend), "phase", "min", "median", "", "(ns)", "(ns)");
    for (int i = 0; i < count; i++)
      printf("  %-52s  %10.1f  %10.1f\n", phases[i].phase, phases[i].min_ns, phases[i].median_ns);
    return DF_TOOL_SUCCESS;
  }
  cJSON *object = cJSON_CreateObject();
  cJSON_AddStringToObject(object, "op", "overhead");
  cJSON_AddNumberToObject(object, "ranks", 1);
  cJSON_AddStringToObject(object, "backend", df_tool_backend_name(options->backend));
  cJSON *results = cJSON_AddArrayToObject(object, "results");
  for (int i = 0; i < count; i++) {
    cJSON *result = cJSON_CreateObject();
    cJSON_AddStringToObject(result, "phase", phases[i].phase);
    cJSON_AddNumberToObject(result, "bytes", 0);
    cJSON_AddNumberToObject(result, "time_us_min", phases[i].min_ns * 1e-3);
    cJSON_AddNumberToObject(result, "time_us_median", phases[i].median_ns * 1e-3);
    cJSON_AddNumberToObject(result, "algbw_GBps", 0);
    cJSON_AddNumberToObject(result, "busbw_GBps", 0);
    cJSON_AddNumberToObject(result, "wrong", 0);
    cJSON_AddItemToArray(results, result);
  }
  return df_tool_print_json(object) ? DF_TOOL_SUCCESS : DF_TOOL_FAILED;
}

int df_bench_overhead(const df_bench_options *options) {
  int iterations = options->iterations != 0 ? options->iterations : DEFAULT_ITERATIONS;
  overhead_job job = {.options = options,
                      .iterations = iterations,
                      .to_callback_ns = calloc((size_t)iterations, sizeof(double)),
                      .to_return_ns = calloc((size_t)iterations, sizeof(double)),
                      .launches_ns = calloc((size_t)iterations, sizeof(double))};
  char report;
  df_tool_job launch = {.n_ranks = 1,
                        .config = DFCCL_CONFIG_INITIALIZER,
                        .rank_main = overhead_rank_main,
                        .argument = &job,
                        .report_bytes = sizeof report,
                        .reports = &report};
  launch.config.backend = options->backend;
  int status = DF_TOOL_FAILED;
  df_bench_phase phases[DF_BENCH_MAX_PHASES];
  int count = 0;
  if (job.to_callback_ns == NULL || job.to_return_ns == NULL || job.launches_ns == NULL)
    df_tool_error("out of memory for %d iterations", iterations);
  else if (options->backend != dfcclBackendCuda && (count = df_bench_overhead_phases(phases)) < 0)
    df_tool_error("out of memory for the core's queues");
  else if (df_tool_launch(&launch)) {
    phases[count++] = df_bench_phase_of("submit to callback, empty collective", job.to_callback_ns,
                                        iterations, 1);
    phases[count++] = df_bench_phase_of("submit to return of dfcclWait, empty collective",
                                        job.to_return_ns, iterations, 1);
    if (options->backend == dfcclBackendCuda)
      phases[count++] = df_bench_phase_of("empty kernel: launch to end of event synchronisation",
                                          job.launches_ns, iterations, 1);
    int timed = 0;
    if (options->backend == dfcclBackendCuda)
      timed = df_bench_overhead_cuda(options, iterations, phases + count);
    if (timed >= 0) status = print_phases(options, phases, count + timed);
  }
  free(job.to_callback_ns);
  free(job.to_return_ns);
  free(job.launches_ns);
  return status;
}
