/* dfccl-sim sweep: the risk over both probabilities, as a table or a picture. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "json_input.h"
#include "options.h"
#include "sim_limits.h"
#include "sweep.h"
#include "wilson.h"

typedef struct {
  const char *disorder, *sync, *svg, *files[2];
  int file_count, order;
  uint64_t rounds, seed, threads;
  bool csv, rounds_given, seed_given, order_given;
} sweep_options;

double df_sweep_value(const df_sweep_axis *axis, uint32_t point) {
  if (point == 0 || axis->points == 1) return axis->first;
  if (point == axis->points - 1) return axis->last;
  double share = (double)point / (axis->points - 1);
  if (!axis->logarithmic) return axis->first + share * (axis->last - axis->first);
  double value = axis->first * pow(axis->last / axis->first, share);
  /* Rounded to six digits: people read them, and pow may differ in the last bit elsewhere. */
  double unit = pow(10.0, floor(log10(value)) - 5.0);
  return fmin(fmax(round(value / unit) * unit, axis->first), axis->last);
}

static dfcclResult_t parse_axis(const char *option, const char *text, bool one_allowed,
                                df_sweep_axis *axis) {
  char *end = NULL, shown[DF_JSON_SHOWN_BYTES];
  double first = strtod(text, &end);
  bool shaped = end != text && *end == ':';
  const char *rest = shaped ? end + 1 : text;
  double last = shaped ? strtod(rest, &end) : 0.0;
  shaped = shaped && end != rest && *end == ':' && end[1] >= '0' && end[1] <= '9';
  errno = 0;
  unsigned long points = shaped ? strtoul(end + 1, &end, 10) : 0;
  if (!shaped || *end != 0 || errno != 0)
    return df_fail(dfcclInvalidArgument,
                   "%s: expected FIRST:LAST:POINTS, such as 1e-6:1e-3:7, not \"%s\"", option,
                   df_show_text(text, shown));
  if (!(first >= 0.0 && first <= last && (last < 1.0 || (one_allowed && last <= 1.0))))
    return df_fail(dfcclInvalidArgument,
                   "%s: expected probabilities that rise, from 0 %s 1, not \"%s\"", option,
                   one_allowed ? "to" : "up to, but less than,", df_show_text(text, shown));
  if (points < 1 || points > DF_SIM_MAX_SWEEP_POINTS || (points == 1 && first != last) ||
      (points > 1 && first == last))
    return df_fail(dfcclInvalidArgument,
                   "%s: expected 2 to %d points (1 where FIRST and LAST are equal), not \"%s\"",
                   option, DF_SIM_MAX_SWEEP_POINTS, df_show_text(text, shown));
  *axis = (df_sweep_axis){first, last, (uint32_t)points, first > 0.0 && last >= 4.0 * first};
  return dfcclSuccess;
}

static dfcclResult_t estimate_cells(const sweep_options *options, df_sweep *sweep,
                                    df_config *config) {
  df_layout layout;
  dfcclResult_t result = df_config_layout(config, &layout);
  if (result != dfcclSuccess) return result;
  sweep->gpus = layout.gpu_count;
  sweep->groups = layout.group_count;
  sweep->collectives = layout.coll_first[layout.group_count];
  df_progress progress;
  df_progress_start(&progress, "cells");
  uint32_t done = 0, cells = sweep->disorder.points * sweep->sync.points;
  for (uint32_t s = 0; s < sweep->sync.points && result == dfcclSuccess; s++)
    for (uint32_t d = 0; d < sweep->disorder.points && result == dfcclSuccess; d++) {
      config->disorder_probability = df_sweep_value(&sweep->disorder, d);
      config->sync_probability = df_sweep_value(&sweep->sync, s);
      df_estimate_options estimate = {.engine = DF_ENGINE_SPARSE,
                                      .threads = (unsigned)options->threads,
                                      .rounds = config->rounds};
      result = df_estimate_run(config, &layout, &estimate,
                               &sweep->cell[(size_t)s * sweep->disorder.points + d]);
      df_progress_update(&progress, ++done, cells);
    }
  df_progress_finish(&progress);
  df_layout_destroy(&layout);
  return result;
}

static void write_csv(const df_sweep *sweep, FILE *stream) {
  fputs("disorder,sync,rounds,deadlocks,ratio,ci95_low,ci95_high\n", stream);
  for (uint32_t s = 0; s < sweep->sync.points; s++)
    for (uint32_t d = 0; d < sweep->disorder.points; d++) {
      const df_estimate *cell = df_sweep_cell(sweep, d, s);
      df_interval ci = df_wilson95(cell->deadlocks, cell->rounds);
      fprintf(stream, "%.6g,", df_sweep_value(&sweep->disorder, d));
      if (sweep->config->model == DF_MODEL_SYNC)
        fprintf(stream, "%.6g", df_sweep_value(&sweep->sync, s));
      fprintf(stream, ",%llu,%llu,%.8g,%.8g,%.8g\n", (unsigned long long)cell->rounds,
              (unsigned long long)cell->deadlocks, (double)cell->deadlocks / (double)cell->rounds,
              ci.low, ci.high);
    }
}

/* Rows are sync probabilities, columns disorder probabilities. */
static void write_table(const df_sweep *sweep) {
  printf("deadlock ratio in %%, %llu rounds a cell, seed %llu; across: disorder probability%s\n"
         "(< : none seen; the ratio is likely to be below)\n\n%9s",
         (unsigned long long)sweep->config->rounds, (unsigned long long)sweep->config->seed,
         sweep->config->model == DF_MODEL_SYNC ? ", down: sync probability" : "", "");
  for (uint32_t d = 0; d < sweep->disorder.points; d++)
    printf(" %9.3g", df_sweep_value(&sweep->disorder, d));
  for (uint32_t s = 0; s < sweep->sync.points; s++) {
    if (sweep->config->model == DF_MODEL_SYNC)
      printf("\n%9.3g", df_sweep_value(&sweep->sync, s));
    else
      printf("\n%9s", "");
    for (uint32_t d = 0; d < sweep->disorder.points; d++) {
      const df_estimate *cell = df_sweep_cell(sweep, d, s);
      char none[32];
      snprintf(none, sizeof none, "<%.3g", 100.0 * df_wilson95(0, cell->rounds).high);
      if (cell->deadlocks > 0)
        printf(" %9.4g", 100.0 * (double)cell->deadlocks / (double)cell->rounds);
      else
        printf(" %9s", none);
    }
  }
  puts("");
}

static dfcclResult_t write_file(const df_sweep *sweep, const char *file,
                                void (*write)(const df_sweep *sweep, FILE *stream)) {
  bool standard = strcmp(file, "-") == 0;
  FILE *stream = standard ? stdout : fopen(file, "w");
  const char *shown = standard ? "standard output" : file;
  if (!stream) return df_fail(dfcclSystemError, "%s cannot be written: %s", shown, strerror(errno));
  write(sweep, stream);
  bool failed = fflush(stream) != 0 || ferror(stream);
  if (!standard && fclose(stream) != 0) failed = true;
  return failed ? df_fail(dfcclSystemError, "%s cannot be written: %s", shown, strerror(errno))
                : dfcclSuccess;
}

static dfcclResult_t write_all(const sweep_options *options, const df_sweep *sweep) {
  dfcclResult_t result = dfcclSuccess;
  if (options->csv)
    result = write_file(sweep, options->file_count == 2 ? options->files[1] : "-", write_csv);
  if (result == dfcclSuccess && options->svg)
    result = write_file(sweep, options->svg, df_sweep_write_svg);
  if (!options->csv && !options->svg) write_table(sweep);
  return result;
}

static dfcclResult_t parse(sweep_options *sweep, int argument_count, char **arguments) {
  *sweep = (sweep_options){.threads = df_default_threads()};
  const df_option options[] = {
      {.name = "--disorder", .kind = DF_OPTION_TEXT, .text = &sweep->disorder},
      {.name = "--sync", .kind = DF_OPTION_TEXT, .text = &sweep->sync},
      {.name = "--svg", .kind = DF_OPTION_TEXT, .text = &sweep->svg},
      {.name = "--csv", .kind = DF_OPTION_FLAG, .given = &sweep->csv},
      {.name = "--rounds",
       .kind = DF_OPTION_WHOLE,
       .low = 1,
       .high = DF_SIM_MAX_ROUNDS,
       .whole = &sweep->rounds,
       .given = &sweep->rounds_given},
      {.name = "--seed",
       .kind = DF_OPTION_WHOLE,
       .high = UINT64_MAX,
       .whole = &sweep->seed,
       .given = &sweep->seed_given},
      {.name = "--threads",
       .kind = DF_OPTION_WHOLE,
       .low = 1,
       .high = DF_SIM_MAX_THREADS,
       .whole = &sweep->threads},
      {.name = "--order",
       .kind = DF_OPTION_WORD,
       .words = df_order_names,
       .word_count = 2,
       .index = &sweep->order,
       .given = &sweep->order_given}};
  dfcclResult_t result = df_options_parse(argument_count, arguments, options, DF_COUNT_OF(options),
                                          sweep->files, 2, &sweep->file_count);
  if (result != dfcclSuccess) return result;
  if (sweep->file_count == 0)
    return df_fail(dfcclInvalidArgument, "sweep needs a configuration file");
  if (sweep->file_count == 2 && !sweep->csv)
    return df_fail(dfcclInvalidArgument, "one argument too many: a second file belongs to --csv");
  if (!sweep->disorder)
    return df_fail(dfcclInvalidArgument, "sweep needs --disorder FIRST:LAST:POINTS");
  return dfcclSuccess;
}

/* The axes: what the options say, and the configuration's own sync probability without --sync. */
static dfcclResult_t find_axes(const sweep_options *options, const df_config *config,
                               df_sweep *sweep) {
  dfcclResult_t result = parse_axis("--disorder", options->disorder, true, &sweep->disorder);
  double sync = config->sync_probability;
  sweep->sync = (df_sweep_axis){sync, sync, 1, false};
  if (result == dfcclSuccess && options->sync)
    result = parse_axis("--sync", options->sync, false, &sweep->sync);
  if (result != dfcclSuccess || config->model == DF_MODEL_SYNC) return result;
  if (options->sync)
    fputs("dfccl-sim: note: --sync is not used: the single-queue model has no synchronisation\n",
          stderr);
  sweep->sync = (df_sweep_axis){0, 0, 1, false};
  return result;
}

static dfcclResult_t sweep_config(const sweep_options *options, df_config *config) {
  if (options->rounds_given) config->rounds = options->rounds;
  if (options->seed_given) config->seed = options->seed;
  if (options->order_given) config->order = (df_order)options->order;
  if (config->check == DF_CHECK_REFERENCE)
    return df_fail(dfcclInvalidArgument, "%s: check: sweep runs the exact check only",
                   options->files[0]);
  df_sweep sweep = {.config = config};
  dfcclResult_t result = find_axes(options, config, &sweep);
  if (result != dfcclSuccess) return result;
  sweep.cell = calloc((size_t)sweep.disorder.points * sweep.sync.points, sizeof *sweep.cell);
  if (!sweep.cell) return df_fail(dfcclOutOfMemory, "no memory for the sweep");
  result = estimate_cells(options, &sweep, config);
  if (result == dfcclSuccess) result = write_all(options, &sweep);
  free(sweep.cell);
  return result;
}

int df_command_sweep(int argument_count, char **arguments) {
  sweep_options options;
  df_config config;
  dfcclResult_t result = parse(&options, argument_count, arguments);
  if (result == dfcclSuccess) result = df_config_load(&config, options.files[0]);
  if (result != dfcclSuccess) return df_command_failed((int)result);
  result = sweep_config(&options, &config);
  df_config_destroy(&config);
  return result == dfcclSuccess ? DF_EXIT_SUCCESS : df_command_failed((int)result);
}
