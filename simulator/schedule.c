#include "schedule.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json_input.h"
#include "sim_limits.h"

#define TRY(expression)                                                                            \
  do {                                                                                             \
    dfcclResult_t try_result = (expression);                                                       \
    if (try_result != dfcclSuccess) return try_result;                                             \
  } while (0)

/* While reading: the parts of the schedule that grow. */
typedef struct {
  df_schedule *schedule;
  uint32_t group_count, member_count, member_room;
  uint32_t *group_first;     /* with one entry more than groups; room for names.room + 1 */
  uint32_t *member, *sorted; /* parallel: in the group's order, and each group ascending */
  uint32_t first_room;
  uint64_t event_count, event_room;
  uint32_t *event;
  uint64_t *first, *count; /* GPU -> its events */
  uint8_t *recorded;       /* GPU -> df_recorded */
  uint32_t *last_gpu;      /* collective -> the GPU + 1 that ran it last */
  uint32_t *group_of;
  uint32_t collective_room;
  uint32_t gpu_count; /* largest GPU named anywhere + 1 */
} builder;

static dfcclResult_t no_memory(const char *file) {
  return df_fail(dfcclOutOfMemory, "%s: no memory for the schedule", file);
}

static dfcclResult_t check_name(const char *file, const char *path, const char *name) {
  char shown[DF_JSON_SHOWN_BYTES];
  size_t length = strlen(name);
  if (length >= 1 && length <= DF_SIM_MAX_NAME_BYTES) return dfcclSuccess;
  return df_fail(dfcclInvalidArgument, "%s: %s: a name has 1 to %d bytes, \"%s\" has %zu", file,
                 path, DF_SIM_MAX_NAME_BYTES, df_show_text(name, shown), length);
}

static int compare_numbers(const void *a, const void *b) {
  uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
  return (left > right) - (left < right);
}

static bool room_for_members(builder *build, uint32_t count) {
  if (build->member_count + (uint64_t)count <= build->member_room) return true;
  uint32_t room = 2 * build->member_room + count + 256;
  uint32_t *member = realloc(build->member, room * sizeof *member);
  if (member) build->member = member;
  uint32_t *sorted = realloc(build->sorted, room * sizeof *sorted);
  if (sorted) build->sorted = sorted;
  if (!member || !sorted) return false;
  build->member_room = room;
  return true;
}

/* Reads a group's members to the end of member[] and sorted[]; *count of them. */
static dfcclResult_t read_members(builder *build, const char *file, const cJSON *list,
                                  uint32_t *count) {
  char path[128], shown[DF_JSON_SHOWN_BYTES];
  df_show_text(list->string, shown);
  if (!cJSON_IsArray(list) || !list->child) {
    char value[DF_JSON_SHOWN_BYTES];
    return df_fail(dfcclInvalidArgument, "%s: groups.%s: expected a list of GPUs, not %s", file,
                   shown, cJSON_IsArray(list) ? "an empty one" : df_json_show(list, value));
  }
  uint32_t total = 0, place = 0;
  for (const cJSON *item = list->child; item && total <= DF_SIM_MAX_GPUS; item = item->next)
    total++;
  if (total > DF_SIM_MAX_GPUS || build->member_count + total > DF_SIM_MAX_MEMBERSHIPS)
    return df_fail(dfcclInvalidArgument,
                   "%s: groups.%s: too many members; at most %u in all groups", file, shown,
                   DF_SIM_MAX_MEMBERSHIPS);
  if (!room_for_members(build, total)) return no_memory(file);
  uint32_t *sorted = build->sorted + build->member_count;
  for (const cJSON *item = list->child; item; item = item->next, place++) {
    int64_t gpu = 0;
    snprintf(path, sizeof path, "groups.%s[%u]", shown, place);
    TRY(df_json_whole(file, path, item, 0, DF_SIM_MAX_GPUS - 1, &gpu));
    build->member[build->member_count + place] = sorted[place] = (uint32_t)gpu;
    build->gpu_count = DF_MAX(build->gpu_count, (uint32_t)gpu + 1);
  }
  qsort(sorted, total, sizeof *sorted, compare_numbers);
  for (place = 1; place < total; place++)
    if (sorted[place] == sorted[place - 1])
      return df_fail(dfcclInvalidArgument, "%s: groups.%s: GPU %u is in the group twice", file,
                     shown, sorted[place]);
  *count = total;
  return dfcclSuccess;
}

static dfcclResult_t add_group(builder *build, const char *file, const cJSON *list) {
  char path[16] = "groups", shown[DF_JSON_SHOWN_BYTES];
  uint32_t group, count = 0;
  TRY(check_name(file, path, list->string));
  TRY(read_members(build, file, list, &count));
  if (df_names_find(&build->schedule->groups, 0, list->string, &group)) {
    uint32_t first = build->group_first[group], size = build->group_first[group + 1] - first;
    if (size == count && memcmp(build->member + first, build->member + build->member_count,
                                count * sizeof *build->member) == 0)
      return dfcclSuccess;
    return df_fail(dfcclInvalidArgument,
                   "%s: groups.%s: the members differ from those in a file before it", file,
                   df_show_text(list->string, shown));
  }
  if (build->group_count == DF_SIM_MAX_GROUPS)
    return df_fail(dfcclInvalidArgument, "%s: groups: more than the %u allowed", file,
                   DF_SIM_MAX_GROUPS);
  TRY(df_names_intern(&build->schedule->groups, 0, list->string, &group));
  if (build->group_count + 2 > build->first_room) {
    uint32_t room = 2 * build->first_room + 64;
    uint32_t *grown = realloc(build->group_first, room * sizeof *grown);
    if (!grown) return no_memory(file);
    build->group_first = grown;
    build->first_room = room;
    build->group_first[0] = 0;
  }
  build->member_count += count;
  build->group_first[++build->group_count] = build->member_count;
  return dfcclSuccess;
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

static bool is_member(const builder *build, uint32_t group, uint32_t gpu) {
  uint32_t low = build->group_first[group], high = build->group_first[group + 1];
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if (build->sorted[middle] == gpu) return true;
    if (build->sorted[middle] < gpu)
      low = middle + 1;
    else
      high = middle;
  }
  return false;
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

static dfcclResult_t read_collective(builder *build, const event_place *place, const cJSON *coll,
                                     const cJSON *group_name, uint32_t *event) {
  char path[64];
  uint32_t group;
  if (!cJSON_IsString(coll)) return bad_event(place, ".coll", "expected a name, not ", coll);
  if (!cJSON_IsString(group_name))
    return bad_event(place, ".group", "expected a name, not ", group_name);
  if (!df_names_find(&build->schedule->groups, 0, group_name->valuestring, &group))
    return bad_event(place, ".group", "no such group under groups: ", group_name);
  if (!is_member(build, group, place->gpu))
    return bad_event(place, ".group", "the GPU is not a member of ", group_name);
  size_t length = strlen(coll->valuestring);
  if (length == 0 || length > DF_SIM_MAX_NAME_BYTES) {
    snprintf(path, sizeof path, "gpus.%u[%llu].coll", place->gpu, (unsigned long long)place->index);
    return check_name(place->file, path, coll->valuestring);
  }
  df_names *names = &build->schedule->collectives;
  TRY(df_names_intern(names, group, coll->valuestring, event));
  if (names->count > build->collective_room) {
    uint32_t room = 2 * build->collective_room + 1024;
    uint32_t *last = realloc(build->last_gpu, room * sizeof *last);
    if (last) build->last_gpu = last;
    uint32_t *groups = realloc(build->group_of, room * sizeof *groups);
    if (groups) build->group_of = groups;
    if (!last || !groups) return no_memory(place->file);
    memset(last + build->collective_room, 0, (room - build->collective_room) * sizeof *last);
    build->collective_room = room;
  }
  if (build->last_gpu[*event] == place->gpu + 1)
    return bad_event(place, ".coll",
                     "the GPU runs it twice; give each run a name of its own: ", coll);
  build->last_gpu[*event] = place->gpu + 1;
  build->group_of[*event] = group;
  return dfcclSuccess;
}

static dfcclResult_t read_event(builder *build, const event_place *place, const cJSON *item,
                                uint32_t *event) {
  if (!cJSON_IsObject(item)) return bad_event(place, "", "expected an event object, not ", item);
  const cJSON *coll = NULL, *group = NULL, *sync = NULL;
  for (const cJSON *member = item->child; member; member = member->next) {
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
  return read_collective(build, place, coll, group, event);
}

static dfcclResult_t read_gpu(builder *build, const char *file, df_recorded recorded,
                              const cJSON *events) {
  char shown[DF_JSON_SHOWN_BYTES], value[DF_JSON_SHOWN_BYTES];
  const char *id = events->string;
  char *end = NULL;
  unsigned long number = strtoul(id, &end, 10);
  char canonical[24];
  snprintf(canonical, sizeof canonical, "%lu", number);
  if (strcmp(canonical, id) != 0 || number >= DF_SIM_MAX_GPUS)
    return df_fail(dfcclInvalidArgument, "%s: gpus.%s: a GPU is a whole number from 0 to %u", file,
                   df_show_text(id, shown), DF_SIM_MAX_GPUS - 1);
  uint32_t gpu = (uint32_t)number;
  if (!cJSON_IsArray(events))
    return df_fail(dfcclInvalidArgument, "%s: gpus.%u: expected a list of events, not %s", file,
                   gpu, df_json_show(events, value));
  if (build->recorded[gpu] != DF_RECORDED_NOTHING)
    return df_fail(dfcclInvalidArgument, "%s: gpus.%u: a file before it has this GPU's events",
                   file, gpu);
  build->recorded[gpu] = (uint8_t)recorded;
  build->gpu_count = DF_MAX(build->gpu_count, gpu + 1);
  build->first[gpu] = build->event_count;
  event_place place = {file, gpu, 0};
  for (const cJSON *item = events->child; item; item = item->next, place.index++) {
    if (build->event_count == build->event_room) {
      uint64_t room = 2 * build->event_room + 4096;
      if (room > DF_SIM_MAX_DENSE_EVENTS)
        return df_fail(dfcclInvalidArgument, "%s: gpus.%u: more events than the %llu allowed", file,
                       gpu, (unsigned long long)DF_SIM_MAX_DENSE_EVENTS);
      uint32_t *grown = realloc(build->event, room * sizeof *grown);
      if (!grown) return no_memory(file);
      build->event = grown;
      build->event_room = room;
    }
    TRY(read_event(build, &place, item, &build->event[build->event_count]));
    build->event_count++;
  }
  build->count[gpu] = place.index;
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

/* Puts the GPUs' events in the order of their numbers and hands everything to the schedule. */
static dfcclResult_t finish(builder *build, const char *file) {
  df_schedule *schedule = build->schedule;
  df_sequences *sequences = &schedule->sequences;
  sequences->first = malloc((build->gpu_count + 1u) * sizeof *sequences->first);
  sequences->event = malloc((build->event_count + 1) * sizeof *sequences->event);
  schedule->recorded = calloc(build->gpu_count + 1u, sizeof *schedule->recorded);
  if (!sequences->first || !sequences->event || !schedule->recorded) return no_memory(file);
  uint64_t done = 0;
  for (uint32_t gpu = 0; gpu < build->gpu_count; gpu++) {
    sequences->first[gpu] = done;
    schedule->recorded[gpu] = build->recorded[gpu];
    if (build->count[gpu] > 0)
      memcpy(sequences->event + done, build->event + build->first[gpu],
             build->count[gpu] * sizeof *sequences->event);
    done += build->count[gpu];
  }
  sequences->first[build->gpu_count] = done;
  sequences->gpu_count = build->gpu_count;
  sequences->group_count = build->group_count;
  sequences->coll_count = schedule->collectives.count;
  schedule->group_first = build->group_first;
  schedule->group_member = build->member;
  schedule->group_of = build->group_of;
  sequences->member_first = schedule->group_first;
  sequences->member = schedule->group_member;
  sequences->group_of = schedule->group_of;
  build->group_first = build->member = build->group_of = NULL;
  return dfcclSuccess;
}

static dfcclResult_t build_schedule(builder *build, const char *const *files, const df_json *json,
                                    int count) {
  build->first = calloc(DF_SIM_MAX_GPUS, sizeof *build->first);
  build->count = calloc(DF_SIM_MAX_GPUS, sizeof *build->count);
  build->recorded = calloc(DF_SIM_MAX_GPUS, sizeof *build->recorded);
  if (!build->first || !build->count || !build->recorded) return no_memory(files[0]);
  TRY(df_names_create(&build->schedule->groups));
  TRY(df_names_create(&build->schedule->collectives));
  for (int i = 0; i < count; i++) TRY(read_groups(build, files[i], json[i].root));
  for (int i = 0; i < count; i++) TRY(read_gpus(build, files[i], json[i].root));
  return finish(build, files[0]);
}

static dfcclResult_t take_json(df_schedule *schedule, const char *const *files, const df_json *json,
                               int count) {
  memset(schedule, 0, sizeof *schedule);
  builder build = {.schedule = schedule};
  dfcclResult_t result = build_schedule(&build, files, json, count);
  free(build.group_first);
  free(build.member);
  free(build.sorted);
  free(build.event);
  free(build.first);
  free(build.count);
  free(build.recorded);
  free(build.last_gpu);
  free(build.group_of);
  if (result != dfcclSuccess) df_schedule_destroy(schedule);
  return result;
}

dfcclResult_t df_schedule_load(df_schedule *schedule, const char *const *files, int file_count) {
  memset(schedule, 0, sizeof *schedule);
  df_json *json = calloc((size_t)file_count, sizeof *json);
  if (!json) return no_memory(files[0]);
  dfcclResult_t result = dfcclSuccess;
  for (int i = 0; i < file_count && result == dfcclSuccess; i++)
    result = df_json_load(&json[i], files[i], DF_SIM_MAX_SCHEDULE_BYTES);
  if (result == dfcclSuccess) result = take_json(schedule, files, json, file_count);
  for (int i = 0; i < file_count; i++) df_json_destroy(&json[i]);
  free(json);
  return result;
}

dfcclResult_t df_schedule_parse(df_schedule *schedule, const char *file, const char *text,
                                size_t bytes) {
  df_json json;
  memset(schedule, 0, sizeof *schedule);
  TRY(df_json_parse(&json, file, text, bytes));
  dfcclResult_t result = take_json(schedule, &file, &json, 1);
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
  df_names_destroy(&schedule->groups);
  df_names_destroy(&schedule->collectives);
  memset(schedule, 0, sizeof *schedule);
}
