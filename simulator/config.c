#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json_input.h"
#include "sim_limits.h"

const char *const df_model_names[2] = {"Single", "StreamWithSync"};
const char *const df_grouping_names[2] = {"Megatron", "Arbitrary"};
const char *const df_order_names[2] = {"concat", "roundrobin"};
const char *const df_check_names[2] = {"exact", "reference"};

/* The seed of random.seed in the published program when fix_seed is 1. */
enum { PUBLISHED_SEED = 2023 };

typedef enum {
  KEY_TOTAL_ROUNDS,
  KEY_NUM_PROCESS,
  KEY_FIX_SEED,
  KEY_DISORDER_PROB,
  KEY_SYNC_PROB,
  KEY_MODEL,
  KEY_GROUPING_POLICY,
  KEY_TP_GROUP_SIZE,
  KEY_DP_GROUP_SIZE,
  KEY_PP_GROUP_SIZE,
  KEY_COLL_CNT_PER_TP_GROUP,
  KEY_COLL_CNT_PER_DP_GROUP,
  KEY_GPU_NUM,
  KEY_GROUP_NUM,
  KEY_GPU_PER_GROUP,
  KEY_COLL_CNT_PER_GROUP,
  KEY_RESOURCE_LIMIT,
  KEY_ORDER,
  KEY_SEED,
  KEY_ROUNDS,
  KEY_CHECK,
  KEY_COUNT
} key;

static const char *const key_names[KEY_COUNT] = {"total_rounds",
                                                 "num_process",
                                                 "fix_seed",
                                                 "disorder_prob",
                                                 "sync_prob",
                                                 "model",
                                                 "grouping_policy",
                                                 "tp_group_size",
                                                 "dp_group_size",
                                                 "pp_group_size",
                                                 "coll_cnt_per_tp_group",
                                                 "coll_cnt_per_dp_group",
                                                 "gpu_num",
                                                 "group_num",
                                                 "gpu_per_group",
                                                 "coll_cnt_per_group",
                                                 "resource_limit",
                                                 "order",
                                                 "seed",
                                                 "rounds",
                                                 "check"};

typedef struct {
  const char *file;
  const cJSON *value[KEY_COUNT];
} reader;

static dfcclResult_t find_keys(reader *input, const cJSON *root) {
  dfcclResult_t result = df_json_reject_duplicates(input->file, "", root);
  for (const cJSON *member = root->child; member && result == dfcclSuccess; member = member->next) {
    int found = -1;
    for (int i = 0; i < KEY_COUNT; i++)
      if (strcmp(member->string, key_names[i]) == 0) found = i;
    char shown[DF_JSON_SHOWN_BYTES], value[DF_JSON_SHOWN_BYTES];
    if (found < 0)
      return df_fail(dfcclInvalidArgument, "%s: %s: unknown key (its value is %s)", input->file,
                     df_show_text(member->string, shown), df_json_show(member, value));
    input->value[found] = member;
  }
  return result;
}

static dfcclResult_t need(const reader *input, key name, const char *why) {
  if (input->value[name]) return dfcclSuccess;
  return df_fail(dfcclInvalidArgument, "%s: %s is missing%s", input->file, key_names[name], why);
}

/* An optional whole number: *out keeps its value if the key is absent. */
static dfcclResult_t whole(const reader *input, key name, int64_t low, int64_t high, int64_t *out) {
  if (!input->value[name]) return dfcclSuccess;
  return df_json_whole(input->file, key_names[name], input->value[name], low, high, out);
}

static dfcclResult_t word(const reader *input, key name, const char *const *words, int *out) {
  if (!input->value[name]) return dfcclSuccess;
  return df_json_word(input->file, key_names[name], input->value[name], words, 2, out);
}

#define TRY(expression)                                                                            \
  do {                                                                                             \
    dfcclResult_t try_result = (expression);                                                       \
    if (try_result != dfcclSuccess) return try_result;                                             \
  } while (0)

static dfcclResult_t read_words(const reader *input, df_config *config) {
  int model = 0, grouping = 0, order = DF_ORDER_CONCAT, check = DF_CHECK_EXACT;
  TRY(need(input, KEY_MODEL, ": \"Single\" or \"StreamWithSync\""));
  TRY(need(input, KEY_GROUPING_POLICY, ": \"Megatron\" or \"Arbitrary\""));
  TRY(word(input, KEY_MODEL, df_model_names, &model));
  TRY(word(input, KEY_GROUPING_POLICY, df_grouping_names, &grouping));
  TRY(word(input, KEY_ORDER, df_order_names, &order));
  TRY(word(input, KEY_CHECK, df_check_names, &check));
  config->model = (df_model)model;
  config->grouping = (df_grouping)grouping;
  config->order = (df_order)order;
  config->check = (df_check)check;
  return dfcclSuccess;
}

static dfcclResult_t read_chances(const reader *input, df_config *config) {
  TRY(need(input, KEY_DISORDER_PROB, ""));
  TRY(df_json_probability(input->file, "disorder_prob", input->value[KEY_DISORDER_PROB], 1,
                          &config->disorder_probability));
  if (config->model == DF_MODEL_SYNC) TRY(need(input, KEY_SYNC_PROB, " (the model needs it)"));
  if (input->value[KEY_SYNC_PROB])
    TRY(df_json_probability(input->file, "sync_prob", input->value[KEY_SYNC_PROB], 0,
                            &config->sync_probability));
  return dfcclSuccess;
}

static dfcclResult_t read_rounds(const reader *input, df_config *config) {
  int64_t total = 0, processes = 1, rounds = 0, fix_seed = 1, seed = PUBLISHED_SEED, limit = -1;
  int64_t most = (int64_t)DF_SIM_MAX_ROUNDS;
  TRY(whole(input, KEY_TOTAL_ROUNDS, 1, most, &total));
  TRY(whole(input, KEY_NUM_PROCESS, 1, DF_SIM_MAX_PROCESSES, &processes));
  TRY(whole(input, KEY_ROUNDS, 1, most, &rounds));
  TRY(whole(input, KEY_FIX_SEED, 0, 1, &fix_seed));
  TRY(whole(input, KEY_SEED, 0, INT64_C(1) << 53, &seed));
  TRY(whole(input, KEY_RESOURCE_LIMIT, -1, INT32_MAX, &limit));
  if (!input->value[KEY_ROUNDS]) TRY(need(input, KEY_TOTAL_ROUNDS, " (or rounds)"));
  if (rounds == 0 && total > most / processes)
    return df_fail(dfcclInvalidArgument,
                   "%s: total_rounds: %lld rounds in each of %lld processes are more than %lld",
                   input->file, (long long)total, (long long)processes, (long long)most);
  config->rounds = (uint64_t)(rounds > 0 ? rounds : total * processes);
  config->seed = (uint64_t)seed;
  config->resource_limit = limit;
  return dfcclSuccess;
}

static dfcclResult_t read_3d(const reader *input, df_config *config) {
  static const key sizes[] = {KEY_TP_GROUP_SIZE, KEY_DP_GROUP_SIZE, KEY_PP_GROUP_SIZE,
                              KEY_COLL_CNT_PER_TP_GROUP, KEY_COLL_CNT_PER_DP_GROUP};
  uint32_t *fields[] = {&config->tp_size, &config->dp_size, &config->pp_size,
                        &config->tp_collectives, &config->dp_collectives};
  for (int i = 0; i < 5; i++) {
    int64_t value = 0;
    int64_t low = i < 3 ? 1 : 0;
    int64_t high = i < 3 ? DF_SIM_MAX_GPUS : DF_SIM_MAX_COLLECTIVES_PER_GROUP;
    TRY(need(input, sizes[i], " (the Megatron grouping needs it)"));
    TRY(whole(input, sizes[i], low, high, &value));
    *fields[i] = (uint32_t)value;
  }
  return df_config_group_3d(config, input->file);
}

static bool allocate_groups(df_config *config, uint64_t memberships) {
  config->member_first = calloc(config->group_count + 1u, sizeof *config->member_first);
  config->members = calloc(memberships + 1, sizeof *config->members);
  config->coll_counts = calloc(config->group_count + 1u, sizeof *config->coll_counts);
  return config->member_first && config->members && config->coll_counts;
}

dfcclResult_t df_config_group_3d(df_config *config, const char *file) {
  uint64_t tp = config->tp_size, dp = config->dp_size, pp = config->pp_size;
  if (tp * dp > DF_SIM_MAX_GPUS || tp * dp * pp > DF_SIM_MAX_GPUS)
    return df_fail(dfcclInvalidArgument,
                   "%s: tp_group_size: %llu x %llu x %llu GPUs are more than the %u allowed", file,
                   (unsigned long long)tp, (unsigned long long)dp, (unsigned long long)pp,
                   DF_SIM_MAX_GPUS);
  uint64_t groups = (tp + dp) * pp;
  uint64_t collectives = (dp * config->tp_collectives + tp * config->dp_collectives) * pp;
  if (groups > DF_SIM_MAX_GROUPS)
    return df_fail(dfcclInvalidArgument,
                   "%s: pp_group_size: %llu groups are more than the %u allowed", file,
                   (unsigned long long)groups, DF_SIM_MAX_GROUPS);
  if (collectives > DF_SIM_MAX_COLLECTIVES)
    return df_fail(dfcclInvalidArgument,
                   "%s: coll_cnt_per_tp_group: %llu collectives are more than the %u allowed", file,
                   (unsigned long long)collectives, DF_SIM_MAX_COLLECTIVES);
  config->gpu_count = (uint32_t)(tp * dp * pp);
  config->group_count = (uint32_t)groups;
  if (!allocate_groups(config, 2 * tp * dp * pp))
    return df_fail(dfcclOutOfMemory, "%s: no memory for %u GPUs", file, config->gpu_count);
  uint32_t group = 0, used = 0;
  for (uint32_t stage = 0; stage < pp; stage++) {
    uint32_t first_gpu = (uint32_t)(stage * tp * dp);
    for (uint32_t i = 0; i < dp; i++, group++) {
      for (uint32_t rank = 0; rank < tp; rank++)
        config->members[used++] = first_gpu + i * (uint32_t)tp + rank;
      config->coll_counts[group] = config->tp_collectives;
      config->member_first[group + 1] = used;
    }
    for (uint32_t rank = 0; rank < tp; rank++, group++) {
      for (uint32_t i = 0; i < dp; i++)
        config->members[used++] = first_gpu + i * (uint32_t)tp + rank;
      config->coll_counts[group] = config->dp_collectives;
      config->member_first[group + 1] = used;
    }
  }
  return dfcclSuccess;
}

/* The members of one free group: GPUs that exist, none twice. last_group[gpu] is the last group + 1
 * that listed it. */
static dfcclResult_t read_members(const reader *input, df_config *config, uint32_t group,
                                  const cJSON *list, uint32_t *last_group, uint32_t *used) {
  char path[64];
  snprintf(path, sizeof path, "gpu_per_group[%u]", group);
  char shown[DF_JSON_SHOWN_BYTES];
  if (!cJSON_IsArray(list) || !list->child)
    return df_fail(dfcclInvalidArgument, "%s: %s: expected a list of GPUs, not %s", input->file,
                   path, cJSON_IsArray(list) ? "an empty one" : df_json_show(list, shown));
  uint32_t place = 0;
  for (const cJSON *item = list->child; item; item = item->next, place++) {
    snprintf(path, sizeof path, "gpu_per_group[%u][%u]", group, place);
    int64_t gpu = 0;
    TRY(df_json_whole(input->file, path, item, 0, INT32_MAX, &gpu));
    if (gpu >= config->gpu_count)
      return df_fail(dfcclInvalidArgument, "%s: %s: there is no GPU %lld (gpu_num is %u)",
                     input->file, path, (long long)gpu, config->gpu_count);
    if (last_group[gpu] == group + 1)
      return df_fail(dfcclInvalidArgument, "%s: %s: GPU %lld is in the group twice", input->file,
                     path, (long long)gpu);
    last_group[gpu] = group + 1;
    config->members[(*used)++] = (uint32_t)gpu;
  }
  config->member_first[group + 1] = *used;
  return dfcclSuccess;
}

static dfcclResult_t read_groups(const reader *input, df_config *config, const cJSON *lists,
                                 const cJSON *counts, uint32_t *last_group) {
  uint32_t group = 0, used = 0;
  for (const cJSON *list = lists->child; list; list = list->next, group++)
    TRY(read_members(input, config, group, list, last_group, &used));
  uint64_t total = 0;
  group = 0;
  for (const cJSON *item = counts->child; item; item = item->next, group++) {
    char path[64];
    snprintf(path, sizeof path, "coll_cnt_per_group[%u]", group);
    int64_t count = 0;
    TRY(df_json_whole(input->file, path, item, 0, DF_SIM_MAX_COLLECTIVES_PER_GROUP, &count));
    config->coll_counts[group] = (uint32_t)count;
    total += (uint64_t)count;
  }
  if (total <= DF_SIM_MAX_COLLECTIVES) return dfcclSuccess;
  return df_fail(dfcclInvalidArgument,
                 "%s: coll_cnt_per_group: %llu collectives are more than the %u allowed",
                 input->file, (unsigned long long)total, DF_SIM_MAX_COLLECTIVES);
}

static dfcclResult_t need_list(const reader *input, key name, int64_t length) {
  TRY(need(input, name, " (the Arbitrary grouping needs it)"));
  const cJSON *list = input->value[name];
  char shown[DF_JSON_SHOWN_BYTES];
  if (!cJSON_IsArray(list))
    return df_fail(dfcclInvalidArgument, "%s: %s: expected a list, not %s", input->file,
                   key_names[name], df_json_show(list, shown));
  int64_t found = 0;
  for (const cJSON *item = list->child; item; item = item->next) found++;
  if (found == length) return dfcclSuccess;
  return df_fail(dfcclInvalidArgument, "%s: %s: has %lld entries, but group_num is %lld",
                 input->file, key_names[name], (long long)found, (long long)length);
}

static dfcclResult_t read_free(const reader *input, df_config *config) {
  int64_t gpus = 0, groups = 0;
  TRY(need(input, KEY_GPU_NUM, " (the Arbitrary grouping needs it)"));
  TRY(need(input, KEY_GROUP_NUM, " (the Arbitrary grouping needs it)"));
  TRY(whole(input, KEY_GPU_NUM, 1, DF_SIM_MAX_GPUS, &gpus));
  TRY(whole(input, KEY_GROUP_NUM, 1, DF_SIM_MAX_GROUPS, &groups));
  TRY(need_list(input, KEY_GPU_PER_GROUP, groups));
  TRY(need_list(input, KEY_COLL_CNT_PER_GROUP, groups));
  config->gpu_count = (uint32_t)gpus;
  config->group_count = (uint32_t)groups;
  uint64_t memberships = 0;
  for (const cJSON *list = input->value[KEY_GPU_PER_GROUP]->child; list; list = list->next)
    for (const cJSON *item = list->child; item; item = item->next) memberships++;
  if (memberships > DF_SIM_MAX_MEMBERSHIPS)
    return df_fail(dfcclInvalidArgument,
                   "%s: gpu_per_group: %llu members are more than the %u allowed", input->file,
                   (unsigned long long)memberships, DF_SIM_MAX_MEMBERSHIPS);
  uint32_t *last_group = calloc(config->gpu_count, sizeof *last_group);
  if (!last_group || !allocate_groups(config, memberships)) {
    free(last_group);
    return df_fail(dfcclOutOfMemory, "%s: no memory for %u GPUs", input->file, config->gpu_count);
  }
  dfcclResult_t result = read_groups(input, config, input->value[KEY_GPU_PER_GROUP],
                                     input->value[KEY_COLL_CNT_PER_GROUP], last_group);
  free(last_group);
  return result;
}

static dfcclResult_t read_config(df_config *config, const char *file, const cJSON *root) {
  reader input = {.file = file};
  TRY(find_keys(&input, root));
  TRY(read_words(&input, config));
  TRY(read_chances(&input, config));
  TRY(read_rounds(&input, config));
  return config->grouping == DF_GROUPING_3D ? read_3d(&input, config) : read_free(&input, config);
}

static dfcclResult_t take_config(df_config *config, const char *file, df_json *json) {
  dfcclResult_t result = read_config(config, file, json->root);
  df_json_destroy(json);
  if (result != dfcclSuccess) df_config_destroy(config);
  return result;
}

dfcclResult_t df_config_load(df_config *config, const char *file) {
  df_json json;
  memset(config, 0, sizeof *config);
  TRY(df_json_load(&json, file, DF_SIM_MAX_CONFIG_BYTES));
  return take_config(config, file, &json);
}

dfcclResult_t df_config_parse(df_config *config, const char *file, const char *text, size_t bytes) {
  df_json json;
  memset(config, 0, sizeof *config);
  TRY(df_json_parse(&json, file, text, bytes));
  return take_config(config, file, &json);
}

dfcclResult_t df_config_layout(const df_config *config, df_layout *layout) {
  return df_layout_create(layout, config->order, config->gpu_count, config->group_count,
                          config->member_first, config->members, config->coll_counts);
}

void df_config_destroy(df_config *config) {
  free(config->member_first);
  free(config->members);
  free(config->coll_counts);
  memset(config, 0, sizeof *config);
}

const char *df_config_group_name(const df_config *config, uint32_t group,
                                 char buffer[DF_GROUP_NAME_BYTES]) {
  if (config->grouping == DF_GROUPING_FREE) {
    snprintf(buffer, DF_GROUP_NAME_BYTES, "group %u", group);
    return buffer;
  }
  uint32_t in_stage = config->tp_size + config->dp_size, place = group % in_stage;
  bool tensor = place < config->dp_size;
  snprintf(buffer, DF_GROUP_NAME_BYTES, "stage %u %s group %u", group / in_stage,
           tensor ? "TP" : "DP", tensor ? place : place - config->dp_size);
  return buffer;
}
