#include "trace_calls.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace_limits.h"

dfcclResult_t df_trace_bad(const df_trace_place *place, const char *key, const char *what,
                           const cJSON *value) {
  char shown[DF_JSON_SHOWN_BYTES] = "";
  if (value) df_json_show(value, shown);
  if (!place->list)
    return df_fail(dfcclInvalidArgument, "%s: line %llu%s%s: %s%s", place->file,
                   (unsigned long long)place->index, *key ? ", " : "", *key ? key + 1 : "", what,
                   shown);
  return df_fail(dfcclInvalidArgument, "%s: %s[%llu]%s: %s%s", place->file, place->list,
                 (unsigned long long)place->index, key, what, shown);
}

dfcclResult_t df_trace_no_memory(const char *file) {
  return df_fail(dfcclOutOfMemory, "%s: no memory for the calls", file);
}

dfcclResult_t df_trace_add_rank(df_trace *trace, const char *file, uint32_t *rank) {
  if (trace->rank_count == trace->rank_room) {
    uint32_t room = 2 * trace->rank_room + 8;
    df_trace_rank *grown = realloc(trace->rank, room * sizeof *grown);
    if (!grown) return df_trace_no_memory(file);
    trace->rank = grown;
    trace->rank_room = room;
  }
  *rank = trace->rank_count++;
  trace->rank[*rank] = (df_trace_rank){.file = file};
  return dfcclSuccess;
}

typedef struct {
  uint32_t *rank;
  uint32_t count, room;
} rank_list;

static bool append(rank_list *list, uint32_t rank) {
  if (list->count == list->room) {
    uint32_t room = 2 * list->room + 16;
    uint32_t *grown = realloc(list->rank, room * sizeof *grown);
    if (!grown) return false;
    list->rank = grown;
    list->room = room;
  }
  list->rank[list->count++] = rank;
  return true;
}

/* "[0, 1]", as torch writes it. False: it is something else. */
static bool parse_text(const char *text, rank_list *list, bool *memory) {
  while (isspace((unsigned char)*text)) text++;
  if (*text++ != '[') return false;
  for (;;) {
    while (isspace((unsigned char)*text)) text++;
    if (*text == ']' && list->count == 0) break;
    char *end = NULL;
    unsigned long rank = strtoul(text, &end, 10);
    if (!isdigit((unsigned char)*text) || rank >= DF_TRACE_MAX_GPUS) return false;
    if (list->count == DF_TRACE_MAX_GPUS) return false;
    if (!append(list, (uint32_t)rank)) return *memory = false;
    text = end;
    while (isspace((unsigned char)*text)) text++;
    if (*text == ']') break;
    if (*text++ != ',') return false;
  }
  text++;
  while (isspace((unsigned char)*text)) text++;
  return *text == 0;
}

static dfcclResult_t parse_ranks(const df_trace_place *place, const cJSON *ranks, rank_list *list) {
  bool memory = true, good = cJSON_IsString(ranks) ? parse_text(ranks->valuestring, list, &memory)
                                                   : cJSON_IsArray(ranks);
  if (cJSON_IsArray(ranks))
    for (const cJSON *item = ranks->child; item && good; item = item->next) {
      double rank = cJSON_IsNumber(item) ? item->valuedouble : -1;
      good = rank >= 0 && rank < DF_TRACE_MAX_GPUS && rank == (uint32_t)rank &&
             list->count < DF_TRACE_MAX_GPUS;
      if (good) good = memory = append(list, (uint32_t)rank);
    }
  if (!memory) return df_trace_no_memory(place->file);
  return good ? dfcclSuccess : df_trace_bad(place, "", "expected a list of ranks, not ", ranks);
}

/* The list's number among all lists: groups of one name with other members are other groups. */
static dfcclResult_t number_list(df_trace *trace, const df_trace_place *place,
                                 const rank_list *list, uint32_t *number) {
  size_t bytes = 12 * (size_t)list->count + 1, used = 0;
  char *text = malloc(bytes);
  if (!text) return df_trace_no_memory(place->file);
  for (uint32_t i = 0; i < list->count; i++)
    used += (size_t)snprintf(text + used, bytes - used, "%s%u", i > 0 ? ", " : "", list->rank[i]);
  dfcclResult_t result = df_names_intern(&trace->member_lists, 0, text, number);
  free(text);
  return result;
}

static dfcclResult_t intern_group(df_trace *trace, const df_trace_place *place, uint32_t scope,
                                  const char *name, uint32_t *group) {
  uint32_t before = trace->groups.count;
  if (strlen(name) > DF_TRACE_MAX_NAME_BYTES / 2)
    return df_trace_bad(place, "", "the group's name is too long", NULL);
  dfcclResult_t result = df_names_intern(&trace->groups, scope, name, group);
  if (result != dfcclSuccess || *group < before) return result;
  if (*group >= trace->members_room) {
    uint32_t room = 2 * trace->members_room + 16;
    df_trace_members *grown = realloc(trace->members, room * sizeof *grown);
    if (!grown) return df_trace_no_memory(place->file);
    trace->members = grown;
    trace->members_room = room;
  }
  trace->members[*group] = (df_trace_members){0};
  return dfcclSuccess;
}

dfcclResult_t df_trace_group(df_trace *trace, const df_trace_place *place, const char *name,
                             const cJSON *ranks, uint32_t *group) {
  rank_list list = {0};
  uint32_t scope = DF_TRACE_UNDESCRIBED;
  dfcclResult_t result = ranks ? parse_ranks(place, ranks, &list) : dfcclSuccess;
  if (result == dfcclSuccess && list.count > 0) result = number_list(trace, place, &list, &scope);
  if (result == dfcclSuccess) result = intern_group(trace, place, scope, name, group);
  if (result == dfcclSuccess && list.count > 0 && trace->members[*group].count == 0)
    trace->members[*group] = (df_trace_members){.rank = list.rank, .count = list.count};
  else
    free(list.rank);
  return result;
}

bool df_trace_sizes_differ(const char *operation) {
  static const char *const names[] = {"all_to_all",  "all_to_allv",     "all_to_all_single",
                                      "alltoall",    "alltoall_base",   "all_to_all_v_single",
                                      "gather",      "scatter",         "all_gather_v",
                                      "all_gatherv", "reduce_scatter_v"};
  for (unsigned i = 0; i < DF_COUNT_OF(names); i++)
    if (strcmp(operation, names[i]) == 0) return true;
  return false;
}

dfcclResult_t df_trace_add(df_trace *trace, df_trace_rank *rank, const df_trace_place *place,
                           uint32_t group, const char *operation, const char *size,
                           const char *name, df_trace_call **call) {
  size_t bytes = strlen(operation) + strlen(size) + (name ? strlen(name) : 0) + 16;
  if (bytes > DF_TRACE_MAX_NAME_BYTES - 32)
    return df_trace_bad(place, "", "the call's names are too long", NULL);
  if (rank->count == rank->room) {
    uint64_t room = 2 * rank->room + 16;
    df_trace_call *grown =
        room > DF_TRACE_MAX_EVENTS ? NULL : realloc(rank->call, room * sizeof *grown);
    if (!grown) return df_trace_no_memory(place->file);
    rank->call = grown;
    rank->room = room;
  }
  char *text = malloc(bytes);
  if (!text) return df_trace_no_memory(place->file);
  snprintf(text, bytes, "%s%s%s%s%s", operation, *size ? " " : "", size, name ? ", named " : "",
           name ? name : "");
  *call = &rank->call[rank->count];
  **call = (df_trace_call){.group = group,
                           .from = DF_TRACE_NOBODY,
                           .number = rank->count + 1,
                           .content = df_content_of(operation)};
  dfcclResult_t result = df_names_intern(&trace->signatures, 0, text, &(*call)->signature);
  if (result == dfcclSuccess) rank->count++;
  free(text);
  return result;
}
