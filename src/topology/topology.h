/*
 * Topology: which ranks share what. It is read from the cards that all ranks have exchanged, so
 * every member of a group comes to the same answers. Today it knows one host's processors.
 */
#ifndef DF_TOPOLOGY_TOPOLOGY_H
#define DF_TOPOLOGY_TOPOLOGY_H

#include "base/attributes.h"

enum { DF_TOPOLOGY_CPU_WORDS = 16 };

typedef struct df_topology {
  uint64_t cpus[DF_TOPOLOGY_CPU_WORDS]; /* that any rank's process may use, modulo their number */
  uint32_t n_cores;                     /* how many these are */
  int runs_on_cores;                    /* the daemons of this job execute on them */
} df_topology;

/* Adds a rank's card: the processors that its process may use. */
void df_topology_add(df_topology *topology, const uint64_t cpus[DF_TOPOLOGY_CPU_WORDS]);

/* Do two or more of n ranks share each core? */
int df_topology_is_crowded(const df_topology *topology, uint32_t n);
/* Ranks of a group of n for each core; at least 1. */
uint32_t df_topology_ranks_on_a_core(const df_topology *topology, uint32_t n);

#endif
