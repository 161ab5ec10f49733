/*
 * Lines of JSON: one object for each call, in the order of the program.
 *
 *   {"trace": "NAME", "ranks": 4, "groups": {"tp": [[0, 1], [2, 3]]}}      (only the first line)
 *   {"collective": "allreduce", "bytes": 1048576, "group": "tp", "name": "a", "after": 350}
 *   {"depends": "a", "after": 120}                                         (without a call)
 *
 * A file is the program of one rank if its first line has a rank, or its name has one. Otherwise it
 * is the program of all: each member of a line's group makes the call.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plans/operation.h"
#include "trace_calls.h"
#include "trace_limits.h"

#define TRY(expression)                                                                            \
  do {                                                                                             \
    dfcclResult_t try_result = (expression);                                                       \
    if (try_result != dfcclSuccess) return try_result;                                             \
  } while (0)

static const cJSON *get(const cJSON *object, const char *key) {
  return cJSON_GetObjectItemCaseSensitive(object, key);
}

/* A line that is understood. Its groups are numbers in `groups` from first_group on. */
typedef struct {
  const cJSON *item, *depends, *name, *collective;
  uint32_t first_group, group_count; /* 0: all ranks */
  df_call_content content;
  double after_us;
} program_line;

typedef struct {
  df_trace *trace;
  const char *file;
  const cJSON *header; /* NULL: there is none */
  uint32_t ranks, one; /* one: the only rank of the file, or DF_TRACE_NOBODY */
  program_line *line;
  uint64_t count;
  uint32_t *group;
  uint32_t group_count, group_room;
  uint32_t all;         /* the group of all ranks */
  df_names names;       /* scope 0: names of lines */
  uint64_t *last_named; /* by name: the rank's latest call of that name, from 1 */
} program;

static const cJSON *first_line(const cJSON *root) {
  return cJSON_IsArray(root) ? root->child : root;
}

static df_trace_place place_of(const program *read, const cJSON *item) {
  const uint64_t line = df_json_object_line(item);
  return (df_trace_place){read->file, NULL, line > 0 ? line : 1};
}

/* ---- groups ---- */

static dfcclResult_t append_group(program *read, const df_trace_place *place, const char *name,
                                  const cJSON *ranks) {
  uint32_t group;
  if (!cJSON_IsArray(ranks) || !ranks->child)
    return df_trace_bad(place, ".group", "expected a list of ranks, not ", ranks);
  TRY(df_trace_group(read->trace, place, name, ranks, &group));
  if (read->group_count == read->group_room) {
    uint32_t room = 2 * read->group_room + 64;
    uint32_t *grown = realloc(read->group, room * sizeof *grown);
    if (!grown) return df_trace_no_memory(read->file);
    read->group = grown;
    read->group_room = room;
  }
  read->group[read->group_count++] = group;
  return dfcclSuccess;
}

/* A list of ranks, or a list of groups that do not overlap: each rank calls in its own. */
static dfcclResult_t append_groups(program *read, const df_trace_place *place, const char *name,
                                   const cJSON *list, program_line *line) {
  line->first_group = read->group_count;
  if (!cJSON_IsArray(list) || !list->child)
    return df_trace_bad(place, ".group", "expected a list of ranks, not ", list);
  const bool several = cJSON_IsArray(list->child);
  for (const cJSON *ranks = several ? list->child : list; ranks; ranks = ranks->next) {
    TRY(append_group(read, place, name, ranks));
    if (!several) break;
  }
  line->group_count = read->group_count - line->first_group;
  uint32_t members = 0, distinct = 0, most = 0;
  uint8_t *seen = calloc(DF_TRACE_MAX_GPUS, 1);
  if (!seen) return df_trace_no_memory(read->file);
  for (uint32_t g = line->first_group; g < read->group_count; g++) {
    const df_trace_members *group = &read->trace->members[read->group[g]];
    for (uint32_t i = 0; i < group->count; i++, members++) {
      distinct += !seen[group->rank[i]];
      seen[group->rank[i]] = 1;
      most = group->rank[i] > most ? group->rank[i] : most;
    }
  }
  free(seen);
  if (members != distinct)
    return df_trace_bad(place, ".group",
                        several ? "the groups overlap: a rank is in two of them"
                                : "a rank is in the group twice",
                        NULL);
  if (read->header && get(read->header, "ranks") && most >= read->ranks)
    return df_fail(dfcclInvalidArgument, "%s: line %llu, group: there is no rank %u of %u",
                   read->file, (unsigned long long)place->index, most, read->ranks);
  read->ranks = read->ranks > most ? read->ranks : most + 1;
  return dfcclSuccess;
}

/* ---- lines ---- */

static dfcclResult_t known_keys(const program *read, const cJSON *item, const char *const *keys) {
  const df_trace_place place = place_of(read, item);
  char shown[DF_JSON_SHOWN_BYTES];
  for (const cJSON *member = item->child; member; member = member->next) {
    const char *const *key = keys;
    while (*key && strcmp(*key, member->string) != 0) key++;
    if (!*key)
      return df_fail(dfcclInvalidArgument, "%s: line %llu: unknown key \"%s\"", read->file,
                     (unsigned long long)place.index, df_show_text(member->string, shown));
  }
  return dfcclSuccess;
}

static dfcclResult_t number_of(const program *read, const cJSON *item, const char *key, double low,
                               double high, double *number) {
  const cJSON *value = get(item, key);
  char path[16] = ".";
  if (!value) return dfcclSuccess;
  const df_trace_place place = place_of(read, item);
  strncat(path, key, sizeof path - 2);
  if (!cJSON_IsNumber(value) || !(value->valuedouble >= low && value->valuedouble <= high))
    return df_trace_bad(
        &place, path, low < 0 ? "expected a number, not " : "expected a number of at least 0, not ",
        value);
  *number = value->valuedouble;
  return dfcclSuccess;
}

static dfcclResult_t read_header(program *read, const cJSON *item) {
  static const char *const keys[] = {"trace", "ranks", "rank", "groups", "source", NULL};
  double ranks = 0, rank = -1;
  read->header = item;
  TRY(known_keys(read, item, keys));
  TRY(number_of(read, item, "ranks", 1, DF_TRACE_MAX_GPUS, &ranks));
  TRY(number_of(read, item, "rank", 0, DF_TRACE_MAX_GPUS - 1, &rank));
  if (ranks > 0) read->ranks = (uint32_t)ranks;
  if (rank >= 0) read->one = (uint32_t)rank;
  return dfcclSuccess;
}

static const cJSON *ranks_of(const program *read, const cJSON *group, const char **name) {
  *name = "group";
  if (!cJSON_IsString(group)) return group;
  *name = group->valuestring;
  return read->header ? get(get(read->header, "groups"), group->valuestring) : NULL;
}

static dfcclResult_t read_operation(program *read, const cJSON *item, program_line *line) {
  static const char *const operators[] = {"sum", "prod", "max", "min", "avg"};
  const df_trace_place place = place_of(read, item);
  const cJSON *type = get(item, "type"), *op = get(item, "op"), *bytes = get(item, "bytes");
  double size = -1, priority = 0, root = 0;
  if (!cJSON_IsString(line->collective))
    return df_trace_bad(&place, ".collective", "expected a text, not ", line->collective);
  line->content = df_content_of(line->collective->valuestring);
  df_call_content *content = &line->content;
  if (content->operation < 0)
    return df_trace_bad(&place, ".collective", "unknown operation ", line->collective);
  content->type = dfcclFloat32;
  if (type) content->type = cJSON_IsString(type) ? df_content_type(type->valuestring) : -1;
  if (content->type < 0) return df_trace_bad(&place, ".type", "unknown type ", type);
  if (op) {
    int found = 0;
    while (found < 5 && (!cJSON_IsString(op) || strcmp(op->valuestring, operators[found]) != 0))
      found++;
    if (found == 5) return df_trace_bad(&place, ".op", "unknown operator ", op);
    content->reduction = found;
  }
  TRY(number_of(read, item, "bytes", 0, 1e15, &size));
  TRY(number_of(read, item, "priority", -1e9, 1e9, &priority));
  TRY(number_of(read, item, "root", 0, DF_TRACE_MAX_GPUS - 1, &root));
  if (!bytes && content->operation != DF_OP_BARRIER)
    return df_trace_bad(&place, ".bytes", "is missing", NULL);
  content->priority = (int)priority;
  content->has_priority = get(item, "priority") != NULL;
  content->has_root = true;
  content->root = (uint32_t)root;
  static const uint64_t element_bytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1, 2, 2};
  const uint64_t each = element_bytes[content->type];
  const uint64_t count = bytes ? ((uint64_t)size + each - 1) / each : 0;
  const bool gathers = content->operation == DF_OP_ALL_GATHER || content->operation == DF_OP_GATHER;
  *(gathers ? &content->recv_count : &content->send_count) = count;
  return dfcclSuccess;
}

static dfcclResult_t read_line(program *read, const cJSON *item, program_line *line) {
  static const char *const keys[] = {"collective", "op",       "bytes", "type",    "group", "root",
                                     "name",       "priority", "after", "depends", NULL};
  const df_trace_place place = place_of(read, item);
  const cJSON *group = get(item, "group");
  const char *name;
  if (!cJSON_IsObject(item)) return df_trace_bad(&place, "", "expected an object, not ", item);
  TRY(known_keys(read, item, keys));
  *line = (program_line){.item = item,
                         .depends = get(item, "depends"),
                         .name = get(item, "name"),
                         .collective = get(item, "collective")};
  TRY(number_of(read, item, "after", 0, 1e12, &line->after_us));
  if (line->name && !cJSON_IsString(line->name))
    return df_trace_bad(&place, ".name", "expected a text, not ", line->name);
  if (line->collective) TRY(read_operation(read, item, line));
  if (!group) return dfcclSuccess;
  const cJSON *ranks = ranks_of(read, group, &name);
  if (!ranks) return df_trace_bad(&place, ".group", "the first line does not define ", group);
  TRY(append_groups(read, &place, name, ranks, line));
  for (uint32_t g = line->first_group; g < read->group_count; g++)
    if (line->collective && line->content.operation == DF_OP_SEND_RECV &&
        read->trace->members[read->group[g]].count != 2)
      return df_trace_bad(&place, ".group", "a message is between two ranks, not ", ranks);
  return dfcclSuccess;
}

static dfcclResult_t read_all_lines(program *read, const cJSON *root) {
  uint64_t total = 0;
  for (const cJSON *item = first_line(root); item; item = item->next) total++;
  read->line = malloc((total + 1) * sizeof *read->line);
  if (!read->line) return df_trace_no_memory(read->file);
  for (const cJSON *item = first_line(root); item; item = item->next) {
    if (item == first_line(root) && get(item, "trace"))
      TRY(read_header(read, item));
    else
      TRY(read_line(read, item, &read->line[read->count++]));
  }
  return dfcclSuccess;
}

/* Members of the group of all ranks, once they are known. */
static dfcclResult_t describe_all(program *read, const df_trace_place *place) {
  df_trace_members *all = &read->trace->members[read->all];
  if (all->count > 0 && all->count != read->ranks && read->ranks > 0)
    return df_trace_bad(place, "", "a file before it has another number of ranks", NULL);
  if (all->count > 0 || read->ranks == 0) return dfcclSuccess;
  all->rank = malloc(read->ranks * sizeof *all->rank);
  if (!all->rank) return df_trace_no_memory(read->file);
  for (uint32_t i = 0; i < read->ranks; i++) all->rank[i] = i;
  all->count = read->ranks;
  return dfcclSuccess;
}

/* ---- the program of each rank ---- */

static bool find_own_group(const program *read, const program_line *line, uint32_t rank,
                           uint32_t *group) {
  *group = read->all;
  if (line->group_count == 0) return true;
  for (uint32_t g = line->first_group; g < line->first_group + line->group_count; g++) {
    const df_trace_members *members = &read->trace->members[read->group[g]];
    *group = read->group[g];
    for (uint32_t i = 0; i < members->count; i++)
      if (members->rank[i] == rank) return true;
  }
  return false;
}

static dfcclResult_t append_step(program *read, uint64_t awaited, double compute_us) {
  df_trace *trace = read->trace;
  if (trace->step_count == trace->step_room) {
    uint32_t room = 2 * trace->step_room + 256;
    df_trace_step *grown =
        room > DF_TRACE_MAX_EVENTS ? NULL : realloc(trace->step, room * sizeof *grown);
    if (!grown) return df_trace_no_memory(read->file);
    trace->step = grown;
    trace->step_room = room;
  }
  trace->step[trace->step_count++] = (df_trace_step){awaited, compute_us};
  return dfcclSuccess;
}

static dfcclResult_t append_wait(program *read, const df_trace_place *place, const cJSON *name) {
  uint32_t number;
  if (!cJSON_IsString(name))
    return df_trace_bad(place, ".depends", "expected the name of a line, not ", name);
  if (!df_names_find(&read->names, 0, name->valuestring, &number) || !read->last_named[number])
    return df_trace_bad(place, ".depends", "the rank has made no call with the name ", name);
  read->trace->waits_are_named = true;
  return append_step(read, read->last_named[number], 0);
}

static dfcclResult_t append_steps(program *read, const program_line *line) {
  const df_trace_place place = place_of(read, line->item);
  const cJSON *depends = line->depends;
  if (cJSON_IsArray(depends))
    for (const cJSON *name = depends->child; name; name = name->next)
      TRY(append_wait(read, &place, name));
  else if (depends)
    TRY(append_wait(read, &place, depends));
  return line->after_us > 0 ? append_step(read, 0, line->after_us) : dfcclSuccess;
}

static dfcclResult_t append_call(program *read, df_trace_rank *rank, const program_line *line,
                                 uint32_t group, uint32_t first_step) {
  const df_trace_place place = place_of(read, line->item);
  const bool message = line->content.operation == DF_OP_SEND_RECV;
  const df_trace_members *members = &read->trace->members[group];
  char size[64];
  df_trace_call *call;
  if (line->content.root > 0 && members->count > 0 && line->content.root >= members->count)
    return df_trace_bad(&place, ".root", "expected a position in the group, not ",
                        get(line->item, "root"));
  snprintf(size, sizeof size, "[%.0f]",
           get(line->item, "bytes") ? get(line->item, "bytes")->valuedouble : 0);
  TRY(df_trace_add(read->trace, rank, &place, group,
                   message ? "message" : line->collective->valuestring, size,
                   line->name ? line->name->valuestring : NULL, &call));
  call->content = line->content;
  call->first_step = first_step;
  call->step_count = read->trace->step_count - first_step;
  if (message) {
    call->from = 0;
    call->to = 1;
  }
  if (!line->name) return dfcclSuccess;
  uint32_t number;
  if (df_names_find(&read->names, 0, line->name->valuestring, &number))
    read->last_named[number] = rank->count;
  return dfcclSuccess;
}

static dfcclResult_t append_rank(program *read, uint32_t number) {
  uint32_t index, first_step = read->trace->step_count;
  TRY(df_trace_add_rank(read->trace, read->file, &index));
  df_trace_rank *rank = &read->trace->rank[index];
  rank->rank = number;
  rank->whole = true;
  memset(read->last_named, 0, (read->names.count + 1) * sizeof *read->last_named);
  for (uint64_t i = 0; i < read->count; i++) {
    const program_line *line = &read->line[i];
    uint32_t group;
    if (!find_own_group(read, line, number, &group)) continue;
    TRY(append_steps(read, line));
    if (!line->collective) continue;
    TRY(append_call(read, rank, line, group, first_step));
    first_step = read->trace->step_count;
  }
  rank->last_step = first_step;
  rank->last_step_count = read->trace->step_count - first_step;
  return dfcclSuccess;
}

static dfcclResult_t append_ranks(program *read, const cJSON *first) {
  const df_trace_place place = place_of(read, first);
  const uint32_t job = read->trace->job_ranks;
  if (read->ranks == 0) read->ranks = job;
  if (read->one != DF_TRACE_NOBODY) {
    if (read->header && get(read->header, "ranks")) TRY(describe_all(read, &place));
    return append_rank(read, read->one);
  }
  if (read->ranks == 0)
    return df_trace_bad(&place, "", "neither the file nor its groups have a number of ranks", NULL);
  if (job > 0 && read->ranks != job)
    return df_fail(dfcclInvalidArgument, "%s: the program of %u ranks, not of %u", read->file,
                   read->ranks, job);
  if ((uint64_t)read->ranks * (read->count + 1) > DF_TRACE_MAX_EVENTS / 8)
    return df_fail(dfcclOutOfMemory,
                   "%s: %llu lines for each of %u ranks are more than can be held in memory",
                   read->file, (unsigned long long)read->count, read->ranks);
  TRY(describe_all(read, &place));
  for (uint32_t rank = 0; rank < read->ranks; rank++) TRY(append_rank(read, rank));
  return dfcclSuccess;
}

static dfcclResult_t read_program(program *read, const cJSON *root) {
  const df_trace_place place = place_of(read, first_line(root));
  uint32_t number;
  TRY(df_names_create(&read->names));
  TRY(df_trace_group(read->trace, &place, "all", NULL, &read->all));
  read->trace->members[read->all].everybody = true;
  TRY(read_all_lines(read, root));
  for (uint64_t i = 0; i < read->count; i++)
    if (read->line[i].name)
      TRY(df_names_intern(&read->names, 0, read->line[i].name->valuestring, &number));
  read->last_named = malloc((read->names.count + 1) * sizeof *read->last_named);
  return read->last_named ? append_ranks(read, first_line(root)) : df_trace_no_memory(read->file);
}

dfcclResult_t df_trace_read_lines(df_trace *trace, const char *const *files, int count, int file,
                                  const cJSON *root) {
  program read = {.trace = trace, .file = files[file], .one = DF_TRACE_NOBODY};
  if (!df_trace_names_rank(files[file], &read.one)) read.one = DF_TRACE_NOBODY;
  if (count > 1 && read.one == DF_TRACE_NOBODY) { /* a number that differs between the names */
    df_trace_rank found = {.file = files[file]};
    const cJSON *header = get(first_line(root), "trace") ? first_line(root) : NULL;
    if (!get(header, "rank")) TRY(df_trace_rank_of(&found, files, count, root));
    read.one = found.rank;
  }
  dfcclResult_t result = read_program(&read, root);
  free(read.line);
  free(read.group);
  free(read.last_named);
  df_names_destroy(&read.names);
  return result;
}
