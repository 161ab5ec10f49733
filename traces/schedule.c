#include "schedule.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json_input.h"
#include "plans/operation.h"
#include "schedule_build.h"
#include "trace_limits.h"
#include "trace.h"

#define TRY(expression)                                                                            \
  do {                                                                                             \
    dfcclResult_t try_result = (expression);                                                       \
    if (try_result != dfcclSuccess) return try_result;                                             \
  } while (0)

typedef df_schedule_builder builder;

static dfcclResult_t add_group(builder *build, const char *file, const cJSON *list) {
  char shown[DF_JSON_SHOWN_BYTES], path[DF_JSON_SHOWN_BYTES + 24], item_path[sizeof path + 16];
  TRY(df_schedule_check_name(file, "groups", list->string));
  snprintf(path, sizeof path, "groups.%s", df_show_text(list->string, shown));
  if (!cJSON_IsArray(list) || !list->child) {
    char value[DF_JSON_SHOWN_BYTES];
    return df_fail(dfcclInvalidArgument, "%s: %s: expected a list of GPUs, not %s", file, path,
                   cJSON_IsArray(list) ? "an empty one" : df_json_show(list, value));
  }
  uint32_t total = 0, place = 0, group;
  for (const cJSON *item = list->child; item && total <= DF_TRACE_MAX_GPUS; item = item->next)
    total++;
  TRY(df_schedule_reserve_members(build, file, path, total));
  for (const cJSON *item = list->child; item; item = item->next, place++) {
    int64_t gpu = 0;
    snprintf(item_path, sizeof item_path, "%s[%u]", path, place);
    TRY(df_json_whole(file, item_path, item, 0, DF_TRACE_MAX_GPUS - 1, &gpu));
    build->member[build->member_count + place] = (uint32_t)gpu;
  }
  return df_schedule_add_group(build, file, path, list->string, total, &group);
}

static dfcclResult_t find_object(const char *file, const cJSON *root, const char *key,
                                 const cJSON **object) {
  char shown[DF_JSON_SHOWN_BYTES];
  *object = NULL;
  for (const cJSON *member = root->child; member; member = member->next)
    if (strcmp(member->string, key) == 0) *object = member;
  if (!*object) return df_fail(dfcclInvalidArgument, "%s: %s is missing", file, key);
  if (!cJSON_IsObject(*object))
    return df_fail(dfcclInvalidArgument, "%s: %s: expected an object, not %s", file, key,
                   df_json_show(*object, shown));
  return df_json_reject_duplicates(file, key, *object);
}

static dfcclResult_t read_groups(builder *build, const char *file, const cJSON *root) {
  char shown[DF_JSON_SHOWN_BYTES];
  const cJSON *groups;
  TRY(df_json_reject_duplicates(file, "", root));
  for (const cJSON *member = root->child; member; member = member->next)
    if (strcmp(member->string, "groups") != 0 && strcmp(member->string, "gpus") != 0 &&
        strcmp(member->string, "recorded") != 0)
      return df_fail(dfcclInvalidArgument,
                     "%s: %s: unknown key; expected groups, gpus and perhaps recorded", file,
                     df_show_text(member->string, shown));
  TRY(find_object(file, root, "groups", &groups));
  for (const cJSON *list = groups->child; list; list = list->next)
    TRY(add_group(build, file, list));
  return dfcclSuccess;
}

/* Where in the input an event is; the path is made only for a sentence. */
typedef struct {
  const char *file;
  uint32_t gpu;
  uint64_t index;
} event_place;

static dfcclResult_t bad_event(const event_place *place, const char *key, const char *what,
                               const cJSON *value) {
  char shown[DF_JSON_SHOWN_BYTES];
  return df_fail(dfcclInvalidArgument, "%s: gpus.%u[%llu]%s: %s%s", place->file, place->gpu,
                 (unsigned long long)place->index, key, what,
                 value ? df_json_show(value, shown) : "");
}

/* The content of a recorded run: `count` is that of dfcclRegister*. */
static dfcclResult_t read_content(builder *build, const event_place *place, const cJSON *item,
                                  uint32_t group, df_call *call) {
  const cJSON *op = cJSON_GetObjectItemCaseSensitive(item, "op");
  const cJSON *type = cJSON_GetObjectItemCaseSensitive(item, "type");
  const cJSON *count = cJSON_GetObjectItemCaseSensitive(item, "count");
  const cJSON *root = cJSON_GetObjectItemCaseSensitive(item, "root");
  if (!cJSON_IsString(op) || !cJSON_IsNumber(count))
    return bad_event(place, ".op", "without op, type and count a schedule cannot be replayed",
                     NULL);
  df_call_content content = df_content_of(op->valuestring);
  if (content.operation < 0) return bad_event(place, ".op", "unknown operation ", op);
  content.type = cJSON_IsString(type) ? df_content_type(type->valuestring) : -1;
  if (type && content.type < 0) return bad_event(place, ".type", "unknown type ", type);
  if (!(count->valuedouble >= 0 && count->valuedouble < 1e15))
    return bad_event(place, ".count", "expected a whole number, not ", count);
  const uint32_t members = build->group_first[group + 1] - build->group_first[group];
  content.send_count = content.recv_count = (uint64_t)count->valuedouble;
  if (content.operation == DF_OP_ALL_TO_ALL) content.send_count *= members;
  content.has_root = cJSON_IsNumber(root) && root->valuedouble >= 0 && root->valuedouble < members;
  content.root = content.has_root ? (uint32_t)root->valuedouble : 0;
  return df_schedule_intern_content(build, place->file, &content, &call->content);
}

static dfcclResult_t read_collective(builder *build, const event_place *place, const cJSON *coll,
                                     const cJSON *group_name, const cJSON *item, uint32_t *event,
                                     df_call *call) {
  char path[64];
  uint32_t group;
  if (!cJSON_IsString(coll)) return bad_event(place, ".coll", "expected a name, not ", coll);
  if (!cJSON_IsString(group_name))
    return bad_event(place, ".group", "expected a name, not ", group_name);
  if (!df_names_find(&build->schedule->groups, 0, group_name->valuestring, &group))
    return bad_event(place, ".group", "no such group under groups: ", group_name);
  if (!df_schedule_is_member(build, group, place->gpu))
    return bad_event(place, ".group", "the GPU is not a member of ", group_name);
  size_t length = strlen(coll->valuestring);
  if (length == 0 || length > DF_TRACE_MAX_NAME_BYTES) {
    snprintf(path, sizeof path, "gpus.%u[%llu].coll", place->gpu, (unsigned long long)place->index);
    return df_schedule_check_name(place->file, path, coll->valuestring);
  }
  bool twice = false;
  TRY(df_schedule_name_event(build, place->file, place->gpu, group, coll->valuestring, event,
                             &twice));
  if (twice)
    return bad_event(place, ".coll",
                     "the GPU runs it twice; give each run a name of its own: ", coll);
  return build->with_calls ? read_content(build, place, item, group, call) : dfcclSuccess;
}

/* Keys of a recording that only a replay needs. */
static bool is_content(const char *key) {
  static const char *const keys[] = {"op", "type", "count", "root"};
  for (size_t i = 0; i < DF_COUNT_OF(keys); i++)
    if (strcmp(key, keys[i]) == 0) return true;
  return false;
}

static dfcclResult_t read_event(builder *build, const event_place *place, const cJSON *item,
                                uint32_t *event, df_call *call) {
  if (!cJSON_IsObject(item)) return bad_event(place, "", "expected an event object, not ", item);
  const cJSON *coll = NULL, *group = NULL, *sync = NULL;
  for (const cJSON *member = item->child; member; member = member->next) {
    if (is_content(member->string)) continue;
    const cJSON **found = strcmp(member->string, "coll") == 0    ? &coll
                          : strcmp(member->string, "group") == 0 ? &group
                          : strcmp(member->string, "sync") == 0  ? &sync
                                                                 : NULL;
    char shown[DF_JSON_SHOWN_BYTES], key[DF_JSON_SHOWN_BYTES + 1];
    snprintf(key, sizeof key, ".%s", df_show_text(member->string, shown));
    if (!found) return bad_event(place, key, "unknown key; expected coll and group, or sync", NULL);
    if (*found) return bad_event(place, key, "appears twice", NULL);
    *found = member;
  }
  if (sync) {
    if (coll || group) return bad_event(place, ".sync", "an event is a sync or a collective", NULL);
    if (!cJSON_IsTrue(sync)) return bad_event(place, ".sync", "expected true, not ", sync);
    *event = DF_EVENT_SYNC;
    build->schedule->has_sync = true;
    return dfcclSuccess;
  }
  if (!coll) return bad_event(place, ".coll", "is missing", NULL);
  if (!group) return bad_event(place, ".group", "is missing", NULL);
  return read_collective(build, place, coll, group, item, event, call);
}

static dfcclResult_t read_gpu(builder *build, const char *file, df_recorded recorded,
                              const cJSON *events) {
  char shown[DF_JSON_SHOWN_BYTES], value[DF_JSON_SHOWN_BYTES];
  const char *id = events->string;
  char *end = NULL;
  unsigned long number = strtoul(id, &end, 10);
  char canonical[24];
  snprintf(canonical, sizeof canonical, "%lu", number);
  if (strcmp(canonical, id) != 0 || number >= DF_TRACE_MAX_GPUS)
    return df_fail(dfcclInvalidArgument, "%s: gpus.%s: a GPU is a whole number from 0 to %u", file,
                   df_show_text(id, shown), DF_TRACE_MAX_GPUS - 1);
  uint32_t gpu = (uint32_t)number;
  if (!cJSON_IsArray(events))
    return df_fail(dfcclInvalidArgument, "%s: gpus.%u: expected a list of events, not %s", file,
                   gpu, df_json_show(events, value));
  char path[24];
  snprintf(path, sizeof path, "gpus.%u", gpu);
  TRY(df_schedule_open_gpu(build, file, path, gpu, recorded));
  event_place place = {file, gpu, 0};
  for (const cJSON *item = events->child; item; item = item->next, place.index++) {
    uint32_t event = 0;
    df_call call = {
        .number = (uint32_t)place.index + 1, .stack = DF_NO_STACK, .content = DF_NO_CONTENT};
    TRY(read_event(build, &place, item, &event, &call));
    TRY(df_schedule_add_event(build, file, gpu, event, &call));
  }
  return dfcclSuccess;
}

const char *const df_recorded_names[] = {NULL, "whole", "so far", "cut short"};

static dfcclResult_t read_recorded(const char *file, const cJSON *root, df_recorded *recorded) {
  char shown[DF_JSON_SHOWN_BYTES];
  const cJSON *word = cJSON_GetObjectItemCaseSensitive(root, "recorded");
  *recorded = DF_RECORDED_WHOLE;
  if (!word) return dfcclSuccess;
  for (; *recorded <= DF_RECORDED_CUT_SHORT; ++*recorded)
    if (cJSON_IsString(word) && strcmp(word->valuestring, df_recorded_names[*recorded]) == 0)
      return dfcclSuccess;
  return df_fail(dfcclInvalidArgument,
                 "%s: recorded: expected \"whole\", \"so far\" or \"cut short\", not %s", file,
                 df_json_show(word, shown));
}

static dfcclResult_t read_gpus(builder *build, const char *file, const cJSON *root) {
  const cJSON *gpus;
  df_recorded recorded;
  TRY(read_recorded(file, root, &recorded));
  TRY(find_object(file, root, "gpus", &gpus));
  for (const cJSON *events = gpus->child; events; events = events->next)
    TRY(read_gpu(build, file, recorded, events));
  return dfcclSuccess;
}

static dfcclResult_t build_schedule(builder *build, const char *const *files, const df_json *json,
                                    int count) {
  for (int i = 0; i < count; i++) {
    char shown[DF_JSON_SHOWN_BYTES];
    if (!cJSON_IsObject(json[i].root))
      return df_fail(dfcclInvalidArgument, "%s: expected an object, not %s", files[i],
                     df_json_show(json[i].root, shown));
    TRY(read_groups(build, files[i], json[i].root));
  }
  for (int i = 0; i < count; i++) TRY(read_gpus(build, files[i], json[i].root));
  return df_schedule_finish(build, files[0]);
}

static dfcclResult_t take_json(df_schedule *schedule, const char *const *files, const df_json *json,
                               int count, df_schedule_waits waits, uint32_t ranks) {
  builder build;
  bool traces = false;
  dfcclResult_t result = df_trace_recognise(files, json, count, &traces);
  if (result != dfcclSuccess) return result;
  result = df_schedule_begin(&build, schedule, traces || waits == DF_WAITS_AS_STEPS);
  schedule->of_traces = traces;
  if (result == dfcclSuccess)
    result = traces ? df_trace_build(&build, files, json, count, waits, ranks)
                    : build_schedule(&build, files, json, count);
  df_schedule_abandon(&build);
  if (result != dfcclSuccess) df_schedule_destroy(schedule);
  return result;
}

static dfcclResult_t load(df_schedule *schedule, const char *const *files, int file_count,
                          df_schedule_waits waits, uint32_t ranks) {
  memset(schedule, 0, sizeof *schedule);
  df_json *json = calloc((size_t)file_count, sizeof *json);
  if (!json) return df_schedule_no_memory(files[0]);
  dfcclResult_t result = dfcclSuccess;
  for (int i = 0; i < file_count && result == dfcclSuccess; i++)
    result = df_json_load_any(&json[i], files[i], DF_TRACE_MAX_FILE_BYTES);
  if (result == dfcclSuccess) result = take_json(schedule, files, json, file_count, waits, ranks);
  for (int i = 0; i < file_count; i++) df_json_destroy(&json[i]);
  free(json);
  return result;
}

dfcclResult_t df_schedule_load(df_schedule *schedule, const char *const *files, int file_count,
                               df_schedule_waits waits) {
  return load(schedule, files, file_count, waits, 0);
}

dfcclResult_t df_schedule_load_program(df_schedule *schedule, const char *const *files,
                                       int file_count, uint32_t ranks) {
  return load(schedule, files, file_count, DF_WAITS_AS_STEPS, ranks);
}

dfcclResult_t df_schedule_parse(df_schedule *schedule, const char *file, const char *text,
                                size_t bytes, df_schedule_waits waits) {
  df_json json;
  memset(schedule, 0, sizeof *schedule);
  TRY(df_json_parse_any(&json, file, text, bytes));
  dfcclResult_t result = take_json(schedule, &file, &json, 1, waits, 0);
  df_json_destroy(&json);
  return result;
}

void df_schedule_destroy(df_schedule *schedule) {
  free(schedule->sequences.first);
  free(schedule->sequences.event);
  free(schedule->group_first);
  free(schedule->group_member);
  free(schedule->group_of);
  free(schedule->recorded);
  free(schedule->call);
  df_names_destroy(&schedule->groups);
  df_names_destroy(&schedule->collectives);
  df_names_destroy(&schedule->stacks);
  df_names_destroy(&schedule->content_texts);
  free(schedule->content);
  free(schedule->step);
  memset(schedule, 0, sizeof *schedule);
}
