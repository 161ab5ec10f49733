/*
 * Settling round: a run ends on a member only when all members have their data. Without it a rank
 * could end a run and die, and the others, which lack a part of the data, would execute it again
 * without the dead rank: two results of one run (docs/design/membership.md).
 *
 * The messages have no elements, exist only in the last loop of a run, and follow all data. In
 * round k each member sends to the member 2^k positions further (dissemination: Hensgen, Finkel and
 * Manber, IJPP 1988), so after ceil(log2 n) rounds each member has heard from all.
 */
#include "plans/build.h"

void df_plan_settle(df_plan *plan) {
  const uint32_t n = plan->key.n, r = plan->key.position;
  df_step_spec spec = {.piece = DF_PIECE_SETTLES};
  for (uint32_t d = 1; d < n; d *= 2) {
    spec.flags = DF_PRIM_SEND;
    spec.send_to = (r + d) % n;
    df_plan_add(plan, spec);
    spec.flags = DF_PRIM_RECV;
    spec.recv_from = (r + n - d) % n;
    df_plan_add(plan, spec);
  }
}
