/*
 * Broadcast as a scatter and an all-gather in a ring (Barnett et al., SHPCC 1994; Thakur,
 * Rabenseifner and Gropp, IJHPCA 2005, section 4.2). The root sends its buffer less than twice, so
 * it is for large buffers. Member v is counted from the root.
 */
#include "plans/build.h"

void df_plan_scatter_allgather(df_plan *plan) {
  uint32_t n = plan->key.n, root = plan->key.root;
  uint32_t v = (plan->key.position + n - root) % n, next = (plan->key.position + 1) % n;
  plan->geometry = DF_GEOMETRY_PARTITION;
  plan->pieces = n;
  if (v == 0) { /* the root has all pieces, so it receives none from the ring */
    for (uint32_t i = 1; i < n; i++)
      df_plan_copy(plan, 0, i, (root + i) % n, df_input(i), df_output(i));
    df_plan_copy(plan, 0, 0, next, df_input(0), df_output(0));
    for (uint32_t i = n - 1; i >= 2; i--) df_plan_send(plan, i, next, df_output(i));
    return;
  }
  uint32_t before = (plan->key.position + n - 1) % n, to = v + 1 < n ? next : DF_NO_PEER;
  df_plan_receive(plan, v, root, to, df_output(v));
  for (uint32_t s = 1; s < n; s++) {
    uint32_t piece = (v + n - s) % n; /* the last piece of the ring is the next member's own */
    df_plan_receive(plan, piece, before, s + 1 < n ? to : DF_NO_PEER, df_output(piece));
  }
}
