#include "network_model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json_input.h"
#include "sim_limits.h"

/* ---- reading */

typedef struct reader {
  const char *file;
  df_network_model *model;
} reader;

/* A positive number times `unit`; zero too, if allowed. */
static dfcclResult_t read_number(const reader *input, const char *path, const cJSON *value,
                                 int zero_allowed, double unit, double *out) {
  char shown[DF_JSON_SHOWN_BYTES];
  if (!cJSON_IsNumber(value) || !isfinite(value->valuedouble) || value->valuedouble > 1e12 ||
      value->valuedouble < (zero_allowed ? 0.0 : 1e-9))
    return df_fail(dfcclInvalidArgument, "%s: %s is %s; it must be a number from %s to 1e12",
                   input->file, path, df_json_show(value, shown), zero_allowed ? "0" : "1e-9");
  *out = value->valuedouble * unit;
  return dfcclSuccess;
}

typedef struct field {
  const char *name;
  double *number;
  uint32_t *whole;
  int zero_allowed;
  double unit;
} field;

/* An object whose members are all among the fields. */
static dfcclResult_t read_fields(const reader *input, const char *path, const cJSON *object,
                                 const field *fields, int n_fields) {
  char name[DF_JSON_SHOWN_BYTES], shown[DF_JSON_SHOWN_BYTES], full[DF_JSON_SHOWN_BYTES * 2];
  if (!cJSON_IsObject(object))
    return df_fail(dfcclInvalidArgument, "%s: %s is %s, not an object", input->file, path,
                   df_json_show(object, shown));
  dfcclResult_t result = df_json_reject_duplicates(input->file, path, object);
  for (const cJSON *value = object->child; value && result == dfcclSuccess; value = value->next) {
    int i = 0;
    while (i < n_fields && strcmp(fields[i].name, value->string) != 0) i++;
    snprintf(full, sizeof full, "%s.%s", path, df_show_text(value->string, name));
    if (i == n_fields)
      return df_fail(dfcclInvalidArgument, "%s: %s: unknown key", input->file, full);
    int64_t whole = 0;
    if (fields[i].number) {
      result =
          read_number(input, full, value, fields[i].zero_allowed, fields[i].unit, fields[i].number);
    } else {
      result = df_json_whole(input->file, full, value, 1, DF_MODEL_RANKS_MAX, &whole);
      *fields[i].whole = (uint32_t)whole;
    }
  }
  return result;
}

/* A number of ranks for all hosts, or a list that says it for each. */
static dfcclResult_t read_hosts(const reader *input, const cJSON *value) {
  df_network_model *model = input->model;
  int64_t here = 1;
  const cJSON *item = cJSON_IsArray(value) ? value->child : NULL;
  model->hosts = 0;
  uint32_t rank = 0;
  for (; rank < model->ranks; model->hosts++) {
    const int is_list = cJSON_IsArray(value);
    if (is_list && item == NULL)
      return df_fail(dfcclInvalidArgument, "%s: ranks_per_host has %u ranks, not %u", input->file,
                     rank, model->ranks);
    if (value) {
      dfcclResult_t result = df_json_whole(input->file, "ranks_per_host", is_list ? item : value, 1,
                                           DF_MODEL_RANKS_MAX, &here);
      if (result != dfcclSuccess) return result;
    }
    if (is_list) item = item->next;
    if (is_list && rank + (uint64_t)here > model->ranks)
      return df_fail(dfcclInvalidArgument, "%s: ranks_per_host has more than %u ranks", input->file,
                     model->ranks);
    model->host_ranks[model->hosts] = (uint32_t)DF_MIN((uint64_t)here, model->ranks - rank);
    for (uint32_t l = 0; l < model->host_ranks[model->hosts]; l++, rank++) {
      model->host[rank] = model->hosts;
      model->local[rank] = l;
    }
  }
  if (item)
    return df_fail(dfcclInvalidArgument, "%s: ranks_per_host has more than %u ranks", input->file,
                   model->ranks);
  return dfcclSuccess;
}

static dfcclResult_t read_contention(const reader *input, const cJSON *value) {
  char shown[DF_JSON_SHOWN_BYTES];
  if (!cJSON_IsBool(value))
    return df_fail(dfcclInvalidArgument, "%s: contention is %s; it must be true or false",
                   input->file, df_json_show(value, shown));
  input->model->is_free_of_contention = cJSON_IsFalse(value);
  return dfcclSuccess;
}

static dfcclResult_t read_object(const reader *input, const cJSON *root) {
  df_network_model *m = input->model;
  const field inside[] = {{"latency_us", &m->inside_latency, NULL, 1, 1e-6},
                          {"GBps", &m->inside_rate, NULL, 0, 1e9}};
  const field between[] = {{"latency_us", &m->between_latency, NULL, 1, 1e-6},
                           {"GBps", &m->between_rate, NULL, 0, 1e9},
                           {"nics", NULL, &m->nics, 0, 0}};
  const field switches[] = {{"hosts", NULL, &m->switch_hosts, 0, 0},
                            {"latency_us", &m->switch_latency, NULL, 1, 1e-6},
                            {"GBps", &m->switch_rate, NULL, 0, 1e9}};
  const field numbers[] = {{"reduce_GBps", &m->reduce_rate, NULL, 1, 1e9},
                           {"copy_GBps", &m->copy_rate, NULL, 1, 1e9},
                           {"overhead_us", &m->overhead, NULL, 1, 1e-6}};
  const cJSON *hosts = NULL;
  char shown[DF_JSON_SHOWN_BYTES];
  dfcclResult_t result = df_json_reject_duplicates(input->file, "", root);
  for (const cJSON *value = root->child; value && result == dfcclSuccess; value = value->next) {
    const char *name = value->string;
    int i = 0;
    while (i < (int)DF_COUNT_OF(numbers) && strcmp(numbers[i].name, name) != 0) i++;
    if (i < (int)DF_COUNT_OF(numbers))
      result = read_number(input, name, value, 1, numbers[i].unit, numbers[i].number);
    else if (strcmp(name, "ranks_per_host") == 0)
      hosts = value;
    else if (strcmp(name, "contention") == 0)
      result = read_contention(input, value);
    else if (strcmp(name, "inside") == 0)
      result = read_fields(input, name, value, inside, DF_COUNT_OF(inside));
    else if (strcmp(name, "between") == 0)
      result = read_fields(input, name, value, between, DF_COUNT_OF(between));
    else if (strcmp(name, "switch") == 0)
      result = read_fields(input, name, value, switches, DF_COUNT_OF(switches));
    else
      result = df_fail(dfcclInvalidArgument, "%s: %s: unknown key", input->file,
                       df_show_text(name, shown));
  }
  if (result == dfcclSuccess) result = read_hosts(input, hosts);
  if (result == dfcclSuccess && m->switch_hosts && m->switch_rate == 0)
    return df_fail(dfcclInvalidArgument, "%s: switch.GBps is missing", input->file);
  if (result == dfcclSuccess && m->switch_rate > 0 && m->switch_hosts == 0)
    return df_fail(dfcclInvalidArgument, "%s: switch.hosts is missing", input->file);
  return result;
}

static dfcclResult_t set_up(df_network_model *model, uint32_t ranks) {
  *model = (df_network_model){.ranks = ranks,
                              .nics = 1,
                              .inside_latency = 1e-6,
                              .inside_rate = 20e9,
                              .between_latency = 5e-6,
                              .between_rate = 12.5e9};
  model->host = calloc(ranks, sizeof *model->host);
  model->local = calloc(ranks, sizeof *model->local);
  model->host_ranks = calloc(ranks, sizeof *model->host_ranks);
  if (!model->host || !model->local || !model->host_ranks)
    return df_fail(dfcclOutOfMemory, "no memory for %u ranks", ranks);
  return dfcclSuccess;
}

/* root NULL: the model as set up. */
static dfcclResult_t take(df_network_model *model, const char *file, const cJSON *root) {
  const reader input = {file, model};
  dfcclResult_t result = root ? read_object(&input, root) : read_hosts(&input, NULL);
  if (result == dfcclSuccess && model->switch_hosts)
    model->switches = DF_DIV_UP(model->hosts, model->switch_hosts);
  return result;
}

dfcclResult_t df_network_model_read(df_network_model *model, const char *file, uint32_t ranks) {
  df_json json = {0};
  dfcclResult_t result = set_up(model, ranks);
  if (result == dfcclSuccess && file) result = df_json_load(&json, file, DF_SIM_MAX_CONFIG_BYTES);
  if (result == dfcclSuccess) result = take(model, file, json.root);
  df_json_destroy(&json);
  return result;
}

dfcclResult_t df_network_model_parse(df_network_model *model, const char *file, const char *text,
                                     size_t bytes, uint32_t ranks) {
  df_json json = {0};
  dfcclResult_t result = set_up(model, ranks);
  if (result == dfcclSuccess) result = df_json_parse(&json, file, text, bytes);
  if (result == dfcclSuccess) result = take(model, file, json.root);
  df_json_destroy(&json);
  return result;
}

void df_network_model_free(df_network_model *model) {
  free(model->host);
  free(model->local);
  free(model->host_ranks);
}

/* ---- ports: of ranks within their host, of NICs, of switches; out before in */

static uint32_t nic_port(const df_network_model *m, uint32_t host, uint32_t nic) {
  return 2 * (m->ranks + host * m->nics + nic);
}

static uint32_t switch_port(const df_network_model *m, uint32_t at) {
  return 2 * (m->ranks + m->hosts * m->nics + at);
}

uint32_t df_network_model_ports(const df_network_model *m) { return switch_port(m, m->switches); }

double df_network_model_rate(const df_network_model *m, uint32_t port) {
  return port < nic_port(m, 0, 0)   ? m->inside_rate
         : port < switch_port(m, 0) ? m->between_rate
                                    : m->switch_rate;
}

const char *df_network_model_port_name(const df_network_model *m, uint32_t port,
                                       char name[DF_MODEL_PORT_NAME]) {
  const char *way = port % 2 ? "in" : "out";
  const uint32_t at = port / 2;
  if (at < m->ranks)
    snprintf(name, DF_MODEL_PORT_NAME, "rank %u, %s", at, way);
  else if (at < m->ranks + m->hosts * m->nics)
    snprintf(name, DF_MODEL_PORT_NAME, "host %u, NIC %u, %s", (at - m->ranks) / m->nics,
             (at - m->ranks) % m->nics, way);
  else if (port < df_network_model_ports(m))
    snprintf(name, DF_MODEL_PORT_NAME, "switch %u, %s", at - m->ranks - m->hosts * m->nics, way);
  else
    snprintf(name, DF_MODEL_PORT_NAME, "a connection");
  return name;
}

uint32_t df_network_model_path(const df_network_model *m, uint32_t from, uint32_t to,
                               uint32_t ports[DF_MODEL_PATH_MAX], double *latency) {
  const uint32_t a = m->host[from], b = m->host[to];
  uint32_t n = 0;
  if (a == b) {
    ports[n++] = 2 * from;
    ports[n++] = 2 * to + 1;
    *latency = m->inside_latency;
    return n;
  }
  ports[n++] = nic_port(m, a, m->local[from] % m->nics);
  *latency = m->between_latency;
  if (m->switches && a / m->switch_hosts != b / m->switch_hosts) {
    ports[n++] = switch_port(m, a / m->switch_hosts);
    ports[n++] = switch_port(m, b / m->switch_hosts) + 1;
    *latency += m->switch_latency;
  }
  ports[n++] = nic_port(m, b, m->local[to] % m->nics) + 1;
  return n;
}

/* ---- bounds */

/* Some ranks, and the ports between them and the others. */
typedef struct cut {
  uint32_t inside;
  int has_root; /* which is rank 0 */
  double rate, latency;
} cut;

/* Returns the bytes that must leave the ranks of a cut, or reach them, whichever is more. */
static double bytes_of_cut(const df_network_model *m, df_operation operation, double bytes,
                           const cut *c) {
  const double in = c->inside, out = m->ranks - c->inside, piece = bytes / m->ranks;
  switch (operation) {
  case DF_OP_ALL_GATHER:
  case DF_OP_REDUCE_SCATTER:
    return piece * fmax(in, out);
  case DF_OP_ALL_TO_ALL:
    return piece * in * out;
  case DF_OP_GATHER:
  case DF_OP_SCATTER:
    return piece * (c->has_root ? out : in);
  default:
    return bytes;
  }
}

static double time_of_cut(const df_network_model *m, df_operation operation, double bytes,
                          const cut *c) {
  if (c->inside == 0 || c->inside == m->ranks) return 0;
  return c->latency + bytes_of_cut(m, operation, bytes, c) / c->rate;
}

/* Between a rank and those of its host, and between it and others. */
static double rate_of_rank(const df_network_model *m, uint32_t here) {
  if (m->is_free_of_contention)
    return (here - 1) * m->inside_rate + (m->ranks - here) * m->between_rate;
  return (here > 1 ? m->inside_rate : 0) + (m->hosts == 1 ? 0 : m->between_rate);
}

static double rate_of_host(const df_network_model *m, uint32_t here) {
  if (m->is_free_of_contention) return (double)here * (m->ranks - here) * m->between_rate;
  return m->hosts == 1 ? 0 : DF_MIN(m->nics, here) * m->between_rate;
}

double df_network_model_bound(const df_network_model *m, df_operation operation, uint64_t bytes) {
  double most = 0, all_ports = 0;
  for (uint32_t h = 0; h < m->hosts; h++) {
    const uint32_t here = m->host_ranks[h];
    const cut host = {.inside = here,
                      .has_root = h == 0,
                      .rate = rate_of_host(m, here),
                      .latency = m->between_latency};
    const cut rank = {.inside = 1,
                      .rate = rate_of_rank(m, here),
                      .latency = here > 1 ? DF_MIN(m->inside_latency, m->between_latency)
                                          : m->between_latency};
    most = fmax(most, time_of_cut(m, operation, (double)bytes, &host));
    cut root = rank;
    root.has_root = h == 0;
    most = fmax(most, time_of_cut(m, operation, (double)bytes, &rank));
    most = fmax(most, time_of_cut(m, operation, (double)bytes, &root));
    all_ports += m->is_free_of_contention ? here * rate_of_rank(m, here)
                                          : (here > 1 ? here * m->inside_rate : 0) + host.rate;
  }
  for (uint32_t s = 0; s < m->switches && !m->is_free_of_contention; s++) {
    cut below = {.has_root = s == 0,
                 .rate = m->switch_rate,
                 .latency = m->between_latency + m->switch_latency};
    for (uint32_t h = s * m->switch_hosts; h < DF_MIN((s + 1) * m->switch_hosts, m->hosts); h++)
      below.inside += m->host_ranks[h];
    most = fmax(most, time_of_cut(m, operation, (double)bytes, &below));
  }
  if (operation == DF_OP_ALL_REDUCE && m->ranks > 1)
    most = fmax(most, 2.0 * (m->ranks - 1) * (double)bytes / all_ports);
  return most;
}
