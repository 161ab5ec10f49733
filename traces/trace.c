#include "trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace_limits.h"
#include "trace_calls.h"

#define TRY(expression)                                                                            \
  do {                                                                                             \
    dfcclResult_t try_result = (expression);                                                       \
    if (try_result != dfcclSuccess) return try_result;                                             \
  } while (0)

static const cJSON *get(const cJSON *object, const char *key) {
  return cJSON_GetObjectItemCaseSensitive(object, key);
}

typedef dfcclResult_t (*trace_reader)(df_trace *trace, df_trace_rank *rank, const cJSON *root);

/* Lines become a list of objects, and a single line an object. */
static bool is_lines(const cJSON *root) {
  const cJSON *first = cJSON_IsArray(root) ? root->child : root;
  return get(first, "collective") || get(first, "trace") || get(first, "after");
}

static trace_reader reader_of(const cJSON *root) {
  if (cJSON_IsArray(root)) return cJSON_IsObject(root->child) ? df_trace_read_param : NULL;
  if (get(root, "entries") || get(root, "pg_config")) return df_trace_read_flight;
  return cJSON_IsArray(get(root, "nodes")) ? df_trace_read_execution : NULL;
}

static bool is_trace(const cJSON *root) { return is_lines(root) || reader_of(root) != NULL; }

dfcclResult_t df_trace_recognise(const char *const *files, const df_json *json, int count,
                                 bool *traces) {
  *traces = is_trace(json[0].root);
  for (int i = 0; i < count; i++)
    if (cJSON_IsArray(get(json[i].root, "traceEvents")))
      return df_fail(dfcclInvalidArgument,
                     "%s: a profile for a viewer (traceEvents); give Execution Traces, which "
                     "torch.profiler.ExecutionTraceObserver writes",
                     files[i]);
  for (int i = 1; i < count; i++)
    if (is_trace(json[i].root) != *traces)
      return df_fail(dfcclInvalidArgument, "%s: a %s, but %s is a %s", files[i],
                     *traces ? "schedule" : "trace", files[0], *traces ? "trace" : "schedule");
  return dfcclSuccess;
}

static int by_rank(const void *a, const void *b) {
  const df_trace_rank *left = a, *right = b;
  return (left->rank > right->rank) - (left->rank < right->rank);
}

/* A single trace of one rank is the trace of each rank of the job, if the caller gives a number. */
static dfcclResult_t read_file(df_trace *trace, const char *const *files, const df_json *json,
                               int count, int file) {
  const cJSON *root = json[file].root;
  const uint32_t copies = count == 1 && trace->job_ranks > 0 ? trace->job_ranks : 1;
  if (is_lines(root)) return df_trace_read_lines(trace, files, count, file, root);
  for (uint32_t copy = 0; copy < copies; copy++) {
    uint32_t index;
    TRY(df_trace_add_rank(trace, files[file], &index));
    df_trace_rank *rank = &trace->rank[index];
    TRY(df_trace_rank_of(rank, files, count, root));
    if (copies > 1) {
      rank->rank = copy;
      rank->rank_assumed = false;
    }
    TRY(reader_of(root)(trace, rank, root));
  }
  return dfcclSuccess;
}

static dfcclResult_t read_files(df_trace *trace, const char *const *files, const df_json *json,
                                int count) {
  TRY(df_names_create(&trace->groups));
  TRY(df_names_create(&trace->signatures));
  TRY(df_names_create(&trace->member_lists));
  for (int i = 0; i < count; i++) TRY(read_file(trace, files, json, count, i));
  qsort(trace->rank, trace->rank_count, sizeof *trace->rank, by_rank);
  return dfcclSuccess;
}

/* ---- events ---- */

typedef struct {
  df_schedule_builder *build;
  const df_trace *trace;
  df_schedule_waits waits;
  uint64_t *start;
  uint32_t *group;   /* group of the trace -> group of the schedule, + 1 */
  df_names ordinals; /* scope: the schedule's group; text: a signature */
  uint64_t *made;    /* by ordinal: how often the rank has made it */
  uint32_t *made_by; /* and which rank + 1 */
  uint32_t made_room;
  uint32_t *made_event; /* the rank's call -> its event */
  char *text;           /* for names */
} emission;

static dfcclResult_t put_group(emission *emit, const char *file, const char *name,
                               const uint32_t *members, uint32_t count, uint32_t *group) {
  TRY(df_schedule_reserve_members(emit->build, file, name, count));
  memcpy(emit->build->member + emit->build->member_count, members, count * sizeof *members);
  return df_schedule_add_group(emit->build, file, name, name, count, group);
}

static dfcclResult_t schedule_group(emission *emit, const df_trace_rank *rank, uint32_t group,
                                    uint32_t *found) {
  const df_trace_members *members = &emit->trace->members[group];
  const char *name = df_names_text(&emit->trace->groups, group);
  if (emit->group[group] == 0) {
    uint32_t other;
    snprintf(emit->text, DF_TRACE_MAX_NAME_BYTES, "%s", name);
    if (df_names_find(&emit->build->schedule->groups, 0, name, &other)) {
      uint32_t scope = emit->trace->groups.name[group].scope;
      snprintf(emit->text, DF_TRACE_MAX_NAME_BYTES, "%s of ranks %s", name,
               scope == DF_TRACE_UNDESCRIBED ? "not given"
                                             : df_names_text(&emit->trace->member_lists, scope));
    }
    TRY(put_group(emit, rank->file, emit->text, members->rank, members->count, found));
    emit->group[group] = *found + 1;
  }
  *found = emit->group[group] - 1;
  return dfcclSuccess;
}

/* The group of a message: its two ranks. */
static dfcclResult_t message_group(emission *emit, const df_trace_rank *rank,
                                   const df_trace_call *call, uint32_t *group) {
  const df_trace_members *members = &emit->trace->members[call->group];
  uint32_t pair[2] = {call->from, call->to};
  for (int i = 0; i < 2 && !call->peers_are_ranks; i++) {
    if (pair[i] >= members->count)
      return df_fail(dfcclInvalidArgument, "%s: call %llu: place %u of a group of %u", rank->file,
                     (unsigned long long)call->number, pair[i], members->count);
    pair[i] = members->rank[pair[i]];
  }
  for (int i = 0; i < 2; i++)
    if (pair[i] >= DF_TRACE_MAX_GPUS)
      return df_fail(dfcclInvalidArgument, "%s: call %llu: no rank is %u", rank->file,
                     (unsigned long long)call->number, pair[i]);
  if (pair[0] == pair[1])
    return df_fail(dfcclInvalidArgument, "%s: call %llu: a message of rank %u to itself",
                   rank->file, (unsigned long long)call->number, pair[0]);
  snprintf(emit->text, DF_TRACE_MAX_NAME_BYTES, "%s, from %u to %u",
           df_names_text(&emit->trace->groups, call->group), pair[0], pair[1]);
  return put_group(emit, rank->file, emit->text, pair, 2, group);
}

/* How often the rank has made this call before, and once more. */
static dfcclResult_t count_call(emission *emit, const df_trace_rank *rank, uint32_t group,
                                const char *signature, uint64_t *ordinal) {
  uint32_t key;
  TRY(df_names_intern(&emit->ordinals, group, signature, &key));
  if (key >= emit->made_room) {
    uint32_t room = 2 * key + 256;
    uint64_t *made = realloc(emit->made, room * sizeof *made);
    if (made) emit->made = made;
    uint32_t *made_by = realloc(emit->made_by, room * sizeof *made_by);
    if (made_by) emit->made_by = made_by;
    if (!made || !made_by) return df_schedule_no_memory(rank->file);
    memset(made_by + emit->made_room, 0, (room - emit->made_room) * sizeof *made_by);
    emit->made_room = room;
  }
  if (emit->made_by[key] != rank->rank + 1) emit->made[key] = 0;
  emit->made_by[key] = rank->rank + 1;
  *ordinal = ++emit->made[key];
  return dfcclSuccess;
}

/* Frames of torch and of this project's package say nothing of the program. A program's own
 * folders may be called torch or dfccl, too: only what is installed, or known by a folder
 * inside, counts. */
static bool is_of_program(const char *file) {
  static const char *const others[] = {"-packages/torch/", "/torch/distributed", "/torch/nn/",
                                       "/torch/autograd/", "/torch/utils/",      "/torch/_",
                                       "-packages/dfccl/", "/dfccl/torch/"};
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    if (strstr(file, others[i])) return false;
  return true;
}

static dfcclResult_t read_stack(emission *emit, const df_trace_rank *rank,
                                const df_trace_call *call, uint32_t *stack) {
  enum { FRAMES = 5, FRAME_BYTES = 400, BYTES = FRAMES * FRAME_BYTES };
  char text[BYTES];
  size_t used = 0;
  int shown = 0;
  *stack = DF_NO_STACK;
  for (int all = 0; all < 2 && shown == 0; all++)
    for (const cJSON *frame = cJSON_IsArray(call->frames) ? call->frames->child : NULL;
         frame && shown < FRAMES; frame = frame->next) {
      const cJSON *name = get(frame, "name"), *file = get(frame, "filename"),
                  *line = get(frame, "line");
      if (!cJSON_IsString(name) || !cJSON_IsString(file) || !cJSON_IsNumber(line) ||
          !(line->valuedouble >= 0 && line->valuedouble <= UINT32_MAX))
        return df_fail(dfcclInvalidArgument,
                       "%s: call %llu: frames: expected name, filename and line", rank->file,
                       (unsigned long long)call->number);
      if (!all && !is_of_program(file->valuestring)) continue;
      used += (size_t)snprintf(text + used, BYTES - used, "%s%.200s:%.0f in %.100s",
                               shown++ > 0 ? " < " : "", file->valuestring, line->valuedouble,
                               name->valuestring);
    }
  return shown > 0 ? df_names_intern(&emit->build->schedule->stacks, 0, text, stack) : dfcclSuccess;
}

static bool is_forgotten(const emission *emit, const df_trace_call *call) {
  uint64_t start = emit->start[call->group];
  return start > 0 && (call->from != DF_TRACE_NOBODY || call->sequence < start);
}

/* The steps before a call, and its content. A call that cannot be replayed ends the reading. */
static dfcclResult_t emit_content(emission *emit, const df_trace_rank *rank,
                                  const df_trace_call *call, const char *signature,
                                  df_call *origin) {
  if (call->content.operation < 0)
    return df_fail(dfcclInvalidArgument, "%s: call %llu: unknown operation \"%.60s\"", rank->file,
                   (unsigned long long)call->number, signature);
  if (df_content_count(&call->content, 1) == DF_NO_COUNT)
    return df_fail(dfcclInvalidArgument, "%s: call %llu: \"%.100s\" has no size", rank->file,
                   (unsigned long long)call->number, signature);
  return df_schedule_intern_content(emit->build, rank->file, &call->content, &origin->content);
}

static dfcclResult_t emit_steps(emission *emit, const df_trace_rank *rank, uint32_t first,
                                uint32_t count, df_call *origin) {
  origin->first_step = emit->build->schedule->step_count;
  origin->step_count = count;
  for (uint32_t i = first; i < first + count; i++) {
    const df_trace_step *step = &emit->trace->step[i];
    const uint32_t awaited = step->awaited ? emit->made_event[step->awaited - 1] : DF_NO_COLLECTIVE;
    TRY(df_schedule_add_step(emit->build, rank->file, (df_step_before){awaited, step->compute_us}));
  }
  return dfcclSuccess;
}

static bool waits_for_one(const df_trace *trace, const df_trace_call *call) {
  for (uint32_t i = 0; i < call->step_count; i++)
    if (trace->step[call->first_step + i].awaited) return true;
  return false;
}

static dfcclResult_t emit_call(emission *emit, const df_trace_rank *rank,
                               const df_trace_call *call) {
  uint32_t group = 0, event = 0;
  uint64_t ordinal = 0;
  bool twice = false;
  const char *signature = df_names_text(&emit->trace->signatures, call->signature);
  if (call->from == DF_TRACE_NOBODY)
    TRY(schedule_group(emit, rank, call->group, &group));
  else
    TRY(message_group(emit, rank, call, &group));
  if (!df_schedule_is_member(emit->build, group, rank->rank))
    return df_fail(
        dfcclInvalidArgument, "%s: call %llu: rank %u is not a member of its group \"%.100s\"%s",
        rank->file, (unsigned long long)call->number, rank->rank,
        df_names_text(&emit->build->schedule->groups, group),
        rank->rank_assumed ? "; give the file a name with its rank, for example rank_3.json" : "");
  TRY(count_call(emit, rank, group, signature, &ordinal));
  snprintf(emit->text, DF_TRACE_MAX_NAME_BYTES, "%s #%llu", signature, (unsigned long long)ordinal);
  TRY(df_schedule_name_event(emit->build, rank->file, rank->rank, group, emit->text, &event,
                             &twice));
  df_call origin = {
      .number = (uint32_t)call->number, .stack = DF_NO_STACK, .content = DF_NO_CONTENT};
  emit->made_event[call - rank->call] = event;
  TRY(read_stack(emit, rank, call, &origin.stack));
  if (emit->waits == DF_WAITS_AS_STEPS) {
    TRY(emit_content(emit, rank, call, signature, &origin));
    TRY(emit_steps(emit, rank, call->first_step, call->step_count, &origin));
  }
  return df_schedule_add_event(emit->build, rank->file, rank->rank, event, &origin);
}

/* Steps after the last call: a wait for all, with the steps before it. */
static dfcclResult_t emit_end(emission *emit, const df_trace_rank *rank) {
  df_call end = {.stack = DF_NO_STACK, .content = DF_NO_CONTENT};
  if (emit->waits != DF_WAITS_AS_STEPS || rank->last_step_count == 0) return dfcclSuccess;
  TRY(emit_steps(emit, rank, rank->last_step, rank->last_step_count, &end));
  return df_schedule_add_event(emit->build, rank->file, rank->rank, DF_EVENT_SYNC, &end);
}

static dfcclResult_t emit_rank(emission *emit, const df_trace_rank *rank) {
  char path[24];
  snprintf(path, sizeof path, "rank %u", rank->rank);
  TRY(df_schedule_open_gpu(emit->build, rank->file, path, rank->rank,
                           rank->whole ? DF_RECORDED_WHOLE : DF_RECORDED_SO_FAR));
  bool begun = false, hold = false;
  uint32_t *events = realloc(emit->made_event, (rank->count + 1) * sizeof *events);
  if (!events) return df_schedule_no_memory(rank->file);
  memset(events, 0xff, (rank->count + 1) * sizeof *events); /* DF_NO_COLLECTIVE */
  emit->made_event = events;
  for (uint64_t i = 0; i < rank->count; i++) {
    const df_trace_call *call = &rank->call[i];
    if (is_forgotten(emit, call)) continue;
    if (emit->waits == DF_WAITS_AFTER_EACH) hold = begun && !call->with_last;
    if (emit->waits == DF_WAITS_AS_RECORDED) hold |= begun && waits_for_one(emit->trace, call);
    if (hold) TRY(df_schedule_add_event(emit->build, rank->file, rank->rank, DF_EVENT_SYNC, NULL));
    TRY(emit_call(emit, rank, call));
    begun = true;
    hold = call->host_waits;
  }
  return emit_end(emit, rank);
}

static dfcclResult_t emit_all(emission *emit, df_schedule *schedule) {
  const df_trace *trace = emit->trace;
  emit->start = calloc(trace->groups.count + 1u, sizeof *emit->start);
  emit->group = calloc(trace->groups.count + 1u, sizeof *emit->group);
  emit->text = malloc(DF_TRACE_MAX_NAME_BYTES);
  if (!emit->start || !emit->group || !emit->text)
    return df_schedule_no_memory(trace->rank[0].file);
  TRY(df_names_create(&emit->ordinals));
  TRY(df_trace_find_starts(trace, schedule, emit->start));
  for (uint32_t r = 0; r < trace->rank_count; r++) TRY(emit_rank(emit, &trace->rank[r]));
  if ((emit->waits != DF_WAITS_AFTER_EACH && trace->waits_are_single) ||
      (emit->waits == DF_WAITS_AS_RECORDED && trace->waits_are_named))
    df_trace_note(schedule,
                  "a wait for one call is taken to be a wait for all calls that have begun");
  return df_schedule_finish(emit->build, trace->rank[0].file);
}

dfcclResult_t df_trace_build(df_schedule_builder *build, const char *const *files,
                             const df_json *json, int count, df_schedule_waits waits,
                             uint32_t ranks) {
  df_trace trace = {.job_ranks = ranks, .is_replayed = waits == DF_WAITS_AS_STEPS};
  emission emit = {.build = build, .trace = &trace, .waits = waits};
  dfcclResult_t result = read_files(&trace, files, json, count);
  if (result == dfcclSuccess) result = df_trace_complete_groups(&trace, build->schedule);
  if (result == dfcclSuccess) result = emit_all(&emit, build->schedule);
  for (uint32_t i = 0; i < trace.rank_count; i++) free(trace.rank[i].call);
  for (uint32_t g = 0; g < trace.groups.count && g < trace.members_room; g++)
    free(trace.members[g].rank);
  free(trace.rank);
  free(trace.members);
  free(trace.step);
  df_names_destroy(&trace.groups);
  df_names_destroy(&trace.signatures);
  df_names_destroy(&trace.member_lists);
  free(emit.start);
  free(emit.group);
  free(emit.made);
  free(emit.made_by);
  free(emit.made_event);
  free(emit.text);
  df_names_destroy(&emit.ordinals);
  return result;
}
