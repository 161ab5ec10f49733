#include "synthesis/balanced.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/attributes.h"
#include "base/extremes.h"

enum { NONE = UINT16_MAX, DEPTH_MOST = 2 };
static const double SOFTNESS = 4; /* units of time */
/* Price of an idle port: pieces that pass a slow pair are late, even if the pair has time. */
static const double LEAST_PRICE = 0.25;
/* Part of a tree's price that each level adds, so that trees of equal price are shallow. */
static const double PRICE_OF_DEPTH = 0.01;

typedef struct balance {
  const df_network *network;
  uint32_t n, n_resources;
  double unit;     /* seconds that a piece of one byte takes on the fastest way of two ranks */
  double *load;    /* [n_resources] seconds for pieces of one byte */
  double *price;   /* [n_resources] price of a second */
  double *edge;    /* [n][n] price of a piece in both directions; HUGE_VAL: no way */
  uint16_t *found; /* [2][n] parents of the best tree, and of the one that is tried */
} balance;

/* ---- prices */

/* The price falls steeply with the distance from the busiest port. */
static double price_of(double distance) {
  const double x = 1 + distance / SOFTNESS, square = x * x;
  return 1 / (square * square) + LEAST_PRICE;
}

static void set_prices(balance *b) {
  double most = 0;
  for (uint32_t r = 0; r < b->n_resources; r++) most = df_greater(most, b->load[r]);
  for (uint32_t r = 0; r < b->n_resources; r++)
    b->price[r] = price_of((most - b->load[r]) / b->unit);
}

static void set_unit(balance *b) {
  b->unit = HUGE_VAL;
  for (uint32_t u = 0; u < b->n; u++)
    for (uint32_t v = 0; v < b->n; v++) {
      uint32_t resources[DF_NETWORK_PATH_MOST];
      double latency, slowest = 0;
      const uint32_t n = u == v ? 0 : df_network_path(b->network, u, v, resources, &latency);
      for (uint32_t i = 0; i < n; i++)
        slowest = df_greater(slowest, 1 / df_network_rate(b->network, resources[i]));
      if (n > 0) b->unit = df_lesser(b->unit, slowest);
    }
}

/* Adds a message of one byte to the loads, or to *price if that is given. */
static int add_message(balance *b, uint32_t from, uint32_t to, double *price) {
  uint32_t resources[DF_NETWORK_PATH_MOST];
  double latency;
  const uint32_t n = df_network_path(b->network, from, to, resources, &latency);
  for (uint32_t i = 0; i < n; i++) {
    const double seconds = 1 / df_network_rate(b->network, resources[i]);
    if (price)
      *price += b->price[resources[i]] * seconds;
    else
      b->load[resources[i]] += seconds;
  }
  return n > 0;
}

static void set_edges(balance *b) {
  for (uint32_t u = 0; u < b->n; u++)
    for (uint32_t v = u + 1; v < b->n; v++) {
      double price = 0;
      if (!add_message(b, u, v, &price) || !add_message(b, v, u, &price)) price = HUGE_VAL;
      b->edge[u * b->n + v] = b->edge[v * b->n + u] = price;
    }
}

/* ---- trees */

/* Prim's algorithm from the root, with members of the last level left out as parents. Returns the
 * price; HUGE_VAL: there is no such tree. */
static double grow(const balance *b, uint32_t root, uint32_t depth_most, uint16_t *parent) {
  uint8_t depth[DF_TREES_RANKS_MOST] = {0}, is_in[DF_TREES_RANKS_MOST] = {0};
  double sum = 0;
  uint32_t deepest = 0;
  for (uint32_t v = 0; v < b->n; v++) parent[v] = (uint16_t)root;
  is_in[root] = 1;
  for (uint32_t added = 1; added < b->n; added++) {
    uint32_t next = NONE;
    for (uint32_t v = 0; v < b->n; v++)
      if (!is_in[v] &&
          (next == NONE || b->edge[parent[v] * b->n + v] < b->edge[parent[next] * b->n + next]))
        next = v;
    is_in[next] = 1;
    sum += b->edge[parent[next] * b->n + next];
    depth[next] = (uint8_t)(depth[parent[next]] + 1);
    deepest = DF_MAX(deepest, depth[next]);
    for (uint32_t v = 0; v < b->n && depth[next] < depth_most; v++)
      if (!is_in[v] && b->edge[next * b->n + v] < b->edge[parent[v] * b->n + v])
        parent[v] = (uint16_t)next;
  }
  return sum * (1 + PRICE_OF_DEPTH * deepest);
}

/* The cheapest tree over all roots. Its parents are at b->found. */
static uint32_t choose(balance *b) {
  uint16_t *tried = b->found + b->n;
  uint32_t best_root = NONE;
  double best = HUGE_VAL;
  for (uint32_t depth = 1; depth <= DEPTH_MOST || best == HUGE_VAL; depth++) {
    for (uint32_t root = 0; root < b->n; root++) {
      const double price = grow(b, root, depth, tried);
      if (price >= best) continue;
      best = price;
      best_root = root;
      memcpy(b->found, tried, b->n * sizeof *tried);
    }
    if (depth >= b->n) break;
  }
  return best_root;
}

/* One more piece for the tree, which may be there already. 0: out of memory. */
static int add_piece(const balance *b, df_trees *trees, uint32_t root) {
  const size_t bytes = b->n * sizeof *b->found;
  for (uint32_t t = 0; t < trees->n_trees; t++)
    if (trees->trees[t].root == root && memcmp(df_trees_parents(trees, t), b->found, bytes) == 0)
      return trees->trees[t].weight++, 1;
  uint16_t *parent = df_trees_add(trees, root, 1);
  if (parent) memcpy(parent, b->found, bytes);
  return parent != NULL;
}

static dfcclResult_t make(balance *b, df_trees *trees, uint32_t pieces) {
  set_unit(b);
  for (uint32_t piece = 0; piece < pieces; piece++) {
    set_prices(b);
    set_edges(b);
    const uint32_t root = choose(b);
    if (root == NONE)
      return df_fail(dfcclInvalidArgument, "there is no way between all of %u ranks", b->n);
    if (!add_piece(b, trees, root)) return dfcclOutOfMemory;
    for (uint32_t v = 0; v < b->n; v++)
      if (v != root) {
        add_message(b, v, b->found[v], NULL);
        add_message(b, b->found[v], v, NULL);
      }
  }
  return dfcclSuccess;
}

dfcclResult_t df_balanced_make(df_trees *trees, const df_network *network, uint32_t pieces) {
  balance b = {
      .network = network, .n = network->ranks, .n_resources = df_network_resources(network)};
  df_trees_begin(trees, b.n);
  b.load = calloc(2 * (size_t)b.n_resources + (size_t)b.n * b.n + 1, sizeof *b.load);
  b.found = calloc(2 * (size_t)b.n, sizeof *b.found);
  dfcclResult_t result = b.load && b.found ? dfcclSuccess : dfcclOutOfMemory;
  if (result == dfcclSuccess) {
    b.price = b.load + b.n_resources;
    b.edge = b.price + b.n_resources;
    result = make(&b, trees, pieces);
  }
  if (result == dfcclOutOfMemory)
    result = df_fail(result, "no memory for trees of %u ranks", network->ranks);
  free(b.load);
  free(b.found);
  return result;
}
