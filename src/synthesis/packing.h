/* Packing of spanning trees (Edmonds, 1973; Tarjan, 1974; as in ForestColl): weight[r] trees
 * with root r, which together use each edge at most as often as its capacity. */
#ifndef DF_SYNTHESIS_PACKING_H
#define DF_SYNTHESIS_PACKING_H

#include "synthesis/graph.h"

/* graph: of ranks alone (all switches without edges), which carries the demand; its capacities are
 * used up. 1; 0: it does not carry the demand; -1: out of memory. */
int df_trees_pack(df_graph *graph, const int64_t *weight, df_trees *trees);

#endif
