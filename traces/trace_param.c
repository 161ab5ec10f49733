/* PARAM's basic traces: a list of calls and waits. */
#include <stdio.h>
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

enum { MAX_GROUPS = 4096 };

/* Groups of one file, by pg_id. */
typedef struct {
  double id[MAX_GROUPS];
  uint32_t group[MAX_GROUPS];
  int count;
} group_table;

static dfcclResult_t find_group(df_trace *trace, const df_trace_place *place, group_table *table,
                                const cJSON *item, const cJSON *ranks, uint32_t *group) {
  const cJSON *id = get(item, "pg_id");
  char name[32];
  if (id && (!cJSON_IsNumber(id) || id->valuedouble < 0 || id->valuedouble > 1e9))
    return df_trace_bad(place, ".pg_id", "expected a whole number, not ", id);
  double number = id ? id->valuedouble : 0;
  for (int i = table->count; i-- > 0 && !ranks;)
    if (table->id[i] == number) {
      *group = table->group[i];
      return dfcclSuccess;
    }
  snprintf(name, sizeof name, "%.0f", number);
  TRY(df_trace_group(trace, place, name, ranks, group));
  if (number == 0) trace->members[*group].everybody = true;
  if (table->count == MAX_GROUPS) return df_trace_bad(place, ".pg_id", "too many groups", NULL);
  table->id[table->count] = number;
  table->group[table->count++] = *group;
  return dfcclSuccess;
}

static dfcclResult_t read_peer(const df_trace_place *place, const cJSON *item, const char *key,
                               uint32_t *rank) {
  const cJSON *value = get(item, key);
  double number = cJSON_IsNumber(value) ? value->valuedouble : -1;
  char path[16];
  *rank = number >= 0 && number < DF_TRACE_MAX_GPUS ? (uint32_t)number : 0;
  if (number == (double)*rank) return dfcclSuccess;
  snprintf(path, sizeof path, ".%s", key);
  return df_trace_bad(place, path, "expected a rank", NULL);
}

/* Numbers of elements, the type and the root. */
static dfcclResult_t read_content(const df_trace_place *place, const cJSON *item,
                                  df_call_content *content) {
  const char *const keys[] = {"in_msg_size", "out_msg_size", "root"};
  uint64_t *const counts[] = {&content->send_count, &content->recv_count};
  const cJSON *type = get(item, "dtype");
  for (int i = 0; i < 3; i++) {
    const cJSON *value = get(item, keys[i]);
    char path[24];
    int64_t number = 0;
    snprintf(path, sizeof path, ".%s", keys[i]);
    if (!value) continue;
    if (!cJSON_IsNumber(value) || !(value->valuedouble >= 0 && value->valuedouble < 1e15))
      return df_trace_bad(place, path, "expected a whole number, not ", value);
    number = (int64_t)value->valuedouble;
    if (i < 2) *counts[i] = (uint64_t)number;
    content->has_root |= i == 2;
    if (i == 2) content->root = (uint32_t)DF_MIN(number, UINT32_MAX);
  }
  if (cJSON_IsString(type)) content->type = df_content_type(type->valuestring);
  return dfcclSuccess;
}

static bool is_message(const char *operation) {
  return strcmp(operation, "send") == 0 || strcmp(operation, "isend") == 0 ||
         strcmp(operation, "recv") == 0 || strcmp(operation, "irecv") == 0;
}

/* A wait belongs to the calls before it. */
static void note_wait(df_trace *trace, df_trace_rank *rank) {
  if (rank->count == 0) return;
  rank->call[rank->count - 1].host_waits = true;
  trace->waits_are_single = true;
}

static dfcclResult_t read_item(df_trace *trace, df_trace_rank *rank, const df_trace_place *place,
                               group_table *table, const cJSON *item) {
  if (!cJSON_IsObject(item)) return df_trace_bad(place, "", "expected an object, not ", item);
  const cJSON *comms = get(item, "comms"), *bytes = get(item, "in_msg_size"),
              *type = get(item, "dtype");
  if (!comms) { /* computing, or a marker */
    trace->compute_left_out |= get(item, "compute") != NULL;
    return dfcclSuccess;
  }
  if (!cJSON_IsString(comms)) return df_trace_bad(place, ".comms", "expected a text, not ", comms);
  const char *operation = comms->valuestring;
  uint32_t group;
  if (strcmp(operation, "init") == 0)
    return find_group(trace, place, table, item, get(item, "global_ranks"), &group);
  if (strcmp(operation, "wait") == 0) {
    note_wait(trace, rank);
    return dfcclSuccess;
  }
  TRY(find_group(trace, place, table, item, NULL, &group));
  char size[96] = "";
  if (!is_message(operation) && !df_trace_sizes_differ(operation) && cJSON_IsNumber(bytes))
    snprintf(size, sizeof size, "%.32s[%.17g]", cJSON_IsString(type) ? type->valuestring : "",
             bytes->valuedouble);
  df_trace_call *call;
  TRY(df_trace_add(trace, rank, place, group, is_message(operation) ? "message" : operation, size,
                   NULL, &call));
  TRY(read_content(place, item, &call->content));
  if (is_message(operation)) {
    TRY(read_peer(place, item, "src_rank", &call->from));
    TRY(read_peer(place, item, "dst_rank", &call->to));
    call->peers_are_ranks = true;
  }
  return dfcclSuccess;
}

dfcclResult_t df_trace_read_param(df_trace *trace, df_trace_rank *rank, const cJSON *root) {
  df_trace_place place = {rank->file, "", 0};
  group_table table;
  table.count = 0;
  rank->whole = true;
  for (const cJSON *item = root->child; item; item = item->next) {
    TRY(read_item(trace, rank, &place, &table, item));
    place.index++;
  }
  return dfcclSuccess;
}
