#include "table.h"

#include <stdio.h>

#include "common/cli.h"
#include "common/element.h"
#include "primitives/elements/types.h"

bool df_bench_print_header(const df_bench_options *options) {
  printf("# dfccl-bench %s: ranks %d (%s) backend %s memory %s\n",
         df_bench_operation_name(options->operation), options->n_ranks,
         options->processes ? "processes" : "threads", df_tool_backend_name(options->backend),
         options->library_memory ? "dfccl" : "user");
  printf("# minBytes %zu maxBytes %zu step: %zu(factor) warmup iters: %d iters: ",
         options->min_bytes, options->max_bytes, options->factor, options->warmup);
  if (options->iterations != 0)
    printf("%d", options->iterations);
  else
    printf("by size");
  printf(" validation: %d\n#\n", options->check);
  if (options->bound)
    puts("# Last two columns: bound (us) and reached (%), of the out-of-place time");
  printf("# %10s  %12s  %8s  %6s  %6s           out-of-place                       in-place      "
         "    \n",
         "", "", "", "", "");
  printf("# %10s  %12s  %8s  %6s  %6s  %7s  %6s  %6s %6s  %7s  %6s  %6s %6s\n", "size", "count",
         "type", "redop", "root", "time", "algbw", "busbw", "#wrong", "time", "algbw", "busbw",
         "#wrong");
  printf("# %10s  %12s  %8s  %6s  %6s  %7s  %6s  %6s  %5s  %7s  %6s  %6s  %5s\n", "(B)",
         "(elements)", "", "", "", "(us)", "(GB/s)", "(GB/s)", "", "(us)", "(GB/s)", "(GB/s)", "");
  return df_tool_flush_or_say();
}

static void print_timing(const df_bench_timing *timing) {
  if (!timing->measured) {
    printf("  %7s  %6s  %6s  %5s", "N/A", "N/A", "N/A", "N/A");
    return;
  }
  int decimals = timing->median_us >= 10000 ? 0 : timing->median_us >= 100 ? 1 : 2;
  printf("  %7.*f  %6.2f  %6.2f", decimals, timing->median_us, timing->algbw_gbps,
         timing->busbw_gbps);
  if (timing->wrong < 0)
    printf("  %5s", "N/A");
  else
    printf("  %5lld", (long long)timing->wrong);
}

/* A time of a quarter of the bound's speed reaches 25 %. */
static void print_bound(const df_bench_options *options, const df_bench_row *row) {
  const df_bench_timing *timing = options->in_place ? &row->in_place : &row->out_of_place;
  if (row->bound_us == 0)
    printf("  %9s  %7s", "N/A", "N/A");
  else
    printf("  %9.2f  %7.1f", row->bound_us, 100 * row->bound_us / timing->median_us);
}

bool df_bench_print_row(const df_bench_options *options, const df_bench_row *row) {
  printf("%12zu  %12zu  %8s  %6s  %6d", row->shape.bytes, row->shape.count,
         df_tool_type_of(options->type)->name,
         df_bench_has_operator(options->operation) ? df_redop_name(options->op) : "none",
         df_bench_has_root(options->operation) ? DF_BENCH_ROOT : -1);
  print_timing(&row->out_of_place);
  print_timing(&row->in_place);
  if (options->bound) print_bound(options, row);
  putchar('\n');
  return df_tool_flush();
}

bool df_bench_print_end(const df_bench_options *options, const df_bench_shared *shared) {
  const df_bench_row *rows = shared->rows;
  int n_rows = shared->rows_done;
  int measured = 0, failed = 0;
  double sum = 0;
  for (int i = 0; i < 2 * n_rows; i++) {
    const df_bench_timing *timing = i % 2 == 0 ? &rows[i / 2].out_of_place : &rows[i / 2].in_place;
    if (!timing->measured) continue;
    measured++;
    failed += timing->wrong > 0;
    sum += timing->busbw_gbps;
  }
  if (options->check)
    printf("# Out of bounds values : %d %s\n", failed, failed != 0 ? "FAILED" : "OK");
  printf("# Avg bus bandwidth    : %g \n", measured != 0 ? sum / measured : 0);
  if (options->backend == dfcclBackendCuda)
    printf("# Copy within the GPU  : %g GB/s (%zu B)\n", shared->copy_gbps, options->max_bytes);
  printf("#\n");
  return failed == 0;
}

bool df_bench_print_json(const df_bench_options *options, const df_bench_shared *shared) {
  const df_bench_row *rows = shared->rows;
  int n_rows = shared->rows_done;
  bool right = true;
  cJSON *object = cJSON_CreateObject();
  cJSON_AddStringToObject(object, "op", df_bench_operation_name(options->operation));
  cJSON_AddNumberToObject(object, "ranks", options->n_ranks);
  cJSON_AddStringToObject(object, "backend", df_tool_backend_name(options->backend));
  if (options->backend == dfcclBackendCuda)
    cJSON_AddNumberToObject(object, "device_copy_GBps", shared->copy_gbps);
  cJSON *results = cJSON_AddArrayToObject(object, "results");
  for (int i = 0; i < n_rows; i++) {
    const df_bench_timing *timing = options->in_place ? &rows[i].in_place : &rows[i].out_of_place;
    right = right && timing->wrong <= 0;
    cJSON *result = cJSON_CreateObject();
    cJSON_AddNumberToObject(result, "bytes", (double)rows[i].shape.bytes);
    cJSON_AddNumberToObject(result, "time_us_min", timing->min_us);
    cJSON_AddNumberToObject(result, "time_us_median", timing->median_us);
    cJSON_AddNumberToObject(result, "algbw_GBps", timing->algbw_gbps);
    cJSON_AddNumberToObject(result, "busbw_GBps", timing->busbw_gbps);
    if (options->bound && rows[i].bound_us > 0) {
      cJSON_AddNumberToObject(result, "bound_us", rows[i].bound_us);
      cJSON_AddNumberToObject(result, "reached_percent",
                              100 * rows[i].bound_us / timing->median_us);
    }
    if (timing->wrong < 0)
      cJSON_AddNullToObject(result, "wrong"); /* not checked */
    else
      cJSON_AddNumberToObject(result, "wrong", (double)timing->wrong);
    cJSON_AddItemToArray(results, result);
  }
  return df_tool_print_json(object) && right;
}
