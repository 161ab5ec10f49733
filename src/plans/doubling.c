/*
 * Recursive doubling (Thakur, Rabenseifner and Gropp, IJHPCA 2005, sections 4.1 and 4.5): in round
 * k partners at distance 2^k exchange all they have. log2(n) rounds, for small buffers.
 */
#include "plans/build.h"

/*
 * Both partners reduce in the group's order, so all get the same bits. Scratch memory is never
 * lent: peers may still read when the next round overwrites it.
 */
void df_plan_doubling_among(df_plan *plan, uint32_t n, uint32_t stride, uint32_t me,
                            df_place start) {
  df_fold fold = df_fold_of(n);
  uint32_t average = df_plan_average(plan);
  if (df_fold_is_guest(fold, me)) {
    df_plan_send(plan, 0, (me + 1) * stride, start);
    df_plan_receive(plan, 0, (me + 1) * stride, DF_NO_PEER, df_output(0));
    return;
  }
  uint32_t v = df_fold_index(fold, me), guest = DF_NO_PEER;
  df_place own = start;
  uint32_t first = df_fold_member(fold, v ^ 1) * stride;
  if (df_fold_is_host(fold, me)) {
    guest = (me - 1) * stride;
    df_plan_reduce(plan, 0, 0, guest, first, own, df_scratch(0));
    own = df_scratch(0);
  } else {
    df_plan_send(plan, 0, first, own);
  }
  for (uint32_t d = 1; d < fold.size; d *= 2) {
    uint32_t partner = df_fold_member(fold, v ^ d) * stride;
    uint32_t order = df_plan_order(v, v ^ d);
    if (d * 2 < fold.size) {
      uint32_t next = df_fold_member(fold, v ^ (d * 2)) * stride;
      df_plan_reduce(plan, order, 0, partner, next, own, df_scratch(0));
      own = df_scratch(0);
    } else {
      df_plan_reduce(plan, order | average, 0, partner, guest, own, df_output(0));
    }
  }
}

/* The at-th piece of `index` and the d-1 indices beside it; 0: none. One at a time, so two slots
 * suffice. */
static int piece_at(df_fold fold, uint32_t index, uint32_t d, uint32_t at, uint32_t *piece) {
  uint32_t first = df_fold_first(fold, index & ~(d - 1));
  uint32_t last = (index & ~(d - 1)) + d - 1;
  *piece = first + at;
  return *piece < df_fold_first(fold, last) + df_fold_count(fold, last);
}

static void all_gather(df_plan *plan) {
  uint32_t n = plan->key.n, r = plan->key.position, piece;
  df_fold fold = df_fold_of(n);
  plan->geometry = DF_GEOMETRY_PIECES;
  plan->pieces = n;
  if (df_fold_is_guest(fold, r)) {
    df_plan_copy(plan, 0, r, r + 1, df_input(0), df_output(r));
    for (piece = 0; piece < n; piece++)
      if (piece != r) df_plan_receive(plan, piece, r + 1, DF_NO_PEER, df_output(piece));
    return;
  }
  uint32_t v = df_fold_index(fold, r);
  df_plan_copy(plan, 0, r, DF_NO_PEER, df_input(0), df_output(r));
  if (df_fold_is_host(fold, r)) df_plan_receive(plan, r - 1, r - 1, DF_NO_PEER, df_output(r - 1));
  for (uint32_t d = 1; d < fold.size; d *= 2) {
    uint32_t partner = df_fold_member(fold, v ^ d);
    for (uint32_t at = 0, more = 1; more; at++) {
      more = 0;
      if (piece_at(fold, v, d, at, &piece)) {
        df_plan_send(plan, piece, partner, df_output(piece));
        more = 1;
      }
      if (piece_at(fold, v ^ d, d, at, &piece)) {
        df_plan_receive(plan, piece, partner, DF_NO_PEER, df_output(piece));
        more = 1;
      }
    }
  }
  if (!df_fold_is_host(fold, r)) return;
  for (piece = 0; piece < n; piece++)
    if (piece != r - 1) df_plan_send(plan, piece, r - 1, df_output(piece));
}

void df_plan_doubling(df_plan *plan) {
  if (plan->key.operation == DF_OP_ALL_GATHER) {
    all_gather(plan);
    return;
  }
  if (df_operation_is_scan(plan->key.operation)) {
    df_plan_scan_doubling(plan);
    return;
  }
  plan->geometry = DF_GEOMETRY_PARTITION;
  plan->scratch_pieces = 1;
  plan->direct_in_place = 0; /* the partner may still read the input */
  df_plan_doubling_among(plan, plan->key.n, 1, plan->key.position, df_input(0));
}
