#include "disorder_table.h"

#include <stdio.h>

#include "collectives.h"
#include "common/cli.h"
#include "common/element.h"
#include "primitives/elements/types.h"
#include "common/sort.h"

static const char *const mode_names[MODES] = {"ordered", "disordered", "patient", "blocking"};
/* The mode by whose times those of a mode are divided: the ratio is the price of disorder, and of
 * preemption. */
static const disorder_mode compared_with[MODES] = {MODE_PATIENT, MODE_ORDERED, MODE_ORDERED,
                                                   MODE_ORDERED};

typedef struct {
  double least, first_quartile, median, third_quartile;
} spread;

static double at_rank(const double *sorted, int count, double part) {
  double place = part * (count - 1);
  int below = (int)place;
  if (below + 1 >= count) return sorted[count - 1];
  return sorted[below] + (place - below) * (sorted[below + 1] - sorted[below]);
}

static spread spread_of(double *values, int count) {
  df_tool_sort_doubles(values, (size_t)count);
  return (spread){values[0], at_rank(values, count, 0.25), at_rank(values, count, 0.5),
                  at_rank(values, count, 0.75)};
}

static spread times_of(const disorder_row *row, disorder_mode which, int rounds) {
  double us[DF_BENCH_MAX_ROUNDS];
  for (int i = 0; i < rounds; i++) us[i] = row->modes[which].us[i];
  return spread_of(us, rounds);
}

static spread ratios_of(const disorder_row *row, disorder_mode which, int rounds) {
  double ratios[DF_BENCH_MAX_ROUNDS];
  for (int i = 0; i < rounds; i++)
    ratios[i] = row->modes[which].us[i] / row->modes[compared_with[which]].us[i];
  return spread_of(ratios, rounds);
}

bool df_disorder_print_header(const df_bench_options *options) {
  printf("# dfccl-bench disorder: ranks %d (%s) backend %s memory %s\n", options->n_ranks,
         options->processes ? "processes" : "threads", df_tool_backend_name(options->backend),
         options->library_memory ? "dfccl" : "user");
  printf("# batches of %d all-reduces, %s %s; rounds: %d seed: %llu validation: %d\n#\n",
         DISORDER_BATCH, df_tool_type_of(options->type)->name, df_redop_name(options->op),
         options->rounds, (unsigned long long)options->seed, options->check);
  printf("# %10s  %7s  %10s  %9s  %20s  %11s  %9s  %6s\n", "size", "batches", "mode", "time",
         "ratio (quartiles)", "preemptions", "quits", "#wrong");
  printf("# %10s  %7s  %10s  %9s  %20s  %11s  %9s  %6s\n", "(B)", "a turn", "", "(us)",
         "of one round", "a batch", "a batch", "");
  return df_tool_flush_or_say();
}

bool df_disorder_print_row(const df_bench_options *options, const disorder_row *row) {
  for (disorder_mode which = 0; which < MODES; which++) {
    const disorder_result *result = &row->modes[which];
    spread ratios = ratios_of(row, which, options->rounds);
    printf("%12zu  %7d  %10s  %9.2f  %5.2f (%5.2f, %5.2f)  %11.2f  %9.4f  ", row->bytes,
           row->batches, mode_names[which], times_of(row, which, options->rounds).median,
           ratios.median, ratios.first_quartile, ratios.third_quartile, result->preemptions,
           result->quits);
    if (result->wrong < 0)
      printf("%6s", "N/A");
    else
      printf("%6lld", (long long)result->wrong);
    printf("  of %s\n", mode_names[compared_with[which]]);
  }
  return df_tool_flush();
}

bool df_disorder_print_json(const df_bench_options *options, const disorder_row *rows, int count) {
  cJSON *object = cJSON_CreateObject();
  cJSON_AddStringToObject(object, "op", "disorder");
  cJSON_AddNumberToObject(object, "ranks", options->n_ranks);
  cJSON_AddStringToObject(object, "backend", df_tool_backend_name(options->backend));
  cJSON_AddBoolToObject(object, "processes", options->processes);
  cJSON_AddNumberToObject(object, "collectives", DISORDER_BATCH);
  cJSON_AddNumberToObject(object, "rounds", options->rounds);
  cJSON_AddNumberToObject(object, "seed", (double)options->seed);
  cJSON *results = cJSON_AddArrayToObject(object, "results");
  for (int i = 0; i < count; i++)
    for (disorder_mode which = 0; which < MODES; which++) {
      const disorder_row *row = &rows[i];
      const disorder_result *one = &row->modes[which];
      spread times = times_of(row, which, options->rounds);
      spread ratios = ratios_of(row, which, options->rounds);
      double algbw = (double)row->bytes * DISORDER_BATCH / (times.median * 1e3);
      cJSON *result = cJSON_CreateObject();
      cJSON_AddNumberToObject(result, "bytes", (double)row->bytes);
      cJSON_AddStringToObject(result, "mode", mode_names[which]);
      cJSON_AddNumberToObject(result, "batches", row->batches);
      cJSON_AddNumberToObject(result, "time_us_min", times.least);
      cJSON_AddNumberToObject(result, "time_us_median", times.median);
      cJSON_AddNumberToObject(result, "algbw_GBps", algbw);
      cJSON_AddNumberToObject(result, "busbw_GBps",
                              algbw * df_bench_bus_factor(DF_BENCH_ALL_REDUCE, options->n_ranks));
      cJSON_AddStringToObject(result, "compared_with", mode_names[compared_with[which]]);
      cJSON_AddNumberToObject(result, "ratio_first_quartile", ratios.first_quartile);
      cJSON_AddNumberToObject(result, "ratio_median", ratios.median);
      cJSON_AddNumberToObject(result, "ratio_third_quartile", ratios.third_quartile);
      cJSON_AddNumberToObject(result, "preemptions", one->preemptions);
      cJSON_AddNumberToObject(result, "quits", one->quits);
      if (one->wrong < 0)
        cJSON_AddNullToObject(result, "wrong"); /* not checked */
      else
        cJSON_AddNumberToObject(result, "wrong", (double)one->wrong);
      cJSON_AddItemToArray(results, result);
    }
  return df_tool_print_json(object);
}

bool df_disorder_all_right(const disorder_row *rows, int count) {
  for (int i = 0; i < count; i++)
    for (disorder_mode which = 0; which < MODES; which++)
      if (rows[i].modes[which].wrong > 0) return false;
  return true;
}
