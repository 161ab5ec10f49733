#include "schedule_build.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json_input.h"
#include "trace_limits.h"

dfcclResult_t df_schedule_no_memory(const char *file) {
  return df_fail(dfcclOutOfMemory, "%s: no memory for the schedule", file);
}

dfcclResult_t df_schedule_begin(df_schedule_builder *build, df_schedule *schedule, bool calls) {
  *build = (df_schedule_builder){.schedule = schedule};
  memset(schedule, 0, sizeof *schedule);
  build->with_calls = calls;
  build->first = calloc(DF_TRACE_MAX_GPUS, sizeof *build->first);
  build->count = calloc(DF_TRACE_MAX_GPUS, sizeof *build->count);
  build->recorded = calloc(DF_TRACE_MAX_GPUS, sizeof *build->recorded);
  if (!build->first || !build->count || !build->recorded)
    return df_fail(dfcclOutOfMemory, "no memory for a schedule");
  dfcclResult_t result = df_names_create(&schedule->groups);
  if (result == dfcclSuccess) result = df_names_create(&schedule->collectives);
  if (result == dfcclSuccess) result = df_names_create(&schedule->stacks);
  if (result == dfcclSuccess) result = df_names_create(&schedule->content_texts);
  return result;
}

void df_schedule_abandon(df_schedule_builder *build) {
  free(build->group_first);
  free(build->member);
  free(build->sorted);
  free(build->event);
  free(build->call);
  free(build->first);
  free(build->count);
  free(build->recorded);
  free(build->last_gpu);
  free(build->group_of);
}

dfcclResult_t df_schedule_check_name(const char *file, const char *path, const char *name) {
  char shown[DF_JSON_SHOWN_BYTES];
  size_t length = strlen(name);
  if (length >= 1 && length <= DF_TRACE_MAX_NAME_BYTES) return dfcclSuccess;
  return df_fail(dfcclInvalidArgument, "%s: %s: a name has 1 to %d bytes, \"%s\" has %zu", file,
                 path, DF_TRACE_MAX_NAME_BYTES, df_show_text(name, shown), length);
}

static int compare_numbers(const void *a, const void *b) {
  uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
  return (left > right) - (left < right);
}

dfcclResult_t df_schedule_reserve_members(df_schedule_builder *build, const char *file,
                                          const char *path, uint32_t count) {
  if (count > DF_TRACE_MAX_GPUS || build->member_count + (uint64_t)count > DF_TRACE_MAX_MEMBERSHIPS)
    return df_fail(dfcclInvalidArgument, "%s: %s: too many members; at most %u in all groups", file,
                   path, DF_TRACE_MAX_MEMBERSHIPS);
  if (build->member_count + (uint64_t)count <= build->member_room) return dfcclSuccess;
  uint32_t room = 2 * build->member_room + count + 256;
  uint32_t *member = realloc(build->member, room * sizeof *member);
  if (member) build->member = member;
  uint32_t *sorted = realloc(build->sorted, room * sizeof *sorted);
  if (sorted) build->sorted = sorted;
  if (!member || !sorted) return df_schedule_no_memory(file);
  build->member_room = room;
  return dfcclSuccess;
}

/* Fails if a member is there twice; copies the members to sorted[], and notes the largest. */
static dfcclResult_t sort_members(df_schedule_builder *build, const char *file, const char *path,
                                  uint32_t count) {
  uint32_t *sorted = build->sorted + build->member_count;
  memcpy(sorted, build->member + build->member_count, count * sizeof *sorted);
  qsort(sorted, count, sizeof *sorted, compare_numbers);
  for (uint32_t place = 1; place < count; place++)
    if (sorted[place] == sorted[place - 1])
      return df_fail(dfcclInvalidArgument, "%s: %s: GPU %u is in the group twice", file, path,
                     sorted[place]);
  build->gpu_count = DF_MAX(build->gpu_count, sorted[count - 1] + 1);
  return dfcclSuccess;
}

dfcclResult_t df_schedule_add_group(df_schedule_builder *build, const char *file, const char *path,
                                    const char *name, uint32_t count, uint32_t *group) {
  dfcclResult_t result = sort_members(build, file, path, count);
  if (result != dfcclSuccess) return result;
  if (df_names_find(&build->schedule->groups, 0, name, group)) {
    uint32_t first = build->group_first[*group], size = build->group_first[*group + 1] - first;
    if (size == count && memcmp(build->member + first, build->member + build->member_count,
                                count * sizeof *build->member) == 0)
      return dfcclSuccess;
    return df_fail(dfcclInvalidArgument,
                   "%s: %s: the members differ from those in a file before it", file, path);
  }
  if (build->group_count == DF_TRACE_MAX_GROUPS)
    return df_fail(dfcclInvalidArgument, "%s: groups: more than the %u allowed", file,
                   DF_TRACE_MAX_GROUPS);
  result = df_names_intern(&build->schedule->groups, 0, name, group);
  if (result != dfcclSuccess) return result;
  if (build->group_count + 2 > build->first_room) {
    uint32_t room = 2 * build->first_room + 64;
    uint32_t *grown = realloc(build->group_first, room * sizeof *grown);
    if (!grown) return df_schedule_no_memory(file);
    build->group_first = grown;
    build->first_room = room;
    build->group_first[0] = 0;
  }
  build->member_count += count;
  build->group_first[++build->group_count] = build->member_count;
  return dfcclSuccess;
}

bool df_schedule_is_member(const df_schedule_builder *build, uint32_t group, uint32_t gpu) {
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

dfcclResult_t df_schedule_open_gpu(df_schedule_builder *build, const char *file, const char *path,
                                   uint32_t gpu, df_recorded recorded) {
  if (build->recorded[gpu] != DF_RECORDED_NOTHING)
    return df_fail(dfcclInvalidArgument, "%s: %s: a file before it has this GPU's events", file,
                   path);
  build->recorded[gpu] = (uint8_t)recorded;
  build->gpu_count = DF_MAX(build->gpu_count, gpu + 1);
  build->first[gpu] = build->event_count;
  return dfcclSuccess;
}

dfcclResult_t df_schedule_name_event(df_schedule_builder *build, const char *file, uint32_t gpu,
                                     uint32_t group, const char *name, uint32_t *event,
                                     bool *twice) {
  df_names *names = &build->schedule->collectives;
  dfcclResult_t result = df_names_intern(names, group, name, event);
  if (result != dfcclSuccess) return result;
  if (names->count > build->collective_room) {
    uint32_t room = 2 * build->collective_room + 1024;
    uint32_t *last = realloc(build->last_gpu, room * sizeof *last);
    if (last) build->last_gpu = last;
    uint32_t *groups = realloc(build->group_of, room * sizeof *groups);
    if (groups) build->group_of = groups;
    if (!last || !groups) return df_schedule_no_memory(file);
    memset(last + build->collective_room, 0, (room - build->collective_room) * sizeof *last);
    build->collective_room = room;
  }
  *twice = build->last_gpu[*event] == gpu + 1;
  build->last_gpu[*event] = gpu + 1;
  build->group_of[*event] = group;
  return dfcclSuccess;
}

static bool grow_events(df_schedule_builder *build) {
  uint64_t room = 2 * build->event_room + 4096;
  uint32_t *grown = realloc(build->event, room * sizeof *grown);
  if (!grown) return false;
  build->event = grown;
  if (build->with_calls) {
    df_call *calls = realloc(build->call, room * sizeof *calls);
    if (!calls) return false;
    build->call = calls;
  }
  build->event_room = room;
  return true;
}

dfcclResult_t df_schedule_add_event(df_schedule_builder *build, const char *file, uint32_t gpu,
                                    uint32_t event, const df_call *call) {
  if (build->event_count == build->event_room) {
    if (2 * build->event_room + 4096 > DF_TRACE_MAX_EVENTS)
      return df_fail(dfcclInvalidArgument, "%s: gpus.%u: more events than the %llu allowed", file,
                     gpu, (unsigned long long)DF_TRACE_MAX_EVENTS);
    if (!grow_events(build)) return df_schedule_no_memory(file);
  }
  if (build->call)
    build->call[build->event_count] =
        call ? *call : (df_call){.stack = DF_NO_STACK, .content = DF_NO_CONTENT};
  build->event[build->event_count++] = event;
  build->count[gpu]++;
  return dfcclSuccess;
}

dfcclResult_t df_schedule_intern_content(df_schedule_builder *build, const char *file,
                                         const df_call_content *content, uint32_t *number) {
  df_schedule *schedule = build->schedule;
  char text[160];
  const uint32_t before = schedule->content_texts.count;
  snprintf(text, sizeof text, "%d %d %d %d %u %d %d %d %llu %llu", content->operation,
           content->type, content->reduction, content->priority, content->root,
           content->has_priority, content->has_root, content->pieces_differ,
           (unsigned long long)content->send_count, (unsigned long long)content->recv_count);
  dfcclResult_t result = df_names_intern(&schedule->content_texts, 0, text, number);
  if (result != dfcclSuccess || *number < before) return result;
  if (*number == schedule->content_room) {
    uint32_t room = 2 * schedule->content_room + 64;
    df_call_content *grown = realloc(schedule->content, room * sizeof *grown);
    if (!grown) return df_schedule_no_memory(file);
    schedule->content = grown;
    schedule->content_room = room;
  }
  schedule->content[*number] = *content;
  return dfcclSuccess;
}

dfcclResult_t df_schedule_add_step(df_schedule_builder *build, const char *file,
                                   df_step_before step) {
  df_schedule *schedule = build->schedule;
  if (schedule->step_count == schedule->step_room) {
    uint32_t room = 2 * schedule->step_room + 256;
    df_step_before *grown =
        room > DF_TRACE_MAX_EVENTS ? NULL : realloc(schedule->step, room * sizeof *grown);
    if (!grown) return df_schedule_no_memory(file);
    schedule->step = grown;
    schedule->step_room = room;
  }
  schedule->step[schedule->step_count++] = step;
  return dfcclSuccess;
}

static bool allocate_sequences(df_schedule_builder *build) {
  df_schedule *schedule = build->schedule;
  df_sequences *sequences = &schedule->sequences;
  sequences->first = malloc((build->gpu_count + 1u) * sizeof *sequences->first);
  sequences->event = malloc((build->event_count + 1) * sizeof *sequences->event);
  schedule->recorded = calloc(build->gpu_count + 1u, sizeof *schedule->recorded);
  if (build->call) schedule->call = malloc((build->event_count + 1) * sizeof *schedule->call);
  return sequences->first && sequences->event && schedule->recorded &&
         (schedule->call || !build->call);
}

dfcclResult_t df_schedule_finish(df_schedule_builder *build, const char *file) {
  df_schedule *schedule = build->schedule;
  df_sequences *sequences = &schedule->sequences;
  if (!allocate_sequences(build)) return df_schedule_no_memory(file);
  uint64_t done = 0;
  for (uint32_t gpu = 0; gpu < build->gpu_count; gpu++) {
    uint64_t first = build->first[gpu], count = build->count[gpu];
    sequences->first[gpu] = done;
    schedule->recorded[gpu] = build->recorded[gpu];
    if (count > 0) {
      memcpy(sequences->event + done, build->event + first, count * sizeof *sequences->event);
      if (build->call)
        memcpy(schedule->call + done, build->call + first, count * sizeof *schedule->call);
    }
    done += count;
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
