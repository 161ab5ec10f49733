/*
 * Promises of src/plans/cuts.h:
 *   - A collective that fits a slot has one message for all pieces that go the same way.
 *   - A longer one has messages of at most a slot, as long as powers of two permit, and no loop
 *     more than with one piece for each message.
 *   - Between hosts a share that is longer than a slot has several pieces; within a host, one.
 *   - Messages that are lent have one piece.
 */
#include "plans/plan.h"
#include "support/harness.h"

enum { SLOT = 1 << 16 };

static df_cut_question question(int algorithm, df_operation operation, uint32_t n, uint64_t bytes) {
  return (df_cut_question){.operation = operation,
                           .algorithm = algorithm,
                           .n = n,
                           .bytes = bytes,
                           .n_blocks = 1,
                           .slot_bytes = SLOT,
                           .lend_min = UINT64_MAX,
                           .is_far = 1};
}

static df_cuts all_reduce(uint32_t n, uint64_t bytes) {
  const df_cut_question q = question(DF_RABENSEIFNER, DF_OP_ALL_REDUCE, n, bytes);
  return df_plan_cuts(&q);
}

#define CUTS(cuts, wanted_row, wanted_share)                                                       \
  do {                                                                                             \
    const df_cuts is = (cuts);                                                                     \
    CHECK(is.row == (wanted_row) && is.share == (wanted_share), "row %u, share %u", is.row,        \
          is.share);                                                                               \
  } while (0)

DF_TEST(cuts, a_slot_is_the_limit_of_a_message, 30) {
  CUTS(all_reduce(64, SLOT), DF_ROW_WHOLE, 1);
  CUTS(all_reduce(64, SLOT + 1), 32, 1);
  CUTS(all_reduce(64, 2 * SLOT), 32, 1);
  CUTS(all_reduce(64, 16 * SLOT), 4, 1);
  CUTS(all_reduce(64, 64 * SLOT), 1, 1);
  CUTS(all_reduce(64, 65 * SLOT), 1, 2);
  CUTS(all_reduce(64, 512 * SLOT), 1, 8);
  CUTS(all_reduce(64, 1ull << 50), 1, 64);
}

/* 96 ranks have 64 shares. */
DF_TEST(cuts, groups_that_are_no_power_of_two, 30) {
  CUTS(all_reduce(96, 16 * SLOT), 4, 1);
  CUTS(all_reduce(3, 2 * SLOT), 1, 1);
  CUTS(all_reduce(3, 4 * SLOT), 1, 2);
  const df_cut_question q = question(DF_BRUCK, DF_OP_ALL_GATHER, 96, 24 * SLOT);
  CUTS(df_plan_cuts(&q), 4, 1);
}

DF_TEST(cuts, blocks_divide_the_buffer, 30) {
  df_cut_question q = question(DF_RABENSEIFNER, DF_OP_ALL_REDUCE, 64, 16 * SLOT);
  q.n_blocks = 4;
  CUTS(df_plan_cuts(&q), 16, 1);
}

DF_TEST(cuts, lent_messages_have_one_piece, 30) {
  df_cut_question q = question(DF_RABENSEIFNER, DF_OP_ALL_REDUCE, 64, 16 * SLOT);
  q.lend_min = SLOT / 4;
  CUTS(df_plan_cuts(&q), 1, 1);
  q.lend_min++;
  CUTS(df_plan_cuts(&q), 4, 1);
}

DF_TEST(cuts, shares_are_cut_between_hosts_only, 30) {
  df_cut_question q = question(DF_BCUBE, DF_OP_ALL_REDUCE, 64, 512 * SLOT);
  CUTS(df_plan_cuts(&q), 1, 8);
  q.is_far = 0;
  CUTS(df_plan_cuts(&q), 1, 1);
  q = question(DF_BRUCK, DF_OP_ALL_GATHER, 64, 512 * SLOT);
  CUTS(df_plan_cuts(&q), 1, 1);
}

/* Scratch memory for all pieces is limited, so pieces are shorter than a slot. */
DF_TEST(cuts, scratch_memory_makes_short_pieces, 30) {
  const df_cut_question q = question(DF_HALVING, DF_OP_REDUCE_SCATTER, 64, 64 * SLOT);
  CUTS(df_plan_cuts(&q), SLOT / (DF_MAX_SCRATCH_BYTES / 64), 1);
}

/* A row never makes a loop more: its pieces are as long as they would be alone. */
DF_TEST(cuts, rows_cost_no_loops, 30) {
  df_random random = {7};
  for (int i = 0; i < 2000; i++) {
    const uint32_t n = 2 + (uint32_t)df_random_below(&random, 70);
    const uint64_t count = 1 + (uint64_t)df_random_below(&random, 1 << 21);
    const df_shape_limits limits = {
        .slot_bytes = SLOT, .slots = 4, .block_min = UINT64_MAX, .max_blocks = 1};
    df_plan_key key = {.operation = DF_OP_ALL_REDUCE, .algorithm = DF_RABENSEIFNER, .n = n};
    df_shape alone, rows;
    for (int has_rows = 0; has_rows <= 1; has_rows++) {
      const df_cuts cuts = all_reduce(n, 4 * count);
      key.cuts = has_rows ? cuts : (df_cuts){1, 1};
      df_plan *plan = df_plan_make(&key);
      CHECK(plan != NULL, "no memory");
      df_shape_make(has_rows ? &rows : &alone, plan, count, 4, &limits);
      df_plan_free(plan);
    }
    CHECK(rows.parts[0].loops <= alone.parts[0].loops, "%u ranks, %llu elements: %u loops, not %u",
          n, (unsigned long long)count, rows.parts[0].loops, alone.parts[0].loops);
    CHECK(rows.parts[0].loops == 1 || n * (uint64_t)SLOT * 64 < 8 * count, "%u loops",
          rows.parts[0].loops);
  }
}
