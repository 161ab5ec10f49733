/* PyTorch Execution Traces (Chakra host traces): a graph of what one process called. NCCL leaves
 * nodes "record_param_comms"; with other backends there are c10d's operators, whose group is not
 * told, and Gloo's own nodes, which say least. The first kind that a trace has is read. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace_calls.h"

#define TRY(expression)                                                                            \
  do {                                                                                             \
    dfcclResult_t try_result = (expression);                                                       \
    if (try_result != dfcclSuccess) return try_result;                                             \
  } while (0)

static const char *const kinds[] = {"record_param_comms", "c10d::", "gloo:"};
enum { KINDS = 3, PARAM_COMMS = 0, C10D = 1 };

static const cJSON *get(const cJSON *object, const char *key) {
  return cJSON_GetObjectItemCaseSensitive(object, key);
}

typedef struct {
  const cJSON *node;
  double id;
  uint64_t index; /* in the file */
} node_place;

static int by_id(const void *a, const void *b) {
  const node_place *left = a, *right = b;
  if (left->id != right->id) return left->id < right->id ? -1 : 1;
  return left->index < right->index ? -1 : 1;
}

/* A part of a node's inputs: schema 1.1 has {"values", "shapes", "types"}, older ones lists. */
static const cJSON *inputs_of(const cJSON *node, const char *part, const char *older) {
  const cJSON *inputs = get(node, "inputs");
  const cJSON *list = cJSON_IsObject(inputs) ? get(inputs, part) : get(node, older);
  return cJSON_IsArray(list) ? list : NULL;
}

static const cJSON *attribute(const cJSON *node, const char *name) {
  const cJSON *list = get(node, "attrs");
  for (const cJSON *item = cJSON_IsArray(list) ? list->child : NULL; item; item = item->next) {
    const cJSON *key = get(item, "name");
    if (cJSON_IsString(key) && strcmp(key->valuestring, name) == 0) return get(item, "value");
  }
  return NULL;
}

/* The tensors that a call takes, as "Tensor(float)[[3,2]]". */
static void describe(const cJSON *node, char *buffer, size_t bytes) {
  const cJSON *types = inputs_of(node, "types", "input_types");
  const cJSON *shapes = inputs_of(node, "shapes", "input_shapes");
  const cJSON *type = types ? types->child : NULL, *shape = shapes ? shapes->child : NULL;
  buffer[0] = 0;
  if (!cJSON_IsString(type) || !strstr(type->valuestring, "Tensor(") || !shape) return;
  const char *inner = strstr(type->valuestring, "Tensor(") + strlen("Tensor(");
  char *text = cJSON_PrintUnformatted(shape);
  if (text)
    snprintf(buffer, bytes, "%.*s%.1500s", (int)DF_MIN(strcspn(inner, ")"), 40), inner, text);
  cJSON_free(text);
}

/* The elements and the type of a call's tensors. c10d's operators of several tensors have the
 * output first; other nodes have inputs only, or numbers of elements as attributes. */
static dfcclResult_t read_tensors(const df_trace_place *place, const cJSON *node,
                                  df_call_content *content) {
  const cJSON *types = inputs_of(node, "types", "input_types");
  const cJSON *shapes = inputs_of(node, "shapes", "input_shapes");
  const cJSON *type = types ? types->child : NULL, *shape = shapes ? shapes->child : NULL;
  uint64_t counts[2] = {DF_NO_COUNT, DF_NO_COUNT};
  int found = 0;
  for (; type && shape && found < 2; type = type->next, shape = shape->next) {
    const char *inner = cJSON_IsString(type) ? strstr(type->valuestring, "Tensor(") : NULL;
    char word[40];
    if (!inner) continue;
    if (!df_content_add_shape(shape, &counts[found]))
      return df_trace_bad(place, ".inputs", "expected sizes of at least 0", NULL);
    if (counts[found++] == DF_NO_COUNT) counts[found - 1] = 1; /* a tensor without dimensions */
    inner += strlen("Tensor(");
    snprintf(word, sizeof word, "%.*s", (int)DF_MIN(strcspn(inner, ")"), sizeof word - 1), inner);
    if (content->type < 0) content->type = df_content_type(word);
  }
  content->send_count = found == 2 ? counts[1] : counts[0];
  content->recv_count = found == 2 ? counts[0] : DF_NO_COUNT;
  const cJSON *in = attribute(node, "in_msg_nelems"), *out = attribute(node, "out_msg_nelems");
  if (cJSON_IsNumber(in) && in->valuedouble >= 0) content->send_count = (uint64_t)in->valuedouble;
  if (cJSON_IsNumber(out) && out->valuedouble >= 0)
    content->recv_count = (uint64_t)out->valuedouble;
  return dfcclSuccess;
}

/* "c10d::_allgather_base_" is allgather_base. */
static void short_name(const char *name, char *buffer, size_t bytes) {
  const char *colon = strrchr(name, ':');
  if (colon) name = colon + 1;
  while (*name == '_') name++;
  snprintf(buffer, bytes, "%s", name);
  for (size_t used = strlen(buffer); used > 0 && buffer[used - 1] == '_'; used--)
    buffer[used - 1] = 0;
}

static const cJSON *find_init(const cJSON *nodes) {
  for (const cJSON *node = nodes->child; node; node = node->next) {
    const cJSON *name = get(node, "name");
    if (cJSON_IsString(name) && strstr(name->valuestring, "process_group:init")) return node;
  }
  return NULL;
}

/* The ranks of a group by the node "process_group:init", whose first input is JSON in a text; NULL
 * if it is not told. *parsed is the caller's to delete. */
static cJSON *parse_groups(const cJSON *nodes) {
  const cJSON *node = find_init(nodes);
  const cJSON *values = node ? inputs_of(node, "values", "inputs") : NULL;
  if (!values || !cJSON_IsString(values->child)) return NULL;
  return cJSON_Parse(values->child->valuestring);
}

static const cJSON *ranks_of(const cJSON *groups, const char *name) {
  for (const cJSON *group = cJSON_IsArray(groups) ? groups->child : NULL; group;
       group = group->next) {
    const cJSON *key = get(group, "pg_name");
    if (cJSON_IsString(key) && strcmp(key->valuestring, name) == 0) return get(group, "ranks");
  }
  return NULL;
}

/* The peer of a message. */
static dfcclResult_t set_peer(const df_trace_place *place, const char *operation, uint32_t rank,
                              const cJSON *peer, df_trace_call *call) {
  double number = cJSON_IsNumber(peer) ? peer->valuedouble : -1;
  if (strstr(operation, "any"))
    return df_trace_bad(place, "", "a receive from any rank: what it meets depends on the timing",
                        NULL);
  if (number < 0 || number >= DF_TRACE_NOBODY)
    return df_trace_bad(place, "", "a message without a peer", NULL);
  bool sends = strstr(operation, "send") != NULL;
  call->from = sends ? rank : (uint32_t)number;
  call->to = sends ? (uint32_t)number : rank;
  call->peers_are_ranks = true;
  return dfcclSuccess;
}

static bool is_message(const char *operation) {
  return strcmp(operation, "send") == 0 || strncmp(operation, "recv", 4) == 0;
}

static dfcclResult_t add_call(df_trace *trace, df_trace_rank *rank, const df_trace_place *place,
                              uint32_t group, const cJSON *node, const char *operation,
                              const cJSON *peer, df_trace_call **call) {
  char size[1600] = "";
  bool message = is_message(operation);
  if (!message && !df_trace_sizes_differ(operation)) describe(node, size, sizeof size);
  TRY(df_trace_add(trace, rank, place, group, message ? "message" : operation, size, NULL, call));
  TRY(read_tensors(place, node, &(*call)->content));
  if (cJSON_IsNumber(peer) && peer->valuedouble >= 0 && peer->valuedouble < DF_TRACE_NOBODY) {
    (*call)->content.root = (uint32_t)peer->valuedouble;
    (*call)->content.has_root = true;
  }
  return message ? set_peer(place, operation, rank->rank, peer, *call) : dfcclSuccess;
}

/* The contents of a node "record_param_comms". */
typedef struct {
  const cJSON *group, *desc; /* texts; NULL: the schema has only a number, or an address */
  const cJSON *peer;         /* or the root */
  const char *operation;
} param_comms;

/* Inputs: perhaps tensors, a number, the group, root or peer, the operation. The group is [name,
 * description], or its name, or, in schema 1.0.1, a number. Returns false for other inputs. */
static bool find_param_comms(const cJSON *node, param_comms *found) {
  const cJSON *values = inputs_of(node, "values", "inputs");
  const cJSON *given_name = attribute(node, "collective_name");
  for (const cJSON *item = values ? values->child : NULL; item; item = item->next)
    if (cJSON_IsArray(item) && cJSON_IsString(item->child) && cJSON_IsString(item->child->next) &&
        !item->child->next->next) {
      const cJSON *word = item->next ? item->next->next : NULL;
      found->operation = cJSON_IsString(word)         ? word->valuestring
                         : cJSON_IsString(given_name) ? given_name->valuestring
                                                      : NULL;
      found->group = item->child;
      found->desc = item->child->next;
      found->peer = item->next;
      return found->operation != NULL;
    }
  const cJSON *last[2] = {NULL, NULL};
  for (const cJSON *item = values ? values->child : NULL; item; item = item->next) {
    if (cJSON_IsString(item) && cJSON_IsNumber(last[0]) && last[1]) {
      found->operation = item->valuestring;
      found->peer = last[0];
      found->group = cJSON_IsString(last[1]) ? last[1] : NULL;
      return true;
    }
    last[1] = last[0];
    last[0] = item;
  }
  return false;
}

/* Numbers of groups are addresses in NCCL's processes, which differ between ranks. */
static dfcclResult_t find_group(df_trace *trace, const df_trace_place *place,
                                const param_comms *comms, const cJSON *groups, uint32_t *group) {
  char name[256];
  if (!comms->group) {
    TRY(df_trace_group(trace, place, "all ranks", NULL, group));
    trace->members[*group].everybody = trace->groups_unnamed = true;
    return dfcclSuccess;
  }
  const char *group_name = comms->group->valuestring;
  const char *desc = comms->desc ? comms->desc->valuestring : "";
  snprintf(name, sizeof name, "%.100s%s%.100s%s", group_name, *desc ? " (" : "", desc,
           *desc ? ")" : "");
  TRY(df_trace_group(trace, place, name, ranks_of(groups, group_name), group));
  if (strcmp(desc, "default_pg") == 0) trace->members[*group].everybody = true;
  return dfcclSuccess;
}

static dfcclResult_t read_param_comms(df_trace *trace, df_trace_rank *rank,
                                      const df_trace_place *place, const cJSON *node,
                                      const cJSON *groups) {
  param_comms comms = {0};
  if (!find_param_comms(node, &comms))
    return df_trace_bad(place, ".inputs", "expected a group and an operation", NULL);
  char operation[64];
  short_name(comms.operation, operation, sizeof operation);
  if (strcmp(operation, "init") == 0) return dfcclSuccess;
  if (strcmp(operation, "wait") == 0) {
    if (rank->count > 0) rank->call[rank->count - 1].host_waits = true;
    return dfcclSuccess;
  }
  uint32_t group;
  TRY(find_group(trace, place, &comms, groups, &group));
  df_trace_call *call;
  TRY(add_call(trace, rank, place, group, node, operation, comms.peer, &call));
  if (is_message(operation)) { /* the peer is a place in the group */
    const df_trace_members *members = &trace->members[group];
    uint32_t *other =
        call->from == rank->rank && strstr(operation, "send") ? &call->to : &call->from;
    if (members->count > 0 && *other >= members->count)
      return df_trace_bad(place, "", "a message to or from a place that its group has not", NULL);
    if (members->count > 0) *other = members->rank[*other];
  }
  return dfcclSuccess;
}

static dfcclResult_t read_operator(df_trace *trace, df_trace_rank *rank,
                                   const df_trace_place *place, const cJSON *node) {
  char operation[64];
  uint32_t group;
  const cJSON *values = inputs_of(node, "values", "inputs"), *peer = NULL;
  const cJSON *types = inputs_of(node, "types", "input_types"),
              *value = values ? values->child : NULL;
  short_name(get(node, "name")->valuestring, operation, sizeof operation);
  TRY(df_trace_group(trace, place, "all ranks", NULL, &group));
  trace->members[group].everybody = trace->groups_unnamed = true;
  bool waits = false;
  for (const cJSON *type = types ? types->child : NULL; type && value;
       type = type->next, value = value->next) {
    if (!peer && cJSON_IsNumber(value)) peer = value;
    if (cJSON_IsString(type) && strcmp(type->valuestring, "Bool") == 0)
      waits = cJSON_IsFalse(value); /* async_op */
  }
  df_trace_call *call;
  TRY(add_call(trace, rank, place, group, node, operation, peer, &call));
  call->host_waits = waits;
  return dfcclSuccess;
}

static int kind_of(const cJSON *node) {
  const cJSON *name = get(node, "name");
  for (int kind = 0; kind < KINDS && cJSON_IsString(name); kind++)
    if (strncmp(name->valuestring, kinds[kind], strlen(kinds[kind])) == 0) return kind;
  return KINDS;
}

/* Nodes of Gloo do not record the peer. */
static bool is_gloo_message(const char *name) {
  return strcmp(name, "gloo:send") == 0 || strcmp(name, "gloo:recv") == 0 ||
         strcmp(name, "gloo:recv_any_source") == 0;
}

static dfcclResult_t read_nodes(df_trace *trace, df_trace_rank *rank, int kind,
                                const node_place *nodes, uint64_t count, const cJSON *groups) {
  for (uint64_t i = 0; i < count; i++) {
    if (kind_of(nodes[i].node) != kind) continue;
    df_trace_place place = {rank->file, "nodes", nodes[i].index};
    if (kind == PARAM_COMMS)
      TRY(read_param_comms(trace, rank, &place, nodes[i].node, groups));
    else if (kind != C10D && is_gloo_message(get(nodes[i].node, "name")->valuestring))
      trace->messages_left_out = true;
    else
      TRY(read_operator(trace, rank, &place, nodes[i].node));
  }
  return dfcclSuccess;
}

dfcclResult_t df_trace_read_execution(df_trace *trace, df_trace_rank *rank, const cJSON *root) {
  const cJSON *list = get(root, "nodes");
  uint64_t count = 0, total = 0;
  int kind = KINDS;
  for (const cJSON *node = list->child; node; node = node->next) total++;
  node_place *nodes = malloc((total + 1) * sizeof *nodes);
  if (!nodes) return df_fail(dfcclOutOfMemory, "%s: no memory for the nodes", rank->file);
  for (const cJSON *node = list->child; node; node = node->next, count++) {
    const cJSON *id = get(node, "id");
    nodes[count] = (node_place){node, cJSON_IsNumber(id) ? id->valuedouble : 0, count};
    kind = DF_MIN(kind, kind_of(node));
  }
  qsort(nodes, count, sizeof *nodes, by_id); /* a node is written when it ends */
  cJSON *groups = kind == PARAM_COMMS ? parse_groups(list) : NULL;
  dfcclResult_t result =
      kind == KINDS ? dfcclSuccess : read_nodes(trace, rank, kind, nodes, count, groups);
  cJSON_Delete(groups);
  free(nodes);
  return result;
}
