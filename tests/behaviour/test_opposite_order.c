/*
 * Promise: any order on any rank is legal. Ranks that submit the same collectives in opposite,
 * rotated or random orders, with one block or several and however small the spin threshold, all
 * complete with right results, without coordination between the ranks.
 */
#include "support/buffers.h"

#include <stdlib.h>

enum { RANKS_MAX = 8, COLLECTIVES_MAX = 8 };

typedef struct {
  int ranks, collectives, rounds;
  size_t count;
  void (*order)(int rank, int round, int collectives, int *order);
  bool sync;
  dfcclContext_t ctxs[RANKS_MAX];
  df_collective colls[COLLECTIVES_MAX];
} scenario;

static void opposite(int rank, int round, int collectives, int *order) {
  for (int i = 0; i < collectives; i++) order[i] = (rank + round) % 2 ? collectives - 1 - i : i;
}

static void rotated(int rank, int round, int collectives, int *order) {
  for (int i = 0; i < collectives; i++) order[i] = (i + rank + round) % collectives;
}

static void at_random(int rank, int round, int collectives, int *order) {
  df_random random = {(uint64_t)(rank * 1000 + round)};
  for (int i = 0; i < collectives; i++) order[i] = i;
  df_random_shuffle(&random, order, collectives);
}

static void be_rank(int rank, void *arg) {
  scenario *s = arg;
  df_buffers buffers[COLLECTIVES_MAX];
  df_tally tally = {0};
  int order[COLLECTIVES_MAX];
  s->order(rank, 7, s->collectives, order); /* registered in another order than run */
  for (int i = 0; i < s->collectives; i++)
    OK(df_register(s->ctxs[rank], (dfcclCollId_t)order[i], &s->colls[order[i]]));
  for (int round = 0; round < s->rounds; round++) {
    s->order(rank, round, s->collectives, order);
    for (int i = 0; i < s->collectives; i++) {
      int c = order[i];
      df_buffers_make(&buffers[c], s->ctxs[rank], &s->colls[c], rank, (uint64_t)round, 0);
      OK(df_run(s->ctxs[rank], (dfcclCollId_t)c, s->colls[c].kind, buffers[c].send, buffers[c].recv,
                df_tally_callback, &tally));
      if (s->sync && (i + rank) % 3 == 0) OK(dfcclDeviceSynchronize(s->ctxs[rank]));
    }
    EVENTUALLY(atomic_load(&tally.calls) == (round + 1) * s->collectives);
    for (int c = 0; c < s->collectives; c++) {
      df_buffers_check(&buffers[c]);
      df_buffers_free(&buffers[c]);
    }
  }
  OK(dfcclWaitAll(s->ctxs[rank]));
  CHECK(atomic_load(&tally.failures) == 0, "%d runs failed", atomic_load(&tally.failures));
}

static void play(scenario *s, const dfcclConfig_t *config) {
  df_make_contexts(s->ctxs, s->ranks, config);
  for (int c = 0; c < s->collectives; c++) {
    s->colls[c] = df_simple(s->count + (size_t)c, s->ranks);
    s->colls[c].seed = (uint64_t)c;
    s->colls[c].type = dfcclFloat32;
  }
  df_in_threads(s->ranks, be_rank, s);
  df_free_contexts(s->ctxs, s->ranks);
}

DF_TEST(opposite_order, two_ranks_two_collectives, 30) {
  scenario s = {.ranks = 2, .collectives = 2, .rounds = 200, .count = 1000, .order = opposite};
  play(&s, NULL);
}

DF_TEST(opposite_order, large_messages, 60) {
  scenario s = {.ranks = 2, .collectives = 2, .rounds = 4, .count = 1 << 20, .order = opposite};
  play(&s, NULL);
}

DF_TEST(opposite_order, eight_ranks_rotated, 60) {
  scenario s = {.ranks = 8, .collectives = 8, .rounds = 20, .count = 500, .order = rotated};
  play(&s, NULL);
}

DF_TEST(opposite_order, one_block, 60) {
  dfcclConfig_t config = df_config();
  config.maxBlocks = 1;
  scenario s = {.ranks = 4, .collectives = 8, .rounds = 20, .count = 5000, .order = at_random};
  play(&s, &config);
}

DF_TEST(opposite_order, four_blocks, 60) {
  dfcclConfig_t config = df_config();
  config.maxBlocks = 4;
  scenario s = {.ranks = 4, .collectives = 8, .rounds = 20, .count = 5000, .order = at_random};
  play(&s, &config);
}

DF_TEST(opposite_order, spin_threshold_of_one, 60) {
  df_tune("spin_front", "1");
  df_tune("spin_min", "1");
  df_tune("spin_boost", "1");
  scenario s = {.ranks = 4, .collectives = 8, .rounds = 10, .count = 3000, .order = at_random};
  play(&s, NULL);
}

DF_TEST(opposite_order, preempted_at_every_step, 60) {
  df_tune("preempt_every", "1");
  scenario s = {.ranks = 4, .collectives = 6, .rounds = 10, .count = 3000, .order = at_random};
  play(&s, NULL);
}

DF_TEST(opposite_order, with_device_synchronisation, 60) {
  scenario s = {
      .ranks = 4, .collectives = 8, .rounds = 10, .count = 3000, .order = at_random, .sync = true};
  play(&s, NULL);
}
