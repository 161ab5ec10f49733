#include "topology/network.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/attributes.h"

dfcclResult_t df_network_make_ports(df_network *network) {
  network->n_ports =
      network->links ? network->n_links : df_network_switch(network, network->switches);
  network->ports = calloc(network->n_ports + 1u, sizeof *network->ports);
  if (network->ports) return dfcclSuccess;
  return df_fail(dfcclOutOfMemory, "no memory for %u ports", network->n_ports);
}

void df_network_free(df_network *network) {
  free(network->host);
  free(network->local);
  free(network->host_ranks);
  free(network->ports);
  free(network->pairs);
  free(network->links);
  free(network->next);
}

/* ---- resources */

uint32_t df_network_resources(const df_network *network) {
  return 2 * network->n_ports + network->n_pairs;
}

double df_network_rate(const df_network *network, uint32_t resource) {
  if (resource >= 2 * network->n_ports) return network->pairs[resource - 2 * network->n_ports].rate;
  const df_network_port *port = &network->ports[resource / 2];
  return resource % 2 ? port->in : port->out;
}

const char *df_network_node_name(const df_network *network, uint32_t node,
                                 char name[DF_NETWORK_NAME_BYTES]) {
  const int is_rank = node < network->ranks;
  snprintf(name, DF_NETWORK_NAME_BYTES, "%s %u", is_rank ? "rank" : "switch",
           is_rank ? node : node - network->ranks);
  return name;
}

static void name_link(const df_network *network, const df_network_link *link, int turned,
                      char name[DF_NETWORK_NAME_BYTES]) {
  char from[DF_NETWORK_NAME_BYTES], to[DF_NETWORK_NAME_BYTES];
  df_network_node_name(network, turned ? link->to : link->from, from);
  df_network_node_name(network, turned ? link->from : link->to, to);
  snprintf(name, DF_NETWORK_NAME_BYTES, "%.20s to %.20s", from, to);
}

const char *df_network_name(const df_network *network, uint32_t resource,
                            char name[DF_NETWORK_NAME_BYTES]) {
  const char *way = resource % 2 ? "in" : "out";
  const uint32_t at = resource / 2;
  if (resource >= df_network_resources(network))
    snprintf(name, DF_NETWORK_NAME_BYTES, "a connection");
  else if (at >= network->n_ports)
    snprintf(name, DF_NETWORK_NAME_BYTES, "host %u to host %u",
             network->pairs[resource - 2 * network->n_ports].from,
             network->pairs[resource - 2 * network->n_ports].to);
  else if (network->links)
    name_link(network, &network->links[at], resource % 2, name);
  else if (at < network->ranks)
    snprintf(name, DF_NETWORK_NAME_BYTES, "rank %u, %s", at, way);
  else if (at < df_network_switch(network, 0))
    snprintf(name, DF_NETWORK_NAME_BYTES, "host %u, NIC %u, %s",
             (at - network->ranks) / network->nics, (at - network->ranks) % network->nics, way);
  else
    snprintf(name, DF_NETWORK_NAME_BYTES, "switch %u, %s", at - df_network_switch(network, 0), way);
  return name;
}

/* ---- pairs */

static int compare_pairs(const void *a, const void *b) {
  const df_network_pair *first = a, *second = b;
  if (first->from != second->from) return first->from < second->from ? -1 : 1;
  return first->to < second->to ? -1 : first->to > second->to;
}

const df_network_pair *df_network_pair_of(const df_network *network, uint32_t from, uint32_t to) {
  const df_network_pair key = {.from = from, .to = to};
  if (network->n_pairs == 0) return NULL;
  return bsearch(&key, network->pairs, network->n_pairs, sizeof key, compare_pairs);
}

/* ---- ways through links */

/* A way through another rank costs more than any way through switches alone. */
enum { THROUGH_A_RANK = 1 << 16 };

/* Finds the ways of all nodes to one rank: by rounds, since there are few nodes. */
static void find_ways(df_network *network, uint32_t to, uint32_t *cost) {
  const uint32_t nodes = network->ranks + network->switches;
  for (uint32_t v = 0; v < nodes; v++) cost[v] = UINT32_MAX;
  cost[to] = 0;
  for (int moved = 1; moved;) {
    moved = 0;
    for (uint32_t l = 0; l < 2 * network->n_links; l++) {
      const df_network_link *link = &network->links[l / 2];
      const uint32_t from = l % 2 ? link->to : link->from, over = l % 2 ? link->from : link->to;
      if (df_network_rate(network, l) <= 0 || cost[over] == UINT32_MAX) continue;
      const uint32_t there =
          cost[over] + 1 + (over < network->ranks && over != to ? THROUGH_A_RANK : 0);
      if (there >= cost[from]) continue;
      cost[from] = there;
      network->next[from * network->ranks + to] = (uint16_t)(l + 1);
      moved = 1;
    }
  }
}

static uint32_t length_of_way(const df_network *network, uint32_t from, uint32_t to) {
  uint32_t length = 0;
  while (from != to) {
    const uint32_t l = network->next[from * network->ranks + to] - 1u;
    const df_network_link *link = &network->links[l / 2];
    from = l % 2 ? link->from : link->to;
    length++;
  }
  return length;
}

static dfcclResult_t route(df_network *network) {
  const uint32_t nodes = network->ranks + network->switches;
  uint32_t *cost = calloc(nodes, sizeof *cost);
  network->next = calloc((size_t)nodes * network->ranks, sizeof *network->next);
  dfcclResult_t result = dfcclSuccess;
  if (cost == NULL || network->next == NULL)
    result = df_fail(dfcclOutOfMemory, "no memory for the ways of %u nodes", nodes);
  for (uint32_t to = 0; result == dfcclSuccess && to < network->ranks; to++) {
    find_ways(network, to, cost);
    for (uint32_t from = 0; result == dfcclSuccess && from < network->ranks; from++) {
      if (cost[from] == UINT32_MAX)
        result = df_fail(dfcclInvalidArgument, "rank %u cannot be reached from rank %u", to, from);
      else if (length_of_way(network, from, to) > DF_NETWORK_PATH_MOST)
        result =
            df_fail(dfcclInvalidArgument, "the way from rank %u to rank %u has more than %d links",
                    from, to, DF_NETWORK_PATH_MOST);
    }
  }
  free(cost);
  return result;
}

dfcclResult_t df_network_finish(df_network *network) {
  if (network->n_pairs)
    qsort(network->pairs, network->n_pairs, sizeof *network->pairs, compare_pairs);
  return network->links ? route(network) : dfcclSuccess;
}

static uint32_t path_by_links(const df_network *network, uint32_t from, uint32_t to,
                              uint32_t resources[DF_NETWORK_PATH_MOST], double *latency) {
  uint32_t n = 0;
  *latency = 0;
  while (from != to && n < DF_NETWORK_PATH_MOST) {
    const uint32_t l = network->next[from * network->ranks + to] - 1u;
    const df_network_link *link = &network->links[l / 2];
    resources[n++] = l;
    *latency += network->ports[l / 2].latency;
    from = l % 2 ? link->from : link->to;
  }
  return n;
}

uint32_t df_network_path(const df_network *m, uint32_t from, uint32_t to,
                         uint32_t resources[DF_NETWORK_PATH_MOST], double *latency) {
  if (m->links) return path_by_links(m, from, to, resources, latency);
  const uint32_t a = m->host[from], b = m->host[to];
  uint32_t n = 0;
  if (a == b) {
    resources[n++] = 2 * from;
    resources[n++] = 2 * to + 1;
    *latency = (m->ports[from].latency + m->ports[to].latency) / 2;
    return n;
  }
  const uint32_t first = df_network_card(m, a, m->local[from] % m->nics);
  const uint32_t last = df_network_card(m, b, m->local[to] % m->nics);
  double there = m->ports[first].latency, here = m->ports[last].latency;
  resources[n++] = 2 * first;
  if (m->switches && a / m->switch_hosts != b / m->switch_hosts) {
    const uint32_t up = df_network_switch(m, a / m->switch_hosts);
    const uint32_t down = df_network_switch(m, b / m->switch_hosts);
    resources[n++] = 2 * up;
    resources[n++] = 2 * down + 1;
    there += m->ports[up].latency;
    here += m->ports[down].latency;
  }
  resources[n++] = 2 * last + 1;
  *latency = (there + here) / 2;
  const df_network_pair *pair = df_network_pair_of(m, a, b);
  if (pair == NULL) return n;
  resources[n++] = 2 * m->n_ports + (uint32_t)(pair - m->pairs);
  if (pair->latency >= 0) *latency = pair->latency;
  return n;
}
