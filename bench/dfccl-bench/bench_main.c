/* dfccl-bench: times the collectives as nccl-tests does, and checks what they compute. */
#include <stdlib.h>
#include <string.h>

#include "bound.h"
#include "common/cli.h"
#include "common/env.h"
#include "disorder.h"
#include "events.h"
#include "explain.h"
#include "measure.h"
#include "overhead.h"
#include "replay/replay.h"
#include "table.h"
#include "tune.h"

/* A run that takes longer is reported instead of hanging. */
enum { RUN_TIMEOUT_MS = 120000 };

static int count_sizes(const df_bench_options *options) {
  int sizes = 0;
  for (size_t bytes = options->min_bytes; bytes <= options->max_bytes; bytes *= options->factor)
    sizes++;
  return sizes;
}

static dfcclConfig_t config_of(const df_bench_options *options) {
  dfcclConfig_t config = DFCCL_CONFIG_INITIALIZER;
  config.backend = options->backend;
  config.timeoutMs = RUN_TIMEOUT_MS;
  config.survive = options->survive;
  return config;
}

/* env: NULL: the ranks are of this machine, and started here. */
static int run(const df_bench_options *options, const df_tool_env *env) {
  df_bench_job job;
  const bool prints = env == NULL || env->rank == 0;
  if (count_sizes(options) > DF_BENCH_MAX_ROWS)
    df_tool_usage_error("more than %d sizes", DF_BENCH_MAX_ROWS);
  if (!df_bench_job_init(&job, options)) {
    df_tool_error("out of memory for %d ranks", options->n_ranks);
    df_bench_job_destroy(&job);
    return DF_TOOL_FAILED;
  }
  if (options->bound) df_bench_bound_begin(options);
  char *reports = calloc((size_t)options->n_ranks, 1);
  df_tool_job launch = {.n_ranks = options->n_ranks,
                        .processes = options->processes,
                        .config = config_of(options),
                        .rank_main = df_bench_rank_main,
                        .argument = &job,
                        .on_failure = df_bench_on_failure,
                        .report_bytes = 1,
                        .reports = reports};
  bool headed = options->json || !prints || df_bench_print_header(options);
  bool fine = headed && reports != NULL;
  if (fine) fine = env ? df_tool_env_launch(&launch, env) : df_tool_launch(&launch);
  if (prints && options->json)
    fine = df_bench_print_json(options, job.shared) && fine;
  else if (prints && fine)
    fine = df_bench_print_end(options, job.shared);
  const long long wrong = atomic_load(&job.shared->wrong_in_all);
  if (prints && wrong != 0) df_tool_error("%lld elements were wrong", wrong);
  fine = fine && wrong == 0;
  free(reports);
  if (options->bound) df_bench_bound_end();
  df_bench_job_destroy(&job);
  return fine ? DF_TOOL_SUCCESS : DF_TOOL_FAILED;
}

static int run_of_env(df_bench_options *options) {
  df_tool_env env;
  const dfcclConfig_t config = config_of(options);
  if (!df_tool_env_join(&env, &config)) return DF_TOOL_FAILED;
  options->n_ranks = env.n_ranks;
  return run(options, &env);
}

int main(int argc, char **argv) {
  df_tool_set_name("dfccl-bench");
  if (argc > 1 && strcmp(argv[1], "replay") == 0)
    return df_tool_end_output(df_bench_replay(argc - 1, argv + 1));
  df_bench_options options = df_bench_parse(argc, argv);
  int status = options.operation == DF_BENCH_OVERHEAD   ? df_bench_overhead(&options)
               : options.operation == DF_BENCH_TUNE     ? df_bench_tune(&options, argc, argv)
               : options.operation == DF_BENCH_DISORDER ? df_bench_disorder(&options)
               : options.operation == DF_BENCH_EVENTS   ? df_bench_events(&options)
               : options.explain                        ? df_bench_explain(&options)
               : options.env                            ? run_of_env(&options)
                                                        : run(&options, NULL);
  return df_tool_end_output(status);
}
