/*
 * Agreement of a varying run in operations whose data flows one way (broadcast, reduce ...): no
 * member ends the run before all members' counts have been compared. All other operations need no
 * agreement, because each result depends on data of all members.
 *
 * The messages have no elements and exist only in the first loop of a run. They go from the leaves
 * of a binomial tree to the root, and back (the tree of Thakur, Rabenseifner and Gropp, IJHPCA
 * 2005, section 4). In a reduce or a gather, the data itself has come from all members to the root.
 */
#include "plans/build.h"

static void pass(df_plan *plan, uint32_t flags, uint32_t v) {
  const uint32_t peer = (v + plan->key.root) % plan->key.n;
  df_plan_add(
      plan,
      (df_step_spec){.flags = flags, .piece = DF_PIECE_NONE, .recv_from = peer, .send_to = peer});
}

void df_plan_agree(df_plan *plan) {
  const uint32_t n = plan->key.n, v = (plan->key.position + n - plan->key.root) % n;
  const uint32_t span = v ? v & -v : n; /* children are v + 1, v + 2, v + 4, ... */
  if (plan->key.operation != DF_OP_REDUCE && plan->key.operation != DF_OP_GATHER) {
    for (uint32_t d = 1; d < span && v + d < n; d *= 2) pass(plan, DF_PRIM_RECV, v + d);
    if (v) pass(plan, DF_PRIM_SEND, v & (v - 1));
  }
  if (v) pass(plan, DF_PRIM_RECV, v & (v - 1));
  for (uint32_t d = 1; d < span && v + d < n; d *= 2) pass(plan, DF_PRIM_SEND, v + d);
}
