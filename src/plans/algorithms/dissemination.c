/*
 * Barrier by dissemination (Hensgen, Finkel and Manber, IJPP 1988): in round k each member sends a
 * message to the member 2^k positions further, so after ceil(log2 n) rounds each member depends on
 * all others. A message is one byte of scratch memory without meaning.
 */
#include "plans/build.h"

void df_plan_dissemination(df_plan *plan) {
  const uint32_t n = plan->key.n, r = plan->key.position;
  plan->geometry = DF_GEOMETRY_PARTITION;
  plan->scratch_pieces = 1;
  for (uint32_t d = 1; d < n; d *= 2) {
    df_plan_send(plan, 0, (r + d) % n, df_scratch(0));
    df_plan_receive_empty(plan, (r + n - d) % n);
  }
}
