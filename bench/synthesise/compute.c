#include "synthesise/synthesise.h"

#include <stdio.h>
#include <stdlib.h>

#include "../../simulator/network_file.h"
#include "base/attributes.h"
#include "common/cli.h"
#include "common/clock.h"
#include "plans/check/check.h"
#include "synthesis/balanced.h"
#include "synthesis/bounds.h"
#include "synthesis/forest.h"
#include "synthesis/weighted.h"

enum { SLOTS = 4, BLOCKS = 3, SLOT_BYTES = 128 << 10, PIECES = 128, SHARES = 8 };
/* Cost of a piece on the fastest port. */
enum { SCALE = 8 };

static uint32_t pieces_most(const df_synthesis_question *q) {
  const bool wide = df_operation_is_wide(q->operation, 0) || df_operation_is_wide(q->operation, 1);
  return wide ? SHARES * q->ranks : PIECES;
}

static bool failed(void) {
  df_tool_error("%s", df_last_sentence());
  return false;
}

/* ---- prediction */

static bool predict(const df_synthesis_question *q, const df_network *network, int algorithm,
                    const df_trees *trees, double *seconds) {
  const df_timeline_question question = {.network = network,
                                         .operation = q->operation,
                                         .algorithm = algorithm,
                                         .trees = trees,
                                         .root = q->root,
                                         .bytes = q->bytes,
                                         .blocks = BLOCKS,
                                         .slots = SLOTS,
                                         .slot_bytes = SLOT_BYTES};
  df_timeline_answer answer;
  if (df_timeline_run(&question, NULL, &answer) != dfcclSuccess) return failed();
  *seconds = answer.seconds;
  return true;
}

static bool predict_others(const df_synthesis_question *q, df_synthesis_answer *a) {
  a->best_algorithm = -1;
  for (int i = 0; i < DF_ALGORITHMS; i++) {
    double seconds;
    if (i == DF_TREES || !df_timeline_has(&a->network, q->operation, i)) continue;
    if (!predict(q, &a->network, i, NULL, &seconds)) return false;
    if (a->best_algorithm >= 0 && seconds >= a->best_predicted) continue;
    a->best_algorithm = i;
    a->best_predicted = seconds;
  }
  return true;
}

/* ---- proof and loads */

/* Members keep the result of this proof only for themselves: a job proves each file again. */
static bool prove(const df_synthesis_question *q, const df_trees *trees) {
  char sentence[DF_SENTENCE_BYTES];
  df_plan *plans[DF_PLAN_CHECK_MAX_RANKS] = {NULL};
  df_plan_key key = {.operation = q->operation,
                     .algorithm = DF_TREES,
                     .n = q->ranks,
                     .root = q->root,
                     .trees = trees};
  dfcclResult_t result = df_trees_check(trees, q->operation, q->root, sentence, sizeof sentence);
  for (uint32_t r = 0; r < q->ranks && result == dfcclSuccess; r++) {
    key.position = r;
    plans[r] = df_plan_make(&key);
    if (plans[r] == NULL) {
      snprintf(sentence, sizeof sentence, "no plan of %u ranks: no memory, or too many steps",
               q->ranks);
      result = dfcclOutOfMemory;
    }
  }
  for (int in_place = 0; in_place < 2 && result == dfcclSuccess; in_place++) {
    const df_plan_check_options o = {.slots =
                                         DF_MAX(plans[0]->least_slots, (uint32_t)DF_MIN_LINK_SLOTS),
                                     .loops = 2,
                                     .in_place = in_place,
                                     .lending = DF_LENDS_ALL};
    result = df_plan_check(plans, &o, sentence, sizeof sentence);
  }
  for (uint32_t r = 0; r < q->ranks; r++) df_plan_free(plans[r]);
  if (result != dfcclSuccess) df_tool_error("the plan is not proven: %s", sentence);
  return result == dfcclSuccess;
}

static void add_load(df_synthesis_answer *a, uint32_t from, uint32_t to, double bytes) {
  uint32_t resources[DF_NETWORK_PATH_MOST];
  double latency;
  const uint32_t n = df_network_path(&a->network, from, to, resources, &latency);
  for (uint32_t i = 0; i < n; i++)
    a->port_seconds[resources[i]] += bytes / df_network_rate(&a->network, resources[i]);
}

static bool find_loads(const df_synthesis_question *q, df_synthesis_answer *a) {
  const bool up = df_operation_reduces(q->operation);
  const bool down = q->operation != DF_OP_REDUCE && q->operation != DF_OP_REDUCE_SCATTER;
  uint32_t sum = 0;
  a->port_seconds = calloc(df_network_resources(&a->network) + 1u, sizeof *a->port_seconds);
  if (a->port_seconds == NULL) {
    df_tool_error("no memory for %u ports", df_network_resources(&a->network));
    return false;
  }
  for (uint32_t t = 0; t < a->trees.n_trees; t++) sum += a->trees.trees[t].weight;
  for (uint32_t t = 0; t < a->trees.n_trees; t++) {
    const uint16_t *parent = df_trees_parents(&a->trees, t);
    const double bytes = (double)q->bytes * a->trees.trees[t].weight / sum;
    for (uint32_t v = 0; v < q->ranks; v++) {
      uint32_t depth = 0;
      if (v == a->trees.trees[t].root) continue;
      if (up) add_load(a, v, parent[v], bytes);
      if (down) add_load(a, parent[v], v, bytes);
      for (uint32_t at = v; at != a->trees.trees[t].root; at = parent[at]) depth++;
      a->depth = DF_MAX(a->depth, depth);
    }
  }
  for (uint32_t p = 0; p < df_network_resources(&a->network); p++)
    if (a->port_seconds[p] > a->busiest) a->busiest = a->port_seconds[p];
  return true;
}

/* ---- engines */

static bool run_weighted(const df_synthesis_question *q, df_synthesis_answer *a, df_trees *trees) {
  double unused;
  if (df_weighted_make(trees, &a->network, q->operation, q->root, pieces_most(q), &unused) !=
      dfcclSuccess)
    return failed();
  return true;
}

/* Also finds the bound of all cuts, which has no closed form. */
static bool run_forest(const df_synthesis_question *q, df_synthesis_answer *a, df_trees *trees) {
  df_graph graph;
  df_forest forest = {.use = NULL};
  dfcclResult_t result = df_graph_of_network(&graph, &a->network, q->operation == DF_OP_ALL_REDUCE);
  if (result == dfcclSuccess)
    result = df_forest_make(&forest, &graph, q->operation, q->root, pieces_most(q), 0);
  if (result == dfcclSuccess && q->operation != DF_OP_ALL_REDUCE) {
    const double bound = df_forest_seconds(&forest, &graph, q->operation, forest.bound, q->bytes);
    a->bound = DF_MAX(a->bound, bound);
  }
  *trees = forest.trees;
  forest.trees = (df_trees){0};
  df_forest_free(&forest);
  df_graph_free(&graph);
  return result == dfcclSuccess ? true : failed();
}

static bool run_balanced(const df_synthesis_question *q, df_synthesis_answer *a, df_trees *trees) {
  return df_balanced_make(trees, &a->network, pieces_most(q)) == dfcclSuccess ? true : failed();
}

/* Relative times of ports: of a host's first card, or of all links of a rank. */
static void set_costs(const df_network *m, df_trees *trees) {
  enum { MOST = 4096 };
  double out[DF_TREES_RANKS_MOST] = {0}, in[DF_TREES_RANKS_MOST] = {0}, most = 0;
  for (uint32_t r = 0; r < m->ranks; r++) {
    if (m->links == NULL) {
      const uint32_t card = df_network_card(m, m->host[r], m->local[r] % m->nics);
      out[r] = m->ports[card].out;
      in[r] = m->ports[card].in;
    }
    for (uint32_t l = 0; l < m->n_links; l++) {
      const df_network_port *p = &m->ports[l];
      if (m->links[l].from == r) out[r] += p->out, in[r] += p->in;
      if (m->links[l].to == r) out[r] += p->in, in[r] += p->out;
    }
    most = DF_MAX(most, DF_MAX(out[r], in[r]));
  }
  for (uint32_t r = 0; r < m->ranks; r++) {
    trees->out_cost[r] = (uint16_t)DF_MIN(SCALE * most / out[r] + 0.5, MOST);
    trees->in_cost[r] = (uint16_t)DF_MIN(SCALE * most / in[r] + 0.5, MOST);
  }
}

/* Pieces arrive later than the plan's order assumes, since several messages share a port. Sets the
 * slack with the least predicted time. */
static bool choose_slack(const df_synthesis_question *q, const df_network *m, df_trees *trees,
                         double *best) {
  static const uint16_t slacks[] = {0, 2 * SCALE, 4 * SCALE, 8 * SCALE, 16 * SCALE, 32 * SCALE};
  uint16_t best_slack = 0;
  for (size_t i = 0; i < DF_COUNT_OF(slacks); i++) {
    double seconds;
    trees->slack = slacks[i];
    if (!predict(q, m, DF_TREES, trees, &seconds)) return false;
    if (i > 0 && seconds >= *best) continue;
    *best = seconds;
    best_slack = slacks[i];
  }
  trees->slack = best_slack;
  return true;
}

/* Takes the trees if they are faster than those before. */
static bool consider(const df_synthesis_question *q, df_synthesis_answer *a, const char *engine,
                     bool (*run)(const df_synthesis_question *q, df_synthesis_answer *a,
                                 df_trees *trees)) {
  df_trees trees = {0};
  double seconds = 0;
  bool fine = run(q, a, &trees);
  if (fine) set_costs(&a->network, &trees);
  fine = fine && choose_slack(q, &a->network, &trees, &seconds);
  if (fine && (a->engine == NULL || seconds < a->predicted)) {
    const df_trees before = a->trees;
    a->trees = trees;
    trees = before;
    a->engine = engine;
    a->predicted = seconds;
  }
  df_trees_free(&trees);
  return fine;
}

static bool compute(const df_synthesis_question *q, df_synthesis_answer *a) {
  const bool fits = df_weighted_fits(&a->network);
  if (q->engine == DF_ENGINE_WEIGHTED && !fits) {
    df_tool_error("%s: the engine weighted is for hosts of one rank each below one switch, "
                  "without pairs; use forest",
                  q->network_file);
    return false;
  }
  const bool is_auto = q->engine == DF_ENGINE_AUTO, sums = q->operation == DF_OP_ALL_REDUCE;
  if (q->engine == DF_ENGINE_BALANCED && !sums) {
    df_tool_error("the engine balanced is for allreduce; use forest");
    return false;
  }
  if ((is_auto && fits) || q->engine == DF_ENGINE_WEIGHTED) {
    if (!consider(q, a, "weighted", run_weighted)) return false;
  }
  if ((is_auto || q->engine == DF_ENGINE_FOREST) && !consider(q, a, "forest", run_forest))
    return false;
  if ((is_auto && sums) || q->engine == DF_ENGINE_BALANCED)
    return consider(q, a, "balanced", run_balanced);
  return true;
}

bool df_synthesise(const df_synthesis_question *q, df_synthesis_answer *a) {
  *a = (df_synthesis_answer){.engine = NULL};
  if (df_network_read(&a->network, q->network_file, q->ranks) != dfcclSuccess)
    df_tool_usage_error("%s", df_last_sentence());
  const uint64_t begin = df_tool_now_ns();
  if (q->root == 0) a->bound = df_network_bound(&a->network, q->operation, q->bytes);
  if (!compute(q, a) || !prove(q, &a->trees)) return false;
  a->computed = (double)(df_tool_now_ns() - begin) * 1e-9;
  a->pieces = df_trees_pieces(&a->trees, q->operation);
  return find_loads(q, a) && predict_others(q, a);
}

void df_synthesis_free(df_synthesis_answer *answer) {
  df_network_free(&answer->network);
  df_trees_free(&answer->trees);
  free(answer->port_seconds);
}
