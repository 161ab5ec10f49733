/*
 * Promises of src/synthesis, on random graphs of 4 to 16 nodes with capacities of 1 to 8,
 * asymmetric too, with and without switches:
 *   - the bound is that of an independent maximum flow: the demand fits in this time, and in no
 *     shorter one;
 *   - with enough pieces, the time of the forest is the bound exactly; with k trees of each root it
 *     is longer by at most 1 / (k * the least capacity);
 *   - no edge of the graph, switches' edges included, carries more than its capacity in this time;
 *   - each plan is proven by the checker;
 *   - if the ports of a switch are unequal, so that a bound might need copies, the time is never
 *     below the bound, and the program counts how often it is reached.
 *
 *   forest [--graphs 40] [--seed 1] [--first 0]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "plans/check/check.h"
#include "support/harness.h"
#include "synthesis/forest.h"

enum { NODES = 16 };

typedef enum { NO_SWITCHES, BALANCED, UNBALANCED } family;

static struct {
  int seed, graph;
  int reached, unbalanced;
  double most_seconds;
} now;

static void fail(const char *what, double is, double wanted) {
  fprintf(stderr, "forest --seed %d --first %d --graphs 1: %s: %g, not %g\n", now.seed, now.graph,
          what, is, wanted);
  exit(1);
}

/* ---- the referee: augmenting paths in depth first order (Ford and Fulkerson) */

static int64_t residual[NODES + 1][NODES + 1];
static int seen[NODES + 1];

static int64_t augment(int at, int to, int nodes, int64_t most) {
  if (at == to) return most;
  seen[at] = 1;
  for (int v = 0; v < nodes; v++) {
    if (seen[v] || residual[at][v] == 0) continue;
    const int64_t more = augment(v, to, nodes, most < residual[at][v] ? most : residual[at][v]);
    if (more == 0) continue;
    residual[at][v] -= more;
    residual[v][at] += more;
    return more;
  }
  return 0;
}

/* Whether the demand of one unit for each rank fits in the time of/over. */
static int fits(const df_graph *g, int64_t of, int64_t over) {
  const int source = (int)g->nodes, nodes = (int)g->nodes + 1;
  for (uint32_t t = 0; t < g->ranks; t++) {
    int64_t flow = 0;
    memset(residual, 0, sizeof residual);
    for (uint32_t u = 0; u < g->nodes; u++)
      for (uint32_t v = 0; v < g->nodes; v++) residual[u][v] = *df_graph_edge(g, u, v) * of;
    for (uint32_t r = 0; r < g->ranks; r++) residual[source][r] = over;
    for (int64_t more = 1; more > 0; flow += more) {
      memset(seen, 0, sizeof seen);
      more = augment(source, (int)t, nodes, INT64_MAX);
    }
    if (flow < over * (int64_t)g->ranks) return 0;
  }
  return 1;
}

/* ---- random graphs */

static int64_t capacity(df_random *random) { return 1 + (int64_t)df_random_below(random, 8); }

static void connect(df_graph *g, df_random *random, uint32_t u, uint32_t v, family kind) {
  *df_graph_edge(g, u, v) = capacity(random);
  *df_graph_edge(g, v, u) = kind == BALANCED ? *df_graph_edge(g, u, v) : capacity(random);
}

static void make_graph(df_graph *g, df_random *random, family kind) {
  const uint32_t nodes = 4 + (uint32_t)df_random_below(random, NODES - 3);
  const uint32_t most = nodes / 3;
  const uint32_t switches =
      kind == NO_SWITCHES ? 0 : 1 + (uint32_t)df_random_below(random, (int)most);
  if (df_graph_make(g, nodes - switches, nodes) != dfcclSuccess) exit(1);
  /* A path through all nodes, of which switches are not the ends, and more edges. */
  for (uint32_t v = 1; v < nodes; v++) {
    const uint32_t to = (uint32_t)df_random_below(random, (int)v);
    connect(g, random, v, to, kind);
  }
  for (uint32_t s = g->ranks; s < nodes; s++) /* a switch has several neighbours */
    for (int i = 0; i < 3; i++)
      connect(g, random, s, (uint32_t)df_random_below(random, (int)g->ranks), kind);
  for (uint32_t i = 0; i < nodes; i++) {
    const uint32_t u = (uint32_t)df_random_below(random, (int)nodes);
    const uint32_t v = (uint32_t)df_random_below(random, (int)nodes);
    if (u != v) connect(g, random, u, v, kind);
  }
}

/* ---- checks */

static void check_bound(const df_graph *g, df_fraction bound) {
  if (!fits(g, bound.of, bound.over)) fail("the demand fits in the bound", 0, 1);
  if (fits(g, bound.of * 100000 - 1, bound.over * 100000)) fail("the demand fits in less", 1, 0);
}

static void check_use(const df_graph *g, const df_forest *f, df_operation operation) {
  const int64_t by = (int64_t)df_trees_pieces(&f->trees, operation);
  for (uint32_t u = 0; u < g->nodes; u++)
    for (uint32_t v = 0; v < g->nodes; v++) {
      const int64_t use = f->use[u * g->nodes + v];
      if (use * f->time.over > *df_graph_edge(g, u, v) * f->time.of * by)
        fail("messages on an edge", (double)use,
             (double)(*df_graph_edge(g, u, v) * f->time.of * by) / (double)f->time.over);
    }
}

static void prove(const df_forest *f, df_operation operation, uint32_t root) {
  char sentence[DF_SENTENCE_BYTES];
  df_plan *plans[DF_PLAN_CHECK_MAX_RANKS];
  df_plan_key key = {.operation = operation,
                     .algorithm = DF_TREES,
                     .n = f->trees.n,
                     .root = root,
                     .trees = &f->trees};
  if (df_trees_check(&f->trees, operation, root, sentence, sizeof sentence) != dfcclSuccess) {
    fprintf(stderr, "%s\n", sentence);
    fail("right trees", 0, 1);
  }
  for (key.position = 0; key.position < key.n; key.position++)
    if ((plans[key.position] = df_plan_make(&key)) == NULL) fail("plans", 0, 1);
  const df_plan_check_options o = {
      .slots = plans[0]->least_slots, .loops = 2, .lending = DF_LENDS_ALL, .in_place = 1};
  if (df_plan_check(plans, &o, sentence, sizeof sentence) != dfcclSuccess) {
    fprintf(stderr, "%s\n", sentence);
    fail("proven plans", 0, 1);
  }
  for (uint32_t r = 0; r < key.n; r++) df_plan_free(plans[r]);
}

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void check_exact(const df_graph *g, family kind) {
  df_forest f;
  const double begin = seconds();
  const dfcclResult_t result = df_forest_make(&f, g, DF_OP_ALL_GATHER, 0, DF_TREES_PIECES_MOST, 1);
  const double took = seconds() - begin;
  if (took > now.most_seconds) now.most_seconds = took;
  if (result != dfcclSuccess) {
    fprintf(stderr, "%s\n", df_last_sentence());
    if (kind != UNBALANCED) fail("a forest", 0, 1);
  } else {
    const double time = (double)f.time.of / (double)f.time.over;
    const double bound = (double)f.bound.of / (double)f.bound.over;
    const int is_equal = f.time.of * f.bound.over == f.bound.of * f.time.over;
    check_bound(g, f.bound);
    if (kind != UNBALANCED && !is_equal) fail("the time is the bound", time, bound);
    if (time < bound * (1 - 1e-12)) fail("the time is above the bound", time, bound);
    now.unbalanced += kind == UNBALANCED;
    now.reached += kind == UNBALANCED && is_equal;
    check_use(g, &f, DF_OP_ALL_GATHER);
  }
  df_forest_free(&f);
}

static int64_t least_capacity(const df_graph *g) {
  int64_t least = 8;
  for (uint32_t i = 0; i < g->nodes * g->nodes; i++)
    if (g->capacity[i] > 0 && g->capacity[i] < least) least = g->capacity[i];
  return least;
}

static void check_limited(const df_graph *g, family kind, df_operation operation, uint32_t k,
                          uint32_t root) {
  df_forest f;
  df_graph even;
  if (df_graph_copy(&even, g) != dfcclSuccess) exit(1);
  if (operation == DF_OP_ALL_REDUCE) df_graph_equalise(&even);
  const uint32_t most = k * (df_operation_has_root(operation) ? 1 : g->ranks);
  if (df_forest_make(&f, &even, operation, root, most, operation == DF_OP_ALL_GATHER) ==
      dfcclSuccess) {
    const double time = (double)f.time.of / (double)f.time.over;
    const double bound = (double)f.bound.of / (double)f.bound.over;
    if (kind == NO_SWITCHES && operation != DF_OP_ALL_REDUCE &&
        time > bound + 1.0 / (double)(k * least_capacity(g)) + 1e-9)
      fail("a limited time", time, bound);
    if (time < bound * (1 - 1e-12)) fail("a limited time is above the bound", time, bound);
    if (f.use) check_use(g, &f, operation);
    prove(&f, operation, root);
  } else if (kind != UNBALANCED) {
    fprintf(stderr, "%s\n", df_last_sentence());
    fail("a limited forest", 0, 1);
  }
  df_graph_free(&even);
  df_forest_free(&f);
}

static int option(int count, char **arguments, const char *name, int otherwise) {
  for (int i = 1; i + 1 < count; i++)
    if (strcmp(arguments[i], name) == 0) return atoi(arguments[i + 1]);
  return otherwise;
}

int main(int count, char **arguments) {
  static const df_operation operations[] = {DF_OP_ALL_GATHER, DF_OP_REDUCE_SCATTER,
                                            DF_OP_ALL_REDUCE, DF_OP_BROADCAST, DF_OP_REDUCE};
  const int graphs = option(count, arguments, "--graphs", 40);
  const int first = option(count, arguments, "--first", 0);
  now.seed = option(count, arguments, "--seed", 1);
  for (now.graph = first; now.graph < first + graphs; now.graph++) {
    df_random random = {(uint64_t)now.seed * 1000003 + (uint64_t)now.graph};
    const family kind = (family)(now.graph % 3);
    df_graph g;
    make_graph(&g, &random, kind);
    check_exact(&g, kind);
    for (int i = 0; i < 2; i++)
      check_limited(&g, kind, operations[(now.graph / 3 + i) % 5],
                    1u << df_random_below(&random, 3),
                    (uint32_t)df_random_below(&random, (int)g.ranks));
    df_graph_free(&g);
  }
  printf("%d graphs; %d of %d with unequal ports of switches reach the bound; the slowest exact "
         "forest took %.3f s\n",
         graphs, now.reached, now.unbalanced, now.most_seconds);
  return 0;
}
