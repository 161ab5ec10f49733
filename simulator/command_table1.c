/* dfccl-sim table1: the 18 rows of the paper's Table 1 beside the paper's numbers. */
#include <stdio.h>
#include <string.h>

#include "commands.h"
#include "estimate.h"
#include "json_output.h"
#include "options.h"
#include "sim_limits.h"
#include "table1_rows.h"
#include "wilson.h"

/* The reference check costs time for every event (exact engines do not), so its rounds are bounded
 * by a row's events. More tightly if one round exceeds a cache, and for stand-ins: nobody compares
 * those. The bounds are fixed: results depend on seed and rounds alone. */
static const uint64_t reference_events = 3300000000u, large_round = 1u << 20,
                      rough_reference_events = 1100000000u;
enum { REFERENCE_STREAMS = 64 };

typedef struct {
  uint64_t rounds, seed, threads;
  bool reference, json;
} table_options;

typedef enum { AGREES_NOT, AGREES_PERHAPS, AGREES } agreement;

typedef struct {
  const df_table1_row *row;
  df_estimate exact, reference;
  bool has_reference;
  agreement agrees;
} table_row;

static dfcclResult_t estimate_row(const table_options *table, const df_table1_row *row,
                                  df_engine engine, df_progress *progress, df_estimate *estimate) {
  bool reference = engine == DF_ENGINE_REFERENCE;
  df_config config;
  df_layout layout;
  dfcclResult_t result = df_table1_config(row, reference ? DF_ORDER_ROUNDROBIN : DF_ORDER_CONCAT,
                                          table->seed, &config);
  if (result != dfcclSuccess) return result;
  result = df_config_layout(&config, &layout);
  if (result == dfcclSuccess) {
    df_estimate_options options = {.engine = engine,
                                   .threads = (unsigned)table->threads,
                                   .rounds = table->rounds,
                                   .progress = progress};
    if (reference) {
      bool rough = layout.slot_count > large_round || row->paper < 0;
      uint64_t events = rough ? rough_reference_events : reference_events;
      options.rounds = DF_MIN(options.rounds, events / layout.slot_count);
      options.stream_rounds = DF_DIV_UP(options.rounds, REFERENCE_STREAMS);
    }
    result = df_estimate_run(&config, &layout, &options, estimate);
    df_layout_destroy(&layout);
  }
  df_config_destroy(&config);
  return result;
}

/* Within both sampling errors: the 95% intervals overlap. After few rounds the interval is wider
 * than the paper's ratio: an overlap then says nothing. Neither does the overlap of a reading that
 * more rounds refute. */
static agreement agreement_of(const df_table1_row *row, const df_estimate *estimate, bool fits) {
  df_interval paper = df_wilson95_of_ratio(row->paper, (double)row->paper_rounds);
  df_interval ours = df_wilson95(estimate->deadlocks, estimate->rounds);
  if (!df_intervals_overlap(paper, ours)) return AGREES_NOT;
  return ours.high - ours.low <= row->paper && fits ? AGREES : AGREES_PERHAPS;
}

static dfcclResult_t estimate_both(const table_options *table, const df_table1_row *row,
                                   table_row *out) {
  df_progress progress;
  df_progress_start(&progress, row->id);
  *out = (table_row){.row = row, .has_reference = table->reference};
  dfcclResult_t result = estimate_row(table, row, DF_ENGINE_SPARSE, &progress, &out->exact);
  if (result == dfcclSuccess && table->reference)
    result = estimate_row(table, row, DF_ENGINE_REFERENCE, &progress, &out->reference);
  df_progress_finish(&progress);
  if (result != dfcclSuccess) return result;
  out->agrees =
      row->paper < 0 ? AGREES_PERHAPS : agreement_of(row, &out->exact, row->fits == DF_FITS_EXACT);
  if (row->paper >= 0 && table->reference &&
      agreement_of(row, &out->reference, row->fits != DF_FITS_NONE) == AGREES)
    out->agrees = AGREES;
  return dfcclSuccess;
}

static double ratio_of(const df_estimate *estimate) {
  return (double)estimate->deadlocks / (double)estimate->rounds;
}

static void add_number_or_null(cJSON *object, const char *name, bool known, double value) {
  if (known)
    cJSON_AddNumberToObject(object, name, value);
  else
    cJSON_AddNullToObject(object, name);
}

static cJSON *json_row(const table_row *result) {
  const df_table1_row *row = result->row;
  char grouping[32];
  cJSON *object = cJSON_CreateObject();
  cJSON_AddStringToObject(object, "id", row->id);
  cJSON_AddStringToObject(object, "model", df_model_names[row->model]);
  cJSON_AddStringToObject(object, "grouping", df_table1_grouping(row, grouping));
  cJSON_AddNumberToObject(object, "disorder", row->disorder);
  add_number_or_null(object, "sync", row->model == DF_MODEL_SYNC, row->sync);
  add_number_or_null(object, "paper", row->paper >= 0, row->paper);
  cJSON_AddNumberToObject(object, "ratio", ratio_of(&result->exact));
  df_json_add_interval(object, "ci95", df_wilson95(result->exact.deadlocks, result->exact.rounds));
  if (result->has_reference) {
    cJSON_AddNumberToObject(object, "reference_ratio", ratio_of(&result->reference));
    df_json_add_interval(object, "reference_ci95",
                         df_wilson95(result->reference.deadlocks, result->reference.rounds));
    cJSON_AddNumberToObject(object, "reference_rounds", (double)result->reference.rounds);
  } else {
    cJSON_AddNullToObject(object, "reference_ratio");
    cJSON_AddNullToObject(object, "reference_ci95");
  }
  cJSON_AddBoolToObject(object, "agrees", result->agrees == AGREES);
  if (row->note)
    cJSON_AddStringToObject(object, "note", row->note);
  else
    cJSON_AddNullToObject(object, "note");
  return object;
}

/* Rows share notes: each is printed once, under a number. */
static int note_number(const table_row *rows, int row) {
  int number = 0;
  for (int i = 0; i <= row; i++) {
    const char *note = rows[i].row->note;
    bool first = note != NULL;
    for (int k = 0; k < i && first; k++)
      first = !rows[k].row->note || strcmp(rows[k].row->note, note) != 0;
    number += first;
    if (first && strcmp(note, rows[row].row->note) == 0) return number;
  }
  return 0;
}

static void print_estimate(const df_estimate *estimate) {
  df_interval ci = df_wilson95(estimate->deadlocks, estimate->rounds);
  printf(" %8.4f%% [%7.4f,%8.4f]", 100.0 * ratio_of(estimate), 100.0 * ci.low, 100.0 * ci.high);
}

static const char *const agreement_names[] = {"no", "?", "yes"};

static void print_head(const table_options *table) {
  printf("Deadlock ratios (95%% intervals), %llu rounds a row, seed %llu.\n"
         "exact: the definition, concat order.%s\n"
         "agrees: within both sampling errors; ? if the paper's figure is not known, or so many "
         "rounds cannot tell.\n\n",
         (unsigned long long)table->rounds, (unsigned long long)table->seed,
         table->reference ? " reference: the published program's check, roundrobin order." : "");
  printf("%-6s %-13s %7s %8s %6s %7s %29s%s agrees  note\n", "model", "grouping", "colls",
         "disorder", "sync", "paper", "exact          ",
         table->reference ? "         reference           " : "");
}

/* Each row is printed when it is known: with --reference they take minutes. */
static void print_row(const table_row *rows, int i) {
  const df_table1_row *row = rows[i].row;
  char grouping[32], colls[32], sync[16] = "-", paper[16] = "?", note[16] = "";
  if (row->tp > 0)
    snprintf(colls, sizeof colls, "%u/%u", row->tp_collectives, row->dp_collectives);
  else
    snprintf(colls, sizeof colls, "%u", row->tp_collectives);
  if (row->model == DF_MODEL_SYNC) snprintf(sync, sizeof sync, "%.0e", row->sync);
  if (row->paper >= 0) snprintf(paper, sizeof paper, "%.2f%%", 100.0 * row->paper);
  if (row->note) snprintf(note, sizeof note, "(%d)", note_number(rows, i));
  printf("%-6s %-13s %8s %7.0e %6s %7s", row->model == DF_MODEL_SINGLE ? "single" : "sync",
         df_table1_grouping(row, grouping), colls, row->disorder, sync, paper);
  print_estimate(&rows[i].exact);
  if (rows[i].has_reference) print_estimate(&rows[i].reference);
  printf(" %-7s %s\n", agreement_names[rows[i].agrees], note);
  fflush(stdout);
}

static void print_notes(const table_row *rows) {
  puts("");
  for (int i = 0, shown = 0; i < DF_TABLE1_ROWS; i++)
    if (rows[i].row->note && note_number(rows, i) > shown)
      printf("(%d) %s\n", ++shown, rows[i].row->note);
}

static dfcclResult_t parse(table_options *table, int argument_count, char **arguments) {
  *table = (table_options){.rounds = 32000, .seed = 2023, .threads = df_default_threads()};
  const df_option options[] = {
      {.name = "--rounds",
       .kind = DF_OPTION_WHOLE,
       .low = 1,
       .high = DF_SIM_MAX_ROUNDS,
       .whole = &table->rounds},
      {.name = "--seed", .kind = DF_OPTION_WHOLE, .high = UINT64_MAX, .whole = &table->seed},
      {.name = "--threads",
       .kind = DF_OPTION_WHOLE,
       .low = 1,
       .high = DF_SIM_MAX_THREADS,
       .whole = &table->threads},
      {.name = "--reference", .kind = DF_OPTION_FLAG, .given = &table->reference},
      {.name = "--json", .kind = DF_OPTION_FLAG, .given = &table->json}};
  int files = 0;
  return df_options_parse(argument_count, arguments, options, DF_COUNT_OF(options), NULL, 0,
                          &files);
}

int df_command_table1(int argument_count, char **arguments) {
  table_options table;
  table_row rows[DF_TABLE1_ROWS];
  dfcclResult_t result = parse(&table, argument_count, arguments);
  if (result == dfcclSuccess && !table.json) print_head(&table);
  for (int i = 0; i < DF_TABLE1_ROWS && result == dfcclSuccess; i++) {
    result = estimate_both(&table, &df_table1_rows[i], &rows[i]);
    if (result == dfcclSuccess && !table.json) print_row(rows, i);
  }
  if (result != dfcclSuccess) return df_command_failed((int)result);
  if (!table.json) {
    print_notes(rows);
    return DF_EXIT_SUCCESS;
  }
  cJSON *object = cJSON_CreateObject();
  cJSON *list = cJSON_AddArrayToObject(object, "rows");
  for (int i = 0; i < DF_TABLE1_ROWS; i++) cJSON_AddItemToArray(list, json_row(&rows[i]));
  return df_json_print(object) ? DF_EXIT_SUCCESS : df_command_failed(dfcclSystemError);
}
