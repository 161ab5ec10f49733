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

static trace_reader reader_of(const cJSON *root) {
  if (cJSON_IsArray(root)) return cJSON_IsObject(root->child) ? df_trace_read_param : NULL;
  if (get(root, "entries") || get(root, "pg_config")) return df_trace_read_flight;
  return cJSON_IsArray(get(root, "nodes")) ? df_trace_read_execution : NULL;
}

dfcclResult_t df_trace_recognise(const char *const *files, const df_json *json, int count,
                                 bool *traces) {
  *traces = reader_of(json[0].root) != NULL;
  for (int i = 0; i < count; i++)
    if (cJSON_IsArray(get(json[i].root, "traceEvents")))
      return df_fail(dfcclInvalidArgument,
                     "%s: a profile for a viewer (traceEvents); give Execution Traces, which "
                     "torch.profiler.ExecutionTraceObserver writes",
                     files[i]);
  for (int i = 1; i < count; i++)
    if ((reader_of(json[i].root) != NULL) != *traces)
      return df_fail(dfcclInvalidArgument, "%s: a %s, but %s is a %s", files[i],
                     *traces ? "schedule" : "trace", files[0], *traces ? "trace" : "schedule");
  return dfcclSuccess;
}

static void note(df_schedule *schedule, const char *text) {
  if (schedule->note_count < DF_MAX_NOTES)
    snprintf(schedule->note[schedule->note_count++], DF_NOTE_BYTES, "%s", text);
}

static int by_rank(const void *a, const void *b) {
  const df_trace_rank *left = a, *right = b;
  return (left->rank > right->rank) - (left->rank < right->rank);
}

static dfcclResult_t read_files(df_trace *trace, const char *const *files, const df_json *json,
                                int count) {
  trace->rank = calloc((size_t)count, sizeof *trace->rank);
  if (!trace->rank) return df_schedule_no_memory(files[0]);
  trace->rank_count = count;
  TRY(df_names_create(&trace->groups));
  TRY(df_names_create(&trace->signatures));
  TRY(df_names_create(&trace->member_lists));
  for (int i = 0; i < count; i++) {
    df_trace_rank *rank = &trace->rank[i];
    rank->file = files[i];
    TRY(df_trace_rank_of(rank, files, count, json[i].root));
    TRY(reader_of(json[i].root)(trace, rank, json[i].root));
  }
  qsort(trace->rank, (size_t)count, sizeof *trace->rank, by_rank);
  return dfcclSuccess;
}

/* ---- members that no file tells ---- */

static bool append_member(df_trace_members *members, uint32_t rank) {
  if ((members->count & (members->count - 1)) == 0) { /* a power of two, or 0: full */
    uint32_t room = members->count ? 2 * members->count : 1;
    uint32_t *grown = realloc(members->rank, room * sizeof *grown);
    if (!grown) return false;
    members->rank = grown;
  }
  members->rank[members->count++] = rank;
  return true;
}

static bool infer_members(df_trace *trace, bool *unknown, bool *failed) {
  uint32_t groups = trace->groups.count;
  for (uint32_t g = 0; g < groups; g++) unknown[g] = trace->members[g].count == 0;
  for (int r = 0; r < trace->rank_count; r++) {
    const df_trace_rank *rank = &trace->rank[r];
    for (uint32_t g = 0; g < groups; g++)
      if (unknown[g] && trace->members[g].everybody &&
          !append_member(&trace->members[g], rank->rank))
        return *failed = true;
    for (uint64_t i = 0; i < rank->count; i++) {
      df_trace_members *members = &trace->members[rank->call[i].group];
      if (!unknown[rank->call[i].group] || members->everybody) continue;
      if (members->count > 0 && members->rank[members->count - 1] == rank->rank) continue;
      if (!append_member(members, rank->rank)) return *failed = true;
    }
  }
  return true;
}

static dfcclResult_t complete_groups(df_trace *trace, df_schedule *schedule) {
  char text[DF_NOTE_BYTES];
  bool failed = false, *unknown = calloc(trace->groups.count + 1u, sizeof *unknown);
  if (!unknown || !infer_members(trace, unknown, &failed) || failed) {
    free(unknown);
    return df_schedule_no_memory(trace->rank[0].file);
  }
  for (int r = 0; r < trace->rank_count; r++)
    if (trace->rank[r].rank_assumed)
      note(schedule, "neither the file nor its name has the rank: it is taken to be rank 0");
  if (trace->messages_left_out)
    note(schedule, "Gloo's nodes do not tell who sends to whom: messages are left out");
  if (trace->groups_unnamed)
    note(schedule,
         "the traces do not name process groups: each call is taken to be one of all ranks");
  for (uint32_t g = 0; g < trace->groups.count && !trace->groups_unnamed; g++) {
    if (!unknown[g]) continue;
    snprintf(text, sizeof text, "no file has the members of group %.100s: assumed to be %s",
             df_names_text(&trace->groups, g),
             trace->members[g].everybody ? "all ranks with a file" : "the ranks that use it");
    note(schedule, text);
  }
  free(unknown);
  return dfcclSuccess;
}

/* ---- rings that have forgotten their first calls ---- */

static bool has_member(const df_trace_members *members, uint32_t rank) {
  for (uint32_t i = 0; i < members->count; i++)
    if (members->rank[i] == rank) return true;
  return false;
}

/* start[group]: the first call of the group that every member's ring still has. */
static dfcclResult_t find_starts(const df_trace *trace, df_schedule *schedule, uint64_t *start) {
  uint64_t *first = malloc((trace->groups.count + 1u) * sizeof *first);
  char text[DF_NOTE_BYTES];
  if (!first) return df_schedule_no_memory(trace->rank[0].file);
  for (int r = 0; r < trace->rank_count; r++) {
    const df_trace_rank *rank = &trace->rank[r];
    if (!rank->begins_late) continue;
    for (uint32_t g = 0; g < trace->groups.count; g++) first[g] = UINT64_MAX;
    for (uint64_t i = rank->count; i-- > 0;)
      if (rank->call[i].from == DF_TRACE_NOBODY)
        first[rank->call[i].group] = rank->call[i].sequence;
    for (uint32_t g = 0; g < trace->groups.count; g++)
      if (has_member(&trace->members[g], rank->rank)) start[g] = DF_MAX(start[g], first[g]);
    snprintf(text, sizeof text,
             "the ring of rank %u begins with its call %llu: what its groups did before is left "
             "out on every rank, and so are messages",
             rank->rank, (unsigned long long)(rank->count > 0 ? rank->call[0].number : 0));
    note(schedule, text);
  }
  free(first);
  return dfcclSuccess;
}

/* ---- events ---- */

typedef struct {
  df_schedule_builder *build;
  const df_trace *trace;
  bool waits_only;
  uint64_t *start;
  uint32_t *group;   /* group of the trace -> group of the schedule, + 1 */
  df_names ordinals; /* scope: the schedule's group; text: a signature */
  uint64_t *made;    /* by ordinal: how often the rank has made it */
  uint32_t *made_by; /* and which rank + 1 */
  uint32_t made_room;
  char *text; /* for names */
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
  enum { FRAMES = 5, BYTES = 2048 };
  char text[BYTES];
  size_t used = 0;
  int shown = 0;
  *stack = DF_NO_STACK;
  for (int all = 0; all < 2 && shown == 0; all++)
    for (const cJSON *frame = cJSON_IsArray(call->frames) ? call->frames->child : NULL;
         frame && shown < FRAMES; frame = frame->next) {
      const cJSON *name = get(frame, "name"), *file = get(frame, "filename"),
                  *line = get(frame, "line");
      if (!cJSON_IsString(name) || !cJSON_IsString(file) || !cJSON_IsNumber(line))
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
  df_call origin = {(uint32_t)call->number, DF_NO_STACK};
  TRY(read_stack(emit, rank, call, &origin.stack));
  return df_schedule_add_event(emit->build, rank->file, rank->rank, event, &origin);
}

static dfcclResult_t emit_rank(emission *emit, const df_trace_rank *rank) {
  char path[24];
  snprintf(path, sizeof path, "rank %u", rank->rank);
  TRY(df_schedule_open_gpu(emit->build, rank->file, path, rank->rank,
                           rank->whole ? DF_RECORDED_WHOLE : DF_RECORDED_SO_FAR));
  bool begun = false, hold = false;
  for (uint64_t i = 0; i < rank->count; i++) {
    const df_trace_call *call = &rank->call[i];
    if (is_forgotten(emit, call)) continue;
    if (!emit->waits_only) hold = begun && !call->with_last;
    if (hold) TRY(df_schedule_add_event(emit->build, rank->file, rank->rank, DF_EVENT_SYNC, NULL));
    TRY(emit_call(emit, rank, call));
    begun = true;
    hold = call->host_waits;
  }
  return dfcclSuccess;
}

static dfcclResult_t emit_all(emission *emit, df_schedule *schedule) {
  const df_trace *trace = emit->trace;
  emit->start = calloc(trace->groups.count + 1u, sizeof *emit->start);
  emit->group = calloc(trace->groups.count + 1u, sizeof *emit->group);
  emit->text = malloc(DF_TRACE_MAX_NAME_BYTES);
  if (!emit->start || !emit->group || !emit->text)
    return df_schedule_no_memory(trace->rank[0].file);
  TRY(df_names_create(&emit->ordinals));
  TRY(find_starts(trace, schedule, emit->start));
  for (int r = 0; r < trace->rank_count; r++) TRY(emit_rank(emit, &trace->rank[r]));
  if (emit->waits_only && trace->waits_are_single)
    note(schedule, "a wait for one call is taken to be a wait for all calls that have begun");
  return df_schedule_finish(emit->build, trace->rank[0].file);
}

dfcclResult_t df_trace_build(df_schedule_builder *build, const char *const *files,
                             const df_json *json, int count, bool waits_only) {
  df_trace trace = {0};
  emission emit = {.build = build, .trace = &trace, .waits_only = waits_only};
  dfcclResult_t result = read_files(&trace, files, json, count);
  if (result == dfcclSuccess) result = complete_groups(&trace, build->schedule);
  if (result == dfcclSuccess) result = emit_all(&emit, build->schedule);
  for (int i = 0; i < trace.rank_count; i++) free(trace.rank[i].call);
  for (uint32_t g = 0; g < trace.groups.count && g < trace.members_room; g++)
    free(trace.members[g].rank);
  free(trace.rank);
  free(trace.members);
  df_names_destroy(&trace.groups);
  df_names_destroy(&trace.signatures);
  df_names_destroy(&trace.member_lists);
  free(emit.start);
  free(emit.group);
  free(emit.made);
  free(emit.made_by);
  free(emit.text);
  df_names_destroy(&emit.ordinals);
  return result;
}
