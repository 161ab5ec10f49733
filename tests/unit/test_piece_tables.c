/*
 * Promises of src/plans/algorithms/piece_tables.h: for random counts with zeros, groups of 1 to 16
 * ranks and some up to 64, each operation of uneven pieces
 *   - is proven symbolically (plans/check/check.h), whatever messages lend their buffers, with
 *     links of two slots, also ReduceScatterV and AllGatherV by subgroups;
 *   - cuts pieces into chunks without gap or overlap, and counts its steps beforehand.
 * The checker finds a chunk that goes to a wrong place, and ends that differ in a length.
 */
#include <stdlib.h>
#include <string.h>

#include "plans/check/check.h"
#include "plans/algorithms/piece_tables.h"
#include "support/harness.h"

enum { CHUNK = 16, MOST = DF_PLAN_CHECK_MAX_RANKS };

typedef struct group_plans {
  df_plan *plans[MOST];
  uint64_t steps[MOST];
  uint32_t n;
} group_plans;

/* counts[i][j]: from position i to position j */
static uint32_t counts[MOST][MOST];

static uint32_t draw_count(df_random *random) {
  if (df_random_chance(random, 30)) return 0;
  return (uint32_t)df_random_below(random, df_random_chance(random, 50) ? 5 * CHUNK : CHUNK + 1);
}

static void draw_counts(df_operation operation, uint32_t n, uint32_t root, df_random *random) {
  for (uint32_t i = 0; i < n; i++) {
    const uint32_t own = draw_count(random);
    for (uint32_t j = 0; j < n; j++) {
      uint32_t *count = &counts[i][j];
      *count = operation == DF_OP_ALL_GATHER_V ? own : draw_count(random);
      if (operation == DF_OP_GATHER_V && j != root) *count = 0;
      if (operation == DF_OP_SCATTER_V && i != root) *count = 0;
      if (operation == DF_OP_NEIGHBOURS && df_random_chance(random, 60)) *count = 0;
      if (operation == DF_OP_REDUCE_SCATTER_V && i > 0) *count = counts[0][j];
    }
  }
}

/* Positions in a turned order: any order is legal, as long as it is that of the items. */
static void make_lists(df_operation operation, uint32_t n, uint32_t r, df_list_item *items,
                       df_lists *lists) {
  uint64_t sent = 0, received = 0;
  *lists = (df_lists){.sends = items, .receives = items + n};
  for (uint32_t s = 0; s < n; s++) {
    const uint32_t peer = (r + s) % n;
    if (counts[r][peer])
      items[lists->n_sends++] =
          (df_list_item){peer, operation == DF_OP_ALL_GATHER_V ? 0 : sent, counts[r][peer]};
    if (counts[peer][r])
      items[n + lists->n_receives++] =
          (df_list_item){peer, operation == DF_OP_REDUCE_SCATTER_V ? 0 : received, counts[peer][r]};
    sent += counts[r][peer] + 3;
    received += counts[peer][r] + 3;
  }
}

static group_plans make(df_plan_key key) {
  static df_list_item items[2 * MOST];
  group_plans g = {.n = key.n};
  for (key.position = 0; key.position < key.n; key.position++) {
    df_lists lists;
    make_lists(key.operation, key.n, key.position, items, &lists);
    g.steps[key.position] = df_lists_steps(&lists, CHUNK);
    g.plans[key.position] = df_plan_make_piece_table(&key, &lists, CHUNK);
    CHECK(g.plans[key.position] != NULL, "no plan");
  }
  return g;
}

static void drop(group_plans *g) {
  for (uint32_t r = 0; r < g->n; r++) df_plan_free(g->plans[r]);
}

static int proven(const group_plans *g, df_plan_lending lending, uint64_t seed,
                  char sentence[DF_SENTENCE_BYTES]) {
  const df_plan_check_options o = {.slots = 2, .loops = 1, .lending = lending, .seed = seed};
  return df_plan_check(g->plans, &o, sentence, DF_SENTENCE_BYTES) == dfcclSuccess;
}

/* Chunks of one piece lie one behind the other. */
static void check_extents(const group_plans *g) {
  for (uint32_t r = 0; r < g->n; r++) {
    const df_plan *plan = g->plans[r];
    CHECK(plan->n_primitives <= g->steps[r], "%u primitives, %llu steps", plan->n_primitives,
          (unsigned long long)g->steps[r]);
    for (uint32_t i = 0; i < plan->n_extents; i++) {
      const df_plan_name *name = &plan->names[i];
      CHECK(plan->extents[i].elements >= 1 && plan->extents[i].elements <= CHUNK, "a length");
      for (uint32_t k = 0; k < plan->n_extents; k++)
        if (plan->names[k].from == name->from && plan->names[k].to == name->to &&
            plan->names[k].output == name->output && plan->names[k].chunk == name->chunk + 1)
          CHECK(plan->extents[k].at == plan->extents[i].at + CHUNK, "rank %u, chunk %u", r,
                name->chunk);
    }
  }
}

static void prove(df_operation operation, uint32_t n, uint32_t split, df_random *random) {
  char sentence[DF_SENTENCE_BYTES];
  df_plan_key key = {.operation = operation, .algorithm = DF_DIRECT, .n = n, .split = split};
  key.root = (uint32_t)df_random_below(random, (int)n);
  key.average = operation == DF_OP_REDUCE_SCATTER_V && n > 1 && df_random_chance(random, 50);
  draw_counts(operation, n, key.root, random);
  group_plans g = make(key);
  for (df_plan_lending lending = DF_LENDS_NOTHING; lending <= DF_LENDS_SOME; lending++)
    CHECK(proven(&g, lending, df_random_next(random), sentence), "%s", sentence);
  if (n <= 16) check_extents(&g);
  drop(&g);
}

DF_TEST(listed, groups_up_to_16, 120) {
  df_random random = {4};
  for (int operation = DF_OP_COUNT; operation <= DF_OP_NEIGHBOURS; operation++)
    for (uint32_t n = 1; n <= 16; n++)
      for (int round = 0; round < 10; round++) prove((df_operation)operation, n, 0, &random);
}

DF_TEST(listed, larger_groups, 120) {
  static const uint32_t sizes[] = {17, 31, 48, 64};
  df_random random = {5};
  for (int operation = DF_OP_COUNT; operation <= DF_OP_NEIGHBOURS; operation++)
    for (size_t i = 0; i < (df_slowdown() > 1 ? 1 : DF_COUNT_OF(sizes)); i++)
      prove((df_operation)operation, sizes[i], 0, &random);
}

static void expect_found(group_plans *g, const char *word) {
  char sentence[DF_SENTENCE_BYTES] = "";
  CHECK(!proven(g, DF_LENDS_NOTHING, 0, sentence), "not found: %s", word);
  CHECK(strstr(sentence, word) != NULL, "found as \"%s\"", sentence);
}

static group_plans full_exchange(void) {
  for (uint32_t i = 0; i < 3; i++)
    for (uint32_t j = 0; j < 3; j++) counts[i][j] = CHUNK + 1 + i;
  return make((df_plan_key){.operation = DF_OP_ALL_TO_ALL_V, .algorithm = DF_DIRECT, .n = 3});
}

DF_TEST(listed, planted_mistakes_are_found, 30) {
  group_plans g = full_exchange();
  df_plan *plan = g.plans[1];
  uint32_t last = plan->n_primitives;
  while (!(plan->primitives[last - 1].flags & DF_PRIM_RECV)) last--;
  df_primitive *prim = &plan->primitives[last - 1];
  const df_primitive right = *prim;
  prim->destination_piece = (uint16_t)(plan->n_extents);
  expect_found(&g, "which has");
  *prim = right;
  plan->extents[prim->piece].elements++;
  expect_found(&g, "elements from rank");
  plan->extents[prim->piece].elements--;
  uint32_t first = 0;
  while (!(plan->primitives[first].flags & DF_PRIM_RECV)) first++;
  prim->destination_piece = plan->primitives[first].destination_piece;
  expect_found(&g, "chunk");
  *prim = right;
  prim->piece = (uint16_t)plan->n_extents;
  expect_found(&g, "piece");
  drop(&g);
}

DF_TEST(listed, subgroups_of_any_size, 120) {
  df_random random = {6};
  for (uint32_t n = 2; n <= 24; n++)
    for (uint32_t split = 1; split <= n; split++)
      for (int round = 0; round < 6 && n % split == 0; round++)
        for (int gathers = 0; gathers < 2; gathers++)
          prove(gathers ? DF_OP_ALL_GATHER_V : DF_OP_REDUCE_SCATTER_V, n, split, &random);
}

/* Data for another subgroup is reduced in the own subgroup, or is forwarded there: one message for
 * each piece and subgroup, in place of one for each pair of members. */
DF_TEST(listed, subgroups_send_each_piece_once, 10) {
  static const df_operation operations[] = {DF_OP_REDUCE_SCATTER_V, DF_OP_ALL_GATHER_V};
  for (uint32_t i = 0; i < 6; i++)
    for (uint32_t j = 0; j < 6; j++) counts[i][j] = CHUNK;
  for (size_t o = 0; o < DF_COUNT_OF(operations); o++) {
    group_plans g =
        make((df_plan_key){.operation = operations[o], .algorithm = DF_DIRECT, .n = 6, .split = 3});
    uint32_t far = 0;
    for (uint32_t r = 0; r < 6; r++)
      for (uint32_t i = 0; i < g.plans[r]->n_links; i++) {
        const df_plan_link *link = &g.plans[r]->links[i];
        far += link->sends && link->peer / 3 != r / 3 ? link->messages : 0;
      }
    CHECK(far == 6, "%u messages", far);
    drop(&g);
  }
}
