#include "replay.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/cli.h"
#include "replay_compute.h"
#include "replay_output.h"

enum { RUN_TIMEOUT_MS = 120000 };

/* Bytes that this machine can give without swapping; 0: not known. */
static double available_bytes(void) {
  FILE *file = fopen("/proc/meminfo", "r");
  char line[128];
  uint64_t kilobytes = 0;
  while (file && fgets(line, sizeof line, file))
    if (sscanf(line, "MemAvailable: %" SCNu64 " kB", &kilobytes) == 1) break;
  if (file) fclose(file);
  return (double)kilobytes * 1024;
}

/* Buffers of all ranks must fit: a machine without memory ends other people's processes. */
static bool check_memory(const replay_job *job) {
  const double needed = df_replay_data_bytes(&job->plan), available = available_bytes();
  if (available == 0 || needed < 0.75 * available) return true;
  df_tool_error("%s: the buffers need %.1f GiB, and %.1f GiB are available; use --scale",
                job->options.files[0], needed / 1073741824, available / 1073741824);
  return false;
}

static int launch(replay_job *job) {
  const size_t ranks = (size_t)job->plan.n_ranks;
  const size_t report_bytes =
      sizeof(replay_report) + (size_t)job->options.iterations * sizeof(replay_times);
  char *reports = calloc(ranks, report_bytes);
  job->barrier = df_tool_shared_alloc(sizeof *job->barrier);
  if (!reports || !job->barrier) {
    df_tool_error("out of memory for %zu ranks", ranks);
    free(reports);
    return DF_TOOL_FAILED;
  }
  df_tool_barrier_init(job->barrier, (unsigned)ranks);
  df_tool_job launched = {.n_ranks = job->plan.n_ranks,
                          .processes = job->options.processes,
                          .rank_main = df_replay_rank_main,
                          .argument = job,
                          .on_failure = df_replay_on_failure,
                          .report_bytes = report_bytes,
                          .reports = reports};
  launched.config = (dfcclConfig_t)DFCCL_CONFIG_INITIALIZER;
  launched.config.backend = dfcclBackendCpu;
  launched.config.timeoutMs = RUN_TIMEOUT_MS;
  bool fine = df_tool_launch(&launched);
  if (fine) {
    const replay_result result = df_replay_summarise(job, reports, report_bytes);
    fine = df_replay_print(job, &result);
    if (result.wrong != 0) df_tool_error("%lld elements were wrong", (long long)result.wrong);
    if (result.runs != job->plan.calls)
      df_tool_error("%llu runs ended, not %llu", (unsigned long long)result.runs,
                    (unsigned long long)job->plan.calls);
    fine = fine && result.wrong == 0 && result.runs == job->plan.calls;
  }
  df_tool_shared_free(job->barrier, sizeof *job->barrier);
  free(reports);
  return fine ? DF_TOOL_SUCCESS : DF_TOOL_FAILED;
}

int df_bench_replay(int argc, char **argv) {
  replay_job job = {.options = df_replay_parse(argc, argv)};
  int status = DF_TOOL_USAGE;
  if (df_replay_plan_make(&job.plan, &job.options)) {
    if (df_replay_plan_check(&job.plan, job.options.files[0]) && check_memory(&job)) {
      df_replay_print_notes(&job.plan);
      df_replay_compute_calibrate(job.options.compute);
      if (df_replay_data_make(&job.data, &job.plan)) {
        status = launch(&job);
      } else {
        df_tool_error("out of memory for the data");
        status = DF_TOOL_FAILED;
      }
    }
  }
  df_replay_data_free(&job.data);
  df_replay_plan_free(&job.plan);
  return status;
}
