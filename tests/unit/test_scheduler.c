/*
 * Promises of src/daemon_kernel/scheduler.h:
 *   - FIFO: collectives are picked in the order of their submission; a stuck one keeps its place.
 *   - By priority: larger first, among equals the newer first.
 *   - The front of the queue spins longest; success raises the threshold, to a limit.
 *   - FIFO fetches when it has nothing to do, when nothing progresses, and before it would leave;
 *     by priority always.
 *   - Fairness: whatever else is submitted and completes, a runnable entry is picked within a
 * bounded number of picks.
 */
#include "device.h"

static const df_tunables tunables = {
    .spin_front = 1000, .spin_min = 16, .spin_boost = 20, .fetch_polls = 100, .quit_polls = 1000};

static void expect_pick(df_block *block, uint32_t collective) {
  uint32_t got = device_pick(block);
  CHECK(got == collective, "picked %u instead of %u", got, collective);
}

/* As the daemon does when a collective has spun in vain. */
static void set_aside(df_block *block) {
  block->blocked_polls += block->spin_limit;
  block->quiet_polls += block->spin_limit;
  df_scheduler_set_aside(block);
}
static void retire(df_block *block) {
  block->quiet_polls = block->blocked_polls = 0;
  df_scheduler_retire(block);
}

DF_TEST(scheduler, nothing_to_pick, 30) {
  device *d = device_make(1, tunables);
  expect_pick(&d->blocks[0], DF_NO_COLLECTIVE);
  free(d);
}

DF_TEST(scheduler, fifo_in_order_of_submission, 30) {
  device *d = device_make(1, tunables);
  df_block *block = &d->blocks[0];
  for (uint32_t c = 10; c < 20; c++) device_submit(d, c);
  for (uint32_t c = 10; c < 20; c++) {
    expect_pick(block, c);
    retire(block);
  }
  expect_pick(block, DF_NO_COLLECTIVE);
  CHECK(block->stats.sqes_fetched == 10, "%llu fetched",
        (unsigned long long)block->stats.sqes_fetched);
  free(d);
}

DF_TEST(scheduler, a_stuck_collective_keeps_its_place, 30) {
  device *d = device_make(1, tunables);
  df_block *block = &d->blocks[0];
  for (uint32_t c = 1; c <= 3; c++) device_submit(d, c);
  expect_pick(block, 1);
  set_aside(block); /* 1000 polls in vain: the next SQE is fetched */
  expect_pick(block, 2);
  set_aside(block);
  expect_pick(block, 3);
  set_aside(block);
  for (uint32_t round = 0; round < 3; round++)
    for (uint32_t c = 1; c <= 3; c++) {
      expect_pick(block, c);
      set_aside(block);
    }
  expect_pick(block, 1);
  retire(block);
  expect_pick(block, 2);
  CHECK(block->place == 0, "2 has moved up to place %u", block->place);
  free(d);
}

DF_TEST(scheduler, fifo_does_not_fetch_while_it_progresses, 30) {
  device *d = device_make(1, tunables);
  df_block *block = &d->blocks[0];
  for (uint32_t c = 1; c <= 3; c++) device_submit(d, c);
  expect_pick(block, 1);
  block->blocked_polls = tunables.fetch_polls - 1;
  df_scheduler_set_aside(block);
  expect_pick(block, 1);
  CHECK(block->tasks.length == 1, "fetched before it was due");
  block->blocked_polls = tunables.fetch_polls;
  expect_pick(block, 1);
  CHECK(block->tasks.length == 2, "not fetched when it was due");
  block->blocked_polls = 0;
  block->quiet_polls = tunables.quit_polls;
  expect_pick(block, 1);
  CHECK(block->tasks.length == 3, "not fetched before it would leave");
  CHECK(block->quiet_polls == 0, "a fetch is news");
  free(d);
}

DF_TEST(scheduler, runs_of_one_collective_share_an_entry, 30) {
  device *d = device_make(1, tunables);
  df_block *block = &d->blocks[0];
  device_submit(d, 1);
  device_submit(d, 1);
  device_submit(d, 2);
  expect_pick(block, 1);
  block->blocked_polls = tunables.fetch_polls;
  expect_pick(block, 1);
  block->blocked_polls = tunables.fetch_polls;
  expect_pick(block, 1);
  CHECK(block->tasks.length == 2 && block->tasks.pending[1] == 2, "two entries");
  retire(block); /* its second run queues behind 2 */
  expect_pick(block, 2);
  retire(block);
  expect_pick(block, 1);
  retire(block);
  expect_pick(block, DF_NO_COLLECTIVE);
  free(d);
}

DF_TEST(scheduler, priorities, 30) {
  static const int32_t priorities[] = {0, 5, -3, 5, 7, 0};
  static const uint32_t order[] = {4, 3, 1, 5, 0, 2};
  device *d = device_make(1, tunables);
  for (uint32_t c = 0; c < 6; c++) device_prioritise(d, c, priorities[c]);
  for (uint32_t c = 0; c < 6; c++) device_submit(d, c);
  for (uint32_t k = 0; k < 6; k++) {
    expect_pick(&d->blocks[0], order[k]);
    retire(&d->blocks[0]);
  }
  free(d);
}

DF_TEST(scheduler, a_larger_priority_goes_first_at_once, 30) {
  device *d = device_make(1, tunables);
  df_block *block = &d->blocks[0];
  for (uint32_t c = 0; c < 4; c++) device_prioritise(d, c, (int32_t)c);
  device_submit(d, 2);
  device_submit(d, 1);
  expect_pick(block, 2);
  set_aside(block);
  expect_pick(block, 1);
  set_aside(block);
  device_submit(d, 3);
  expect_pick(block, 3);
  set_aside(block);
  expect_pick(block, 2);
  device_submit(d, 0);
  set_aside(block);
  expect_pick(block, 1);
  set_aside(block);
  expect_pick(block, 0);
  free(d);
}

DF_TEST(scheduler, entries_for_other_blocks_are_passed_on, 30) {
  device *d = device_make(3, tunables);
  d->storage[1].n_blocks = 2;
  device_submit(d, 0);
  device_submit(d, 1);
  expect_pick(&d->blocks[0], 0);
  expect_pick(&d->blocks[1], 1);
  expect_pick(&d->blocks[2], DF_NO_COLLECTIVE);
  retire(&d->blocks[0]);
  expect_pick(&d->blocks[0], 1);
  CHECK(d->blocks[1].stats.sqes_fetched == 1, "block 1 executes one");
  CHECK(d->blocks[2].read_index == 2, "block 2 has read both");
  free(d);
}

DF_TEST(scheduler, spin_limits, 30) {
  CHECK(df_scheduler_spin_limit(&tunables, 0) == 1000, "the front");
  for (uint32_t place = 1; place < 70000; place += place < 64 ? 1 : 4999)
    CHECK(df_scheduler_spin_limit(&tunables, place) <=
                  df_scheduler_spin_limit(&tunables, place - 1) &&
              df_scheduler_spin_limit(&tunables, place) >= tunables.spin_min,
          "place %u", place);
  CHECK(df_scheduler_spin_limit(&tunables, 1) == 500, "halved");
  CHECK(df_scheduler_boosted(&tunables, 500) == 10000, "twentyfold");
  df_tunables large = {.spin_front = 1000000000, .spin_min = 1, .spin_boost = 1000};
  CHECK(df_scheduler_boosted(&large, 1000000000) == UINT32_MAX, "no overflow");
  CHECK(df_scheduler_boosted(&large, UINT32_MAX) == UINT32_MAX, "no overflow");
}

DF_TEST(scheduler, an_entry_registered_anew_starts_at_run_0, 30) {
  device *d = device_make(1, tunables);
  df_block *block = &d->blocks[0];
  for (uint32_t registration = 1; registration <= 3; registration++) {
    d->storage[7].generation = registration;
    device_submit(d, 7);
    expect_pick(block, 7);
    CHECK(block->picked->cursor.run == 0, "run %llu",
          (unsigned long long)block->picked->cursor.run);
    block->picked->cursor.run = 5;
    block->picked->cursor.phase = DF_PHASE_MOVE;
    block->picked->dirty = 1;
    retire(block);
  }
  free(d);
}

/* ---- fairness ---- */

/*
 * Collective 0 is stuck for a while, then it could step. Others complete whenever they are picked,
 * or are set aside, and are submitted again at once, as callbacks do. The picks until 0 is picked
 * again.
 */
static uint32_t picks_until_stepped(int by_priority, uint64_t seed, uint32_t others) {
  device *d = device_make(1, tunables);
  df_block *block = &d->blocks[0];
  df_random random = {seed};
  int blocking = df_random_below(&random, 40), waiting = df_random_below(&random, 300);
  for (uint32_t c = 1; c <= others && by_priority; c++)
    device_prioritise(d, c, 1 + df_random_below(&random, 3));
  for (uint32_t c = 0; c <= others; c++) device_submit(d, (c + (uint32_t)seed) % (others + 1));
  uint32_t picks = 0, picked;
  for (int i = 0;; i++) {
    picked = device_pick(block);
    CHECK(picked != DF_NO_COLLECTIVE, "something is submitted");
    if (i >= waiting && picked == 0) break;
    if (picked == 0 || df_random_chance(&random, blocking)) {
      set_aside(block);
    } else {
      retire(block);
      device_submit(d, picked);
    }
    if (i >= waiting && ++picks > 100000) break;
  }
  free(d);
  return picks;
}

DF_TEST(scheduler, fifo_is_fair, 30) {
  for (uint32_t others = 1; others < 20; others++)
    for (uint64_t seed = 0; seed < 30; seed++) {
      uint32_t picks = picks_until_stepped(0, seed, others);
      CHECK(picks <= 8 * (others + 1), "%u others, seed %llu: %u picks", others,
            (unsigned long long)seed, picks);
    }
}

DF_TEST(scheduler, priorities_are_fair, 30) {
  for (uint32_t others = 1; others < 20; others++)
    for (uint64_t seed = 0; seed < 30; seed++) {
      uint32_t picks = picks_until_stepped(1, seed, others);
      CHECK(picks <= DF_FAIR_PICKS * (others + 1), "%u others, seed %llu: %u picks", others,
            (unsigned long long)seed, picks);
    }
}
