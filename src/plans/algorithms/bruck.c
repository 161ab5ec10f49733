/*
 * Bruck's algorithms (Bruck et al., IEEE TPDS 1997, sections 3 and 4): log2(n) rounds for any n,
 * for small pieces in large groups. Pieces are stored at their final place at once, so no rotations
 * are needed.
 */
#include "plans/build.h"

/* After distance d this rank has the pieces r to r + 2d - 1. */
static void all_gather(df_plan *plan) {
  uint32_t n = plan->key.n, r = plan->key.position;
  df_plan_copy(plan, 0, r, DF_NO_PEER, df_input(0), df_output(r));
  for (uint32_t d = 1; d < n; d *= 2) {
    uint32_t to = (r + n - d) % n, from = (r + d) % n;
    const uint32_t round = DF_MIN(d, n - d), row = df_plan_row(plan, round);
    df_plan_set_longest(plan, round);
    /* One message is ahead of those that have been received. */
    for (uint32_t i = 0; i < round + row; i += row) {
      const uint32_t have = (r + i) % n, get = (from + i + n - row) % n;
      if (i < round) {
        df_plan_send(plan, have, to, df_output(have));
        df_plan_widen(plan, DF_MIN(row, round - i), 1);
      }
      if (i < row) continue;
      df_plan_receive(plan, get, from, DF_NO_PEER, df_output(get));
      df_plan_widen(plan, DF_MIN(row, round - (i - row)), 1);
    }
  }
}

/* The pieces that travel j, j + stride ... positions move by d. */
static void pass(df_plan *plan, uint32_t d, uint32_t j, uint32_t pieces, uint32_t stride) {
  const uint32_t n = plan->key.n, r = plan->key.position;
  const int first = (j & (d - 1)) == 0;
  plan->longest = DF_MAX(plan->longest, pieces);
  df_plan_send(plan, 0, (r + d) % n, first ? df_input((r + j) % n) : df_scratch(j));
  df_plan_widen(plan, pieces, stride);
  df_plan_receive(plan, 0, (r + n - d) % n, DF_NO_PEER, df_scratch(j));
  df_plan_widen(plan, pieces, stride);
}

/*
 * Pieces with bit d are rows of d pieces. Only the first piece of a row is still in the input, so a
 * row needs two messages. If that gives fewer messages, all first pieces form one message, all
 * second pieces another, and so on.
 */
static void pass_several(df_plan *plan, uint32_t d) {
  const uint32_t n = plan->key.n, rows = DF_DIV_UP(n - d, 2 * d);
  for (uint32_t j = d; d <= 2 * rows && j < DF_MIN(2 * d, n); j++)
    pass(plan, d, j, DF_DIV_UP(n - j, 2 * d), 2 * d);
  for (uint32_t j = d; d > 2 * rows && j < n; j += 2 * d) {
    pass(plan, d, j, 1, 1);
    if (j + 1 < n) pass(plan, d, j + 1, DF_MIN(d - 1, n - j - 1), 1);
  }
}

/*
 * A piece that travels j positions moves in the rounds of the bits of j, and is stored at place j
 * of scratch memory in between. Arrived pieces stay there too: in place, the output may still
 * contain a piece that has to be sent.
 */
static void all_to_all(df_plan *plan) {
  uint32_t n = plan->key.n, r = plan->key.position;
  plan->scratch_pieces = n;
  plan->direct_in_place = 0;
  for (uint32_t d = 1; d < n; d *= 2) {
    if (df_plan_is_whole(plan)) pass_several(plan, d);
    for (uint32_t j = d; !df_plan_is_whole(plan) && j < n; j++)
      if (j & d) pass(plan, d, j, 1, 1);
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
