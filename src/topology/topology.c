#include "topology/topology.h"

#include <stdlib.h>
#include <string.h>

int df_topology_open(df_topology *topology, uint32_t n_ranks) {
  topology->host_of = calloc(n_ranks, sizeof *topology->host_of);
  return topology->host_of != NULL;
}

void df_topology_free(df_topology *topology) {
  free(topology->hosts);
  free(topology->host_of);
  topology->hosts = NULL;
  topology->host_of = NULL;
}

static df_topology_host *find_host(df_topology *topology, uint64_t identity) {
  for (uint32_t i = 0; i < topology->n_hosts; i++)
    if (topology->hosts[i].identity == identity) return &topology->hosts[i];
  if (topology->n_hosts == topology->capacity) {
    const uint32_t capacity = DF_MAX(2 * topology->capacity, 4u);
    df_topology_host *hosts = realloc(topology->hosts, capacity * sizeof *hosts);
    if (hosts == NULL) return NULL;
    topology->hosts = hosts;
    topology->capacity = capacity;
  }
  df_topology_host *host = &topology->hosts[topology->n_hosts++];
  *host = (df_topology_host){.identity = identity};
  return host;
}

int df_topology_add(df_topology *topology, uint32_t rank, uint64_t identity,
                    const uint64_t cpus[DF_TOPOLOGY_CPU_WORDS]) {
  df_topology_host *host = find_host(topology, identity);
  if (host == NULL) return 0;
  topology->host_of[rank] = (uint32_t)(host - topology->hosts);
  topology->n_cores -= host->n_cores;
  host->n_cores = 0;
  for (int w = 0; w < DF_TOPOLOGY_CPU_WORDS; w++) {
    host->cpus[w] |= cpus[w];
    host->n_cores += (uint32_t)__builtin_popcountll(host->cpus[w]);
  }
  topology->n_cores += host->n_cores;
  return 1;
}

int df_topology_is_oversubscribed(const df_topology *topology, uint32_t n) {
  return topology->runs_on_cores && n >= 2 * topology->n_cores;
}

uint32_t df_topology_ranks_on_a_core(const df_topology *topology, uint32_t n) {
  return DF_MAX(n / DF_MAX(topology->n_cores, 1u), 1u);
}

static uint32_t host_at(const df_topology *topology, const int *ranks, uint32_t position) {
  return topology->host_of[ranks ? (uint32_t)ranks[position] : position];
}

int df_topology_is_spread(const df_topology *topology, const int *ranks, uint32_t n) {
  for (uint32_t i = 1; topology->n_hosts > 1 && i < n; i++)
    if (host_at(topology, ranks, i) != host_at(topology, ranks, 0)) return 1;
  return 0;
}

uint32_t df_topology_neighbours(const df_topology *topology, const int *ranks, uint32_t n) {
  uint32_t neighbours = 1;
  if (!df_topology_is_spread(topology, ranks, n)) return 0;
  while (host_at(topology, ranks, neighbours) == host_at(topology, ranks, 0)) neighbours++;
  for (uint32_t first = 0; first < n; first += neighbours) {
    const uint32_t end = DF_MIN(first + neighbours, n), host = host_at(topology, ranks, first);
    for (uint32_t i = first + 1; i < end; i++)
      if (host_at(topology, ranks, i) != host) return 0;
    if (end < n && host_at(topology, ranks, end) == host) return 0;
  }
  return neighbours;
}

/* Returns how many members on the same host have an earlier position. */
static uint32_t place_on_host(const df_topology *topology, const int *ranks, uint32_t position) {
  uint32_t before = 0;
  for (uint32_t i = 0; i < position; i++)
    before += host_at(topology, ranks, i) == host_at(topology, ranks, position);
  return before;
}

df_topology_spread df_topology_spread_of(const df_topology *topology, const int *ranks,
                                         uint32_t n) {
  df_topology_spread spread = {.smallest = n};
  for (uint32_t i = 0; i < n; i++) {
    uint32_t members = 1;
    if (topology->n_hosts > 1 && place_on_host(topology, ranks, i) > 0) continue;
    if (topology->n_hosts <= 1 && i > 0) break;
    for (uint32_t k = i + 1; k < n; k++)
      members +=
          topology->n_hosts <= 1 || host_at(topology, ranks, k) == host_at(topology, ranks, i);
    spread.hosts++;
    spread.smallest = DF_MIN(spread.smallest, members);
    spread.largest = DF_MAX(spread.largest, members);
  }
  return spread;
}

df_levels *df_topology_levels(const df_topology *topology, const int *ranks, uint32_t n,
                              uint32_t split, uint32_t lanes) {
  if (!df_topology_is_spread(topology, ranks, n)) return df_levels_of_neighbours(n, split, lanes);
  df_levels *levels = df_levels_new(n, split ? 2 : 1);
  if (levels == NULL) return NULL;
  for (uint32_t i = 0; i < n; i++) {
    df_levels_put(levels, 0, i, host_at(topology, ranks, i));
    if (split) df_levels_put(levels, 1, i, place_on_host(topology, ranks, i) / split);
  }
  df_levels_finish(levels, lanes);
  return levels;
}
