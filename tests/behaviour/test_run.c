/*
 * Promise: dfcclRun submits one run of any kind and numbers it. dfcclWaitRun waits for that run and
 * its callback, up to the given time, and returns its status. If a dfcclRun_t requests something
 * that this library does not have, it is refused, and the sentence names the field.
 */
#include "support/buffers.h"

#include <string.h>

enum { RANKS = 2, COUNT = 8 };

static dfcclRun_t run_of(const void *send, void *recv) {
  dfcclRun_t run = DFCCL_RUN_INITIALIZER;
  run.sendBuf = send;
  run.recvBuf = recv;
  return run;
}

DF_TEST(run, every_kind_is_run_and_numbered, 30) {
  static const df_kind kinds[] = {DF_ALL_REDUCE, DF_REDUCE,         DF_BROADCAST,
                                  DF_ALL_GATHER, DF_REDUCE_SCATTER, DF_ALL_TO_ALL};
  dfcclContext_t ctxs[RANKS];
  df_make_contexts(ctxs, RANKS, NULL);
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
    df_collective coll = df_simple(COUNT, RANKS);
    coll.kind = kinds[k];
    df_register_all(ctxs, k, &coll);
    for (uint64_t i = 0; i < 3; i++) {
      df_buffers buffers[RANKS];
      for (int rank = 0; rank < RANKS; rank++) {
        df_buffers_make(&buffers[rank], ctxs[rank], &coll, rank, i, 0);
        dfcclRun_t run = run_of(buffers[rank].send, buffers[rank].recv);
        run.count = i == 1 ? COUNT : 0;
        run.run = 99;
        OK(dfcclRun(ctxs[rank], k, &run));
        CHECK(run.run == i, "run %llu is numbered %llu", (unsigned long long)i,
              (unsigned long long)run.run);
      }
      for (int rank = 0; rank < RANKS; rank++) {
        OK(dfcclWaitRun(ctxs[rank], k, i, -1));
        df_buffers_check(&buffers[rank]);
        df_buffers_free(&buffers[rank]);
      }
    }
  }
  df_free_contexts(ctxs, RANKS);
}

static void expect_refused(dfcclContext_t ctx, dfcclRun_t run, const char *field) {
  RESULT(dfcclRun(ctx, 1, &run), dfcclInvalidArgument);
  CHECK(df_mentions(dfcclGetLastError(ctx), field), "\"%s\" does not name %s",
        dfcclGetLastError(ctx), field);
}

DF_TEST(run, invalid_fields_are_refused_by_name, 30) {
  dfcclContext_t ctx;
  int32_t send[COUNT] = {0}, recv[COUNT];
  size_t counts[RANKS] = {1, 1};
  df_make_contexts(&ctx, 1, NULL);
  df_collective coll = df_simple(COUNT, 1);
  df_register_all(&ctx, 1, &coll);
  dfcclRun_t run = run_of(send, recv);
  run.count = COUNT + 1;
  expect_refused(ctx, run, "count");
  expect_refused(ctx, run, "9");
  run = run_of(send, recv);
  run.sendCounts = counts;
  expect_refused(ctx, run, "sendCounts");
  run = run_of(send, recv);
  run.recvDispls = counts;
  expect_refused(ctx, run, "recvDispls");
  run = run_of(send, recv);
  run.flags = 64;
  expect_refused(ctx, run, "flags");
  run = run_of(send, recv);
  run.stream = &run;
  expect_refused(ctx, run, "stream");
  expect_refused(ctx, run_of(send, NULL), "recvBuf");
  run = run_of(send, recv);
  run.magic = 5;
  expect_refused(ctx, run, "DFCCL_RUN_INITIALIZER");
  RESULT(dfcclRun(ctx, 1, NULL), dfcclInvalidArgument);
  run = run_of(send, recv);
  RESULT(dfcclRun(ctx, 2, &run), dfcclInvalidArgument);
  RESULT(dfcclRun(NULL, 1, &run), dfcclInvalidArgument);
  OK(dfcclRun(ctx, 1, &run)); /* none of the runs above has a number */
  CHECK(run.run == 0, "run %llu", (unsigned long long)run.run);
  df_free_contexts(&ctx, 1);
}

DF_TEST(run, a_wait_for_a_run_ends_with_its_time, 30) {
  dfcclContext_t ctxs[RANKS];
  int32_t send[COUNT] = {0}, recv[RANKS][2][COUNT];
  df_make_contexts(ctxs, RANKS, NULL);
  df_collective coll = df_simple(COUNT, RANKS);
  df_register_all(ctxs, 1, &coll);
  RESULT(dfcclWaitRun(ctxs[0], 1, 0, -1), dfcclInvalidArgument);
  RESULT(dfcclWaitRun(ctxs[0], 2, 0, -1), dfcclInvalidArgument);
  for (int i = 0; i < 2; i++) OK(dfcclRunAllReduce(ctxs[0], 1, send, recv[0][i], NULL, NULL));
  RESULT(dfcclWaitRun(ctxs[0], 1, 0, 0), dfcclInProgress);
  RESULT(dfcclWaitRun(ctxs[0], 1, 0, 20), dfcclInProgress);
  RESULT(dfcclWaitRun(ctxs[0], 1, 2, -1), dfcclInvalidArgument);
  CHECK(df_mentions(dfcclGetLastError(ctxs[0]), "run 2"), "\"%s\"", dfcclGetLastError(ctxs[0]));
  OK(dfcclRunAllReduce(ctxs[1], 1, send, recv[1][0], NULL, NULL));
  OK(dfcclWaitRun(ctxs[0], 1, 0, -1));
  OK(dfcclWaitRun(ctxs[0], 1, 0, 0));
  RESULT(dfcclWaitRun(ctxs[0], 1, 1, 0), dfcclInProgress);
  OK(dfcclRunAllReduce(ctxs[1], 1, send, recv[1][1], NULL, NULL));
  OK(dfcclWaitRun(ctxs[0], 1, 1, 1000 * 60));
  df_free_contexts(ctxs, RANKS);
}

/* A wait with timeout 0 drives nothing, but it sees completions by other threads. */
DF_TEST(run, looking_sees_what_library_threads_complete, 30) {
  dfcclContext_t ctxs[RANKS];
  int32_t send[COUNT] = {0}, recv[RANKS][COUNT];
  df_make_contexts(ctxs, RANKS, NULL);
  df_collective coll = df_simple(COUNT, RANKS);
  df_register_all(ctxs, 1, &coll);
  for (int rank = 0; rank < RANKS; rank++)
    OK(dfcclRunAllReduce(ctxs[rank], 1, send, recv[rank], NULL, NULL));
  for (int rank = 0; rank < RANKS; rank++)
    EVENTUALLY(dfcclWaitRun(ctxs[rank], 1, 0, 0) == dfcclSuccess);
  df_free_contexts(ctxs, RANKS);
}

static atomic_int gate_entered, gate_open;

static void block(dfcclCollId_t coll, dfcclResult_t status, void *arg) {
  (void)coll;
  (void)status;
  (void)arg;
  atomic_store(&gate_entered, 1);
  while (!atomic_load(&gate_open)) df_nap();
}

/* The earlier run is complete, but its own callback has not returned. */
DF_TEST(run, a_wait_for_a_run_covers_its_callback, 30) {
  dfcclContext_t ctxs[RANKS];
  int32_t send[COUNT] = {0}, recv[RANKS][COUNT];
  df_make_contexts(ctxs, RANKS, NULL);
  df_collective coll = df_simple(COUNT, RANKS);
  df_register_all(ctxs, 1, &coll);
  for (int rank = 0; rank < RANKS; rank++) {
    OK(dfcclRunAllReduce(ctxs[rank], 1, send, recv[rank], NULL, NULL));
    OK(dfcclRunAllReduce(ctxs[rank], 1, send, recv[rank], rank == 0 ? block : NULL, NULL));
  }
  EVENTUALLY(atomic_load(&gate_entered));
  OK(dfcclWaitRun(ctxs[0], 1, 0, -1));
  RESULT(dfcclWaitRun(ctxs[0], 1, 1, 5), dfcclInProgress);
  atomic_store(&gate_open, 1);
  OK(dfcclWaitRun(ctxs[0], 1, 1, -1));
  df_free_contexts(ctxs, RANKS);
}

static atomic_int refusals;

static void try_to_wait(dfcclCollId_t coll, dfcclResult_t status, void *arg) {
  (void)status;
  atomic_fetch_add(&refusals, dfcclWaitRun(arg, coll, 0, -1) == dfcclInvalidUsage);
  atomic_fetch_add(&refusals, dfcclWaitRun(arg, coll, 0, 0) == dfcclInvalidUsage);
}

DF_TEST(run, is_not_waited_for_in_a_callback, 30) {
  dfcclContext_t ctx;
  int32_t send[COUNT] = {0}, recv[COUNT];
  df_make_contexts(&ctx, 1, NULL);
  df_collective coll = df_simple(COUNT, 1);
  df_register_all(&ctx, 1, &coll);
  OK(dfcclRunAllReduce(ctx, 1, send, recv, try_to_wait, ctx));
  OK(dfcclWaitRun(ctx, 1, 0, -1));
  CHECK(atomic_load(&refusals) == 2, "%d of 2 refusals", atomic_load(&refusals));
  df_free_contexts(&ctx, 1);
}

/* Each run has its own status, also after the collective and the context have failed. */
DF_TEST(run, statuses_of_single_runs_stay_known, 30) {
  dfcclContext_t ctxs[RANKS];
  int32_t send[COUNT] = {0}, recv[RANKS][COUNT];
  df_make_contexts(ctxs, RANKS, NULL);
  df_collective coll = df_simple(COUNT, RANKS);
  df_register_all(ctxs, 1, &coll);
  for (int i = 0; i < 3; i++)
    for (int rank = 0; rank < RANKS; rank++)
      OK(dfcclRunAllReduce(ctxs[rank], 1, send, recv[rank], NULL, NULL));
  OK(dfcclWaitRun(ctxs[0], 1, 2, -1));
  for (int i = 0; i < 6; i++) OK(dfcclRunAllReduce(ctxs[0], 1, send, recv[0], NULL, NULL));
  OK(dfcclAbort(ctxs[1]));
  for (uint64_t i = 9; i-- > 0;)
    RESULT(dfcclWaitRun(ctxs[0], 1, i, -1), i < 3 ? dfcclSuccess : dfcclRemoteError);
  RESULT(dfcclWait(ctxs[0], 1), dfcclRemoteError);
  RESULT(dfcclWaitRun(ctxs[0], 1, 3, 0), dfcclRemoteError);
  CHECK(df_mentions(dfcclGetLastError(NULL), "rank 1"), "\"%s\"", dfcclGetLastError(NULL));
  OK(dfcclWaitRun(ctxs[0], 1, 1, 0));
  df_free_contexts(ctxs, RANKS);
}
