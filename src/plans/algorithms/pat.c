/*
 * PAT, parallel aggregated trees (Jeaugey, NVIDIA, 2025). An all-gather has Bruck's rounds in the
 * reverse order, so that the messages over large distances are the small ones. A reduce-scatter is
 * its mirror image. log2(n) rounds for any n. The *offset* of a rank is its distance from the owner
 * of a piece. In a round a piece goes from offset x, a multiple of 2d, to offset x + d.
 */
#include "plans/build.h"

/* A round: the offsets 0, 2d, 4d ... for which an offset d further exists. */
typedef struct round_of {
  uint32_t d, pieces, farthest; /* farthest: the last of these offsets */
} round_of;

static round_of round_at(uint32_t n, uint32_t d) {
  const uint32_t pieces = DF_DIV_UP(n - d, 2 * d);
  return (round_of){d, pieces, 2 * d * (pieces - 1)};
}

static uint32_t largest_power_below(uint32_t n) {
  uint32_t d = 1;
  while (2 * d < n) d *= 2;
  return d;
}

static void all_gather(df_plan *plan) {
  const uint32_t n = plan->key.n, r = plan->key.position;
  df_plan_copy(plan, 0, r, DF_NO_PEER, df_input(0), df_output(r));
  for (uint32_t d = largest_power_below(n); d >= 1; d /= 2) {
    const round_of now = round_at(n, d);
    const uint32_t to = (r + d) % n, from = (r + n - d) % n;
    const uint32_t row = df_plan_row(plan, now.pieces);
    df_plan_set_longest(plan, now.pieces);
    /* One message is ahead of those that have been received. The owners' order. */
    for (uint32_t i = 0; i < now.pieces + row; i += row) {
      if (i < now.pieces) {
        const uint32_t have = (r + n - (now.farthest - 2 * d * i)) % n;
        df_plan_send(plan, have, to, df_output(have));
        df_plan_widen(plan, DF_MIN(row, now.pieces - i), 2 * d);
      }
      if (i < row) continue;
      const uint32_t get = (from + n - (now.farthest - 2 * d * (i - row))) % n;
      df_plan_receive(plan, get, from, DF_NO_PEER, df_output(get));
      df_plan_widen(plan, DF_MIN(row, now.pieces - (i - row)), 2 * d);
    }
  }
}

/* The place of a piece's sum. Within a message offsets fall, and places rise. */
static df_place sum_at(uint32_t n, uint32_t offset) { return df_scratch(n - 1 - offset); }

/* The pieces of offsets x, x - 2d ... that are one message, and go back by d. */
typedef struct row_of {
  uint32_t d, x, pieces; /* pieces 0: there is none */
} row_of;

static void give(df_plan *plan, row_of row) {
  const uint32_t n = plan->key.n, r = plan->key.position, d = row.d;
  const uint32_t piece = (r + 2 * n - row.x - d) % n;
  /* The last offset has received no contribution yet. */
  const int is_fresh = d == 1 || row.x + d == n - 1;
  df_plan_send(plan, piece, (r + n - d) % n, is_fresh ? df_input(piece) : sum_at(n, row.x + d));
  df_plan_widen(plan, row.pieces, 2 * d);
  plan->longest = DF_MAX(plan->longest, row.pieces);
}

static void take(df_plan *plan, row_of row) {
  const uint32_t n = plan->key.n, r = plan->key.position, d = row.d;
  const uint32_t piece = (r + n - row.x) % n, from = (r + d) % n;
  const int is_last = 2 * d >= n;
  if (row.pieces == 0) return;
  df_plan_reduce(plan, df_plan_order(r, from) | (is_last ? df_plan_average(plan) : 0), piece, from,
                 DF_NO_PEER, d == 1 ? df_input(piece) : sum_at(n, row.x),
                 is_last ? df_output(0) : sum_at(n, row.x));
  df_plan_widen(plan, row.pieces, 2 * d);
}

static void reduce_scatter(df_plan *plan) {
  const uint32_t n = plan->key.n;
  plan->scratch_pieces = n;
  for (uint32_t d = 1; d < n; d *= 2) {
    const round_of now = round_at(n, d);
    const int is_apart = d > 1 && now.farthest + d == n - 1;
    row_of before = {0};
    /* One message is ahead of those that have been received. */
    for (uint32_t left = now.pieces; left; left -= before.pieces) {
      row_of row = {d, 2 * d * (left - 1), df_plan_row(plan, left)};
      if (is_apart && left == now.pieces) row.pieces = 1; /* this piece is in another buffer */
      give(plan, row);
      take(plan, before);
      before = row;
    }
    take(plan, before);
  }
}

void df_plan_pat(df_plan *plan) {
  plan->geometry = DF_GEOMETRY_PIECES;
  plan->pieces = plan->key.n;
  if (plan->key.operation == DF_OP_ALL_GATHER)
    all_gather(plan);
  else
    reduce_scatter(plan);
}
