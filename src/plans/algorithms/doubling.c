/*
 * Recursive doubling (Thakur, Rabenseifner and Gropp, IJHPCA 2005, sections 4.1 and 4.5): in round
 * k partners at distance 2^k exchange all data that they have. log2(n) rounds, for small buffers.
 */
#include "plans/build.h"

static uint32_t position_of(const df_among *among, uint32_t member) {
  return among->positions ? among->positions[member] : member * among->stride;
}

/*
 * Both partners reduce in the order of the group, so all ranks have the same bits. Scratch memory
 * is never lent, because peers may still read it when the next round overwrites it.
 */
void df_plan_doubling_among(df_plan *plan, df_among among, uint32_t piece, df_place start) {
  const uint32_t me = among.me, average = df_plan_average(plan);
  const df_fold fold = df_fold_of(among.n);
  if (df_fold_is_folded(fold, me)) {
    df_plan_send(plan, piece, position_of(&among, me + 1), start);
    df_plan_receive(plan, piece, position_of(&among, me + 1), DF_NO_PEER, df_output(piece));
    return;
  }
  uint32_t v = df_fold_index(fold, me), folded = DF_NO_PEER;
  df_place own = start;
  uint32_t first = position_of(&among, df_fold_member(fold, v ^ 1));
  if (df_fold_is_host(fold, me)) {
    folded = position_of(&among, me - 1);
    df_plan_reduce(plan, 0, piece, folded, first, own, df_scratch(piece));
    own = df_scratch(piece);
  } else {
    df_plan_send(plan, piece, first, own);
  }
  for (uint32_t d = 1; d < fold.size; d *= 2) {
    uint32_t partner = position_of(&among, df_fold_member(fold, v ^ d));
    uint32_t order = df_plan_order(v, v ^ d);
    if (d * 2 < fold.size) {
      uint32_t next = position_of(&among, df_fold_member(fold, v ^ (d * 2)));
      df_plan_reduce(plan, order, piece, partner, next, own, df_scratch(piece));
      own = df_scratch(piece);
    } else {
      df_plan_reduce(plan, order | average, piece, partner, folded, own, df_output(piece));
    }
  }
}

static void all_gather(df_plan *plan) {
  uint32_t n = plan->key.n, r = plan->key.position, piece;
  df_fold fold = df_fold_of(n);
  plan->geometry = DF_GEOMETRY_PIECES;
  plan->pieces = n;
  const uint32_t others = df_plan_row(plan, n - 1); /* all pieces except the folded member's */
  df_plan_set_longest(plan, fold.extra ? n - 1 : DF_MAX(n / 2, 1u));
  if (df_fold_is_folded(fold, r)) {
    df_plan_copy(plan, 0, r, r + 1, df_input(0), df_output(r));
    for (uint32_t at = 1; at < n; at += others) {
      piece = (r + at) % n;
      df_plan_receive(plan, piece, r + 1, DF_NO_PEER, df_output(piece));
      df_plan_widen(plan, DF_MIN(others, n - at), 1);
    }
    return;
  }
  uint32_t v = df_fold_index(fold, r);
  df_plan_copy(plan, 0, r, DF_NO_PEER, df_input(0), df_output(r));
  if (df_fold_is_host(fold, r)) df_plan_receive(plan, r - 1, r - 1, DF_NO_PEER, df_output(r - 1));
  for (uint32_t d = 1; d < fold.size; d *= 2) {
    uint32_t partner = df_fold_member(fold, v ^ d);
    const df_fold_members have = df_fold_range(fold, v, d), get = df_fold_range(fold, v ^ d, d);
    /* One message is ahead of those that have been received, so that two slots suffice. */
    const uint32_t row = df_plan_row(plan, n);
    for (uint32_t at = 0; at < DF_MAX(have.n, get.n + row); at += row) {
      if (at < have.n) {
        df_plan_send(plan, have.first + at, partner, df_output(have.first + at));
        df_plan_widen(plan, DF_MIN(row, have.n - at), 1);
      }
      if (at >= row && at - row < get.n) {
        piece = get.first + at - row;
        df_plan_receive(plan, piece, partner, DF_NO_PEER, df_output(piece));
        df_plan_widen(plan, DF_MIN(row, get.n - (at - row)), 1);
      }
    }
  }
  if (!df_fold_is_host(fold, r)) return;
  for (uint32_t at = 0; at + 1 < n; at += others) {
    piece = (r + at) % n;
    df_plan_send(plan, piece, r - 1, df_output(piece));
    df_plan_widen(plan, DF_MIN(others, n - 1 - at), 1);
  }
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
  df_plan_doubling_among(plan, (df_among){plan->key.n, plan->key.position, 1, NULL}, 0,
                         df_input(0));
}
