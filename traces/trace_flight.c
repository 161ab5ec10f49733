/* PyTorch Flight Recorder dumps: the ring of a process's last calls, as JSON. */
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

static dfcclResult_t read_whole(const df_trace_place *place, const cJSON *entry, const char *key,
                                uint64_t *value) {
  char path[40];
  const cJSON *number = get(entry, key);
  double whole = cJSON_IsNumber(number) ? number->valuedouble : -1;
  bool in_range = whole >= 0 && whole < UINT32_MAX;
  *value = in_range ? (uint64_t)whole : 0;
  if (in_range && whole == (double)*value) return dfcclSuccess;
  snprintf(path, sizeof path, ".%s", key);
  if (!number) return df_trace_bad(place, path, "is missing", NULL);
  return df_trace_bad(place, path, "expected a whole number, not ", number);
}

/* Sizes of tensors as "Float[3,2] Float[4]", cut where buffer ends. */
static void describe(const cJSON *sizes, const cJSON *types, char *buffer, size_t bytes) {
  size_t used = 0;
  buffer[0] = 0;
  const cJSON *type = cJSON_IsArray(types) ? types->child : NULL;
  for (const cJSON *shape = cJSON_IsArray(sizes) ? sizes->child : NULL; shape;
       shape = shape->next) {
    used += (size_t)snprintf(buffer + used, bytes - used, "%s%.32s[", used ? " " : "",
                             cJSON_IsString(type) ? type->valuestring : "");
    for (const cJSON *extent = shape->child; extent && used + 96 < bytes; extent = extent->next)
      used += (size_t)snprintf(buffer + used, bytes - used, "%.17g%s", extent->valuedouble,
                               extent->next ? "," : "");
    used += (size_t)snprintf(buffer + used, bytes - used, "]");
    if (used + 160 >= bytes) {
      snprintf(buffer + used, bytes - used, " ... of %d", cJSON_GetArraySize(sizes));
      return;
    }
    if (type) type = type->next;
  }
}

/* The elements and the type of an entry's tensors. */
static dfcclResult_t read_tensors(const df_trace_place *place, const cJSON *entry,
                                  df_call_content *content) {
  if (!df_content_add_shape(get(entry, "input_sizes"), &content->send_count))
    return df_trace_bad(place, ".input_sizes", "expected sizes of at least 0", NULL);
  if (!df_content_add_shape(get(entry, "output_sizes"), &content->recv_count))
    return df_trace_bad(place, ".output_sizes", "expected sizes of at least 0", NULL);
  const cJSON *types = get(entry, "input_dtypes");
  if (!cJSON_IsArray(types) || !types->child) types = get(entry, "output_dtypes");
  if (cJSON_IsArray(types) && cJSON_IsString(types->child))
    content->type = df_content_type(types->child->valuestring);
  return dfcclSuccess;
}

/* "send 0->1" and "recv 1<-0": places in the group. */
static dfcclResult_t read_peers(const df_trace_place *place, const char *text,
                                df_trace_call *call) {
  unsigned one = 0, other = 0;
  int end = 0;
  if (strstr(text, "<-?"))
    return df_trace_bad(place, ".profiling_name",
                        "a receive from any rank: what it meets depends on the timing", NULL);
  if (sscanf(text, "send %9u->%9u%n", &one, &other, &end) == 2 && text[end] == 0) {
    call->from = one;
    call->to = other;
  } else if (sscanf(text, "recv %9u<-%9u%n", &one, &other, &end) == 2 && text[end] == 0) {
    call->from = other;
    call->to = one;
  } else {
    return df_trace_bad(place, ".profiling_name", "expected \"send 0->1\" or \"recv 1<-0\"", NULL);
  }
  return dfcclSuccess;
}

typedef struct {
  uint32_t group;
  bool point;
  uint64_t sequence;
} launched;

static dfcclResult_t read_group(df_trace *trace, const df_trace_place *place, const cJSON *root,
                                const cJSON *entry, uint32_t *group) {
  const cJSON *pair = get(entry, "process_group");
  const cJSON *name = cJSON_IsArray(pair) ? pair->child : NULL, *desc = name ? name->next : NULL;
  if (!cJSON_IsString(name) || !cJSON_IsString(desc) || desc->next)
    return df_trace_bad(place, ".process_group", "expected a name and a description", NULL);
  const cJSON *known = get(get(root, "pg_config"), name->valuestring);
  char text[512];
  bool described = desc->valuestring[0] && strcmp(desc->valuestring, "undefined") != 0;
  snprintf(text, sizeof text, "%.200s%s%.200s%s", name->valuestring, described ? " (" : "",
           described ? desc->valuestring : "", described ? ")" : "");
  TRY(df_trace_group(trace, place, text, get(known, "ranks"), group));
  if (strcmp(desc->valuestring, "default_pg") == 0) trace->members[*group].everybody = true;
  return dfcclSuccess;
}

static dfcclResult_t read_entry(df_trace *trace, df_trace_rank *rank, const df_trace_place *place,
                                const cJSON *root, const cJSON *entry, launched *last) {
  if (!cJSON_IsObject(entry)) return df_trace_bad(place, "", "expected an object, not ", entry);
  const cJSON *profiling = get(entry, "profiling_name"), *name = get(entry, "name");
  if (!cJSON_IsString(profiling))
    return df_trace_bad(place, ".profiling_name", "expected a text", NULL);
  const char *colon = strrchr(profiling->valuestring, ':');
  const char *operation = colon ? colon + 1 : profiling->valuestring;
  launched now = {.point = cJSON_IsTrue(get(entry, "is_p2p"))};
  uint64_t record;
  char size[2048] = "";
  TRY(read_group(trace, place, root, entry, &now.group));
  TRY(read_whole(place, entry, "record_id", &record));
  TRY(read_whole(place, entry, now.point ? "p2p_seq_id" : "collective_seq_id", &now.sequence));
  if (place->index == 0) rank->begins_late = record > 0;
  if (strcmp(operation, "coalesced") == 0) return dfcclSuccess; /* the end of calls told before */
  bool message = strncmp(operation, "send ", 5) == 0 || strncmp(operation, "recv ", 5) == 0;
  if (!message && !df_trace_sizes_differ(operation)) {
    const cJSON *inputs = get(entry, "input_sizes");
    bool in = cJSON_IsArray(inputs) && inputs->child;
    describe(in ? inputs : get(entry, "output_sizes"),
             get(entry, in ? "input_dtypes" : "output_dtypes"), size, sizeof size);
  }
  df_trace_call *call;
  TRY(df_trace_add(trace, rank, place, now.group, message ? "message" : operation, size,
                   cJSON_IsString(name) ? name->valuestring : NULL, &call));
  if (message) TRY(read_peers(place, operation, call));
  TRY(read_tensors(place, entry, &call->content));
  call->number = record + 1;
  call->sequence = now.sequence;
  call->frames = get(entry, "frames");
  call->with_last = place->index > 0 && now.group == last->group && now.point == last->point &&
                    now.sequence == last->sequence && now.sequence > 0;
  *last = now;
  return dfcclSuccess;
}

dfcclResult_t df_trace_read_flight(df_trace *trace, df_trace_rank *rank, const cJSON *root) {
  const cJSON *entries = get(root, "entries");
  char shown[DF_JSON_SHOWN_BYTES];
  if (entries && !cJSON_IsArray(entries))
    return df_fail(dfcclInvalidArgument, "%s: entries: expected a list, not %s", rank->file,
                   df_json_show(entries, shown));
  df_trace_place place = {rank->file, "entries", 0};
  launched last = {0};
  for (const cJSON *entry = entries ? entries->child : NULL; entry; entry = entry->next) {
    TRY(read_entry(trace, rank, &place, root, entry, &last));
    place.index++;
  }
  return dfcclSuccess;
}
