/*
 * Promise: a collective switches to another algorithm between two runs, at the same run on all
 * members, without a stop, in any disorder, any number of times, with right results. A collective
 * that cannot change gives the reason, and a rank that leaves meanwhile keeps no other rank
 * waiting.
 */
#include "support/buffers.h"
#include "support/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS_MAX = 8, COLLECTIVES = 4 };

static const char *const algorithms[] = {"ring",   "doubling",   "halving", "direct",   "binomial",
                                         "bruck",  "doubletree", "chain",   "pairwise", "twolevel",
                                         "linear", "flat",       "pat"};

typedef struct {
  int ranks;
  uint64_t rounds;
  dfcclContext_t ctxs[RANKS_MAX];
  df_collective colls[COLLECTIVES];
  atomic_int asked;
} scenario;

static scenario *playing;

/* Requests a switch of every collective that the calling rank leads and that may change. */
static dfcclResult_t ask_at_random(dfcclContext_t ctx) {
  static _Thread_local df_random random;
  if (random.state == 0) random.state = (uint64_t)(uintptr_t)ctx;
  const dfcclCollId_t id = (dfcclCollId_t)df_random_below(&random, COLLECTIVES);
  const int which = df_random_below(&random, (int)(sizeof algorithms / sizeof algorithms[0]) + 1);
  const char *name = which == 0 ? NULL : algorithms[which - 1];
  const dfcclResult_t result = dfcclSetAlgorithm(ctx, id, name);
  CHECK(result == dfcclSuccess || result == dfcclInvalidUsage || result == dfcclInvalidArgument,
        "%s: %s", df_test_result_name(result), dfcclGetLastError(ctx));
  atomic_fetch_add(&playing->asked, result == dfcclSuccess);
  return dfcclSuccess;
}

static void be_rank(int rank, void *arg) {
  scenario *s = arg;
  df_random random = {(uint64_t)rank + 1};
  for (int c = 0; c < COLLECTIVES; c++)
    OK(df_register(s->ctxs[rank], (dfcclCollId_t)c, &s->colls[c]));
  df_take_part_in_disorder(s->ctxs[rank], s->colls, COLLECTIVES, rank, s->rounds, &random,
                           ask_at_random);
}

static uint64_t switches_of(dfcclContext_t ctx, dfcclCollId_t id) {
  dfcclConfiguration_t c = DFCCL_CONFIGURATION_INITIALIZER;
  OK(dfcclGetConfiguration(ctx, id, &c));
  return c.switches;
}

/* Counts from a few elements to several loops of large slots. */
static void change_in_disorder(int ranks, uint64_t most_rounds) {
  const uint64_t rounds = df_slowdown() == 1 ? most_rounds : most_rounds / 3;
  static const size_t counts[COLLECTIVES] = {3, 700, 20000, 5000};
  static const df_kind kinds[COLLECTIVES] = {DF_ALL_REDUCE, DF_ALL_REDUCE, DF_ALL_GATHER,
                                             DF_REDUCE_SCATTER};
  scenario s = {.ranks = ranks, .rounds = rounds};
  playing = &s;
  df_make_contexts(s.ctxs, ranks, NULL);
  for (int c = 0; c < COLLECTIVES; c++) {
    s.colls[c] = df_simple(counts[c], ranks);
    s.colls[c].kind = kinds[c];
  }
  df_in_threads(ranks, be_rank, &s);
  uint64_t done = 0;
  for (int c = 0; c < COLLECTIVES; c++) done += switches_of(s.ctxs[0], (dfcclCollId_t)c);
  fprintf(stderr, "epochs: %d ranks: asked %d times, %llu changes in %llu runs\n", ranks,
          atomic_load(&s.asked), (unsigned long long)done,
          (unsigned long long)(rounds * COLLECTIVES));
  CHECK(done >= rounds / 50, "only %llu changes in %llu rounds", (unsigned long long)done,
        (unsigned long long)rounds);
  df_free_contexts(s.ctxs, ranks);
}

DF_TEST(plan_switch, switches_in_disorder_of_two, 60) { change_in_disorder(2, 1000); }
DF_TEST(plan_switch, switches_in_disorder_of_three, 60) { change_in_disorder(3, 500); }
DF_TEST(plan_switch, switches_in_disorder_of_eight, 120) { change_in_disorder(8, 100); }

/* Runs until both ranks have switched. */
static uint64_t run_until(dfcclContext_t *ctxs, const df_collective *coll, uint64_t run,
                          uint64_t switches) {
  do df_exchange(ctxs, 1, coll, run++, 0);
  while (switches_of(ctxs[0], 1) < switches || switches_of(ctxs[1], 1) < switches);
  return run;
}

static void expect_algorithm(dfcclContext_t *ctxs, const char *name) {
  for (int rank = 0; rank < 2; rank++) {
    dfcclConfiguration_t c = DFCCL_CONFIGURATION_INITIALIZER;
    OK(dfcclGetConfiguration(ctxs[rank], 1, &c));
    CHECK(strcmp(c.algorithm, name) == 0, "rank %d uses %s, not %s", rank, c.algorithm, name);
  }
}

DF_TEST(plan_switch, there_and_back, 60) {
  dfcclContext_t ctxs[2];
  dfcclCollOptions_t options = DFCCL_COLL_OPTIONS_INITIALIZER;
  df_collective coll = df_simple(1000, 2);
  options.algorithm = "ring";
  df_make_contexts(ctxs, 2, NULL);
  for (int rank = 0; rank < 2; rank++)
    OK(dfcclRegisterAllReduce(ctxs[rank], 1, coll.count, coll.type, coll.op, &options));
  uint64_t run = 0;
  df_exchange(ctxs, 1, &coll, run++, 0);
  for (uint64_t turn = 0; turn < 20; turn++) {
    EVENTUALLY(dfcclSetAlgorithm(ctxs[0], 1, turn % 2 ? NULL : "doubling") == dfcclSuccess);
    run = run_until(ctxs, &coll, run, turn + 1);
    expect_algorithm(ctxs, turn % 2 ? "ring" : "doubling");
    for (int i = 0; i < 10; i++) df_exchange(ctxs, 1, &coll, run++, 0);
  }
  df_deregister_all(ctxs, 1, &coll);
  df_free_contexts(ctxs, 2);
}

DF_TEST(plan_switch, refusals_have_a_reason, 60) {
  dfcclContext_t ctxs[2];
  df_collective coll = df_simple(1000, 2);
  const size_t counts[2] = {1, 2};
  df_make_contexts(ctxs, 2, NULL);
  RESULT(dfcclSetAlgorithm(ctxs[0], 1, "ring"), dfcclInvalidArgument);
  df_register_all(ctxs, 1, &coll);
  RESULT(dfcclSetAlgorithm(ctxs[0], 1, "ring"), dfcclInvalidUsage);
  CHECK(df_mentions(dfcclGetLastError(ctxs[0]), "not all members have run it"), "\"%s\"",
        dfcclGetLastError(ctxs[0]));
  df_exchange(ctxs, 1, &coll, 0, 0);
  RESULT(dfcclSetAlgorithm(ctxs[1], 1, "ring"), dfcclInvalidUsage);
  CHECK(df_mentions(dfcclGetLastError(ctxs[1]), "rank 0"), "\"%s\"", dfcclGetLastError(ctxs[1]));
  RESULT(dfcclSetAlgorithm(ctxs[0], 1, "rings"), dfcclInvalidArgument);
  CHECK(df_mentions(dfcclGetLastError(ctxs[0]), "\"rings\""), "\"%s\"", dfcclGetLastError(ctxs[0]));
  RESULT(dfcclSetAlgorithm(ctxs[0], 1, "ring slot=1"), dfcclInvalidArgument);
  CHECK(df_mentions(dfcclGetLastError(ctxs[0]), "\"slot=1\": it must be"), "\"%s\"",
        dfcclGetLastError(ctxs[0]));
  OK(dfcclSetAlgorithm(ctxs[0], 1, "doubling slot=256"));
  RESULT(dfcclSetAlgorithm(ctxs[0], 1, "ring"), dfcclInvalidUsage);
  CHECK(df_mentions(dfcclGetLastError(ctxs[0]), "is in progress"), "\"%s\"",
        dfcclGetLastError(ctxs[0]));
  for (int rank = 0; rank < 2; rank++)
    OK(dfcclRegisterAllGatherV(ctxs[rank], 2, counts, NULL, dfcclInt32, NULL));
  RESULT(dfcclSetAlgorithm(ctxs[0], 2, "direct"), dfcclInvalidUsage);
  df_free_contexts(ctxs, 2);
}

/* The job ends at any moment of a switch: runs that were submitted complete, and nothing
 * remains. */
DF_TEST(plan_switch, ends_at_any_moment, 120) {
  df_random random = {77};
  for (int round = 0; round < 200; round++) {
    dfcclContext_t ctxs[3];
    df_collective coll = df_simple(100, 3);
    df_make_contexts(ctxs, 3, NULL);
    df_register_all(ctxs, 1, &coll);
    df_exchange(ctxs, 1, &coll, 0, 0);
    uint64_t run = 1;
    for (int i = df_random_below(&random, 3); i >= 0; i--) {
      dfcclResult_t asked = dfcclSetAlgorithm(ctxs[0], 1, i % 2 ? "ring" : "direct");
      CHECK(asked == dfcclSuccess || asked == dfcclInvalidUsage, "%s", dfcclGetLastError(ctxs[0]));
      for (int more = df_random_below(&random, 8); more > 0; more--)
        df_exchange(ctxs, 1, &coll, run++, 0);
    }
    if (df_random_chance(&random, 50)) {
      const int first = df_random_below(&random, 3);
      for (int i = 0; i < 3; i++) OK(dfcclDeregister(ctxs[(first + i) % 3], 1));
      if (df_random_chance(&random, 50)) df_once(ctxs, 1, &coll, 0);
    }
    df_free_contexts(ctxs, 3);
  }
}
