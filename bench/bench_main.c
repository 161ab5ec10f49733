/* dfccl-bench: times the collectives as nccl-tests does, and checks what they compute. */
#include <stdlib.h>

#include "common/cli.h"
#include "disorder.h"
#include "events.h"
#include "explain.h"
#include "measure.h"
#include "overhead.h"
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

static int run(const df_bench_options *options) {
  df_bench_job job;
  if (count_sizes(options) > DF_BENCH_MAX_ROWS)
    df_tool_usage_error("more than %d sizes", DF_BENCH_MAX_ROWS);
  if (!df_bench_job_init(&job, options)) {
    df_tool_error("out of memory for %d ranks", options->n_ranks);
    df_bench_job_destroy(&job);
    return DF_TOOL_FAILED;
  }
  char *reports = calloc((size_t)options->n_ranks, 1);
  df_tool_job launch = {.n_ranks = options->n_ranks,
                        .processes = options->processes,
                        .config = DFCCL_CONFIG_INITIALIZER,
                        .rank_main = df_bench_rank_main,
                        .argument = &job,
                        .on_failure = df_bench_on_failure,
                        .report_bytes = 1,
                        .reports = reports};
  launch.config.backend = options->backend;
  launch.config.timeoutMs = RUN_TIMEOUT_MS;
  bool headed = options->json || df_bench_print_header(options);
  bool fine = headed && reports != NULL && df_tool_launch(&launch);
  if (options->json)
    fine = df_bench_print_json(options, job.shared) && fine;
  else if (fine)
    fine = df_bench_print_end(options, job.shared);
  free(reports);
  df_bench_job_destroy(&job);
  return fine ? DF_TOOL_SUCCESS : DF_TOOL_FAILED;
}

int main(int argc, char **argv) {
  df_tool_set_name("dfccl-bench");
  df_bench_options options = df_bench_parse(argc, argv);
  int status = options.operation == DF_BENCH_OVERHEAD   ? df_bench_overhead(&options)
               : options.operation == DF_BENCH_TUNE     ? df_bench_tune(&options, argc, argv)
               : options.operation == DF_BENCH_DISORDER ? df_bench_disorder(&options)
               : options.operation == DF_BENCH_EVENTS   ? df_bench_events(&options)
               : options.explain                        ? df_bench_explain(&options)
                                                        : run(&options);
  return df_tool_end_output(status);
}
