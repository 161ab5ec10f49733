/*
 * Trees of the highest throughput on any network (ForestColl, Zhao et al., 2024): the exact bound
 * by maximum flows, removal of switches, and packing of spanning trees.
 *
 * The plan of an all-gather and a broadcast is a forest of the graph, that of a reduce-scatter
 * and a reduce one of the graph turned round. An all-reduce uses each tree in both directions, so
 * it has a forest of the graph whose edges have the lesser capacity of both directions; the
 * numbers of trees of each root are chosen so that the tightest cut loses weight.
 */
#ifndef DF_SYNTHESIS_FOREST_H
#define DF_SYNTHESIS_FOREST_H

#include "plans/trees.h"
#include "synthesis/graph.h"

typedef struct df_forest {
  df_trees trees;
  /* Time of one unit of weight, in units of 1 / capacity: no forest with these roots takes less;
   * and that of the trees. The unit is one rank's trees in an all-gather and a reduce-scatter,
   * and all trees otherwise. */
  df_fraction bound, time;
  int64_t weights; /* sum of weights that the fractions are about */
  int64_t *use;    /* [nodes][nodes] messages of one direction on each edge of the graph, for all
                      pieces; NULL: it has not been asked for */
} df_forest;

/* pieces_most: of all trees. dfcclInvalidArgument: a rank cannot be reached, or the demand
 * cannot be carried without copies in switches; dfcclOutOfMemory. The caller frees the forest in
 * any case. */
dfcclResult_t df_forest_make(df_forest *forest, const df_graph *graph, df_operation operation,
                             uint32_t root, uint32_t pieces_most, int with_use);
void df_forest_free(df_forest *forest);

/* Seconds of a fraction above. bytes: of a rank's larger buffer. */
double df_forest_seconds(const df_forest *forest, const df_graph *graph, df_operation operation,
                         df_fraction time, uint64_t bytes);

#endif
