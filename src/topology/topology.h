/* Topology: which ranks share cores and hosts, computed from the peer info of all ranks, so that
 * all members of a group agree. */
#ifndef DF_TOPOLOGY_TOPOLOGY_H
#define DF_TOPOLOGY_TOPOLOGY_H

#include "plans/levels.h"

enum { DF_TOPOLOGY_CPU_WORDS = 16 };

typedef struct df_topology_host {
  uint64_t identity;
  /* Processors that any rank may use, modulo the number of bits. */
  uint64_t cpus[DF_TOPOLOGY_CPU_WORDS];
  uint32_t n_cores;
} df_topology_host;

typedef struct df_topology {
  uint32_t n_cores;  /* cores of all hosts */
  int runs_on_cores; /* the job's daemons run on these cores */
  uint32_t n_hosts, capacity;
  df_topology_host *hosts;
  uint32_t *host_of; /* [n_ranks] */
} df_topology;

/* Returns 0 if out of memory. The caller calls df_topology_free in either case. */
int df_topology_open(df_topology *topology, uint32_t n_ranks);
/* Adds a rank. Ranks with the same identity share a host. Returns 0 if out of memory. */
int df_topology_add(df_topology *topology, uint32_t rank, uint64_t identity,
                    const uint64_t cpus[DF_TOPOLOGY_CPU_WORDS]);
void df_topology_free(df_topology *topology);

/* Returns whether each core is shared by two or more of n ranks. */
int df_topology_is_oversubscribed(const df_topology *topology, uint32_t n);
/* Returns the number of ranks for each core, at least 1. */
uint32_t df_topology_ranks_on_a_core(const df_topology *topology, uint32_t n);

/* Returns the number of adjacent members on each host of a multi-node group (ranks NULL: ranks 0 to
 * n - 1). The last host may have fewer. Returns 0 if the group is on one host, or if its hosts have
 * different numbers of members or members that are not adjacent. */
uint32_t df_topology_neighbours(const df_topology *topology, const int *ranks, uint32_t n);
/* Returns whether a group is on more than one host. */
int df_topology_is_spread(const df_topology *topology, const int *ranks, uint32_t n);

typedef struct df_topology_spread {
  uint32_t hosts, smallest,
      largest; /* hosts of the group; smallest and largest number of its ranks on a host */
} df_topology_spread;
df_topology_spread df_topology_spread_of(const df_topology *topology, const int *ranks, uint32_t n);

/* Returns the levels of the group: its hosts, and on each host subgroups of `split` adjacent
 * members (0: no such level). On a single host the subgroups take the place of hosts. The caller
 * frees the levels. NULL: out of memory. */
df_levels *df_topology_levels(const df_topology *topology, const int *ranks, uint32_t n,
                              uint32_t split, uint32_t lanes);

#endif
