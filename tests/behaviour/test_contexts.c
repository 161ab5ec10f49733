/*
 * Promise: several contexts may exist in one process. Jobs side by side and one after the other do
 * not disturb each other. Any number of threads may call functions of one context at one time.
 * dfcclDestroy waits for this rank's outstanding runs and their callbacks.
 */
#include "support/buffers.h"

#include <stdlib.h>

enum { JOBS = 3, RANKS = 3, THREADS = 6 };

static dfcclContext_t jobs[JOBS][RANKS];

static void take_part_in_all(int rank, void *arg) {
  (void)arg;
  df_collective colls[JOBS];
  df_buffers buffers[JOBS];
  for (int j = 0; j < JOBS; j++) {
    colls[j] = df_simple(500 * (size_t)(j + 1), RANKS);
    colls[j].seed = (uint64_t)j;
    OK(df_register(jobs[j][rank], 1, &colls[j])); /* the same id in each job */
  }
  for (uint64_t round = 0; round < 30; round++) {
    for (int i = 0; i < JOBS; i++) {
      int j = (i + rank) % JOBS; /* each rank creates the jobs in another order */
      df_buffers_make(&buffers[j], jobs[j][rank], &colls[j], rank, round, 0);
      OK(df_run(jobs[j][rank], 1, colls[j].kind, buffers[j].send, buffers[j].recv, NULL, NULL));
    }
    for (int j = 0; j < JOBS; j++) {
      OK(dfcclWait(jobs[j][rank], 1));
      df_buffers_check(&buffers[j]);
      df_buffers_free(&buffers[j]);
    }
  }
}

DF_TEST(contexts, jobs_side_by_side, 60) {
  for (int j = 0; j < JOBS; j++) df_make_contexts(jobs[j], RANKS, NULL);
  df_in_threads(RANKS, take_part_in_all, NULL);
  df_free_contexts(jobs[1], RANKS); /* one job ends, the others continue */
  df_collective coll = df_simple(77, RANKS);
  df_once(jobs[0], 9, &coll, 0);
  df_once(jobs[2], 9, &coll, 0);
  df_free_contexts(jobs[0], RANKS);
  df_free_contexts(jobs[2], RANKS);
}

DF_TEST(contexts, one_job_after_another, 60) {
  for (int i = 0; i < 40 / df_slowdown() + 3; i++) {
    dfcclContext_t ctxs[4];
    df_make_contexts(ctxs, 4, NULL);
    df_collective coll = df_simple(1000, 4);
    df_register_all(ctxs, 1, &coll);
    df_exchange(ctxs, 1, &coll, (uint64_t)i, 0);
    df_free_contexts(ctxs, 4);
  }
}

/* ---- many threads on one context: each thread has a collective of its own, on both ranks */

static void own_collective(int thread, void *arg) {
  dfcclContext_t *ctxs = arg;
  df_collective coll = df_simple(200 + (size_t)thread, 2);
  df_register_all(ctxs, (dfcclCollId_t)thread, &coll);
  for (uint64_t run = 0; run < 60; run++)
    df_exchange(ctxs, (dfcclCollId_t)thread, &coll, run, thread % 2 ? DF_ZERO_COPY : 0);
  df_deregister_all(ctxs, (dfcclCollId_t)thread, &coll);
}

DF_TEST(contexts, many_threads_on_one, 60) {
  dfcclContext_t ctxs[2];
  df_make_contexts(ctxs, 2, NULL);
  df_in_threads(THREADS, own_collective, ctxs);
  df_free_contexts(ctxs, 2);
}

/* ---- all threads submit to one collective of a single rank: each run is complete in itself */

typedef struct {
  dfcclContext_t ctx;
  df_tally tally;
} shared_one;

static void submit_many(int thread, void *arg) {
  enum { RUNS = 300 };
  shared_one *one = arg;
  static int32_t send[THREADS][RUNS][3], recv[THREADS][RUNS][3];
  for (int i = 0; i < RUNS; i++) {
    send[thread][i][1] = thread * RUNS + i;
    OK(dfcclRunAllReduce(one->ctx, 1, send[thread][i], recv[thread][i], df_tally_callback,
                         &one->tally));
    if (i % 50 == 0) OK(dfcclWait(one->ctx, 1));
  }
  OK(dfcclWait(one->ctx, 1));
  for (int i = 0; i < RUNS; i++)
    CHECK(recv[thread][i][1] == thread * RUNS + i, "thread %d run %d: %d", thread, i,
          recv[thread][i][1]);
}

DF_TEST(contexts, many_threads_on_one_collective, 60) {
  static shared_one one;
  df_make_contexts(&one.ctx, 1, NULL);
  OK(dfcclRegisterAllReduce(one.ctx, 1, 3, dfcclInt32, dfcclSum, NULL));
  df_in_threads(THREADS, submit_many, &one);
  CHECK(atomic_load(&one.tally.calls) == THREADS * 300, "%d", atomic_load(&one.tally.calls));
  df_free_contexts(&one.ctx, 1);
}

/* ---- destroy */

static void destroy_at_once(int rank, void *arg) {
  dfcclContext_t *ctxs = arg;
  df_unwatch(ctxs[rank]);
  if (rank == 1) df_sleep_ms(30);
  OK(dfcclDestroy(ctxs[rank]));
}

DF_TEST(contexts, destroy_waits_for_runs_and_callbacks, 60) {
  enum { RUNS = 200 };
  dfcclContext_t ctxs[2];
  df_tally tallies[2] = {0};
  df_make_contexts(ctxs, 2, NULL);
  df_collective coll = df_simple(2000, 2);
  df_register_all(ctxs, 1, &coll);
  df_buffers *buffers = calloc(2 * RUNS, sizeof *buffers);
  for (int i = 0; i < 2 * RUNS; i++) {
    int rank = i / RUNS;
    df_buffers_make(&buffers[i], ctxs[rank], &coll, rank, (uint64_t)(i % RUNS), 0);
    OK(df_run(ctxs[rank], 1, coll.kind, buffers[i].send, buffers[i].recv, df_tally_callback,
              &tallies[rank]));
  }
  df_in_threads(2, destroy_at_once, ctxs);
  for (int rank = 0; rank < 2; rank++)
    CHECK(atomic_load(&tallies[rank].calls) == RUNS && atomic_load(&tallies[rank].failures) == 0,
          "rank %d: %d callbacks, %d failures", rank, atomic_load(&tallies[rank].calls),
          atomic_load(&tallies[rank].failures));
  for (int i = 0; i < 2 * RUNS; i++) {
    df_buffers_check(&buffers[i]);
    df_buffers_free(&buffers[i]);
  }
  free(buffers);
}

/* Runs that peers submit after this rank has left end with dfcclRemoteError. */
DF_TEST(contexts, runs_with_a_destroyed_peer_fail, 60) {
  dfcclContext_t ctxs[2];
  int32_t send[10] = {0}, recv[10];
  df_tally tally = {0};
  df_make_contexts(ctxs, 2, NULL);
  df_collective coll = df_simple(10, 2);
  df_register_all(ctxs, 1, &coll);
  df_exchange(ctxs, 1, &coll, 0, 0);
  df_unwatch(ctxs[0]);
  OK(dfcclDestroy(ctxs[0]));
  dfcclResult_t result = dfcclRunAllReduce(ctxs[1], 1, send, recv, df_tally_callback, &tally);
  if (result == dfcclSuccess) {
    EVENTUALLY(atomic_load(&tally.calls) == 1);
    result = (dfcclResult_t)atomic_load(&tally.status);
  }
  CHECK(result == dfcclRemoteError, "%s", df_test_result_name(result));
  df_unwatch(ctxs[1]);
  OK(dfcclDestroy(ctxs[1]));
}

/* ---- dfcclWait returns the first failing status since the last one, and dfcclTest does not drive
 */

DF_TEST(contexts, wait_at_rest_returns_at_once, 30) {
  dfcclContext_t ctxs[2];
  df_make_contexts(ctxs, 2, NULL);
  df_collective coll = df_simple(10, 2);
  df_register_all(ctxs, 1, &coll);
  for (int rank = 0; rank < 2; rank++) {
    int done = 0;
    OK(dfcclWait(ctxs[rank], 1));
    OK(dfcclWaitAll(ctxs[rank]));
    OK(dfcclTest(ctxs[rank], 1, &done));
    CHECK(done == 1, "nothing was submitted, yet something is outstanding");
  }
  df_free_contexts(ctxs, 2);
}
