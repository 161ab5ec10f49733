/*
 * Graph of a network with whole capacities, for exact bounds and for trees: ranks, and switches,
 * which pass data on and never copy it.
 */
#ifndef DF_SYNTHESIS_GRAPH_H
#define DF_SYNTHESIS_GRAPH_H

#include <stddef.h>

#include "base/result.h"
#include "plans/trees.h"
#include "synthesis/max_flow.h"
#include "topology/network.h"

enum { DF_GRAPH_NODES_MOST = 256, DF_GRAPH_RANKS_MOST = DF_TREES_RANKS_MOST };

typedef struct df_graph {
  uint32_t ranks, nodes; /* nodes: ranks, then switches */
  int64_t *capacity;     /* [nodes][nodes] */
  double unit;           /* bytes per second of one unit of capacity */
} df_graph;

static inline int64_t *df_graph_edge(const df_graph *graph, uint32_t from, uint32_t to) {
  return &graph->capacity[from * graph->nodes + to];
}

/* dfcclOutOfMemory. The caller frees the graph. */
dfcclResult_t df_graph_make(df_graph *graph, uint32_t ranks, uint32_t nodes);
dfcclResult_t df_graph_copy(df_graph *copy, const df_graph *graph);
void df_graph_free(df_graph *graph);
/* Turns all edges round. */
void df_graph_reverse(df_graph *graph);
/* Gives both directions of each edge the capacity of the lesser. */
void df_graph_equalise(df_graph *graph);

/* both_ways: each port has the lesser rate of both directions. Rates are rounded to multiples of
 * a unit, which is exact if they are multiples of a common rate of which the largest is up to
 * 10,000. dfcclInvalidArgument: the network is too large. */
dfcclResult_t df_graph_of_network(df_graph *graph, const df_network *network, int both_ways);

/* Demand: weight[r] trees are rooted at rank r, and each reaches all ranks. The edges can carry
 * them in time `bound` at the least, which is the largest of weight(S) / capacity that leaves S,
 * over all sets S of nodes without some rank (Edmonds, 1973; ForestColl). *unreached: a rank
 * that the demand cannot reach; then the bound is infinite, and `over` is 0. */
typedef struct df_fraction {
  int64_t of, over;
} df_fraction;
dfcclResult_t df_graph_bound(const df_graph *graph, const int64_t *weight, df_fraction *bound,
                             uint32_t *unreached);
/* The flow from a source, which has an edge of `weight` to each rank, to a rank is at least the sum
 * of weights: whether this holds for all ranks. 1, 0, or -1: out of memory. */
int df_graph_carries(const df_graph *graph, const int64_t *weight);

/* The graph's edges, and a source (node number `nodes`) with its edges. */
void df_graph_flow(const df_graph *graph, const int64_t *weight, df_flow_graph *flow);

#endif
