#include "synthesis/packing.h"

#include <stdlib.h>
#include <string.h>

#include "base/attributes.h"

/* Equal trees that are growing together. */
typedef struct batch {
  uint32_t root;
  int64_t weight;
  uint64_t members; /* one bit for each rank */
  uint16_t parent[DF_GRAPH_RANKS_MOST], depth[DF_GRAPH_RANKS_MOST];
} batch;

typedef struct packing {
  df_graph *graph;
  batch *batches;
  uint32_t n, capacity;
  int failed; /* out of memory */
} packing;

static batch *add_batch(packing *p) {
  if (p->n == p->capacity) {
    const uint32_t larger = p->capacity ? 2 * p->capacity : 64;
    batch *moved = realloc(p->batches, larger * sizeof *moved);
    if (moved == NULL) p->failed = 1;
    if (moved == NULL) return NULL;
    p->batches = moved;
    p->capacity = larger;
  }
  return &p->batches[p->n++];
}

static int has_all(const packing *p, const batch *b) {
  return b->members == (p->graph->ranks == 64 ? UINT64_MAX : (1ull << p->graph->ranks) - 1);
}

/* How many of the trees of batch `at` may take the edge from x to y, so that all trees can still be
 * completed: the others' weights may enter any set that contains y and not x. */
static int64_t most_of_edge(packing *p, uint32_t at, uint32_t x, uint32_t y) {
  const df_graph *g = p->graph;
  const int64_t wanted = DF_MIN(p->batches[at].weight, *df_graph_edge(g, x, y));
  int64_t others = 0;
  df_flow_graph flow;
  df_flow_begin(&flow, g->ranks + p->n);
  for (uint32_t u = 0; u < g->ranks; u++)
    for (uint32_t v = 0; v < g->ranks; v++)
      if (u != v && *df_graph_edge(g, u, v) > 0) df_flow_add(&flow, u, v, *df_graph_edge(g, u, v));
  for (uint32_t i = 0; i < p->n; i++) {
    const batch *b = &p->batches[i];
    if (i == at || has_all(p, b)) continue;
    others += b->weight;
    df_flow_add(&flow, x, g->ranks + i, b->weight);
    for (uint32_t v = 0; v < g->ranks; v++)
      if (b->members >> v & 1) df_flow_add(&flow, g->ranks + i, v, DF_FLOW_UNLIMITED);
  }
  const int64_t most = df_flow_max(&flow, x, y, others + wanted) - others;
  p->failed |= flow.failed;
  df_flow_free(&flow);
  return DF_MAX(most, 0);
}

/* The batch takes the edge. Trees that may not take it become a batch of their own. */
static void take_edge(packing *p, uint32_t at, uint32_t x, uint32_t y, int64_t amount) {
  if (amount < p->batches[at].weight) {
    batch *rest = add_batch(p);
    if (rest == NULL) return;
    *rest = p->batches[at];
    rest->weight -= amount;
  }
  batch *b = &p->batches[at];
  b->weight = amount;
  b->members |= 1ull << y;
  b->parent[y] = (uint16_t)x;
  b->depth[y] = (uint16_t)(b->depth[x] + 1);
  *df_graph_edge(p->graph, x, y) -= amount;
}

/* Edges near the root are tried first, since short trees are faster. */
static int grow(packing *p, uint32_t at) {
  const uint32_t n = p->graph->ranks;
  for (uint32_t depth = 0; depth < n; depth++)
    for (uint32_t i = 0; i < n; i++) {
      const uint32_t x = (p->batches[at].root + i) % n;
      if (!(p->batches[at].members >> x & 1) || p->batches[at].depth[x] != depth) continue;
      for (uint32_t k = 1; k < n; k++) {
        const uint32_t y = (x + k) % n;
        if ((p->batches[at].members >> y & 1) || *df_graph_edge(p->graph, x, y) == 0) continue;
        const int64_t amount = most_of_edge(p, at, x, y);
        if (p->failed) return 0;
        if (amount == 0) continue;
        take_edge(p, at, x, y, amount);
        return 1;
      }
    }
  return 0;
}

static int collect(packing *p, df_trees *trees) {
  for (uint32_t i = 0; i < p->n; i++) {
    const batch *b = &p->batches[i];
    uint16_t *parent = df_trees_add(trees, b->root, (uint32_t)b->weight);
    if (parent == NULL) return -1;
    for (uint32_t v = 0; v < trees->n; v++)
      if (v != b->root) parent[v] = b->parent[v];
  }
  return 1;
}

int df_trees_pack(df_graph *graph, const int64_t *weight, df_trees *trees) {
  packing p = {.graph = graph};
  for (uint32_t r = 0; r < graph->ranks; r++) {
    batch *b = weight[r] > 0 ? add_batch(&p) : NULL;
    if (b) *b = (batch){.root = r, .weight = weight[r], .members = 1ull << r};
  }
  int done = 1;
  df_trees_begin(trees, graph->ranks);
  for (uint32_t at = 0; at < p.n && done && !p.failed; at++)
    while (done && !p.failed && !has_all(&p, &p.batches[at])) done = grow(&p, at);
  if (p.failed)
    done = -1;
  else if (done)
    done = collect(&p, trees);
  free(p.batches);
  return done;
}
