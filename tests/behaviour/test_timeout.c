/*
 * Promise: with timeoutMs, a run that is not complete that long after its submission ends with
 * dfcclTimeout on every member that submitted it, even if the peer never ran it or never registered
 * the collective. Later calls on that context fail at once. Without timeoutMs a run may take any
 * time.
 */
#include "support/buffers.h"

/* Longer than a thread needs between two submissions, on a loaded machine too. */
enum { TIMEOUT_MS = 2000, RANKS = 3 };

static void expect_timeouts(dfcclContext_t *ctxs, bool everybody_registers) {
  int32_t send[100] = {0}, recv[RANKS][100];
  df_tally tallies[RANKS] = {0};
  df_collective coll = df_simple(100, RANKS);
  for (int rank = 0; rank < RANKS; rank++)
    if (rank != 1 || everybody_registers) OK(df_register(ctxs[rank], 77, &coll));
  double start = df_seconds();
  for (int rank = 0; rank < RANKS; rank += 2)
    OK(dfcclRunAllReduce(ctxs[rank], 77, send, recv[rank], df_tally_callback, &tallies[rank]));
  for (int rank = 0; rank < RANKS; rank += 2) {
    EVENTUALLY(atomic_load(&tallies[rank].calls) == 1);
    double took = df_seconds() - start;
    CHECK(atomic_load(&tallies[rank].status) == dfcclTimeout, "rank %d: %s", rank,
          df_test_result_name((dfcclResult_t)atomic_load(&tallies[rank].status)));
    CHECK(took > 0.9e-3 * TIMEOUT_MS, "after %.3f s already", took);
    const char *sentence = dfcclGetLastError(ctxs[rank]);
    CHECK(df_mentions(sentence, "77"), "the collective is not named: \"%s\"", sentence);
    CHECK(df_mentions(sentence, "2000 ms"), "the time is not named: \"%s\"", sentence);
    RESULT(dfcclRunAllReduce(ctxs[rank], 77, send, recv[rank], NULL, NULL), dfcclTimeout);
    RESULT(dfcclRegisterAllReduce(ctxs[rank], 78, 1, dfcclInt32, dfcclSum, NULL), dfcclTimeout);
  }
}

static void play(bool everybody_registers) {
  dfcclContext_t ctxs[RANKS];
  dfcclConfig_t config = df_config();
  config.timeoutMs = TIMEOUT_MS;
  df_make_contexts(ctxs, RANKS, &config);
  expect_timeouts(ctxs, everybody_registers);
  df_free_contexts(ctxs, RANKS);
}

DF_TEST(timeout, the_peer_never_runs, 30) { play(true); }

DF_TEST(timeout, the_peer_never_registers, 30) { play(false); }

static void wait_one(int rank, void *arg) {
  dfcclContext_t *ctxs = arg;
  if (rank == 0) RESULT(dfcclWait(ctxs[0], 1), dfcclTimeout);
}

/* A thread that drives the device inside dfcclWait observes the timeout too. */
DF_TEST(timeout, ends_a_wait, 30) {
  dfcclContext_t ctxs[2];
  int32_t send[1] = {0}, recv[1];
  dfcclConfig_t config = df_config();
  config.timeoutMs = TIMEOUT_MS;
  df_make_contexts(ctxs, 2, &config);
  df_collective coll = df_simple(1, 2);
  df_register_all(ctxs, 1, &coll);
  OK(dfcclRunAllReduce(ctxs[0], 1, send, recv, NULL, NULL));
  df_in_threads(1, wait_one, ctxs);
  df_free_contexts(ctxs, 2);
}

/* The same with a timeout that is shorter than the time between two reads of the clock. */
DF_TEST(timeout, may_be_a_moment, 30) {
  dfcclContext_t ctxs[2];
  int32_t send[1] = {0}, recv[1];
  dfcclConfig_t config = df_config();
  config.timeoutMs = 1;
  df_make_contexts(ctxs, 2, &config);
  df_collective coll = df_simple(1, 2);
  df_register_all(ctxs, 1, &coll);
  OK(dfcclRunAllReduce(ctxs[0], 1, send, recv, NULL, NULL));
  RESULT(dfcclWait(ctxs[0], 1), dfcclTimeout);
  df_free_contexts(ctxs, 2);
}

DF_TEST(timeout, is_not_for_runs_that_complete, 30) {
  dfcclContext_t ctxs[2];
  dfcclConfig_t config = df_config();
  config.timeoutMs = TIMEOUT_MS * 2;
  df_make_contexts(ctxs, 2, &config);
  df_collective coll = df_simple(1000, 2);
  df_register_all(ctxs, 1, &coll);
  for (uint64_t run = 0; run < 20; run++) df_exchange(ctxs, 1, &coll, run, 0);
  df_sleep_ms(TIMEOUT_MS * 2 + 500);
  df_exchange(ctxs, 1, &coll, 20, 0);
  df_free_contexts(ctxs, 2);
}

DF_TEST(timeout, zero_means_never, 30) {
  dfcclContext_t ctxs[2];
  df_make_contexts(ctxs, 2, NULL);
  df_collective coll = df_simple(1, 2);
  df_register_all(ctxs, 1, &coll);
  df_buffers late[2];
  for (int rank = 0; rank < 2; rank++) {
    df_buffers_make(&late[rank], ctxs[rank], &coll, rank, 0, 0);
    OK(df_run(ctxs[rank], 1, coll.kind, late[rank].send, late[rank].recv, NULL, NULL));
    if (rank == 0) df_sleep_ms(500);
  }
  for (int rank = 0; rank < 2; rank++) {
    OK(dfcclWait(ctxs[rank], 1));
    df_buffers_check(&late[rank]);
    df_buffers_free(&late[rank]);
  }
  df_free_contexts(ctxs, 2);
}
