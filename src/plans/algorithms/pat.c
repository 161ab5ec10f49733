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
    const uint32_t wide = plan->key.several ? now.pieces : 1;
    plan->longest = DF_MAX(plan->longest, wide);
    for (uint32_t i = 0; i < now.pieces; i += wide) {
      const uint32_t x = now.farthest - 2 * d * i; /* the owners' order */
      const uint32_t have = (r + n - x) % n, get = (from + n - x) % n;
      df_plan_send(plan, have, to, df_output(have));
      df_plan_widen(plan, wide, 2 * d);
      df_plan_receive(plan, get, from, DF_NO_PEER, df_output(get));
      df_plan_widen(plan, wide, 2 * d);
    }
  }
}

/* The place of a piece's sum. Within a message offsets fall, and places rise. */
static df_place sum_at(uint32_t n, uint32_t offset) { return df_scratch(n - 1 - offset); }

/* The pieces of offsets x, x - 2d ... go back by d, those of one buffer in one message. */
static void give_back(df_plan *plan, round_of now, uint32_t x, uint32_t pieces) {
  const uint32_t n = plan->key.n, r = plan->key.position, d = now.d;
  const uint32_t give = (r + 2 * n - x - d) % n, take = (r + n - x) % n;
  const uint32_t to = (r + n - d) % n, from = (r + d) % n;
  /* The last offset has received no contribution yet. */
  const int is_fresh = d == 1 || x + d == n - 1;
  const int is_last = 2 * d >= n;
  df_plan_send(plan, give, to, is_fresh ? df_input(give) : sum_at(n, x + d));
  df_plan_widen(plan, pieces, 2 * d);
  df_plan_reduce(plan, df_plan_order(r, from) | (is_last ? df_plan_average(plan) : 0), take, from,
                 DF_NO_PEER, d == 1 ? df_input(take) : sum_at(n, x),
                 is_last ? df_output(0) : sum_at(n, x));
  df_plan_widen(plan, pieces, 2 * d);
  plan->longest = DF_MAX(plan->longest, pieces);
}

static void reduce_scatter(df_plan *plan) {
  const uint32_t n = plan->key.n;
  plan->scratch_pieces = n;
  for (uint32_t d = 1; d < n; d *= 2) {
    const round_of now = round_at(n, d);
    const int is_apart = d > 1 && now.farthest + d == n - 1;
    uint32_t left = now.pieces;
    while (left) {
      const uint32_t x = 2 * d * (left - 1);
      uint32_t pieces = plan->key.several ? left : 1;
      if (is_apart && left == now.pieces) pieces = 1; /* this piece is in another buffer */
      give_back(plan, now, x, pieces);
      left -= pieces;
    }
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
