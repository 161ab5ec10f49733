/*
 * Recursive halving. Reduce-scatter: Thakur, Rabenseifner and Gropp (IJHPCA 2005, section 4.3).
 * All-reduce: Rabenseifner (ICCS 2004, section 3). 2 log2(n) rounds with no more bytes than a ring.
 */
#include "plans/build.h"

/* ---- all-reduce: piece i belongs to index i of the fold ---- */

/*
 * Sums live in the output, lent to the partner that takes their piece over. Only the final value
 * overwrites them, after the partner has read.
 */
static void reduce_scatter_pieces(df_plan *plan, df_fold fold, uint32_t v, int in_output) {
  for (uint32_t d = fold.size / 2; d >= 1; d /= 2) {
    uint32_t partner = df_fold_member(fold, v ^ d), order = df_plan_order(v, v ^ d);
    for (uint32_t i = 0; i < d; i++) {
      uint32_t keep = (v & ~(d - 1)) | i, give = keep ^ d;
      df_plan_send(plan, give, partner, in_output ? df_output(give) : df_input(give));
      df_place own = in_output ? df_output(keep) : df_input(keep);
      if (d > 1)
        df_plan_reduce(plan, order, keep, partner, DF_NO_PEER, own, df_output(keep));
      else /* final: it starts the all-gather */
        df_plan_reduce(plan, order | df_plan_average(plan), keep, partner, partner, own,
                       df_output(keep));
    }
    in_output = 1;
  }
}

static void all_gather_pieces(df_plan *plan, df_fold fold, uint32_t v) {
  for (uint32_t d = 1; d < fold.size; d *= 2) {
    uint32_t partner = df_fold_member(fold, v ^ d);
    for (uint32_t i = 0; i < d; i++) {
      uint32_t have = (v & ~(d - 1)) | i;
      if (d > 1) df_plan_send(plan, have, partner, df_output(have));
      df_plan_receive(plan, have ^ d, partner, DF_NO_PEER, df_output(have ^ d));
    }
  }
}

void df_plan_rabenseifner(df_plan *plan) {
  uint32_t r = plan->key.position;
  df_fold fold = df_fold_of(plan->key.n);
  plan->geometry = DF_GEOMETRY_PARTITION;
  plan->pieces = fold.size;
  if (df_fold_is_guest(fold, r)) {
    for (uint32_t i = 0; i < fold.size; i++) df_plan_send(plan, i, r + 1, df_input(i));
    for (uint32_t i = 0; i < fold.size; i++)
      df_plan_receive(plan, i, r + 1, DF_NO_PEER, df_output(i));
    return;
  }
  int host = df_fold_is_host(fold, r);
  for (uint32_t i = 0; host && i < fold.size; i++)
    df_plan_reduce(plan, 0, i, r - 1, DF_NO_PEER, df_input(i), df_output(i));
  reduce_scatter_pieces(plan, fold, df_fold_index(fold, r), host);
  all_gather_pieces(plan, fold, df_fold_index(fold, r));
  for (uint32_t i = 0; host && i < fold.size; i++) df_plan_send(plan, i, r - 1, df_output(i));
}

/* ---- reduce-scatter: piece i belongs to position i ---- */

/* The at-th piece of v and the d-1 indices beside it; 0: none. */
static int piece_of(df_fold fold, uint32_t v, uint32_t d, uint32_t at, uint32_t *piece) {
  uint32_t last = (v & ~(d - 1)) + d - 1;
  *piece = df_fold_first(fold, v & ~(d - 1)) + at;
  return *piece < df_fold_first(fold, last) + df_fold_count(fold, last);
}

static void finish(df_plan *plan, uint32_t order, uint32_t piece, uint32_t partner, df_place own) {
  int mine = piece == plan->key.position;
  df_plan_reduce(plan, order | df_plan_average(plan), piece, partner, mine ? DF_NO_PEER : piece,
                 own, mine ? df_output(0) : df_nowhere());
}

/* Sums live in scratch: the input must stay, and the output has room for one piece. */
void df_plan_halving(df_plan *plan) {
  uint32_t n = plan->key.n, r = plan->key.position, piece;
  df_fold fold = df_fold_of(n);
  plan->geometry = DF_GEOMETRY_PIECES;
  plan->pieces = n;
  plan->scratch_pieces = n;
  if (df_fold_is_guest(fold, r)) {
    for (piece = 0; piece < n; piece++) df_plan_send(plan, piece, r + 1, df_input(piece));
    df_plan_receive(plan, r, r + 1, DF_NO_PEER, df_output(0));
    return;
  }
  int summed = df_fold_is_host(fold, r);
  for (piece = 0; summed && piece < n; piece++)
    df_plan_reduce(plan, 0, piece, r - 1, DF_NO_PEER, df_input(piece), df_scratch(piece));
  uint32_t v = df_fold_index(fold, r);
  for (uint32_t d = fold.size / 2; d >= 1; d /= 2) {
    uint32_t partner = df_fold_member(fold, v ^ d), order = df_plan_order(v, v ^ d);
    for (uint32_t at = 0, more = 1; more; at++) {
      more = 0;
      if (piece_of(fold, v ^ d, d, at, &piece)) {
        df_plan_send(plan, piece, partner, summed ? df_scratch(piece) : df_input(piece));
        more = 1;
      }
      if (!piece_of(fold, v, d, at, &piece)) continue;
      more = 1;
      df_place own = summed ? df_scratch(piece) : df_input(piece);
      if (d > 1)
        df_plan_reduce(plan, order, piece, partner, DF_NO_PEER, own, df_scratch(piece));
      else
        finish(plan, order, piece, partner, own);
    }
    summed = 1;
  }
}
