/*
 * Bruck's algorithms (Bruck et al., IEEE TPDS 1997, sections 3 and 4): log2(n) rounds for any n,
 * for small pieces in large groups. Pieces go to their place at once: no rotations.
 */
#include "plans/build.h"

/* After distance d this rank has the pieces r to r + 2d - 1. */
static void all_gather(df_plan *plan) {
  uint32_t n = plan->key.n, r = plan->key.position;
  df_plan_copy(plan, 0, r, DF_NO_PEER, df_input(0), df_output(r));
  for (uint32_t d = 1; d < n; d *= 2) {
    uint32_t to = (r + n - d) % n, from = (r + d) % n;
    for (uint32_t i = 0; i < DF_MIN(d, n - d); i++) {
      uint32_t have = (r + i) % n, get = (from + i) % n;
      df_plan_send(plan, have, to, df_output(have));
      df_plan_receive(plan, get, from, DF_NO_PEER, df_output(get));
    }
  }
}

/*
 * A piece that travels j positions moves in the rounds of j's bits, and waits in place j of
 * scratch. So does an arrived piece: in place, the output may still hold a piece to send.
 */
static void all_to_all(df_plan *plan) {
  uint32_t n = plan->key.n, r = plan->key.position;
  plan->scratch_pieces = n;
  plan->direct_in_place = 0;
  for (uint32_t d = 1; d < n; d *= 2)
    for (uint32_t j = d; j < n; j++) {
      if (!(j & d)) continue;
      int first = (j & (d - 1)) == 0;
      uint32_t piece = (r + j) % n;
      df_plan_send(plan, 0, (r + d) % n, first ? df_input(piece) : df_scratch(j));
      df_plan_receive(plan, 0, (r + n - d) % n, DF_NO_PEER, df_scratch(j));
    }
  df_plan_copy(plan, 0, r, DF_NO_PEER, df_input(r), df_output(r));
  for (uint32_t j = 1; j < n; j++)
    df_plan_copy(plan, 0, r, DF_NO_PEER, df_scratch(j), df_output((r + n - j) % n));
}

void df_plan_bruck(df_plan *plan) {
  plan->geometry = DF_GEOMETRY_PIECES;
  plan->pieces = plan->key.n;
  if (plan->key.operation == DF_OP_ALL_GATHER)
    all_gather(plan);
  else
    all_to_all(plan);
}
