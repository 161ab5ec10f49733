/* Maximum flows of integer capacities (Dinitz, 1970). */
#ifndef DF_SYNTHESIS_MAX_FLOW_H
#define DF_SYNTHESIS_MAX_FLOW_H

#include <stdint.h>

#define DF_FLOW_UNLIMITED (INT64_MAX / 4)

/* Arc i and arc i ^ 1 are each other's reverse. */
typedef struct df_arc {
  uint32_t to, next; /* next: of the same node, + 1; 0: none */
  int64_t capacity, left;
} df_arc;

typedef struct df_flow_graph {
  uint32_t nodes, n_arcs, arc_capacity;
  df_arc *arcs;
  uint32_t *first, *level, *at, *queue; /* [nodes]; first, at: arc + 1 */
  int failed;                           /* out of memory */
} df_flow_graph;

void df_flow_begin(df_flow_graph *graph, uint32_t nodes);
void df_flow_free(df_flow_graph *graph);
/* Returns the arc's number. */
uint32_t df_flow_add(df_flow_graph *graph, uint32_t from, uint32_t to, int64_t capacity);

/* Returns the maximum flow, or `enough` as soon as it is known to be at least that. The flow before
 * is forgotten. */
int64_t df_flow_max(df_flow_graph *graph, uint32_t from, uint32_t to, int64_t enough);
/* After df_flow_max returned less than `enough`: whether a node is on the source's side of a
 * minimum cut, which is the smallest such side. */
int df_flow_is_cut_off(const df_flow_graph *graph, uint32_t node);

#endif
