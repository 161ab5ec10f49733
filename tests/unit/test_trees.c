/*
 * Promises of plans/trees.h:
 *   - plans of any trees, with any weights and costs of ports, are proven for each operation: in
 *     place or not, whatever lends, averaged or scaled, with the least slots of the plan, and if
 *     the last loop lacks pieces;
 *   - trees that are wrong are refused, with the member and the tree;
 *   - a member that receives a piece and then sends it does both in one primitive.
 */
#include "plans/trees.h"

#include "group_plans.h"

#include <string.h>

/* Each member is attached to one that is attached already, in a random order. */
static void add_random_tree(df_trees *trees, uint32_t root, uint32_t weight, df_random *random) {
  const uint32_t n = trees->n;
  uint32_t attached[DF_TREES_RANKS_MOST] = {root}, left[DF_TREES_RANKS_MOST], n_left = 0;
  uint16_t *parent = df_trees_add(trees, root, weight);
  CHECK(parent != NULL, "no memory");
  for (uint32_t v = 0; v < n; v++)
    if (v != root) left[n_left++] = v;
  for (uint32_t done = 1; done < n; done++) {
    const uint32_t i = (uint32_t)df_random_below(random, (int)n_left);
    parent[left[i]] = (uint16_t)attached[df_random_below(random, (int)done)];
    attached[done] = left[i];
    left[i] = left[--n_left];
  }
}

static void make_random_trees(df_trees *trees, df_operation operation, uint32_t n, uint32_t root,
                              df_random *random) {
  const int wide = df_operation_is_wide(operation, 0) || df_operation_is_wide(operation, 1);
  const uint32_t share = 1 + (uint32_t)df_random_below(random, 4);
  df_trees_begin(trees, n);
  trees->slack = (uint16_t)df_random_below(random, 50);
  for (uint32_t v = 0; v < n && share > 1; v++) {
    trees->out_cost[v] = (uint16_t)df_random_below(random, 20);
    trees->in_cost[v] = (uint16_t)df_random_below(random, 20);
  }
  for (uint32_t v = 0; v < (wide ? n : share); v++)
    for (uint32_t left = wide ? share : 1, w; left > 0; left -= w) {
      w = 1 + (uint32_t)df_random_below(random, wide ? (int)left : 4);
      if (!wide) left = w;
      const uint32_t any = (uint32_t)df_random_below(random, (int)n);
      add_random_tree(trees, wide ? v : df_operation_has_root(operation) ? root : any, w, random);
    }
}

static void prove_trees(df_plan_key key, df_random *random) {
  char sentence[DF_SENTENCE_BYTES];
  group_plans g = make_group(key);
  const int may_scale = df_operation_reduces(key.operation) && !key.average;
  for (int in_place = 0; in_place <= 1; in_place++)
    for (int scales = 0; scales <= may_scale; scales++)
      for (df_plan_lending lending = DF_LENDS_NOTHING; lending <= DF_LENDS_SOME; lending++) {
        df_plan_check_options o = {.slots =
                                       df_random_chance(random, 50) ? g.plans[0]->least_slots : 64,
                                   .loops = 3,
                                   .in_place = in_place,
                                   .scales = scales,
                                   .lending = lending,
                                   .seed = df_random_next(random)};
        if (g.plans[0]->geometry == DF_GEOMETRY_PARTITION)
          o.last_pieces = 1 + (uint32_t)df_random_below(random, (int)g.plans[0]->pieces);
        CHECK(is_proven(&g, &o, sentence), "%s of %u: %s", df_operation_name(key.operation), key.n,
              sentence);
      }
  drop_group(&g);
}

static const df_operation operations[] = {DF_OP_ALL_REDUCE, DF_OP_REDUCE, DF_OP_BROADCAST,
                                          DF_OP_ALL_GATHER, DF_OP_REDUCE_SCATTER};

DF_TEST(trees, random_trees_are_proven, 120) {
  df_random random = {3};
  char sentence[DF_SENTENCE_BYTES];
  for (int round = 0; round < 200; round++) {
    const df_operation operation = operations[round % DF_COUNT_OF(operations)];
    const uint32_t n = 2 + (uint32_t)df_random_below(&random, 11);
    const uint32_t root =
        df_operation_has_root(operation) ? (uint32_t)df_random_below(&random, (int)n) : 0;
    df_trees trees;
    make_random_trees(&trees, operation, n, root, &random);
    CHECK(df_trees_check(&trees, operation, root, sentence, sizeof sentence) == dfcclSuccess, "%s",
          sentence);
    prove_trees(
        (df_plan_key){.operation = operation,
                      .algorithm = DF_TREES,
                      .n = n,
                      .root = root,
                      .average = df_operation_reduces(operation) && df_random_chance(&random, 50),
                      .trees = &trees},
        &random);
    df_trees_free(&trees);
  }
}

static void expect_refused(const df_trees *trees, df_operation operation, uint32_t root,
                           const char *part) {
  char sentence[DF_SENTENCE_BYTES] = "";
  CHECK(df_trees_check(trees, operation, root, sentence, sizeof sentence) == dfcclInvalidArgument,
        "wrong trees are taken: %s", part);
  CHECK(strstr(sentence, part) != NULL, "\"%s\" lacks \"%s\"", sentence, part);
}

DF_TEST(trees, wrong_trees_are_refused, 20) {
  df_trees trees;
  df_trees_begin(&trees, 4);
  expect_refused(&trees, DF_OP_ALL_REDUCE, 0, "0 trees of 4 members");
  uint16_t *parent = df_trees_add(&trees, 1, 2);
  CHECK(parent != NULL, "no memory");
  expect_refused(&trees, DF_OP_ALL_TO_ALL, 0, "for AllToAll");
  expect_refused(&trees, DF_OP_BROADCAST, 0, "the root of tree 0 is member 1, not the root 0");
  expect_refused(&trees, DF_OP_ALL_GATHER, 0,
                 "member 1 is the root of 2 pieces, and member 0 of 0");
  parent[2] = 3, parent[3] = 2;
  expect_refused(&trees, DF_OP_ALL_REDUCE, 0, "tree 0 has a circle");
  parent[2] = 2;
  expect_refused(&trees, DF_OP_ALL_REDUCE, 0, "the parent of member 2 is 2");
  parent[2] = 4;
  expect_refused(&trees, DF_OP_ALL_REDUCE, 0, "the parent of member 2 is 4");
  parent[2] = parent[3] = 1;
  parent[1] = 0;
  expect_refused(&trees, DF_OP_ALL_REDUCE, 0, "the parent of member 1 is 0");
  parent[1] = 1;
  trees.trees[0].weight = 0;
  expect_refused(&trees, DF_OP_ALL_REDUCE, 0, "0 pieces");
  trees.trees[0].weight = DF_TREES_PIECES_MOST + 1;
  expect_refused(&trees, DF_OP_ALL_REDUCE, 0, "more than 4096 pieces");
  trees.trees[0] = (df_tree){4, 1};
  expect_refused(&trees, DF_OP_ALL_REDUCE, 0, "root 4");
  df_trees_free(&trees);
}

/* A chain: each member but the ends receives and sends in one primitive. */
static void expect_pipeline(df_operation operation) {
  enum { N = 6, PIECES = 5 };
  df_trees trees;
  df_trees_begin(&trees, N);
  uint16_t *parent = df_trees_add(&trees, 0, PIECES);
  CHECK(parent != NULL, "no memory");
  for (uint32_t v = 1; v < N; v++) parent[v] = (uint16_t)(v - 1);
  for (uint32_t r = 0; r < N; r++) {
    const df_plan_key key = {
        .operation = operation, .algorithm = DF_TREES, .n = N, .position = r, .trees = &trees};
    df_plan *plan = df_plan_make(&key);
    CHECK(plan != NULL, "no memory");
    CHECK(plan->n_primitives == PIECES, "%s: rank %u has %u primitives",
          df_operation_name(operation), r, plan->n_primitives);
    CHECK(plan->scratch_pieces == 0, "%s: scratch pieces", df_operation_name(operation));
    df_plan_free(plan);
  }
  df_trees_free(&trees);
}

DF_TEST(trees, a_chain_is_a_pipeline, 20) {
  expect_pipeline(DF_OP_REDUCE);
  expect_pipeline(DF_OP_BROADCAST);
}
