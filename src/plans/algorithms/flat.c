/*
 * Flat trees: one rank exchanges data with all others (Thakur, Rabenseifner and Gropp, IJHPCA 2005,
 * section 4: linear). There is one crossing, and the root does all the work. This suits small
 * buffers, and gather and scatter, whose data the root has to access in any case. All-reduce and
 * barrier need two crossings through position 0.
 */
#include "plans/build.h"

/* Reduces in the order of the group, starting at the root. */
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

static void gather(df_plan *plan) {
  const uint32_t n = plan->key.n, root = plan->key.root, r = plan->key.position;
  if (r != root) {
    df_plan_send(plan, r, root, df_input(0));
    return;
  }
  df_plan_copy(plan, 0, root, DF_NO_PEER, df_input(0), df_output(root));
  for (uint32_t s = 1; s < n; s++) {
    const uint32_t from = (root + s) % n;
    df_plan_receive(plan, from, from, DF_NO_PEER, df_output(from));
  }
}

static void scatter(df_plan *plan) {
  const uint32_t n = plan->key.n, root = plan->key.root, r = plan->key.position;
  if (r != root) {
    df_plan_receive(plan, r, root, DF_NO_PEER, df_output(0));
    return;
  }
  for (uint32_t s = 1; s < n; s++) {
    const uint32_t to = (root + s) % n;
    df_plan_send(plan, to, to, df_input(to));
  }
  df_plan_copy(plan, 0, root, DF_NO_PEER, df_input(root), df_output(0));
}

static void barrier(df_plan *plan) {
  plan->geometry = DF_GEOMETRY_PARTITION;
  plan->scratch_pieces = 1;
  if (plan->key.position != 0) {
    df_plan_send(plan, 0, 0, df_scratch(0));
    df_plan_receive_empty(plan, 0);
    return;
  }
  for (uint32_t s = 1; s < plan->key.n; s++) df_plan_receive_empty(plan, s);
  for (uint32_t s = 1; s < plan->key.n; s++) df_plan_send(plan, 0, s, df_scratch(0));
}

static void reduce_or_broadcast(df_plan *plan) {
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

void df_plan_flat(df_plan *plan) {
  plan->geometry = DF_GEOMETRY_PIECES;
  plan->pieces = plan->key.n;
  switch (plan->key.operation) {
  case DF_OP_GATHER:
    gather(plan);
    break;
  case DF_OP_SCATTER:
    scatter(plan);
    break;
  case DF_OP_BARRIER:
    plan->pieces = 1;
    barrier(plan);
    break;
  default:
    plan->pieces = 1;
    reduce_or_broadcast(plan);
  }
}
