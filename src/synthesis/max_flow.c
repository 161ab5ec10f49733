#include "synthesis/max_flow.h"

#include <stdlib.h>
#include <string.h>

#include "base/attributes.h"

void df_flow_begin(df_flow_graph *graph, uint32_t nodes) {
  *graph = (df_flow_graph){.nodes = nodes};
  graph->first = calloc(nodes + 1u, sizeof *graph->first);
  graph->level = calloc(nodes + 1u, sizeof *graph->level);
  graph->at = calloc(nodes + 1u, sizeof *graph->at);
  graph->queue = calloc(nodes + 1u, sizeof *graph->queue);
  graph->failed = !graph->first || !graph->level || !graph->at || !graph->queue;
}

void df_flow_free(df_flow_graph *graph) {
  free(graph->arcs);
  free(graph->first);
  free(graph->level);
  free(graph->at);
  free(graph->queue);
}

static void add_arc(df_flow_graph *graph, uint32_t from, uint32_t to, int64_t capacity) {
  graph->arcs[graph->n_arcs] = (df_arc){.to = to, .next = graph->first[from], .capacity = capacity};
  graph->first[from] = ++graph->n_arcs;
}

uint32_t df_flow_add(df_flow_graph *graph, uint32_t from, uint32_t to, int64_t capacity) {
  if (graph->n_arcs + 2 > graph->arc_capacity) {
    const uint32_t larger = graph->arc_capacity ? 2 * graph->arc_capacity : 64;
    df_arc *moved = realloc(graph->arcs, larger * sizeof *moved);
    if (moved == NULL) graph->failed = 1;
    if (moved == NULL) return 0;
    graph->arcs = moved;
    graph->arc_capacity = larger;
  }
  if (graph->failed) return 0;
  add_arc(graph, from, to, capacity);
  add_arc(graph, to, from, 0);
  return graph->n_arcs - 2;
}

/* Levels by the number of arcs from the source. Returns whether the sink has one. */
static int find_levels(df_flow_graph *graph, uint32_t from, uint32_t to) {
  uint32_t n = 0;
  memset(graph->level, 0, graph->nodes * sizeof *graph->level);
  graph->level[from] = 1;
  graph->queue[n++] = from;
  for (uint32_t i = 0; i < n && graph->level[to] == 0; i++)
    for (uint32_t a = graph->first[graph->queue[i]]; a; a = graph->arcs[a - 1].next) {
      const df_arc *arc = &graph->arcs[a - 1];
      if (arc->left == 0 || graph->level[arc->to]) continue;
      graph->level[arc->to] = graph->level[graph->queue[i]] + 1;
      graph->queue[n++] = arc->to;
    }
  return graph->level[to] != 0;
}

/* Recursion is as deep as there are levels: at most the nodes of a graph. */
static int64_t push_flow(df_flow_graph *graph, uint32_t node, uint32_t to, int64_t most) {
  if (node == to || most == 0) return most;
  int64_t pushed = 0;
  for (; graph->at[node]; graph->at[node] = graph->arcs[graph->at[node] - 1].next) {
    df_arc *arc = &graph->arcs[graph->at[node] - 1];
    if (arc->left == 0 || graph->level[arc->to] != graph->level[node] + 1) continue;
    const int64_t more = push_flow(graph, arc->to, to, DF_MIN(most - pushed, arc->left));
    arc->left -= more;
    graph->arcs[(graph->at[node] - 1) ^ 1].left += more;
    pushed += more;
    if (pushed == most) break; /* the arc may carry more */
  }
  return pushed;
}

int64_t df_flow_max(df_flow_graph *graph, uint32_t from, uint32_t to, int64_t enough) {
  int64_t flow = 0;
  if (graph->failed) return 0;
  for (uint32_t a = 0; a < graph->n_arcs; a++) graph->arcs[a].left = graph->arcs[a].capacity;
  while (flow < enough && find_levels(graph, from, to)) {
    memcpy(graph->at, graph->first, graph->nodes * sizeof *graph->at);
    flow += push_flow(graph, from, to, enough - flow);
  }
  return flow;
}

int df_flow_is_cut_off(const df_flow_graph *graph, uint32_t node) {
  return graph->level[node] != 0;
}
