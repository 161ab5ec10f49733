#include "synthesis/weighted.h"

#include <stdlib.h>

#include "base/attributes.h"
#include "base/extremes.h"

int df_weighted_fits(const df_network *network) {
  return network->links == NULL && network->hosts == network->ranks && network->switches <= 1 &&
         network->n_pairs == 0 && network->ranks >= 2 && network->ranks <= DF_TREES_RANKS_MOST;
}

/* Pieces that are under way at the beginning and at the end, when not all ports are busy. */
enum { PIPELINE = 2 };

/* Messages of one piece that each port carries, out and in, for one more piece. */
typedef struct load {
  double out[DF_TREES_RANKS_MOST], in[DF_TREES_RANKS_MOST];
} load;

typedef struct ports {
  const df_network *network;
  df_operation operation;
  uint32_t n, root;
  int up, down;
} ports;

static const df_network_port *port_of(const ports *p, uint32_t rank) {
  return &p->network->ports[df_network_card(p->network, rank, 0)];
}

/* Adds a piece of a tree whose root gives it to `middle`, which serves the others; middle == root:
 * a star. Adding up is the same the other way. */
static void add_piece(const ports *p, uint32_t root, uint32_t middle, load *l) {
  for (uint32_t v = 0; v < p->n; v++) {
    const double sends = v == root ? (middle == root ? p->n - 1 : 1) : v == middle ? p->n - 2 : 0;
    const double receives = v != root;
    l->out[v] += p->down * sends + p->up * receives;
    l->in[v] += p->down * receives + p->up * sends;
  }
}

/* The time of the busiest port, for a piece of one byte; and of all ports together, for ties. */
static double time_of(const ports *p, const load *l, double *sum) {
  double most = 0;
  *sum = 0;
  for (uint32_t v = 0; v < p->n; v++) {
    const double out = l->out[v] / port_of(p, v)->out, in = l->in[v] / port_of(p, v)->in;
    most = df_greater(most, df_greater(out, in));
    *sum += out + in;
  }
  return most;
}

/* The root and the middle of one more piece, by the least time of the busiest port. The root is
 * given, or it is free and the tree is a star. */
static void choose_tree(const ports *p, uint32_t root, int is_free, const load *l,
                        uint32_t *best_root, uint32_t *best_middle) {
  double best = 0, best_sum = 0;
  for (uint32_t v = 0; v < p->n; v++) {
    double sum;
    load with = *l;
    add_piece(p, is_free ? v : root, v, &with);
    const double time = time_of(p, &with, &sum);
    if (v > 0 && (time > best * (1 + 1e-12) || (time > best * (1 - 1e-12) && sum >= best_sum)))
      continue;
    best = time;
    best_sum = sum;
    *best_root = is_free ? v : root;
    *best_middle = v;
  }
}

/* Counts the pieces of each tree, for `share` pieces of each root. Returns the busiest port's time
 * for pieces of one byte. count: [n][n] by root and middle. */
static double assign(const ports *p, uint32_t share, uint16_t *count) {
  const int is_rooted = df_operation_has_root(p->operation);
  const int is_free = p->operation == DF_OP_ALL_REDUCE;
  load l = {{0}, {0}};
  double sum;
  for (uint32_t i = 0; i < p->n * p->n; i++) count[i] = 0;
  for (uint32_t piece = 0; piece < share; piece++)
    for (uint32_t r = 0; r < (is_rooted || is_free ? 1 : p->n); r++) {
      uint32_t root = 0, middle = 0;
      choose_tree(p, is_rooted ? p->root : r, is_free, &l, &root, &middle);
      add_piece(p, root, middle, &l);
      count[root * p->n + middle]++;
    }
  return time_of(p, &l, &sum);
}

static int add_trees(const ports *p, const uint16_t *count, df_trees *trees) {
  for (uint32_t root = 0; root < p->n; root++)
    for (uint32_t middle = 0; middle < p->n; middle++) {
      if (count[root * p->n + middle] == 0) continue;
      uint16_t *parent = df_trees_add(trees, root, count[root * p->n + middle]);
      if (parent == NULL) return 0;
      for (uint32_t v = 0; v < p->n; v++)
        if (v != root && v != middle) parent[v] = (uint16_t)middle;
    }
  return 1;
}

dfcclResult_t df_weighted_make(df_trees *trees, const df_network *network, df_operation operation,
                               uint32_t root, uint32_t pieces_most, double *seconds) {
  const ports p = {.network = network,
                   .operation = operation,
                   .n = network->ranks,
                   .root = root,
                   .up = df_operation_reduces(operation),
                   .down = operation != DF_OP_REDUCE && operation != DF_OP_REDUCE_SCATTER};
  const int is_wide = df_operation_is_wide(operation, 0) || df_operation_is_wide(operation, 1);
  const uint32_t most = DF_MAX(pieces_most / (is_wide ? p.n : 1), 1u);
  uint16_t *count = calloc(2 * (size_t)p.n * p.n, sizeof *count), *best = count + (size_t)p.n * p.n;
  uint32_t best_share = 0;
  df_trees_begin(trees, p.n);
  *seconds = 0;
  double best_cost = 0;
  for (uint32_t share = 1; count && share <= most; share++) {
    const double pieces = (double)share * (is_wide ? p.n : 1);
    const double time = assign(&p, share, count) / pieces;
    const double cost = time * (pieces + PIPELINE) / pieces;
    if (best_share && cost > best_cost * (1 - 1e-4)) continue;
    *seconds = time;
    best_cost = cost;
    best_share = share;
  }
  if (count) assign(&p, best_share, best);
  const int made = count && add_trees(&p, best, trees);
  free(count);
  return made ? dfcclSuccess
              : df_fail(dfcclOutOfMemory, "no memory for trees of %u ranks", network->ranks);
}
