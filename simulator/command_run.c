/* dfccl-sim run: how often does a configuration deadlock? */
#include <stdio.h>

#include "commands.h"
#include "estimate.h"
#include "json_output.h"
#include "options.h"
#include "sim_limits.h"
#include "wilson.h"

typedef struct {
  uint64_t rounds, seed, threads;
  int order, check, engine;
  bool rounds_given, seed_given, order_given, check_given, engine_given, json;
  const char *file;
} run_options;

static dfcclResult_t parse(run_options *run, int argument_count, char **arguments) {
  *run = (run_options){.threads = df_default_threads()};
  const df_option options[] = {{.name = "--rounds",
                                .kind = DF_OPTION_WHOLE,
                                .low = 1,
                                .high = DF_SIM_MAX_ROUNDS,
                                .whole = &run->rounds,
                                .given = &run->rounds_given},
                               {.name = "--seed",
                                .kind = DF_OPTION_WHOLE,
                                .high = UINT64_MAX,
                                .whole = &run->seed,
                                .given = &run->seed_given},
                               {.name = "--threads",
                                .kind = DF_OPTION_WHOLE,
                                .low = 1,
                                .high = DF_SIM_MAX_THREADS,
                                .whole = &run->threads},
                               {.name = "--order",
                                .kind = DF_OPTION_WORD,
                                .words = df_order_names,
                                .word_count = 2,
                                .index = &run->order,
                                .given = &run->order_given},
                               {.name = "--check",
                                .kind = DF_OPTION_WORD,
                                .words = df_check_names,
                                .word_count = 2,
                                .index = &run->check,
                                .given = &run->check_given},
                               {.name = "--engine",
                                .kind = DF_OPTION_WORD,
                                .words = df_engine_names,
                                .word_count = 3,
                                .index = &run->engine,
                                .given = &run->engine_given},
                               {.name = "--json", .kind = DF_OPTION_FLAG, .given = &run->json}};
  int files = 0;
  dfcclResult_t result = df_options_parse(argument_count, arguments, options, DF_COUNT_OF(options),
                                          &run->file, 1, &files);
  if (result == dfcclSuccess && files == 0)
    return df_fail(dfcclInvalidArgument, "run needs a configuration file");
  return result;
}

static dfcclResult_t apply(const run_options *run, df_config *config) {
  if (run->rounds_given) config->rounds = run->rounds;
  if (run->seed_given) config->seed = run->seed;
  if (run->order_given) config->order = (df_order)run->order;
  if (run->check_given) config->check = (df_check)run->check;
  if (run->engine_given && config->check == DF_CHECK_REFERENCE)
    return df_fail(dfcclInvalidArgument,
                   "--engine chooses among the exact engines; the check is \"reference\"");
  return dfcclSuccess;
}

static bool print_json(const df_config *config, const df_layout *layout, df_engine engine,
                       const df_estimate *estimate) {
  cJSON *object = cJSON_CreateObject();
  cJSON_AddStringToObject(object, "model", df_model_names[config->model]);
  cJSON_AddStringToObject(object, "order", df_order_names[config->order]);
  cJSON_AddStringToObject(object, "check", df_check_names[config->check]);
  cJSON_AddStringToObject(object, "engine", df_engine_names[engine]);
  cJSON_AddNumberToObject(object, "gpus", layout->gpu_count);
  cJSON_AddNumberToObject(object, "groups", layout->group_count);
  cJSON_AddNumberToObject(object, "collectives", layout->coll_first[layout->group_count]);
  cJSON_AddNumberToObject(object, "rounds", (double)estimate->rounds);
  cJSON_AddNumberToObject(object, "deadlocks", (double)estimate->deadlocks);
  cJSON_AddNumberToObject(object, "ratio", (double)estimate->deadlocks / (double)estimate->rounds);
  df_json_add_interval(object, "ci95", df_wilson95(estimate->deadlocks, estimate->rounds));
  cJSON_AddNumberToObject(object, "seconds", estimate->seconds);
  char seed[32]; /* text, because it may pass 2^53 */
  snprintf(seed, sizeof seed, "%llu", (unsigned long long)config->seed);
  cJSON_AddRawToObject(object, "seed", seed);
  cJSON_AddNumberToObject(object, "memory_bytes", (double)df_peak_memory_bytes());
  return df_json_print(object);
}

static void print_text(const df_config *config, const df_layout *layout, df_engine engine,
                       const df_estimate *estimate) {
  df_interval ci = df_wilson95(estimate->deadlocks, estimate->rounds);
  printf("%s model, %u GPUs in %u groups, %u collectives, %s order\n",
         config->model == DF_MODEL_SINGLE ? "single-queue" : "synchronisation", layout->gpu_count,
         layout->group_count, layout->coll_first[layout->group_count],
         df_order_names[config->order]);
  printf("disorder probability %g", config->disorder_probability);
  if (config->model == DF_MODEL_SYNC) printf(", sync probability %g", config->sync_probability);
  printf("; %s check, %s engine, seed %llu\n", df_check_names[config->check],
         df_engine_names[engine], (unsigned long long)config->seed);
  printf("%llu of %llu rounds deadlock: %.4g%% (95%% interval %.4g%% to %.4g%%)\n",
         (unsigned long long)estimate->deadlocks, (unsigned long long)estimate->rounds,
         100.0 * (double)estimate->deadlocks / (double)estimate->rounds, 100.0 * ci.low,
         100.0 * ci.high);
  printf("%.3g s, %.4g rounds a second, %.1f MiB of memory\n", estimate->seconds,
         (double)estimate->rounds / estimate->seconds,
         (double)df_peak_memory_bytes() / (1024.0 * 1024.0));
  if (config->resource_limit > 0 && config->check == DF_CHECK_EXACT)
    puts(
        "note: resource_limit belongs to the reference check; the exact models have no such limit");
}

static dfcclResult_t run_config(const run_options *run, df_config *config, df_layout *layout) {
  df_engine engine =
      config->check == DF_CHECK_REFERENCE ? DF_ENGINE_REFERENCE : (df_engine)run->engine;
  df_progress progress;
  df_progress_start(&progress, "rounds");
  df_estimate_options options = {.engine = engine,
                                 .threads = (unsigned)run->threads,
                                 .rounds = config->rounds,
                                 .progress = &progress};
  df_estimate estimate;
  dfcclResult_t result = df_estimate_run(config, layout, &options, &estimate);
  df_progress_finish(&progress);
  if (result != dfcclSuccess) return result;
  if (run->json)
    return print_json(config, layout, engine, &estimate) ? dfcclSuccess : dfcclSystemError;
  print_text(config, layout, engine, &estimate);
  return dfcclSuccess;
}

int df_command_run(int argument_count, char **arguments) {
  run_options run;
  df_config config;
  df_layout layout;
  dfcclResult_t result = parse(&run, argument_count, arguments);
  if (result == dfcclSuccess) result = df_config_load(&config, run.file);
  if (result != dfcclSuccess) return df_command_failed((int)result);
  result = apply(&run, &config);
  if (result == dfcclSuccess) result = df_config_layout(&config, &layout);
  if (result == dfcclSuccess) {
    result = run_config(&run, &config, &layout);
    df_layout_destroy(&layout);
  }
  df_config_destroy(&config);
  return result == dfcclSuccess ? DF_EXIT_SUCCESS : df_command_failed((int)result);
}
