/* The plans of all positions of a group, and their proof. */
#ifndef DF_TESTS_GROUP_PLANS_H
#define DF_TESTS_GROUP_PLANS_H

#include "plans/check/check.h"
#include "support/harness.h"

typedef struct group_plans {
  df_plan *plans[DF_PLAN_CHECK_MAX_RANKS];
  uint32_t n;
} group_plans;

static inline group_plans make_group(df_plan_key key) {
  group_plans g = {.n = key.n};
  for (key.position = 0; key.position < key.n; key.position++) {
    g.plans[key.position] = df_plan_make(&key);
    CHECK(g.plans[key.position] != NULL, "no plan");
  }
  return g;
}

static inline void drop_group(group_plans *g) {
  for (uint32_t r = 0; r < g->n; r++) df_plan_free(g->plans[r]);
}

static inline int is_proven(const group_plans *g, const df_plan_check_options *o,
                            char sentence[DF_SENTENCE_BYTES]) {
  dfcclResult_t result = df_plan_check(g->plans, o, sentence, DF_SENTENCE_BYTES);
  CHECK(result == dfcclSuccess || result == dfcclInvalidArgument, "%s: %s", df_result_name(result),
        sentence);
  return result == dfcclSuccess;
}

#endif
