#include "synthesis/switch_removal.h"

#include <stdlib.h>

#include "base/attributes.h"

typedef struct removal {
  df_graph *graph;
  const int64_t *weight;
  int64_t all;
  df_splits *splits;
  int failed; /* out of memory */
} removal;

/* A set S of nodes, with the source, that contains all of `inside` and none of `outside`. */
typedef struct cut {
  uint32_t inside[2], outside[2];
  uint32_t n_inside, n_outside;
} cut;

/* The least capacity that leaves such sets without the rank, beyond the demand; at most `most`. */
static int64_t slack_at(removal *m, const cut *c, uint32_t rank, int64_t most) {
  df_flow_graph flow;
  df_graph_flow(m->graph, m->weight, &flow);
  for (uint32_t i = 0; i < c->n_inside; i++)
    df_flow_add(&flow, m->graph->nodes, c->inside[i], DF_FLOW_UNLIMITED);
  for (uint32_t i = 0; i < c->n_outside; i++)
    if (c->outside[i] != rank) df_flow_add(&flow, c->outside[i], rank, DF_FLOW_UNLIMITED);
  const int64_t slack = df_flow_max(&flow, m->graph->nodes, rank, m->all + most) - m->all;
  m->failed |= flow.failed;
  df_flow_free(&flow);
  return DF_MAX(slack, 0);
}

/* The same for all ranks that may be outside. */
static int64_t slack_of(removal *m, const cut *c, int64_t most) {
  for (uint32_t i = 0; i < c->n_outside; i++)
    if (c->outside[i] < m->graph->ranks) return slack_at(m, c, c->outside[i], most);
  for (uint32_t v = 0; v < m->graph->ranks && most > 0 && !m->failed; v++) {
    if (v == c->inside[0] || (c->n_inside > 1 && v == c->inside[1])) continue;
    most = DF_MIN(most, slack_at(m, c, v, most));
  }
  return most;
}

/* ---- balance */

static int64_t surplus_of(const df_graph *graph, uint32_t w) {
  int64_t surplus = 0;
  for (uint32_t v = 0; v < graph->nodes; v++)
    surplus += *df_graph_edge(graph, w, v) - *df_graph_edge(graph, v, w);
  return surplus;
}

/* The largest edge on the side of the surplus that has not been tried; NULL: there is none. */
static int64_t *largest_edge(const removal *m, uint32_t w, int64_t surplus, const uint8_t *tried,
                             uint32_t *neighbour) {
  int64_t *largest = NULL;
  for (uint32_t v = 0; v < m->graph->nodes; v++) {
    int64_t *edge = surplus > 0 ? df_graph_edge(m->graph, w, v) : df_graph_edge(m->graph, v, w);
    if (tried[v] || *edge == 0 || (largest && *edge <= *largest)) continue;
    largest = edge;
    *neighbour = v;
  }
  return largest;
}

/* Reduces an edge out of a switch, or into it, by a part of what is too much, the largest first.
 * Returns how much. */
static int64_t reduce_surplus(removal *m, uint32_t w) {
  enum { PARTS = 8 };
  uint8_t tried[DF_GRAPH_NODES_MOST] = {0};
  const int64_t surplus = surplus_of(m->graph, w), all = surplus < 0 ? -surplus : surplus;
  uint32_t v = 0;
  for (int64_t *edge; all > 0 && !m->failed; tried[v] = 1) {
    edge = largest_edge(m, w, surplus, tried, &v);
    if (edge == NULL) return 0;
    const uint32_t from = surplus > 0 ? w : v, to = surplus > 0 ? v : w;
    const cut c = {.inside = {from}, .outside = {to}, .n_inside = 1, .n_outside = 1};
    const int64_t amount = slack_of(m, &c, DF_MIN(DF_DIV_UP(all, PARTS), *edge));
    *edge -= amount;
    if (amount > 0) return amount;
  }
  return 0;
}

/* Switches take turns with small parts, since what one of them gives up the others may need. */
static int balance(removal *m) {
  for (int64_t reduced = 1; reduced > 0 && !m->failed;) {
    reduced = 0;
    for (uint32_t w = m->graph->ranks; w < m->graph->nodes; w++) reduced += reduce_surplus(m, w);
  }
  for (uint32_t w = m->graph->ranks; w < m->graph->nodes; w++)
    if (surplus_of(m->graph, w) != 0) return 0;
  return 1;
}

/* ---- splitting */

static void note(removal *m, uint32_t from, uint32_t over, uint32_t to, int64_t amount) {
  df_splits *s = m->splits;
  if (s->n == s->capacity) {
    const uint32_t larger = s->capacity ? 2 * s->capacity : 64;
    df_split *moved = realloc(s->list, larger * sizeof *moved);
    if (moved == NULL) m->failed = 1;
    if (moved == NULL) return;
    s->list = moved;
    s->capacity = larger;
  }
  s->list[s->n++] = (df_split){(uint16_t)from, (uint16_t)over, (uint16_t)to, amount};
}

/* Splits as much as keeps all flows, and returns the amount. */
static int64_t split(removal *m, uint32_t u, uint32_t w, uint32_t t) {
  df_graph *g = m->graph;
  int64_t amount = DF_MIN(*df_graph_edge(g, u, w), *df_graph_edge(g, w, t));
  const cut through = {.inside = {u, t}, .outside = {w}, .n_inside = 2, .n_outside = 1};
  const cut beside = {.inside = {w}, .outside = {u, t}, .n_inside = 1, .n_outside = 2};
  if (amount > 0) amount = slack_of(m, &through, amount);
  if (amount > 0) amount = slack_of(m, &beside, amount);
  if (amount == 0 || m->failed) return 0;
  *df_graph_edge(g, u, w) -= amount;
  *df_graph_edge(g, w, t) -= amount;
  if (u != t) *df_graph_edge(g, u, t) += amount;
  note(m, u, w, t, amount);
  return amount;
}

/* Targets are tried from the next node on, and the way back last, since it uses nothing. */
static int remove_switch(removal *m, uint32_t w) {
  df_graph *g = m->graph;
  for (uint32_t u = 0; u < g->nodes; u++) {
    for (uint32_t i = 1; i <= g->nodes && *df_graph_edge(g, u, w) > 0 && !m->failed; i++)
      split(m, u, w, (u + i) % g->nodes);
    if (*df_graph_edge(g, u, w) > 0) return 0;
  }
  return 1;
}

int df_switches_remove(df_graph *graph, const int64_t *weight, df_splits *splits) {
  removal m = {.graph = graph, .weight = weight, .splits = splits};
  for (uint32_t r = 0; r < graph->ranks; r++) m.all += weight[r];
  int done = balance(&m);
  for (uint32_t w = graph->ranks; w < graph->nodes && done; w++) done = remove_switch(&m, w);
  return m.failed ? -1 : done;
}

void df_switches_restore(const df_graph *graph, const df_splits *splits, int64_t *use) {
  const uint32_t nodes = graph->nodes;
  int64_t *left = calloc((size_t)nodes * nodes, sizeof *left);
  if (left == NULL) return;
  for (uint32_t i = 0; i < nodes * nodes; i++) left[i] = graph->capacity[i];
  for (uint32_t i = splits->n; i-- > 0;) {
    const df_split *s = &splits->list[i];
    int64_t *direct = &use[s->from * nodes + s->to];
    left[s->from * nodes + s->over] += s->amount;
    left[s->over * nodes + s->to] += s->amount;
    if (s->from == s->to) continue;
    left[s->from * nodes + s->to] -= s->amount;
    const int64_t more = *direct - left[s->from * nodes + s->to];
    if (more <= 0) continue;
    *direct -= more;
    use[s->from * nodes + s->over] += more;
    use[s->over * nodes + s->to] += more;
  }
  free(left);
}
