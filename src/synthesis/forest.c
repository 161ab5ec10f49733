#include "synthesis/forest.h"

#include <stdlib.h>

#include "base/attributes.h"
#include "synthesis/packing.h"
#include "synthesis/switch_removal.h"

static int64_t common_divisor(int64_t a, int64_t b) {
  while (b != 0) {
    const int64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

/* The demand of each operation; with a multiple it is that of a forest. */
typedef struct demand {
  int64_t weight[DF_GRAPH_RANKS_MOST];
  int64_t sum;
} demand;

static demand demand_of(df_operation operation, uint32_t ranks, uint32_t root) {
  demand d = {.sum = 0};
  for (uint32_t r = 0; r < ranks; r++) {
    d.weight[r] = !df_operation_has_root(operation) || r == root;
    d.sum += d.weight[r];
  }
  return d;
}

static demand multiple_of(const demand *d, uint32_t ranks, int64_t by) {
  demand more = {.sum = d->sum * by};
  for (uint32_t r = 0; r < ranks; r++) more.weight[r] = d->weight[r] * by;
  return more;
}

static int is_below(df_fraction a, df_fraction b) {
  return (double)a.of * (double)b.over < (double)b.of * (double)a.over * (1 - 1e-12);
}

/* ---- one forest */

__extension__ typedef __int128 wide;

/* number * time, rounded down. */
static int64_t scaled(int64_t number, df_fraction time) {
  return (int64_t)((wide)number * time.of / time.over);
}

/* The work graph of a time: each edge may carry as many messages as fit. */
static dfcclResult_t scale(df_graph *copy, const df_graph *graph, df_fraction time) {
  const dfcclResult_t result = df_graph_copy(copy, graph);
  for (uint32_t i = 0; result == dfcclSuccess && i < graph->nodes * graph->nodes; i++)
    copy->capacity[i] = scaled(graph->capacity[i], time);
  return result;
}

static void note_use(df_forest *forest, const df_graph *removed, const df_splits *splits) {
  for (uint32_t t = 0; t < forest->trees.n_trees; t++)
    for (uint32_t v = 0; v < removed->ranks; v++)
      if (v != forest->trees.trees[t].root)
        forest->use[df_trees_parents(&forest->trees, t)[v] * removed->nodes + v] +=
            forest->trees.trees[t].weight;
  df_switches_restore(removed, splits, forest->use);
}

/* Tries a time for the demand. 1: the forest has its trees; 0: it is too short; -1: no memory. */
static int try_time(df_forest *forest, const df_graph *graph, const demand *d, df_fraction time) {
  df_graph work = {0}, removed = {0};
  df_splits splits = {NULL, 0, 0};
  int done = scale(&work, graph, time) == dfcclSuccess ? df_graph_carries(&work, d->weight) : -1;
  if (done == 1) done = df_switches_remove(&work, d->weight, &splits);
  if (done == 1 && df_graph_copy(&removed, &work) != dfcclSuccess) done = -1;
  if (done == 1) done = df_trees_pack(&work, d->weight, &forest->trees);
  if (done == 1 && forest->use) note_use(forest, &removed, &splits);
  if (done != 1) df_trees_free(&forest->trees);
  if (done != 1) forest->trees = (df_trees){0};
  df_graph_free(&work);
  df_graph_free(&removed);
  free(splits.list);
  return done;
}

/* The least time at which whole numbers of messages carry the demand, in steps of 1 / over. */
static df_fraction least_time(const df_graph *graph, const demand *d, df_fraction least,
                              int64_t over, int64_t width) {
  int64_t low = scaled(over, least), high = low + width;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    df_graph work = {0};
    const int carries = scale(&work, graph, (df_fraction){middle, over}) == dfcclSuccess &&
                        df_graph_carries(&work, d->weight) == 1;
    df_graph_free(&work);
    if (carries)
      high = middle;
    else
      low = middle + 1;
  }
  return (df_fraction){low, over};
}

static int64_t least_edge(const df_graph *graph) {
  int64_t least = INT64_MAX;
  for (uint32_t i = 0; i < graph->nodes * graph->nodes; i++)
    if (graph->capacity[i] > 0) least = DF_MIN(least, graph->capacity[i]);
  return least;
}

/* Divides all capacities by what they have in common, and returns it. */
static int64_t divisor_of(const df_graph *graph, int64_t divisor) {
  for (uint32_t i = 0; i < graph->nodes * graph->nodes; i++)
    divisor = common_divisor(divisor, graph->capacity[i]);
  return divisor;
}

/* With enough trees for each unit of weight the bound is met exactly; with fewer, the time is at
 * most 1 / trees of a unit of weight over the least edge above it. If switches would have to
 * copy, longer times are tried in steps of 1 / 32. */
static int find_forest(df_forest *forest, const df_graph *graph, const demand *base,
                       uint32_t pieces_most) {
  enum { TRIES = 96, PARTS = 32, STEPS = 5040 };
  const int64_t shared = common_divisor(forest->bound.of, forest->bound.over);
  const df_fraction exact = {forest->bound.of / shared, forest->bound.over / shared};
  const int64_t divisor = divisor_of(graph, exact.over), trees = exact.over / divisor;
  const int64_t most = DF_MAX((int64_t)pieces_most / base->sum, 1);
  int64_t by = trees;
  if (trees <= most) {
    const demand d = multiple_of(base, graph->ranks, by);
    forest->time = (df_fraction){exact.of, exact.over};
    const int done = try_time(forest, graph, &d, (df_fraction){exact.of, divisor});
    if (done != 0) return done;
  }
  by = DF_MIN(trees * (most / DF_MAX(trees, 1)), most);
  if (by == 0) by = most;
  const demand d = multiple_of(base, graph->ranks, by);
  const int64_t least = least_edge(graph), over = STEPS * least;
  df_fraction time =
      least_time(graph, &d, (df_fraction){exact.of * by, exact.over}, over, over / least + 1);
  for (int i = 0; i < TRIES; i++) {
    forest->time = (df_fraction){time.of, time.over * by};
    const int done = try_time(forest, graph, &d, time);
    if (done != 0) return done;
    time.of += DF_MAX(time.of / PARTS, 1);
  }
  return 0;
}

/* ---- roots of an all-reduce */

/* Moves weight from the ranks inside the tightest cut to those outside, as long as the bound falls.
 * The sum of weights stays. */
static dfcclResult_t move_roots(df_forest *forest, const df_graph *graph, demand *d) {
  uint32_t unused;
  dfcclResult_t result = df_graph_bound(graph, d->weight, &forest->bound, &unused);
  for (int moved = 1; moved && result == dfcclSuccess;) {
    moved = 0;
    for (uint32_t from = 0; from < graph->ranks && !moved; from++)
      for (uint32_t to = 0; to < graph->ranks && !moved && d->weight[from] > 0; to++) {
        df_fraction bound;
        if (from == to) continue;
        d->weight[from]--, d->weight[to]++;
        result = df_graph_bound(graph, d->weight, &bound, &unused);
        if (result != dfcclSuccess) return result;
        moved = is_below(bound, forest->bound);
        if (moved)
          forest->bound = bound;
        else
          d->weight[from]++, d->weight[to]--;
      }
  }
  return result;
}

/* Equal roots, or unequal ones if these are faster, for up to 16 ranks. */
static dfcclResult_t choose_roots(df_forest *forest, const df_graph *graph, uint32_t pieces_most,
                                  demand *base) {
  enum { RANKS = 16, SHARES = 8 };
  const int64_t shares = DF_MIN((int64_t)SHARES, pieces_most / graph->ranks);
  if (graph->ranks > RANKS || shares < 2) return dfcclSuccess;
  demand d = multiple_of(base, graph->ranks, shares);
  df_forest moved = {.bound = {0, 0}};
  const dfcclResult_t result = move_roots(&moved, graph, &d);
  if (result != dfcclSuccess) return result;
  const df_fraction equal = {forest->bound.of * shares, forest->bound.over};
  if (!is_below(moved.bound, equal)) return result;
  forest->bound = moved.bound;
  *base = d;
  return result;
}

/* ---- the whole */

dfcclResult_t df_forest_make(df_forest *forest, const df_graph *graph, df_operation operation,
                             uint32_t root, uint32_t pieces_most, int with_use) {
  df_graph work;
  demand base = demand_of(operation, graph->ranks, root);
  uint32_t unreached = 0;
  *forest = (df_forest){.weights = base.sum};
  dfcclResult_t result = df_graph_copy(&work, graph);
  if (result != dfcclSuccess) return result;
  if (operation == DF_OP_REDUCE || operation == DF_OP_REDUCE_SCATTER) df_graph_reverse(&work);
  result = df_graph_bound(&work, base.weight, &forest->bound, &unreached);
  if (result == dfcclSuccess && forest->bound.over == 0)
    result = df_fail(dfcclInvalidArgument, "rank %u cannot be reached", unreached);
  if (result == dfcclSuccess && operation == DF_OP_ALL_REDUCE)
    result = choose_roots(forest, &work, pieces_most, &base);
  forest->weights = base.sum;
  if (result == dfcclSuccess && with_use) {
    forest->use = calloc((size_t)work.nodes * work.nodes, sizeof *forest->use);
    if (forest->use == NULL) result = df_fail(dfcclOutOfMemory, "no memory for a forest");
  }
  if (result == dfcclSuccess) {
    const int done = find_forest(forest, &work, &base, pieces_most);
    if (done < 0) result = df_fail(dfcclOutOfMemory, "no memory for a forest");
    if (done == 0)
      result = df_fail(dfcclInvalidArgument,
                       "no trees carry the %s, because switches would have to copy data",
                       df_operation_name(operation));
  }
  df_graph_free(&work);
  return result;
}

void df_forest_free(df_forest *forest) {
  df_trees_free(&forest->trees);
  free(forest->use);
}

double df_forest_seconds(const df_forest *forest, const df_graph *graph, df_operation operation,
                         df_fraction time, uint64_t bytes) {
  const double all = operation == DF_OP_ALL_REDUCE ? 2.0 : 1.0;
  return all * (double)bytes / (double)forest->weights * (double)time.of / (double)time.over /
         graph->unit;
}
