/*
 * Promise: no rank waits for a rank that leaves, whether it leaves in order or by a failing
 * dfcclInit. The runs that need it end with dfcclRemoteError, at whatever moment it left and
 * whatever it had registered. All other collectives continue. The sentence numbers a collective's
 * runs from 0, as every other sentence does.
 */
#include "support/buffers.h"
#include "support/processes.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

DF_TEST(departures, without_having_registered, 30) {
  dfcclContext_t ctxs[2];
  static int32_t send[1000], recv[1000];
  df_tally tally = {0};
  df_make_contexts(ctxs, 2, NULL);
  df_collective coll = df_simple(1000, 2);
  OK(df_register(ctxs[0], 7, &coll));
  OK(dfcclRunAllReduce(ctxs[0], 7, send, recv, df_tally_callback, &tally));
  df_unwatch(ctxs[1]);
  OK(dfcclDestroy(ctxs[1]));
  EVENTUALLY(atomic_load(&tally.calls) == 1);
  CHECK(atomic_load(&tally.status) == dfcclRemoteError, "%s",
        df_test_result_name((dfcclResult_t)atomic_load(&tally.status)));
  CHECK(df_mentions(dfcclGetLastError(ctxs[0]), "rank 1"), "\"%s\"", dfcclGetLastError(ctxs[0]));
  df_free_contexts(ctxs, 1);
}

/* Two ranks run the collective `before` times. Then rank 1 leaves, or only stays away until rank
 * 0's next run has timed out. Returns rank 0's error sentence. */
static const char *sentence_after(int before, int leaves, dfcclContext_t ctxs[2]) {
  static int32_t send[2][10], recv[2][10];
  df_collective coll = df_simple(10, 2);
  dfcclConfig_t config = df_config();
  if (!leaves) config.timeoutMs = 200;
  df_make_contexts(ctxs, 2, &config);
  for (int rank = 0; rank < 2; rank++) OK(df_register(ctxs[rank], 7, &coll));
  for (int run = 0; run < before; run++) {
    for (int rank = 0; rank < 2; rank++)
      OK(dfcclRunAllReduce(ctxs[rank], 7, send[rank], recv[rank], NULL, NULL));
    for (int rank = 0; rank < 2; rank++) OK(dfcclWait(ctxs[rank], 7));
  }
  OK(dfcclRunAllReduce(ctxs[0], 7, send[0], recv[0], NULL, NULL));
  if (leaves) {
    df_unwatch(ctxs[1]);
    OK(dfcclDestroy(ctxs[1]));
  }
  RESULT(dfcclWait(ctxs[0], 7), leaves ? dfcclRemoteError : dfcclTimeout);
  return dfcclGetLastError(ctxs[0]);
}

DF_TEST(departures, runs_are_numbered_from_0, 30) {
  for (int before = 0; before < 3; before++)
    for (int leaves = 0; leaves < 2; leaves++) {
      char wanted[64];
      dfcclContext_t ctxs[2];
      const char *sentence = sentence_after(before, leaves, ctxs);
      snprintf(wanted, sizeof wanted, "run %d of rank 0 %s", before,
               leaves ? "can never complete" : "did not complete within");
      CHECK(df_mentions(sentence, wanted), "no \"%s\" in \"%s\"", wanted, sentence);
      df_free_contexts(ctxs, leaves ? 1 : 2);
    }
}

static void join_and_leave(int rank, void *arg) {
  const dfcclUniqueId *id = arg;
  dfcclContext_t ctx = df_init(rank, 2, id, NULL);
  int32_t send[10] = {0}, recv[10];
  df_collective coll = df_simple(10, 2);
  OK(df_register(ctx, 1, &coll));
  if (rank == 0) {
    dfcclResult_t result = dfcclRunAllReduce(ctx, 1, send, recv, NULL, NULL);
    if (result == dfcclSuccess) {
      df_waiting_for("a run whose peer has left");
      result = dfcclWait(ctx, 1);
    }
    CHECK(result == dfcclRemoteError, "%s", df_test_result_name(result));
  }
  df_finish(ctx);
}

/* The leaving rank's messages may arrive before the other rank's dfcclInit has returned. */
DF_TEST(departures, at_once, 60) {
  for (int i = 0; i < 100; i++) {
    dfcclUniqueId id;
    OK(dfcclGetUniqueId(&id));
    df_in_threads(2, join_and_leave, &id);
  }
}

static void join_or_fail(int rank, void *arg) {
  const dfcclUniqueId *id = arg;
  dfcclContext_t ctx;
  dfcclConfig_t config = df_config();
  if (rank == 1) {
    RESULT(dfcclInit(&ctx, 2, *id, rank, &config), dfcclInvalidUsage);
    return;
  }
  ctx = df_init(rank, 2, id, NULL);
  int32_t send[10] = {0}, recv[10];
  df_collective coll = df_simple(10, 2);
  dfcclResult_t result = df_register(ctx, 1, &coll);
  if (result == dfcclSuccess) result = dfcclRunAllReduce(ctx, 1, send, recv, NULL, NULL);
  if (result == dfcclSuccess) {
    df_waiting_for("a run whose peer's dfcclInit has failed");
    result = dfcclWait(ctx, 1);
  }
  CHECK(result == dfcclRemoteError, "%s", df_test_result_name(result));
  df_finish(ctx);
}

/* Rank 1 cannot write its recording, and finds this out when all ranks have joined. */
DF_TEST(departures, by_a_failing_init, 30) {
  char directory[] = "/tmp/dfccl-departures-XXXXXX", name[64];
  dfcclUniqueId id;
  CHECK(mkdtemp(directory) != NULL, "no temporary directory");
  snprintf(name, sizeof name, "%s/rank-1.json", directory);
  CHECK(mkdir(name, 0700) == 0, "no directory in the recording's place");
  CHECK(setenv("DFCCL_RECORD", directory, 1) == 0, "setenv");
  OK(dfcclGetUniqueId(&id));
  df_in_threads(2, join_or_fail, &id);
  rmdir(name);
  snprintf(name, sizeof name, "%s/rank-0.json", directory);
  unlink(name);
  rmdir(directory);
}

/* The last rank leaves while the others still send messages to it; the others continue without
 * it. */
static void go_on(int rank, int ranks, const dfcclUniqueId *id, void *arg) {
  (void)arg;
  dfcclContext_t ctx = df_init(rank, ranks, id, NULL);
  static int32_t send[100], recv[100];
  df_collective all = df_simple(100, ranks), rest = df_simple(100, ranks - 1);
  for (int c = 0; c < 200; c++) OK(df_register(ctx, (dfcclCollId_t)c, &all));
  OK(dfcclRunAllReduce(ctx, 0, send, recv, NULL, NULL));
  OK(dfcclWait(ctx, 0));
  if (rank < ranks - 1) {
    for (int c = 0; c < 200; c++) OK(dfcclDeregister(ctx, (dfcclCollId_t)c));
    OK(df_register(ctx, 1000, &rest));
    for (int i = 0; i < 50; i++) {
      OK(dfcclRunAllReduce(ctx, 1000, send, recv, NULL, NULL));
      OK(dfcclWait(ctx, 1000));
      df_sleep_ms(1);
    }
  }
  df_finish(ctx);
}

DF_TEST(departures, of_a_process_that_others_write_to, 60) {
  for (int i = 0; i < 10; i++) {
    df_family family;
    df_fork(&family, 3, 30, go_on, NULL);
    df_join(&family);
  }
}
