/*
 * Reduction in the order of the group, for operators that do not commute (linear, as in Thakur,
 * Rabenseifner and Gropp, IJHPCA 2005, section 4). A member receives the contributions of the
 * others one after the other, and adds its own in its turn. Reduce: the root does this.
 * Reduce-scatter: each member does it for its piece. The receiver does all the work, as in a flat
 * tree.
 */
#include "plans/build.h"

static void collect(df_plan *plan, uint32_t piece, df_place own, df_place result) {
  const uint32_t n = plan->key.n, r = plan->key.position, average = df_plan_average(plan);
  for (uint32_t from = 0; from < n; from++) {
    const df_place into = from + 1 == n ? result : df_scratch(0);
    if (from == 0 && r == 0) continue; /* the first message is combined with the own input */
    if (from == r) {
      /* collected contributions (op) own input */
      df_plan_add(plan, (df_step_spec){.flags = DF_PRIM_REDUCE | DF_PRIM_STORE,
                                       .piece = piece,
                                       .source = own.buffer,
                                       .source_piece = own.piece,
                                       .destination = DF_BUFFER_SCRATCH});
    } else if (from == 0) {
      df_plan_receive(plan, piece, from, DF_NO_PEER, df_scratch(0));
    } else {
      df_plan_reduce(plan, DF_PRIM_SOURCE_FIRST | (from + 1 == n ? average : 0), piece, from,
                     DF_NO_PEER, from == 1 && r == 0 ? own : df_scratch(0), into);
    }
  }
  if (r + 1 == n) df_plan_copy(plan, average, piece, DF_NO_PEER, df_scratch(0), result);
}

void df_plan_ordered(df_plan *plan) {
  const uint32_t n = plan->key.n, r = plan->key.position, root = plan->key.root;
  plan->scratch_pieces = 1;
  if (plan->key.operation == DF_OP_REDUCE) {
    plan->geometry = DF_GEOMETRY_PARTITION;
    if (r == root)
      collect(plan, 0, df_input(0), df_output(0));
    else
      df_plan_send(plan, 0, root, df_input(0));
    return;
  }
  plan->geometry = DF_GEOMETRY_PIECES;
  plan->pieces = n;
  for (uint32_t s = 1; s < n; s++)
    df_plan_send(plan, (r + s) % n, (r + s) % n, df_input((r + s) % n));
  collect(plan, r, df_input(r), df_output(0));
}
