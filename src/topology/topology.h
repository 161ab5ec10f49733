/* Which ranks share what, by all ranks' cards: all members of a group agree. It knows one host. */
#ifndef DF_TOPOLOGY_TOPOLOGY_H
#define DF_TOPOLOGY_TOPOLOGY_H

#include "base/attributes.h"

enum { DF_TOPOLOGY_CPU_WORDS = 16 };

typedef struct df_topology {
  uint64_t cpus[DF_TOPOLOGY_CPU_WORDS]; /* that any rank may use, modulo their number */
  uint32_t n_cores;
  int runs_on_cores; /* the job's daemons run on these cores */
} df_topology;

void df_topology_add(df_topology *topology, const uint64_t cpus[DF_TOPOLOGY_CPU_WORDS]);

/* Two or more of n ranks share each core. */
int df_topology_is_crowded(const df_topology *topology, uint32_t n);
/* At least 1. */
uint32_t df_topology_ranks_on_a_core(const df_topology *topology, uint32_t n);

#endif
