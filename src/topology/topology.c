#include "topology/topology.h"

void df_topology_add(df_topology *topology, const uint64_t cpus[DF_TOPOLOGY_CPU_WORDS]) {
  topology->n_cores = 0;
  for (int w = 0; w < DF_TOPOLOGY_CPU_WORDS; w++) {
    topology->cpus[w] |= cpus[w];
    topology->n_cores += (uint32_t)__builtin_popcountll(topology->cpus[w]);
  }
}

int df_topology_is_crowded(const df_topology *topology, uint32_t n) {
  return topology->runs_on_cores && n >= 2 * topology->n_cores;
}

uint32_t df_topology_ranks_on_a_core(const df_topology *topology, uint32_t n) {
  return DF_MAX(n / DF_MAX(topology->n_cores, 1u), 1u);
}
