/*
 * Flat trees: one rank exchanges with all (Thakur, Rabenseifner and Gropp, IJHPCA 2005, section 4:
 * linear). One crossing, all the root's work: for small buffers. All-reduce: two crossings through
 * position 0.
 */
#include "plans/build.h"

/* In the group's order from the root on. */
static void collect(df_plan *plan, uint32_t root) {
  uint32_t n = plan->key.n;
  df_place own = df_input(0);
  for (uint32_t s = 1; s < n; s++) {
    int last = s + 1 == n;
    df_plan_reduce(plan, DF_PRIM_SOURCE_FIRST | (last ? df_plan_average(plan) : 0), 0,
                   (root + s) % n, DF_NO_PEER, own, last ? df_output(0) : df_scratch(0));
    own = df_scratch(0);
  }
}

static void spread(df_plan *plan, uint32_t root) {
  uint32_t n = plan->key.n, s = 1;
  if (plan->key.operation == DF_OP_BROADCAST)
    df_plan_copy(plan, 0, 0, (root + s++) % n, df_input(0), df_output(0));
  for (; s < n; s++) df_plan_send(plan, 0, (root + s) % n, df_output(0));
}

void df_plan_flat(df_plan *plan) {
  uint32_t root = plan->key.operation == DF_OP_ALL_REDUCE ? 0 : plan->key.root;
  int sums = plan->key.operation != DF_OP_BROADCAST;
  int spreads = plan->key.operation != DF_OP_REDUCE;
  plan->geometry = DF_GEOMETRY_PARTITION;
  plan->scratch_pieces = sums && plan->key.n > 2;
  if (plan->key.position == root) {
    if (sums) collect(plan, root);
    if (spreads) spread(plan, root);
    return;
  }
  if (sums) df_plan_send(plan, 0, root, df_input(0));
  if (spreads) df_plan_receive(plan, 0, root, DF_NO_PEER, df_output(0));
}
