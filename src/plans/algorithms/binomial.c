/*
 * Binomial trees: log2(n) rounds of whole chunks, for small buffers (Thakur, Rabenseifner and
 * Gropp, IJHPCA 2005, sections 4.2 and 4.4). Member v is counted from the root. The parent of v is
 * v without its lowest bit.
 */
#include "plans/build.h"

static uint32_t position_of(const df_plan *plan, uint32_t v) {
  return (v + plan->key.root) % plan->key.n;
}

/* Size of v's subtree. Children are v + 1, v + 2, v + 4, ... */
static uint32_t span(uint32_t v, uint32_t n) {
  const uint32_t most = v ? v & -v : n;
  return v + most < n ? most : n - v;
}

/* The largest subtree is served first, because it has the longest path. */
static void broadcast(df_plan *plan, uint32_t v) {
  uint32_t n = plan->key.n, d = 1;
  while (d * 2 < span(v, n)) d *= 2;
  int inner = d < span(v, n);
  uint32_t to = inner ? position_of(plan, v + d) : DF_NO_PEER;
  if (v == 0)
    df_plan_copy(plan, 0, 0, to, df_input(0), df_output(0));
  else
    df_plan_receive(plan, 0, position_of(plan, v & (v - 1)), to, df_output(0));
  for (d /= 2; inner && d >= 1; d /= 2)
    df_plan_send(plan, 0, position_of(plan, v + d), df_output(0));
}

/* Reduces in the order of the group, starting at the root. */
static void reduce(df_plan *plan, uint32_t v) {
  uint32_t n = plan->key.n;
  uint32_t parent = v ? position_of(plan, v & (v - 1)) : DF_NO_PEER;
  df_place own = df_input(0);
  for (uint32_t d = 1; d < span(v, n); d *= 2) {
    int last = d * 2 >= span(v, n);
    df_place into = !last ? df_scratch(0) : v ? df_nowhere() : df_output(0);
    uint32_t average = last && v == 0 ? df_plan_average(plan) : 0;
    df_plan_reduce(plan, DF_PRIM_SOURCE_FIRST | average, 0, position_of(plan, v + d),
                   last ? parent : DF_NO_PEER, own, into);
    own = df_scratch(0);
  }
  if (span(v, n) == 1) df_plan_send(plan, 0, parent, df_input(0));
}

void df_plan_binomial(df_plan *plan) {
  uint32_t n = plan->key.n, v = (plan->key.position + n - plan->key.root) % n;
  plan->geometry = DF_GEOMETRY_PARTITION;
  if (plan->key.operation == DF_OP_BROADCAST) {
    broadcast(plan, v);
  } else {
    plan->scratch_pieces = 1;
    reduce(plan, v);
  }
}
