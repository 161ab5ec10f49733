#include "synthesis/graph.h"

#include <stdlib.h>
#include <string.h>

#include "base/attributes.h"

dfcclResult_t df_graph_make(df_graph *graph, uint32_t ranks, uint32_t nodes) {
  *graph = (df_graph){.ranks = ranks, .nodes = nodes, .unit = 1};
  graph->capacity = calloc((size_t)nodes * nodes + 1, sizeof *graph->capacity);
  if (graph->capacity) return dfcclSuccess;
  return df_fail(dfcclOutOfMemory, "no memory for a graph of %u nodes", nodes);
}

dfcclResult_t df_graph_copy(df_graph *copy, const df_graph *graph) {
  const dfcclResult_t result = df_graph_make(copy, graph->ranks, graph->nodes);
  if (result != dfcclSuccess) return result;
  copy->unit = graph->unit;
  memcpy(copy->capacity, graph->capacity,
         (size_t)graph->nodes * graph->nodes * sizeof *graph->capacity);
  return dfcclSuccess;
}

void df_graph_free(df_graph *graph) { free(graph->capacity); }

void df_graph_reverse(df_graph *graph) {
  for (uint32_t u = 0; u < graph->nodes; u++)
    for (uint32_t v = u + 1; v < graph->nodes; v++) {
      const int64_t there = *df_graph_edge(graph, u, v);
      *df_graph_edge(graph, u, v) = *df_graph_edge(graph, v, u);
      *df_graph_edge(graph, v, u) = there;
    }
}

void df_graph_equalise(df_graph *graph) {
  for (uint32_t u = 0; u < graph->nodes; u++)
    for (uint32_t v = u + 1; v < graph->nodes; v++) {
      const int64_t least = DF_MIN(*df_graph_edge(graph, u, v), *df_graph_edge(graph, v, u));
      *df_graph_edge(graph, u, v) = *df_graph_edge(graph, v, u) = least;
    }
}

/* ---- bounds */

void df_graph_flow(const df_graph *graph, const int64_t *weight, df_flow_graph *flow) {
  df_flow_begin(flow, graph->nodes + 1);
  for (uint32_t r = 0; r < graph->ranks; r++)
    if (weight[r] > 0) df_flow_add(flow, graph->nodes, r, weight[r]);
  for (uint32_t u = 0; u < graph->nodes; u++)
    for (uint32_t v = 0; v < graph->nodes; v++)
      if (u != v && *df_graph_edge(graph, u, v) > 0)
        df_flow_add(flow, u, v, *df_graph_edge(graph, u, v));
}

static int64_t sum_of(const df_graph *graph, const int64_t *weight) {
  int64_t sum = 0;
  for (uint32_t r = 0; r < graph->ranks; r++) sum += weight[r];
  return sum;
}

int df_graph_carries(const df_graph *graph, const int64_t *weight) {
  const int64_t all = sum_of(graph, weight);
  df_flow_graph flow;
  df_graph_flow(graph, weight, &flow);
  int carries = 1;
  for (uint32_t v = 0; v < graph->ranks && carries && !flow.failed; v++)
    carries = df_flow_max(&flow, graph->nodes, v, all) >= all;
  if (flow.failed) carries = -1;
  df_flow_free(&flow);
  return carries;
}

/* The weight of a cut over its capacity. */
static df_fraction ratio_of_cut(const df_graph *graph, const int64_t *weight,
                                const df_flow_graph *flow) {
  df_fraction ratio = {0, 0};
  for (uint32_t u = 0; u < graph->nodes; u++) {
    if (!df_flow_is_cut_off(flow, u)) continue;
    if (u < graph->ranks) ratio.of += weight[u];
    for (uint32_t v = 0; v < graph->nodes; v++)
      if (!df_flow_is_cut_off(flow, v)) ratio.over += *df_graph_edge(graph, u, v);
  }
  return ratio;
}

/* Looks for a rank and a cut without it whose ratio is above *bound, and takes it. */
static int raise_bound(const df_graph *graph, const int64_t *weight, df_fraction *bound,
                       uint32_t *rank, df_flow_graph *flow) {
  const int64_t all = sum_of(graph, weight);
  df_flow_begin(flow, graph->nodes + 1);
  for (uint32_t r = 0; r < graph->ranks; r++)
    if (weight[r] > 0) df_flow_add(flow, graph->nodes, r, weight[r] * bound->over);
  for (uint32_t u = 0; u < graph->nodes; u++)
    for (uint32_t v = 0; v < graph->nodes; v++)
      if (u != v && *df_graph_edge(graph, u, v) > 0)
        df_flow_add(flow, u, v, *df_graph_edge(graph, u, v) * bound->of);
  for (uint32_t i = 0; i < graph->ranks; i++) {
    const uint32_t v = (*rank + i) % graph->ranks;
    if (flow->failed || df_flow_max(flow, graph->nodes, v, all * bound->over) == all * bound->over)
      continue;
    *bound = ratio_of_cut(graph, weight, flow);
    *rank = v;
    return 1;
  }
  return 0;
}

/* Newton's method on fractions (Dinkelbach, 1967): each step is a cut with a larger ratio. */
dfcclResult_t df_graph_bound(const df_graph *graph, const int64_t *weight, df_fraction *bound,
                             uint32_t *unreached) {
  int64_t all = 0;
  uint32_t rank = 0;
  for (uint32_t u = 0; u < graph->nodes; u++)
    for (uint32_t v = 0; v < graph->nodes; v++) all += *df_graph_edge(graph, u, v);
  *bound = (df_fraction){1, all + 1}; /* below any cut of weight 1 or more */
  for (int raised = 1; raised && bound->over > 0;) {
    df_flow_graph flow;
    raised = raise_bound(graph, weight, bound, &rank, &flow);
    const int failed = flow.failed;
    df_flow_free(&flow);
    if (failed) return df_fail(dfcclOutOfMemory, "no memory for flows of %u nodes", graph->nodes);
  }
  *unreached = rank;
  return dfcclSuccess;
}
