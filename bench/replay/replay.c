#include "replay.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cli.h"
#include "common/env.h"
#include "replay_compute.h"
#include "replay_output.h"
#include "replay_peer.h"

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

static int report(const replay_job *job, const char *reports, size_t report_bytes) {
  const replay_result result = df_replay_summarise(job, reports, report_bytes);
  const bool fine = df_replay_print(job, &result);
  if (result.wrong != 0) df_tool_error("%lld elements were wrong", (long long)result.wrong);
  if (result.runs != job->plan.calls)
    df_tool_error("%llu runs ended, not %llu", (unsigned long long)result.runs,
                  (unsigned long long)job->plan.calls);
  return fine && result.wrong == 0 && result.runs == job->plan.calls ? DF_TOOL_SUCCESS
                                                                     : DF_TOOL_FAILED;
}

static bool play_here(replay_job *job, df_tool_job *launched) {
  const bool has_peer = job->options.peer != NULL;
  if (has_peer && !df_replay_peer_directory_make(job)) return false;
  launched->processes = job->options.processes || has_peer;
  launched->without_library = has_peer;
  if (has_peer) launched->rank_main = df_replay_peer_rank_main;
  const bool fine = df_tool_launch(launched);
  if (has_peer) job->options.peer->name(job->library, sizeof job->library);
  if (has_peer) df_replay_peer_directory_remove(job);
  return fine;
}

/* Returns the rank that this process was, or -1. */
static int play_env(const replay_job *job, const df_tool_job *launched) {
  df_tool_env env;
  if (!df_tool_env_join(&env, &launched->config)) return -1;
  if (env.n_ranks == job->plan.n_ranks) return df_tool_env_launch(launched, &env) ? env.rank : -1;
  df_tool_error("%s has %d ranks, and the job %d", job->options.files[0], job->plan.n_ranks,
                env.n_ranks);
  dfcclDestroy(env.context);
  return -1;
}

static int play(replay_job *job, char *reports, size_t report_bytes) {
  df_tool_job launched = {.n_ranks = job->plan.n_ranks,
                          .rank_main = df_replay_rank_main,
                          .argument = job,
                          .on_failure = df_replay_on_failure,
                          .report_bytes = report_bytes,
                          .reports = reports};
  launched.config = (dfcclConfig_t)DFCCL_CONFIG_INITIALIZER;
  launched.config.backend = dfcclBackendCpu;
  launched.config.timeoutMs = RUN_TIMEOUT_MS;
  replay_peer_world world;
  int rank = 0;
  if (job->options.env && job->options.peer && !df_replay_peer_world_of_env(job, &world))
    return DF_TOOL_USAGE;
  if (!job->options.env)
    rank = play_here(job, &launched) ? 0 : -1;
  else if (job->options.peer)
    rank = df_replay_peer_play_env(job, &world, reports, report_bytes);
  else
    rank = play_env(job, &launched);
  if (rank < 0) return DF_TOOL_FAILED;
  return rank == 0 ? report(job, reports, report_bytes) : DF_TOOL_SUCCESS;
}

static int launch(replay_job *job) {
  const size_t ranks = (size_t)job->plan.n_ranks;
  const size_t report_bytes =
      sizeof(replay_report) + (size_t)job->options.iterations * sizeof(replay_times);
  char *reports = calloc(ranks, report_bytes);
  int status = DF_TOOL_FAILED;
  job->barrier = df_tool_shared_alloc(sizeof *job->barrier);
  if (!reports || !job->barrier) {
    df_tool_error("out of memory for %zu ranks", ranks);
  } else {
    df_tool_barrier_init(job->barrier, (unsigned)ranks);
    status = play(job, reports, report_bytes);
  }
  df_tool_shared_free(job->barrier, sizeof *job->barrier);
  free(reports);
  return status;
}

static bool check(const replay_job *job) {
  return df_replay_plan_check(&job->plan, job->options.files[0]) &&
         (!job->options.peer || df_replay_plan_check_common_order(&job->plan, &job->options)) &&
         check_memory(job);
}

/* Rank 0 of a job that a launcher has started speaks for all; mpirun numbers ranks in its own way,
 * and has printed the notes before it was started. */
static bool prints_notes(const replay_options *options) {
  const char *rank = getenv("RANK");
  return !options->env || (rank && strcmp(rank, "0") == 0);
}

int df_bench_replay(int argc, char **argv) {
  replay_job job = {.options = df_replay_parse(argc, argv)};
  int status = DF_TOOL_USAGE;
  snprintf(job.library, sizeof job.library, "dfccl");
  if (df_replay_is_peer(&job.options) && !df_replay_peer_load(&job.options)) return status;
  if (df_replay_plan_make(&job.plan, &job.options) && check(&job)) {
    if (prints_notes(&job.options)) df_replay_print_notes(&job.plan);
    job.options.rate = df_replay_compute_calibrate(job.options.compute, job.options.rate);
    if (job.options.engine == REPLAY_MPI && !job.options.env) {
      df_replay_peer_exec(&job, argc, argv);
    } else if (df_replay_data_make(&job.data, &job.plan)) {
      status = launch(&job);
    } else {
      df_tool_error("out of memory for the data");
      status = DF_TOOL_FAILED;
    }
  }
  df_replay_data_free(&job.data);
  df_replay_plan_free(&job.plan);
  return status;
}
