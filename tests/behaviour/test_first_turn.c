/*
 * Promise: the thread that submits a short run begins it, whatever else is under way, and the run
 * is complete when dfcclRun* returns if it needs no message that is missing (borrowed_turn_max).
 * Otherwise the daemon finishes the run, whether or not any thread waits for it. Results, order and
 * counters are those of any other run.
 */
#include "support/buffers.h"
#include "support/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A rank that is alone completes most runs before the call returns: all except those that find a
 * background thread at the block, or that start it. */
DF_TEST(first_turn, done_on_return, 60) {
  if (df_on_cuda()) DF_SKIP("the CPU device only");
  enum { RUNS = 10000, LEAST = 100 };
  dfcclContext_t ctx;
  int done_on_return = 0;
  df_make_contexts(&ctx, 1, NULL);
  df_collective coll = df_simple(2, 1);
  df_register_all(&ctx, 1, &coll);
  for (int32_t run = 0; run < RUNS; run++) {
    int32_t send[2] = {run, -run}, recv[2] = {-1, 1};
    int done = 0;
    OK(dfcclRunAllReduce(ctx, 1, send, recv, NULL, NULL));
    OK(dfcclTest(ctx, 1, &done));
    done_on_return += done;
    OK(dfcclWait(ctx, 1));
    CHECK(recv[0] == run && recv[1] == -run, "run %d: %d, %d", run, recv[0], recv[1]);
  }
  fprintf(stderr, "first turn: %d of %d runs were done on return\n", done_on_return, RUNS);
  CHECK(done_on_return >= LEAST, "only %d of %d runs were done on return", done_on_return, RUNS);
  df_free_contexts(&ctx, 1);
}

static void expect_counted(dfcclContext_t ctx, uint64_t runs) {
  dfcclStats_t s = df_stats(ctx);
  CHECK(s.sqesSubmitted == runs && s.sqesFetched == runs && s.cqesWritten == runs &&
            s.callbacksRun == 0 && s.taskQueueLength == 0,
        "%llu runs: %llu submitted, %llu fetched, %llu CQEs, %llu callbacks, %u in the task queue",
        (unsigned long long)runs, (unsigned long long)s.sqesSubmitted,
        (unsigned long long)s.sqesFetched, (unsigned long long)s.cqesWritten,
        (unsigned long long)s.callbacksRun, s.taskQueueLength);
}

static int is_done(dfcclContext_t ctx) {
  int done = 0;
  OK(dfcclTest(ctx, 1, &done));
  return done;
}

/* The receiver's run is blocked in its first turn, and no thread waits for it. */
static void nobody_waits(const char *most_bytes) {
  enum { ROUNDS = 100 };
  dfcclContext_t ctxs[2];
  df_tune("borrowed_turn_max", most_bytes);
  df_make_contexts(ctxs, 2, NULL);
  for (int rank = 0; rank < 2; rank++)
    OK(dfcclRegisterBroadcast(ctxs[rank], 1, 2, dfcclInt32, 0, NULL));
  for (int32_t round = 0; round < ROUNDS; round++) {
    int32_t sent[2][2] = {{round, 1}, {round, 2}}, received[2][2] = {{-1, -1}, {-1, -1}};
    for (int run = 0; run < 2; run++) {
      for (int rank = 1; rank >= 0; rank--)
        OK(dfcclRunBroadcast(ctxs[rank], 1, sent[run], rank == 0 ? sent[run] : received[run], NULL,
                             NULL));
      for (int rank = 0; rank < 2; rank++) {
        if (run == 0) /* the second run finds the block in the device */
          OK(dfcclWait(ctxs[rank], 1));
        else
          EVENTUALLY(is_done(ctxs[rank]));
      }
      CHECK(received[run][0] == round && received[run][1] == run + 1, "round %d: %d, %d", round,
            received[run][0], received[run][1]);
    }
  }
  for (int rank = 0; rank < 2; rank++) expect_counted(ctxs[rank], 2 * ROUNDS);
  df_free_contexts(ctxs, 2);
}

DF_TEST(first_turn, nobody_waits, 60) { nobody_waits("4096"); }
DF_TEST(first_turn, nobody_waits_without_first_turns, 60) { nobody_waits("0"); }

/* Rank 0's first collective lacks a message of rank 1, and stays in the task queue. Rank 0 is the
 * root of its second collective, which is begun nevertheless, and is complete on return more often
 * than by chance. Rank 1 runs both in the other order. */
DF_TEST(first_turn, beside_others, 60) {
  if (df_on_cuda()) DF_SKIP("the CPU device only");
  enum { ROUNDS = 2000, LEAST = 100 };
  dfcclContext_t ctxs[2];
  int done_on_return = 0;
  df_make_contexts(ctxs, 2, NULL);
  for (int rank = 0; rank < 2; rank++)
    for (int root = 0; root < 2; root++)
      OK(dfcclRegisterBroadcast(ctxs[rank], (dfcclCollId_t)root, 2, dfcclInt32, root, NULL));
  for (int32_t round = 0; round < ROUNDS; round++) {
    int32_t buffers[2][2][2] = {{{round, 10}, {-1, -1}}, {{-1, -1}, {round, 21}}};
    int done = 0;
    OK(dfcclRunBroadcast(ctxs[0], 1, NULL, buffers[0][1], NULL, NULL));
    OK(dfcclRunBroadcast(ctxs[0], 0, buffers[0][0], buffers[0][0], NULL, NULL));
    OK(dfcclTest(ctxs[0], 0, &done));
    done_on_return += done;
    OK(dfcclRunBroadcast(ctxs[1], 0, NULL, buffers[1][0], NULL, NULL));
    OK(dfcclWait(ctxs[1], 0));
    OK(dfcclRunBroadcast(ctxs[1], 1, buffers[1][1], buffers[1][1], NULL, NULL));
    for (int rank = 0; rank < 2; rank++) OK(dfcclWaitAll(ctxs[rank]));
    for (int root = 0; root < 2; root++)
      CHECK(buffers[1 - root][root][0] == round && buffers[1 - root][root][1] == 10 + 11 * root,
            "round %d, root %d: %d, %d", round, root, buffers[1 - root][root][0],
            buffers[1 - root][root][1]);
  }
  fprintf(stderr, "first turn: %d of %d runs were done on return beside another\n", done_on_return,
          ROUNDS);
  CHECK(done_on_return >= LEAST, "only %d of %d runs were done on return", done_on_return, ROUNDS);
  for (int rank = 0; rank < 2; rank++) expect_counted(ctxs[rank], 2 * ROUNDS);
  df_free_contexts(ctxs, 2);
}

/* A run without a callback is not counted as finished before an earlier run's callback has
 * returned. Counts of finished runs grow in order; otherwise a wait for the earlier run would
 * return too soon. */
static atomic_int callback_runs, waits_for_first, callback_may_end, callback_ended;

static void blocking_callback(dfcclCollId_t coll, dfcclResult_t status, void *arg) {
  (void)coll, (void)arg;
  CHECK(status == dfcclSuccess, "%s", df_test_result_name(status));
  atomic_store(&callback_runs, 1);
  EVENTUALLY(atomic_load(&callback_may_end));
  atomic_store(&callback_ended, 1);
}

static void play_in_order(int thread, void *arg) {
  static int32_t send[2] = {5, 6}, recv[2][2];
  dfcclContext_t ctx = arg;
  if (thread == 0) {
    OK(dfcclRunAllReduce(ctx, 1, send, recv[0], blocking_callback, NULL));
  } else if (thread == 1) {
    EVENTUALLY(atomic_load(&callback_runs));
    atomic_store(&waits_for_first, 1);
  } else {
    EVENTUALLY(atomic_load(&waits_for_first));
    df_sleep_ms(2); /* the other thread is likely to wait by then; if not, it waits for both runs */
    OK(dfcclRunAllReduce(ctx, 1, send, recv[1], NULL, NULL));
    df_sleep_ms(2); /* time in which a wrong wait would return */
    atomic_store(&callback_may_end, 1);
  }
  OK(dfcclWait(ctx, 1));
  CHECK(atomic_load(&callback_ended), "dfcclWait returned before the callback of an earlier run");
  CHECK(recv[0][0] == 5 && (thread < 2 || recv[1][1] == 6), "%d, %d", recv[0][0], recv[1][1]);
}

DF_TEST(first_turn, not_before_an_earlier_callback, 60) {
  enum { ROUNDS = 20 };
  dfcclContext_t ctx;
  df_make_contexts(&ctx, 1, NULL);
  df_collective coll = df_simple(2, 1);
  df_register_all(&ctx, 1, &coll);
  for (int round = 0; round < ROUNDS; round++) {
    atomic_store(&callback_runs, 0);
    atomic_store(&waits_for_first, 0);
    atomic_store(&callback_may_end, 0);
    atomic_store(&callback_ended, 0);
    df_in_threads(3, play_in_order, ctx);
  }
  df_free_contexts(&ctx, 1);
}

/* Submits more runs than a submitter begins beside others. All are blocked until the root sends. */
DF_TEST(first_turn, many_are_stuck, 60) {
  enum { ROUNDS = 20, COLLECTIVES = 40 };
  static int32_t sent[COLLECTIVES], received[COLLECTIVES];
  dfcclContext_t ctxs[2];
  df_make_contexts(ctxs, 2, NULL);
  for (int rank = 0; rank < 2; rank++)
    for (uint64_t id = 0; id < COLLECTIVES; id++)
      OK(dfcclRegisterBroadcast(ctxs[rank], id, 1, dfcclInt32, 0, NULL));
  for (int32_t round = 0; round < ROUNDS; round++) {
    for (int32_t id = 0; id < COLLECTIVES; id++) sent[id] = round * COLLECTIVES + id;
    for (int32_t id = 0; id < COLLECTIVES; id++)
      OK(dfcclRunBroadcast(ctxs[1], (uint64_t)id, NULL, &received[id], NULL, NULL));
    for (int32_t id = 0; id < COLLECTIVES; id++)
      OK(dfcclRunBroadcast(ctxs[0], (uint64_t)id, &sent[id], &sent[id], NULL, NULL));
    for (int rank = 1; rank >= 0; rank--) OK(dfcclWaitAll(ctxs[rank]));
    CHECK(memcmp(sent, received, sizeof sent) == 0, "round %d", round);
  }
  df_free_contexts(ctxs, 2);
}

/* The same after primitives that have succeeded, which let the daemon poll for longer: the receiver
 * takes the root's message, and frees a slot for the next one, only when this thread continues. */
DF_TEST(first_turn, does_not_poll, 30) {
  if (df_on_cuda()) DF_SKIP("the CPU device only");
  enum { ROUNDS = 20, COUNT = 256 };
  static int32_t sent[COUNT], received[COUNT];
  dfcclContext_t ctxs[2];
  df_tune("spin_front", "1000000000");
  df_tune("spin_boost", "1000");
  df_tune("slot_bytes", "64"); /* so that the chunk takes 16 messages, */
  df_tune("slots", "4");       /* for 4 of which there are slots */
  df_tune("ring_bytes", "0");
  df_make_contexts(ctxs, 2, NULL);
  for (int rank = 0; rank < 2; rank++)
    OK(dfcclRegisterBroadcast(ctxs[rank], 1, COUNT, dfcclInt32, 0, NULL));
  for (int32_t round = 0; round < ROUNDS; round++) {
    for (int32_t i = 0; i < COUNT; i++) sent[i] = round * COUNT + i;
    OK(dfcclRunBroadcast(ctxs[0], 1, sent, sent, NULL, NULL));
    OK(dfcclRunBroadcast(ctxs[1], 1, NULL, received, NULL, NULL));
    for (int rank = 0; rank < 2; rank++) OK(dfcclWait(ctxs[rank], 1));
    CHECK(memcmp(sent, received, sizeof sent) == 0, "round %d", round);
  }
  df_free_contexts(ctxs, 2);
}
