/*
 * Binary blocks (Rabenseifner, ICCS 2004, section 4): all-reduce for any number of members. The
 * members are divided into blocks whose sizes are powers of two, the largest first. Each block
 * executes a recursive halving of its own. Then sums are sent from the smallest block to the next
 * larger one, and so on; results are sent back the same way. No member is idle, as the folded
 * members of a fold are, and unequal blocks work at the same time.
 */
#include "plans/build.h"

typedef struct block {
  uint32_t first, size; /* members; size 0: none */
} block;

/* The block of this size, or of the next smaller size that the number of members contains. */
static block block_from(uint32_t n, uint32_t size) {
  while (size && !(n & size)) size /= 2;
  return (block){size ? n / (2 * size) * (2 * size) : 0, size};
}

/* The next larger block; size 0: there is none. */
static block block_above(uint32_t n, uint32_t size) {
  for (size *= 2; size && size <= n; size *= 2)
    if (n & size) return block_from(n, size);
  return (block){0, 0};
}

static void send_row(df_plan *plan, uint32_t first, uint32_t n, uint32_t to, int from_input) {
  for (uint32_t i = 0; i < n; i += df_plan_row(plan, n)) {
    df_plan_send(plan, first + i, to, from_input ? df_input(first + i) : df_output(first + i));
    df_plan_widen(plan, df_plan_row(plan, n), 1);
  }
}

static void receive_row(df_plan *plan, uint32_t first, uint32_t n, uint32_t from) {
  for (uint32_t i = 0; i < n; i += df_plan_row(plan, n)) {
    df_plan_receive(plan, first + i, from, DF_NO_PEER, df_output(first + i));
    df_plan_widen(plan, df_plan_row(plan, n), 1);
  }
}

/* Member v of the block keeps its share, `each` pieces. `ends`: this is the last operation. One
 * message is sent ahead of those that have been received. */
static void halve(df_plan *plan, block own, uint32_t v, uint32_t each, int ends) {
  for (uint32_t d = own.size / 2, is_first = 1; d >= 1; d /= 2, is_first = 0) {
    const uint32_t n = d * each, keep = (v & ~(d - 1)) * each, give = ((v & ~(d - 1)) ^ d) * each;
    const uint32_t partner = own.first + (v ^ d), row = df_plan_row(plan, n);
    const uint32_t average = ends && d == 1 ? df_plan_average(plan) : 0;
    for (uint32_t i = 0; i < n + row; i += row) {
      const uint32_t given = give + i, kept = keep + i - row;
      if (i < n) {
        df_plan_send(plan, given, partner, is_first ? df_input(given) : df_output(given));
        df_plan_widen(plan, row, 1);
      }
      if (i == 0) continue;
      df_plan_reduce(plan, df_plan_order(v, v ^ d) | average, kept, partner, DF_NO_PEER,
                     is_first ? df_input(kept) : df_output(kept), df_output(kept));
      df_plan_widen(plan, row, 1);
    }
  }
}

static void gather(df_plan *plan, block own, uint32_t v, uint32_t each) {
  for (uint32_t d = 1; d < own.size; d *= 2) {
    const uint32_t n = d * each, have = (v & ~(d - 1)) * each, partner = own.first + (v ^ d);
    const uint32_t get = ((v & ~(d - 1)) ^ d) * each, row = df_plan_row(plan, n);
    for (uint32_t i = 0; i < n + row; i += row) {
      if (i < n) {
        df_plan_send(plan, have + i, partner, df_output(have + i));
        df_plan_widen(plan, row, 1);
      }
      if (i == 0) continue;
      df_plan_receive(plan, get + i - row, partner, DF_NO_PEER, df_output(get + i - row));
      df_plan_widen(plan, row, 1);
    }
  }
}

/* Adds this member's share of the smaller block's sum. A block of one member has only its input. */
static void add_smaller(df_plan *plan, block own, uint32_t v, uint32_t each, block smaller,
                        int ends) {
  const uint32_t from = smaller.first + v / (own.size / smaller.size), first = v * each;
  const uint32_t average = ends ? df_plan_average(plan) : 0, row = df_plan_row(plan, each);
  for (uint32_t i = first; i < first + each; i += row) {
    df_plan_reduce(plan, DF_PRIM_SOURCE_FIRST | average, i, from, DF_NO_PEER, df_output(i),
                   df_output(i));
    df_plan_widen(plan, row, 1);
  }
}

void df_plan_binary_blocks(df_plan *plan) {
  const uint32_t n = plan->key.n, r = plan->key.position;
  const uint32_t largest = block_from(n, 1u << (31 - __builtin_clz(n))).size;
  const uint32_t pieces = largest * df_plan_share(plan);
  block own = block_from(n, largest);
  while (r >= own.first + own.size) own = block_from(n, own.size / 2);
  const block smaller = block_from(n, own.size / 2), above = block_above(n, own.size);
  const uint32_t v = r - own.first, each = pieces / own.size;
  plan->geometry = DF_GEOMETRY_PARTITION;
  plan->pieces = pieces;
  df_plan_set_longest(plan, DF_MAX(pieces / 2, 1u));
  halve(plan, own, v, each, above.size == 0 && smaller.size == 0);
  if (smaller.size) add_smaller(plan, own, v, each, smaller, above.size == 0);
  const uint32_t share = above.size ? pieces / above.size : 0;
  for (uint32_t i = 0; above.size && i < each / share; i++) {
    const uint32_t to = above.first + v * (above.size / own.size) + i;
    send_row(plan, v * each + i * share, share, to, own.size == 1);
  }
  for (uint32_t i = 0; above.size && i < each / share; i++)
    receive_row(plan, v * each + i * share, share, above.first + v * (above.size / own.size) + i);
  if (smaller.size)
    send_row(plan, v * each, each, smaller.first + v / (own.size / smaller.size), 0);
  gather(plan, own, v, each);
}
