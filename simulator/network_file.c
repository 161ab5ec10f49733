#include "network_file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/attributes.h"
#include "json_input.h"
#include "sim_limits.h"

enum { PATH_BYTES = 2 * DF_JSON_SHOWN_BYTES, FIELDS_MOST = 8 };

/* The values of a file for ports that it does not name. */
typedef struct defaults {
  df_network_port inside, card, up;
  double cards;
  double switch_hosts;
} defaults;

typedef struct reader {
  const char *file, *text;
  size_t bytes;
  df_json json;
  df_network *network;
  const cJSON *blamed; /* the value that a sentence is about */
} reader;

typedef struct field {
  const char *name;
  double *number;
  double least, unit; /* in the file's unit; the number is in ours */
  double most;        /* 0: 1e12. Numbers with a limit are whole. */
} field;

/* ---- values */

static dfcclResult_t read_number(reader *input, const char *path, const cJSON *value,
                                 const field *f) {
  char shown[DF_JSON_SHOWN_BYTES];
  input->blamed = value;
  if (f->most > 0) {
    int64_t whole = 0;
    const dfcclResult_t result =
        df_json_whole(input->file, path, value, (int64_t)f->least, (int64_t)f->most, &whole);
    *f->number = (double)whole;
    return result;
  }
  if (!cJSON_IsNumber(value) || !isfinite(value->valuedouble) || value->valuedouble > 1e12 ||
      value->valuedouble < f->least)
    return df_fail(dfcclInvalidArgument, "%s: %s is %s; it must be a number from %s to 1e12",
                   input->file, path, df_json_show(value, shown), f->least > 0 ? "1e-9" : "0");
  *f->number = value->valuedouble * f->unit;
  return dfcclSuccess;
}

/* An object whose members are all among the fields. */
static dfcclResult_t read_fields(reader *input, const char *path, const cJSON *object,
                                 const field *fields, int n_fields) {
  char name[DF_JSON_SHOWN_BYTES], shown[DF_JSON_SHOWN_BYTES], full[PATH_BYTES];
  input->blamed = object;
  if (!cJSON_IsObject(object))
    return df_fail(dfcclInvalidArgument, "%s: %s is %s, not an object", input->file, path,
                   df_json_show(object, shown));
  dfcclResult_t result = df_json_reject_duplicates(input->file, path, object);
  for (const cJSON *value = object->child; value && result == dfcclSuccess; value = value->next) {
    int i = 0;
    while (i < n_fields && strcmp(fields[i].name, value->string) != 0) i++;
    snprintf(full, sizeof full, "%s.%s", path, df_show_text(value->string, name));
    input->blamed = value;
    if (i == n_fields)
      return df_fail(dfcclInvalidArgument, "%s: %s: unknown key", input->file, full);
    result = read_number(input, full, value, &fields[i]);
  }
  return result;
}

/* Calls `read_item` for each item of a list, with its path. */
static dfcclResult_t read_list(reader *input, const char *name, const cJSON *list,
                               dfcclResult_t (*read_item)(reader *input, const char *path,
                                                          const cJSON *item)) {
  char path[DF_JSON_SHOWN_BYTES], shown[DF_JSON_SHOWN_BYTES];
  uint32_t number = 0;
  if (list == NULL) return dfcclSuccess;
  input->blamed = list;
  if (!cJSON_IsArray(list))
    return df_fail(dfcclInvalidArgument, "%s: %s is %s, not a list", input->file, name,
                   df_json_show(list, shown));
  dfcclResult_t result = dfcclSuccess;
  for (const cJSON *item = list->child; item && result == dfcclSuccess; item = item->next) {
    snprintf(path, sizeof path, "%s[%u]", name, number++);
    result = read_item(input, path, item);
  }
  return result;
}

/* GBps is both directions; fields of a file in their order. -1: not given. */
typedef struct rates {
  double both, out, in, latency;
} rates;

static int rate_fields(rates *r, field fields[4]) {
  *r = (rates){-1, -1, -1, -1};
  fields[0] = (field){"GBps", &r->both, 1e-9, 1e9, 0};
  fields[1] = (field){"out_GBps", &r->out, 1e-9, 1e9, 0};
  fields[2] = (field){"in_GBps", &r->in, 1e-9, 1e9, 0};
  fields[3] = (field){"latency_us", &r->latency, 0, 1e-6, 0};
  return 4;
}

static dfcclResult_t check_rates(reader *input, const char *path, const cJSON *item, rates *r) {
  input->blamed = item;
  if (r->both >= 0 && (r->out >= 0 || r->in >= 0))
    return df_fail(dfcclInvalidArgument, "%s: %s has GBps, and out_GBps or in_GBps too",
                   input->file, path);
  if (r->both >= 0) r->out = r->in = r->both;
  return dfcclSuccess;
}

/* ---- hosts */

/* A number of ranks for all hosts, or a list that says it for each. */
static dfcclResult_t read_hosts(reader *input, const cJSON *value) {
  df_network *m = input->network;
  int64_t here = 1;
  const cJSON *item = cJSON_IsArray(value) ? value->child : NULL;
  input->blamed = value;
  m->hosts = 0;
  uint32_t rank = 0;
  for (; rank < m->ranks; m->hosts++) {
    const int is_list = cJSON_IsArray(value);
    if (is_list && item == NULL)
      return df_fail(dfcclInvalidArgument, "%s: ranks_per_host has %u ranks, not %u", input->file,
                     rank, m->ranks);
    if (value) {
      dfcclResult_t result = df_json_whole(input->file, "ranks_per_host", is_list ? item : value, 1,
                                           DF_NETWORK_RANKS_MOST, &here);
      if (result != dfcclSuccess) return result;
    }
    if (is_list) item = item->next;
    if (is_list && rank + (uint64_t)here > m->ranks)
      return df_fail(dfcclInvalidArgument, "%s: ranks_per_host has more than %u ranks", input->file,
                     m->ranks);
    m->host_ranks[m->hosts] = (uint32_t)DF_MIN((uint64_t)here, m->ranks - rank);
    for (uint32_t l = 0; l < m->host_ranks[m->hosts]; l++, rank++) {
      m->host[rank] = m->hosts;
      m->local[rank] = l;
    }
  }
  if (item)
    return df_fail(dfcclInvalidArgument, "%s: ranks_per_host has more than %u ranks", input->file,
                   m->ranks);
  return dfcclSuccess;
}

static dfcclResult_t set_rates(reader *input, const char *path, const cJSON *item, uint32_t port,
                               const rates *r) {
  df_network_port *p = &input->network->ports[port];
  const int named = r->out >= 0 || r->in >= 0 || r->latency >= 0;
  input->blamed = item;
  if (!named)
    return df_fail(dfcclInvalidArgument, "%s: %s has neither a rate nor a latency", input->file,
                   path);
  if (r->out >= 0) p->out = r->out;
  if (r->in >= 0) p->in = r->in;
  if (r->latency >= 0) p->latency = r->latency;
  return dfcclSuccess;
}

/* {"host": 3, "nic": 0, ...}, {"rank": 2, ...} or {"switch": 1, ...}. A later item counts. */
static dfcclResult_t read_port(reader *input, const char *path, const cJSON *item) {
  df_network *m = input->network;
  double host = -1, nic = -1, rank = -1, number = -1;
  rates r;
  field fields[FIELDS_MOST] = {{"", NULL, 0, 0, 0}};
  int n = rate_fields(&r, fields);
  if (m->hosts > 1) fields[n++] = (field){"host", &host, 0, 1, m->hosts - 1};
  if (m->nics > 1) fields[n++] = (field){"nic", &nic, 0, 1, m->nics - 1};
  if (m->ranks > 1) fields[n++] = (field){"rank", &rank, 0, 1, m->ranks - 1};
  if (m->switches > 1) fields[n++] = (field){"switch", &number, 0, 1, m->switches - 1};
  dfcclResult_t result = read_fields(input, path, item, fields, n);
  if (result == dfcclSuccess) result = check_rates(input, path, item, &r);
  if (result != dfcclSuccess) return result;
  input->blamed = item;
  if ((host >= 0) + (rank >= 0) + (number >= 0) != 1)
    return df_fail(dfcclInvalidArgument, "%s: %s must have one of host, rank and switch",
                   input->file, path);
  if (nic >= 0 && host < 0)
    return df_fail(dfcclInvalidArgument, "%s: %s has a nic without a host", input->file, path);
  if (rank >= 0) return set_rates(input, path, item, (uint32_t)rank, &r);
  if (number >= 0) return set_rates(input, path, item, df_network_switch(m, (uint32_t)number), &r);
  for (uint32_t c = 0; c < m->nics && result == dfcclSuccess; c++)
    if (nic < 0 || c == (uint32_t)nic)
      result = set_rates(input, path, item, df_network_card(m, (uint32_t)host, c), &r);
  return result;
}

static dfcclResult_t add_pair(reader *input, uint32_t from, uint32_t to, double rate,
                              double latency) {
  df_network *m = input->network;
  if (rate < 0) return dfcclSuccess;
  df_network_pair *moved = realloc(m->pairs, (m->n_pairs + 1u) * sizeof *moved);
  if (moved == NULL) return df_fail(dfcclOutOfMemory, "no memory for %u pairs", m->n_pairs);
  m->pairs = moved;
  m->pairs[m->n_pairs++] = (df_network_pair){from, to, rate, latency};
  return dfcclSuccess;
}

/* {"from": 0, "to": 3, ...}: out is from the first host to the second. */
static dfcclResult_t read_pair(reader *input, const char *path, const cJSON *item) {
  const df_network *m = input->network;
  double from = -1, to = -1;
  rates r;
  field fields[FIELDS_MOST];
  int n = rate_fields(&r, fields);
  if (m->hosts > 1) {
    fields[n++] = (field){"from", &from, 0, 1, m->hosts - 1};
    fields[n++] = (field){"to", &to, 0, 1, m->hosts - 1};
  }
  dfcclResult_t result = read_fields(input, path, item, fields, n);
  if (result == dfcclSuccess) result = check_rates(input, path, item, &r);
  if (result != dfcclSuccess) return result;
  input->blamed = item;
  if (from < 0 || to < 0 || from == to || (r.out < 0 && r.in < 0))
    return df_fail(dfcclInvalidArgument,
                   "%s: %s must have two different hosts, from and to, and a rate", input->file,
                   path);
  result = add_pair(input, (uint32_t)from, (uint32_t)to, r.out, r.latency);
  if (result != dfcclSuccess) return result;
  return add_pair(input, (uint32_t)to, (uint32_t)from, r.in, r.latency);
}

static dfcclResult_t reject_equal_pairs(const reader *input) {
  const df_network *m = input->network;
  for (uint32_t i = 1; i < m->n_pairs; i++)
    if (m->pairs[i - 1].from == m->pairs[i].from && m->pairs[i - 1].to == m->pairs[i].to)
      return df_fail(dfcclInvalidArgument, "%s: pairs has two rates from host %u to host %u",
                     input->file, m->pairs[i].from, m->pairs[i].to);
  return dfcclSuccess;
}

/* ---- links */

/* "rank 3" or "switch 0". */
static dfcclResult_t read_node(reader *input, const char *path, const cJSON *item, const char *key,
                               uint32_t *node) {
  const df_network *m = input->network;
  const cJSON *value = cJSON_GetObjectItemCaseSensitive(item, key);
  char shown[DF_JSON_SHOWN_BYTES];
  unsigned number = 0;
  int used = 0;
  input->blamed = value ? value : item;
  const char *text = value && cJSON_IsString(value) ? value->valuestring : "";
  if (sscanf(text, "rank %5u%n", &number, &used) == 1 && text[used] == 0 && number < m->ranks) {
    *node = number;
    return dfcclSuccess;
  }
  if (sscanf(text, "switch %5u%n", &number, &used) == 1 && text[used] == 0 &&
      number < m->switches) {
    *node = m->ranks + number;
    return dfcclSuccess;
  }
  return df_fail(dfcclInvalidArgument,
                 "%s: %s.%s is %s; it must be \"rank N\" or \"switch N\" (%u ranks, %u switches)",
                 input->file, path, key, value ? df_json_show(value, shown) : "missing", m->ranks,
                 m->switches);
}

static dfcclResult_t read_link(reader *input, const char *path, const cJSON *item) {
  df_network *m = input->network;
  rates r;
  field fields[FIELDS_MOST];
  const int n = rate_fields(&r, fields);
  char shown[DF_JSON_SHOWN_BYTES], full[PATH_BYTES], name[DF_JSON_SHOWN_BYTES];
  df_network_link link = {0, 0};
  input->blamed = item;
  if (!cJSON_IsObject(item))
    return df_fail(dfcclInvalidArgument, "%s: %s is %s, not an object", input->file, path,
                   df_json_show(item, shown));
  dfcclResult_t result = df_json_reject_duplicates(input->file, path, item);
  for (const cJSON *value = item->child; value && result == dfcclSuccess; value = value->next) {
    int i = 0;
    if (strcmp(value->string, "from") == 0 || strcmp(value->string, "to") == 0) continue;
    while (i < n && strcmp(fields[i].name, value->string) != 0) i++;
    snprintf(full, sizeof full, "%s.%s", path, df_show_text(value->string, name));
    input->blamed = value;
    if (i == n) return df_fail(dfcclInvalidArgument, "%s: %s: unknown key", input->file, full);
    result = read_number(input, full, value, &fields[i]);
  }
  if (result == dfcclSuccess) result = check_rates(input, path, item, &r);
  if (result == dfcclSuccess) result = read_node(input, path, item, "from", &link.from);
  if (result == dfcclSuccess) result = read_node(input, path, item, "to", &link.to);
  if (result != dfcclSuccess) return result;
  input->blamed = item;
  if (link.from == link.to || (r.out < 0 && r.in < 0))
    return df_fail(dfcclInvalidArgument, "%s: %s must have two different ends, and a rate",
                   input->file, path);
  m->links[m->n_links] = link;
  m->ports[m->n_links++] = (df_network_port){
      .out = fmax(r.out, 0), .in = fmax(r.in, 0), .latency = r.latency >= 0 ? r.latency : 5e-6};
  return dfcclSuccess;
}

static dfcclResult_t read_links(reader *input, const cJSON *list, double switches) {
  df_network *m = input->network;
  const int most = cJSON_IsArray(list) ? cJSON_GetArraySize(list) : 0;
  input->blamed = list;
  m->switches = (uint32_t)switches;
  if (m->ranks + m->switches > DF_NETWORK_LINK_NODES_MOST || most > UINT16_MAX / 2)
    return df_fail(dfcclInvalidArgument,
                   "%s: links between %u nodes are %d links; the most are %d nodes and %d links",
                   input->file, m->ranks + m->switches, most, DF_NETWORK_LINK_NODES_MOST,
                   UINT16_MAX / 2);
  m->links = calloc((size_t)most + 1, sizeof *m->links);
  m->n_links = (uint32_t)most;
  if (m->links == NULL) return df_fail(dfcclOutOfMemory, "no memory for %d links", most);
  dfcclResult_t result = df_network_make_ports(m);
  m->n_links = 0;
  if (result == dfcclSuccess) result = read_list(input, "links", list, read_link);
  return result;
}

/* ---- the whole */

/* The members of the outermost object that are read by themselves. */
typedef struct sections {
  const cJSON *hosts, *ports, *pairs, *links, *inside, *between, *up, *contention, *switches;
} sections;

static dfcclResult_t find_sections(reader *input, const cJSON *root, sections *s) {
  const struct {
    const char *name;
    const cJSON **value;
  } known[] = {{"ranks_per_host", &s->hosts},
               {"ports", &s->ports},
               {"pairs", &s->pairs},
               {"links", &s->links},
               {"inside", &s->inside},
               {"between", &s->between},
               {"switch", &s->up},
               {"contention", &s->contention},
               {"switches", &s->switches}};
  df_network *m = input->network;
  const field numbers[] = {{"reduce_GBps", &m->reduce_rate, 0, 1e9, 0},
                           {"copy_GBps", &m->copy_rate, 0, 1e9, 0},
                           {"overhead_us", &m->overhead, 0, 1e-6, 0}};
  char shown[DF_JSON_SHOWN_BYTES];
  input->blamed = root;
  dfcclResult_t result = df_json_reject_duplicates(input->file, "", root);
  for (const cJSON *value = root->child; value && result == dfcclSuccess; value = value->next) {
    size_t i = 0, k = 0;
    while (i < DF_COUNT_OF(numbers) && strcmp(numbers[i].name, value->string) != 0) i++;
    while (k < DF_COUNT_OF(known) && strcmp(known[k].name, value->string) != 0) k++;
    input->blamed = value;
    if (i < DF_COUNT_OF(numbers))
      result = read_number(input, value->string, value, &numbers[i]);
    else if (k < DF_COUNT_OF(known))
      *known[k].value = value;
    else
      result = df_fail(dfcclInvalidArgument, "%s: %s: unknown key", input->file,
                       df_show_text(value->string, shown));
  }
  if (result != dfcclSuccess || s->contention == NULL) return result;
  input->blamed = s->contention;
  if (!cJSON_IsBool(s->contention))
    return df_fail(dfcclInvalidArgument, "%s: contention is %s; it must be true or false",
                   input->file, df_json_show(s->contention, shown));
  m->is_free_of_contention = cJSON_IsFalse(s->contention);
  return result;
}

static dfcclResult_t read_defaults(reader *input, const sections *s, defaults *d) {
  const field inside[] = {{"latency_us", &d->inside.latency, 0, 1e-6, 0},
                          {"GBps", &d->inside.out, 1e-9, 1e9, 0}};
  const field between[] = {{"latency_us", &d->card.latency, 0, 1e-6, 0},
                           {"GBps", &d->card.out, 1e-9, 1e9, 0},
                           {"nics", &d->cards, 1, 1, DF_NETWORK_RANKS_MOST}};
  const field up[] = {{"hosts", &d->switch_hosts, 1, 1, DF_NETWORK_RANKS_MOST},
                      {"latency_us", &d->up.latency, 0, 1e-6, 0},
                      {"GBps", &d->up.out, 1e-9, 1e9, 0}};
  dfcclResult_t result = dfcclSuccess;
  if (s->inside) result = read_fields(input, "inside", s->inside, inside, DF_COUNT_OF(inside));
  if (s->between && result == dfcclSuccess)
    result = read_fields(input, "between", s->between, between, DF_COUNT_OF(between));
  if (s->up && result == dfcclSuccess)
    result = read_fields(input, "switch", s->up, up, DF_COUNT_OF(up));
  if (result != dfcclSuccess) return result;
  if (d->switch_hosts > 0 && d->up.out == 0)
    return df_fail(dfcclInvalidArgument, "%s: switch.GBps is missing", input->file);
  if (d->up.out > 0 && d->switch_hosts == 0)
    return df_fail(dfcclInvalidArgument, "%s: switch.hosts is missing", input->file);
  d->inside.in = d->inside.out;
  d->card.in = d->card.out;
  d->up.in = d->up.out;
  return dfcclSuccess;
}

static dfcclResult_t fill_ports(df_network *m, const defaults *d) {
  m->nics = (uint32_t)d->cards;
  m->switch_hosts = (uint32_t)d->switch_hosts;
  if (m->switch_hosts) m->switches = DF_DIV_UP(m->hosts, m->switch_hosts);
  const dfcclResult_t result = df_network_make_ports(m);
  for (uint32_t p = 0; result == dfcclSuccess && p < m->n_ports; p++)
    m->ports[p] = p < m->ranks ? d->inside : p < df_network_switch(m, 0) ? d->card : d->up;
  return result;
}

static dfcclResult_t read_network(reader *input, const cJSON *root) {
  df_network *m = input->network;
  defaults d = {.inside = {20e9, 20e9, 1e-6}, .card = {12.5e9, 12.5e9, 5e-6}, .cards = 1};
  sections s = {.ports = NULL};
  double switches = 0;
  const field number = {"switches", &switches, 0, 1, DF_NETWORK_LINK_NODES_MOST};
  dfcclResult_t result = root ? find_sections(input, root, &s) : dfcclSuccess;
  if (result == dfcclSuccess && s.switches)
    result = read_number(input, "switches", s.switches, &number);
  const cJSON *other = s.hosts     ? s.hosts
                       : s.ports   ? s.ports
                       : s.pairs   ? s.pairs
                       : s.inside  ? s.inside
                       : s.between ? s.between
                                   : s.up;
  if (s.links == NULL) other = s.switches;
  input->blamed = other;
  if (result == dfcclSuccess && other)
    return df_fail(dfcclInvalidArgument, "%s: %s %s links", input->file, other->string,
                   s.links ? "cannot be together with" : "needs");
  if (result == dfcclSuccess) result = read_hosts(input, s.hosts);
  if (result == dfcclSuccess && s.links) {
    result = read_links(input, s.links, switches);
  } else if (result == dfcclSuccess) {
    result = read_defaults(input, &s, &d);
    if (result == dfcclSuccess) result = fill_ports(m, &d);
    if (result == dfcclSuccess) result = read_list(input, "ports", s.ports, read_port);
    if (result == dfcclSuccess) result = read_list(input, "pairs", s.pairs, read_pair);
  }
  if (result != dfcclSuccess) return result;
  input->blamed = s.links ? s.links : s.pairs;
  result = df_network_finish(m);
  return result == dfcclSuccess ? reject_equal_pairs(input) : result;
}

/* Adds the line to the sentence of a failure. */
static dfcclResult_t add_line(const reader *input, dfcclResult_t result) {
  char sentence[DF_SENTENCE_BYTES];
  if (result != dfcclInvalidArgument || input->blamed == NULL) return result;
  snprintf(sentence, sizeof sentence, "%s", df_last_sentence());
  const size_t length = strlen(input->file);
  const int has_file = strncmp(sentence, input->file, length) == 0 && sentence[length] == ':';
  return df_fail(result, "%s: line %zu: %s", input->file,
                 df_json_line(&input->json, input->text, input->bytes, input->blamed),
                 has_file ? sentence + length + 2 : sentence);
}

static dfcclResult_t set_up(df_network *network, uint32_t ranks) {
  *network = (df_network){.ranks = ranks, .nics = 1};
  network->host = calloc(ranks, sizeof *network->host);
  network->local = calloc(ranks, sizeof *network->local);
  network->host_ranks = calloc(ranks, sizeof *network->host_ranks);
  if (!network->host || !network->local || !network->host_ranks)
    return df_fail(dfcclOutOfMemory, "no memory for %u ranks", ranks);
  return dfcclSuccess;
}

dfcclResult_t df_network_parse(df_network *network, const char *file, const char *text,
                               size_t bytes, uint32_t ranks) {
  reader input = {.file = file, .text = text, .bytes = bytes, .network = network};
  dfcclResult_t result = set_up(network, ranks);
  if (result == dfcclSuccess) result = df_json_parse(&input.json, file, text, bytes);
  if (result == dfcclSuccess) result = add_line(&input, read_network(&input, input.json.root));
  df_json_destroy(&input.json);
  return result;
}

dfcclResult_t df_network_read(df_network *network, const char *file, uint32_t ranks) {
  char *text = NULL;
  size_t bytes = 0;
  if (file == NULL) {
    reader input = {.network = network};
    const dfcclResult_t result = set_up(network, ranks);
    return result == dfcclSuccess ? read_network(&input, NULL) : result;
  }
  dfcclResult_t result = df_json_read_text(file, DF_SIM_MAX_CONFIG_BYTES, &text, &bytes);
  if (result == dfcclSuccess)
    result = df_network_parse(network, file, text, bytes, ranks);
  else
    *network = (df_network){0};
  free(text);
  return result;
}
