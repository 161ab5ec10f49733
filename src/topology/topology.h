/* Which ranks share what, by all ranks' cards: all members of a group agree. */
#ifndef DF_TOPOLOGY_TOPOLOGY_H
#define DF_TOPOLOGY_TOPOLOGY_H

#include "plans/levels.h"

enum { DF_TOPOLOGY_CPU_WORDS = 16 };

typedef struct df_topology_host {
  uint64_t identity;
  uint64_t cpus[DF_TOPOLOGY_CPU_WORDS]; /* that any rank may use, modulo their number */
  uint32_t n_cores;
} df_topology_host;

typedef struct df_topology {
  uint32_t n_cores;  /* of all hosts */
  int runs_on_cores; /* the job's daemons run on these cores */
  uint32_t n_hosts, capacity;
  df_topology_host *hosts;
  uint32_t *host_of; /* [n_ranks] */
} df_topology;

/* 0: no memory. df_topology_free in any case. */
int df_topology_open(df_topology *topology, uint32_t n_ranks);
/* Ranks with the same identity share a host. 0: no memory. */
int df_topology_add(df_topology *topology, uint32_t rank, uint64_t identity,
                    const uint64_t cpus[DF_TOPOLOGY_CPU_WORDS]);
void df_topology_free(df_topology *topology);

/* Two or more of n ranks share each core. */
int df_topology_is_oversubscribed(const df_topology *topology, uint32_t n);
/* At least 1. */
uint32_t df_topology_ranks_on_a_core(const df_topology *topology, uint32_t n);

/* Of a group (NULL: ranks 0 to n - 1) over several hosts: how many neighbours are on one host, if
 * that is so many on each host but the last, which may have less. 0: one host, or no such order. */
uint32_t df_topology_neighbours(const df_topology *topology, const int *ranks, uint32_t n);
/* Is a group on more than one host? */
int df_topology_is_spread(const df_topology *topology, const int *ranks, uint32_t n);

typedef struct df_topology_spread {
  uint32_t hosts, smallest, largest; /* ranks of the group on a host */
} df_topology_spread;
df_topology_spread df_topology_spread_of(const df_topology *topology, const int *ranks, uint32_t n);

/* The group's levels: its hosts, and on each subgroups of `split` neighbours (0: no such level). On
 * one host the subgroups take the place of hosts. The caller frees it. NULL: no memory. */
df_levels *df_topology_levels(const df_topology *topology, const int *ranks, uint32_t n,
                              uint32_t split, uint32_t lanes);

#endif
