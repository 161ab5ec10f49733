/*
 * Pairwise exchange: in round k the partners are r and p with r + p = k (mod n). Each sends a chunk
 * before it overwrites it: correct in place, for any n.
 */
#include "plans/plan.h"

void df_plan_pairwise(df_plan *plan) {
  uint32_t n = plan->key.n, r = plan->key.position;
  plan->geometry = DF_GEOMETRY_PIECES;
  plan->pieces = n;
  plan->direct_in_place = 0; /* received chunks overwrite what would be lent */
  for (uint32_t k = 0; k < n; k++) {
    uint32_t partner = (k + n - r) % n;
    if (partner == r) {
      df_plan_add(plan, (df_step_spec){.flags = DF_PRIM_STORE,
                                       .source = DF_BUFFER_INPUT,
                                       .source_piece = r,
                                       .destination = DF_BUFFER_OUTPUT,
                                       .destination_piece = r});
      continue;
    }
    df_plan_add(plan, (df_step_spec){.flags = DF_PRIM_SEND,
                                     .piece = partner,
                                     .send_to = partner,
                                     .source = DF_BUFFER_INPUT,
                                     .source_piece = partner});
    df_plan_add(plan, (df_step_spec){.flags = DF_PRIM_RECV | DF_PRIM_STORE,
                                     .piece = partner,
                                     .recv_from = partner,
                                     .destination = DF_BUFFER_OUTPUT,
                                     .destination_piece = partner});
  }
}
