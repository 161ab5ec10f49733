/*
 * Promises of src/plans/cache.c: collectives with equal plans share one plan. Any difference in the
 * key makes another plan. A plan is freed with the last collective that uses it.
 */
#include <stdlib.h>

#include "host/state/context.h"
#include "support/harness.h"

enum { KEYS = 8, LEVELS = 3 };
static const df_plan_key keys[KEYS] = {
    {.operation = DF_OP_ALL_REDUCE, .algorithm = DF_TWO_LEVEL, .n = 8, .split = 2},
    {.operation = DF_OP_ALL_REDUCE, .algorithm = DF_TWO_LEVEL, .n = 8, .split = 4},
    {.operation = DF_OP_ALL_REDUCE, .algorithm = DF_TWO_LEVEL, .n = 8, .split = 2, .average = 1},
    {.operation = DF_OP_ALL_REDUCE, .algorithm = DF_TWO_LEVEL, .n = 8, .split = 2, .position = 1},
    {.operation = DF_OP_ALL_REDUCE, .algorithm = DF_TWO_LEVEL, .n = 6, .split = 2},
    {.operation = DF_OP_ALL_REDUCE, .algorithm = DF_RING, .n = 8, .split = 2},
    {.operation = DF_OP_REDUCE, .algorithm = DF_RING, .n = 8, .split = 2},
    {.operation = DF_OP_REDUCE, .algorithm = DF_RING, .n = 8, .split = 2, .root = 3}};

DF_TEST(plan_cache, what_differs_in_anything_is_another_plan, 30) {
  dfcclContext_t context = calloc(1, sizeof *context);
  df_plan *plans[KEYS];
  CHECK(context != NULL, "no memory");
  for (int i = 0; i < KEYS; i++) {
    plans[i] = df_plan_acquire(&context->plans, &keys[i]);
    CHECK(plans[i] != NULL, "no plan %d", i);
    for (int k = 0; k < i; k++) CHECK(plans[k] != plans[i], "%d and %d share a plan", k, i);
  }
  for (int i = 0; i < KEYS; i++) /* in whatever order they were made */
    CHECK(df_plan_acquire(&context->plans, &keys[i]) == plans[i], "%d does not share its plan", i);
  for (int i = 0; i < KEYS; i++) df_plan_release(&context->plans, plans[i]);
  for (int i = 0; i < KEYS; i++) /* each is there still */
    CHECK(df_plan_acquire(&context->plans, &keys[i]) == plans[i],
          "%d has gone before its collective", i);
  for (int i = 0; i < KEYS; i++) df_plan_release(&context->plans, plans[i]);
  for (int i = 0; i < KEYS; i++) df_plan_release(&context->plans, plans[i]);
  CHECK(context->plans.entries == NULL, "a plan is left");
  free(context);
}

/* The key of a hierarchical plan is the contents of the levels, not their address. */
DF_TEST(plan_cache, levels_are_part_of_the_key, 30) {
  dfcclContext_t context = calloc(1, sizeof *context);
  df_levels *levels[LEVELS] = {df_levels_of_neighbours(6, 3, 1), df_levels_of_neighbours(6, 3, 2),
                               df_levels_of_neighbours(6, 2, 1)};
  df_plan *plans[LEVELS];
  CHECK(context != NULL, "no memory");
  for (int i = 0; i < LEVELS; i++) {
    df_plan_key key = {.operation = DF_OP_ALL_REDUCE, .algorithm = DF_HIERARCHICAL, .n = 6};
    CHECK(levels[i] != NULL, "no memory");
    key.levels = levels[i];
    plans[i] = df_plan_acquire(&context->plans, &key);
    CHECK(plans[i] != NULL, "no plan %d", i);
    for (int k = 0; k < i; k++) CHECK(plans[k] != plans[i], "%d and %d share a plan", k, i);
    df_levels *again = df_levels_copy(levels[i]);
    CHECK(again != NULL, "no memory");
    free(levels[i]); /* the plan has its own */
    key.levels = again;
    CHECK(df_plan_acquire(&context->plans, &key) == plans[i], "%d does not share its plan", i);
    free(again);
  }
  for (int i = 0; i < 2 * LEVELS; i++) df_plan_release(&context->plans, plans[i / 2]);
  CHECK(context->plans.entries == NULL, "a plan is left");
  free(context);
}
