/*
 * Promise: exactly once. Each accepted run yields one CQE and one callback. At rest the counters
 * are equal (sqesSubmitted == cqesWritten == callbacksRun), also with a single context slot, forced
 * preemption, and quits in between. dfcclTest agrees with them.
 */
#include "support/buffers.h"

#include <stdio.h>
#include <stdlib.h>

enum { RANKS = 4, COLLECTIVES = 5, ROUNDS = 40 };

static atomic_int calls[RANKS][COLLECTIVES];

static void count_one(dfcclCollId_t coll, dfcclResult_t status, void *arg) {
  atomic_int *mine = arg;
  CHECK(status == dfcclSuccess, "collective %llu: %s", (unsigned long long)coll,
        df_test_result_name(status));
  atomic_fetch_add(mine, 1);
}

static void work(int rank, void *arg) {
  dfcclContext_t *ctxs = arg;
  static float send[3000], recv[RANKS][COLLECTIVES][3][3000];
  int order[COLLECTIVES] = {0, 1, 2, 3, 4};
  df_random random = {(uint64_t)rank + 5};
  for (int round = 0; round < ROUNDS; round++) {
    df_random_shuffle(&random, order, COLLECTIVES);
    for (int i = 0; i < COLLECTIVES; i++) {
      int c = order[i];
      OK(dfcclRunAllReduce(ctxs[rank], (dfcclCollId_t)c, send, recv[rank][c][round % 3], count_one,
                           &calls[rank][c]));
      if ((round + rank + i) % 7 == 0) OK(dfcclDeviceSynchronize(ctxs[rank]));
    }
    if (round % 3 == 0) OK(dfcclWaitAll(ctxs[rank]));
  }
  OK(dfcclWaitAll(ctxs[rank]));
}

static void expect_exactly_once(dfcclContext_t *ctxs) {
  const uint64_t runs = COLLECTIVES * ROUNDS;
  for (int rank = 0; rank < RANKS; rank++) {
    dfcclStats_t s = df_stats(ctxs[rank]);
    CHECK(s.sqesSubmitted == runs && s.cqesWritten == runs && s.callbacksRun == runs,
          "rank %d: %llu submitted, %llu CQEs, %llu callbacks; %llu runs", rank,
          (unsigned long long)s.sqesSubmitted, (unsigned long long)s.cqesWritten,
          (unsigned long long)s.callbacksRun, (unsigned long long)runs);
    CHECK(s.sqesFetched >= runs && s.sqesFetched <= runs * s.blocks,
          "%llu fetched by %u blocks for %llu runs", (unsigned long long)s.sqesFetched, s.blocks,
          (unsigned long long)runs);
    CHECK(s.taskQueueLength == 0, "%u entries are left in the task queue", s.taskQueueLength);
    CHECK(s.taskQueueHighWater >= 1, "the task queue was never used");
    CHECK(s.primitivesExecuted > 0 && s.bytesSent > 0, "nothing was sent");
    CHECK(s.daemonStarts >= 1, "the daemon was never started");
    for (int c = 0; c < COLLECTIVES; c++) {
      int done = 0;
      CHECK(atomic_load(&calls[rank][c]) == ROUNDS, "%d callbacks", atomic_load(&calls[rank][c]));
      OK(dfcclTest(ctxs[rank], (dfcclCollId_t)c, &done));
      CHECK(done == 1, "dfcclTest says that runs are outstanding");
    }
    fprintf(stderr,
            "rank %d: %llu preemptions, %llu saves, %llu loads, %llu starts, %llu quits, "
            "%llu primitives\n",
            rank, (unsigned long long)s.preemptions, (unsigned long long)s.contextSaves,
            (unsigned long long)s.contextLoads, (unsigned long long)s.daemonStarts,
            (unsigned long long)s.voluntaryQuits, (unsigned long long)s.primitivesExecuted);
  }
}

static void play(int blocks) {
  dfcclContext_t ctxs[RANKS];
  dfcclConfig_t config = df_config();
  config.maxBlocks = blocks;
  df_make_contexts(ctxs, RANKS, &config);
  df_collective coll = df_simple(3000, RANKS);
  coll.type = dfcclFloat32;
  for (int c = 0; c < COLLECTIVES; c++) df_register_all(ctxs, (dfcclCollId_t)c, &coll);
  df_in_threads(RANKS, work, ctxs);
  expect_exactly_once(ctxs);
  df_free_contexts(ctxs, RANKS);
}

DF_TEST(stats, exactly_once, 60) { play(0); }

DF_TEST(stats, exactly_once_four_blocks, 60) {
  df_tune("block_min", "64");
  play(4);
}

DF_TEST(stats, exactly_once_one_context_slot, 60) {
  setenv("DFCCL_CONTEXT_SLOTS", "1", 1);
  df_tune("spin_front", "2");
  df_tune("spin_min", "1");
  play(0);
}

DF_TEST(stats, exactly_once_preempted_at_every_step, 60) {
  df_tune("preempt_every", "1");
  play(2);
}

DF_TEST(stats, exactly_once_each_completion_queue, 120) {
  static const char *const variants[] = {"ring", "packed", "slots"};
  for (int v = 0; v < 3; v++) {
    df_tune("cq", variants[v]);
    for (int rank = 0; rank < RANKS; rank++)
      for (int c = 0; c < COLLECTIVES; c++) atomic_store(&calls[rank][c], 0);
    play(2);
  }
}

/* A collective that waits for its peer is set aside: preemptions are counted, and while a run is
 * outstanding dfcclTest returns dfcclInProgress. */
DF_TEST(stats, preemptions_are_counted, 30) {
  dfcclContext_t ctxs[2];
  static float send[4000], recv[2][2][4000];
  df_make_contexts(ctxs, 2, NULL);
  df_collective coll = df_simple(4000, 2);
  coll.type = dfcclFloat32;
  for (dfcclCollId_t c = 0; c < 2; c++) {
    int done = 1;
    df_register_all(ctxs, c, &coll);
    df_exchange(ctxs, c, &coll, 0, 0); /* connects the links; before that, runs wait on the host */
    OK(dfcclRunAllReduce(ctxs[0], c, send, recv[0][c], NULL, NULL));
    OK(dfcclTest(ctxs[0], c, &done));
    CHECK(done == 0, "dfcclTest says that a run without its peer is complete");
  }
  EVENTUALLY(df_stats(ctxs[0]).preemptions > 0);
  EVENTUALLY(df_stats(ctxs[0]).voluntaryQuits > 0);
  for (dfcclCollId_t c = 0; c < 2; c++)
    OK(dfcclRunAllReduce(ctxs[1], c, send, recv[1][c], NULL, NULL));
  for (int rank = 0; rank < 2; rank++) OK(dfcclWaitAll(ctxs[rank]));
  df_free_contexts(ctxs, 2);
}
