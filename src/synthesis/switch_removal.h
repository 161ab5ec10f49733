/*
 * Removal of switches from a graph (Bang-Jensen, Frank and Jackson, 1995; ForestColl): pairs of
 * edges (u, w), (w, t) of a switch w become edges (u, t), by amounts that keep all flows of the
 * demand. A switch copies nothing, so first its edges are reduced until what may leave it is what
 * may enter it.
 */
#ifndef DF_SYNTHESIS_SWITCH_REMOVAL_H
#define DF_SYNTHESIS_SWITCH_REMOVAL_H

#include "synthesis/graph.h"

typedef struct df_split {
  uint16_t from, over, to; /* from == to: capacity that is not used */
  int64_t amount;
} df_split;

typedef struct df_splits {
  df_split *list;
  uint32_t n, capacity;
} df_splits;

/* Removes all switches. 1; 0: the demand cannot be carried without copies in a switch; -1: out of
 * memory. The caller frees splits->list. */
int df_switches_remove(df_graph *graph, const int64_t *weight, df_splits *splits);
/* Turns numbers of messages on the edges between ranks into those on the edges of the graph before:
 * use[nodes][nodes]; graph: that after the removal. */
void df_switches_restore(const df_graph *graph, const df_splits *splits, int64_t *use);

#endif
