/*
 * All-pairs all-reduce in one phase, as in MSCCL++ (Shah et al., 2025): each rank sends its whole
 * buffer to all others. Each reduces in the order of the group, so all ranks have the same bits. It
 * needs one crossing and n-1 times the bytes, so it is for small payloads.
 */
#include "plans/plan.h"

static void fold(df_plan *plan, uint32_t j, df_buffer destination, uint32_t average) {
  if (j == plan->key.position)
    df_plan_add(plan, (df_step_spec){.flags = DF_PRIM_REDUCE | DF_PRIM_STORE,
                                     .source = DF_BUFFER_INPUT,
                                     .destination = destination});
  else
    df_plan_add(plan, (df_step_spec){.flags = DF_PRIM_RECV | DF_PRIM_REDUCE | DF_PRIM_STORE |
                                              DF_PRIM_SOURCE_FIRST | average,
                                     .recv_from = j,
                                     .source = DF_BUFFER_SCRATCH,
                                     .destination = destination});
}

void df_plan_all_pairs(df_plan *plan) {
  uint32_t n = plan->key.n, r = plan->key.position;
  uint32_t average = plan->key.average ? DF_PRIM_AVERAGE : 0;
  plan->geometry = DF_GEOMETRY_PARTITION;
  plan->direct_in_place = 0; /* peers may still read what the result overwrites */
  for (uint32_t s = 1; s < n; s++)
    df_plan_add(
        plan,
        (df_step_spec){.flags = DF_PRIM_SEND, .send_to = (r + s) % n, .source = DF_BUFFER_INPUT});
  df_buffer first = n == 2 ? DF_BUFFER_OUTPUT : DF_BUFFER_SCRATCH;
  uint32_t first_average = n == 2 ? average : 0;
  if (r <= 1) {
    df_plan_add(plan, (df_step_spec){.flags = DF_PRIM_RECV | DF_PRIM_REDUCE | DF_PRIM_STORE |
                                              first_average | (r == 0 ? DF_PRIM_SOURCE_FIRST : 0u),
                                     .recv_from = 1 - r,
                                     .source = DF_BUFFER_INPUT,
                                     .destination = first});
  } else {
    df_plan_add(plan, (df_step_spec){.flags = DF_PRIM_RECV | DF_PRIM_STORE,
                                     .recv_from = 0,
                                     .destination = DF_BUFFER_SCRATCH});
    fold(plan, 1, DF_BUFFER_SCRATCH, 0);
  }
  if (n == 2) return;
  plan->scratch_pieces = 1;
  for (uint32_t j = 2; j < n; j++) fold(plan, j, DF_BUFFER_SCRATCH, 0);
  /* This step rounds once more, equally on every rank. */
  df_plan_add(plan, (df_step_spec){.flags = DF_PRIM_STORE | average,
                                   .source = DF_BUFFER_SCRATCH,
                                   .destination = DF_BUFFER_OUTPUT});
}
