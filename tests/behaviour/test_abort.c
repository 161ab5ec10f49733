/*
 * Promise: dfcclAbort never hangs. Every outstanding run of this rank completes with dfcclAborted,
 * its callback included, exactly once even when the abort races with completion. On peers, the runs
 * that need this rank end with dfcclRemoteError. dfcclDestroy works afterwards.
 */
#include "support/buffers.h"

enum { STUCK = 20 };

DF_TEST(abort, while_stuck, 30) {
  dfcclContext_t ctxs[2];
  static int32_t send[1000], recv[STUCK][1000];
  df_tally tally = {0};
  df_make_contexts(ctxs, 2, NULL);
  df_collective coll = df_simple(1000, 2);
  for (int c = 0; c < STUCK; c++) {
    df_register_all(ctxs, (dfcclCollId_t)c, &coll);
    OK(dfcclRunAllReduce(ctxs[0], (dfcclCollId_t)c, send, recv[c], df_tally_callback, &tally));
  }
  df_sleep_ms(5);
  OK(dfcclAbort(ctxs[0]));
  EVENTUALLY(atomic_load(&tally.calls) == STUCK);
  CHECK(atomic_load(&tally.failures) == STUCK && atomic_load(&tally.status) == dfcclAborted,
        "%d failures, last %s", atomic_load(&tally.failures),
        df_test_result_name((dfcclResult_t)atomic_load(&tally.status)));
  RESULT(dfcclRunAllReduce(ctxs[0], 0, send, recv[0], NULL, NULL), dfcclAborted);
  RESULT(dfcclRegisterAllReduce(ctxs[0], 99, 1, dfcclInt32, dfcclSum, NULL), dfcclAborted);
  df_free_contexts(ctxs, 2);
}

static void wait_for_abort(int rank, void *arg) {
  dfcclContext_t *ctxs = arg;
  if (rank == 0) {
    RESULT(dfcclWait(ctxs[0], 1), dfcclAborted);
  } else {
    df_sleep_ms(20);
    OK(dfcclAbort(ctxs[0]));
  }
}

DF_TEST(abort, wakes_a_thread_that_waits, 30) {
  dfcclContext_t ctxs[2];
  int32_t send[10] = {0}, recv[10];
  df_make_contexts(ctxs, 2, NULL);
  df_collective coll = df_simple(10, 2);
  df_register_all(ctxs, 1, &coll);
  OK(dfcclRunAllReduce(ctxs[0], 1, send, recv, NULL, NULL));
  df_in_threads(2, wait_for_abort, ctxs);
  df_free_contexts(ctxs, 2);
}

DF_TEST(abort, peers_get_a_remote_error, 30) {
  dfcclContext_t ctxs[3];
  static int32_t send[1000], recv[3][1000];
  df_tally tally = {0};
  df_make_contexts(ctxs, 3, NULL);
  df_collective coll = df_simple(1000, 3);
  df_register_all(ctxs, 1, &coll);
  for (int rank = 1; rank < 3; rank++)
    OK(dfcclRunAllReduce(ctxs[rank], 1, send, recv[rank], df_tally_callback, &tally));
  OK(dfcclAbort(ctxs[0]));
  EVENTUALLY(atomic_load(&tally.calls) == 2);
  CHECK(atomic_load(&tally.failures) == 2 && atomic_load(&tally.status) == dfcclRemoteError, "%s",
        df_test_result_name((dfcclResult_t)atomic_load(&tally.status)));
  CHECK(df_mentions(dfcclGetLastError(ctxs[1]), "0"), "rank 0 is not named: \"%s\"",
        dfcclGetLastError(ctxs[1]));
  df_free_contexts(ctxs, 3);
}

typedef struct {
  dfcclContext_t *ctxs;
  df_tally tallies[2];
  int submitted[2];
  int delay_us;
} race;

static void run_until_refused(int rank, void *arg) {
  race *r = arg;
  enum { OUTSTANDING_MAX = 1 << 17 };
  static int32_t send[4], recv[2][OUTSTANDING_MAX][4];
  if (rank == 2) { /* the third thread calls dfcclAbort */
    double start = df_seconds();
    while (df_seconds() - start < 1e-6 * r->delay_us) {
    }
    OK(dfcclAbort(r->ctxs[0]));
    return;
  }
  dfcclResult_t result = dfcclSuccess;
  while (result == dfcclSuccess ||
         result == dfcclInvalidUsage) { /* the queue is full: submit again */
    result =
        dfcclRunAllReduce(r->ctxs[rank], 1, send, recv[rank][r->submitted[rank] % OUTSTANDING_MAX],
                          df_tally_callback, &r->tallies[rank]);
    r->submitted[rank] += result == dfcclSuccess;
  }
  CHECK(result == (rank == 0 ? dfcclAborted : dfcclRemoteError), "rank %d: %s", rank,
        df_test_result_name(result));
}

/* Each accepted run has exactly one callback, with success or with a failure. */
DF_TEST(abort, races_with_completion, 60) {
  int times = df_slowdown() == 1 ? 40 : 10;
  for (int i = 0; i < times; i++) {
    dfcclContext_t ctxs[2];
    race r = {.ctxs = ctxs, .delay_us = 100 * i};
    df_make_contexts(ctxs, 2, NULL);
    df_collective coll = df_simple(4, 2);
    df_register_all(ctxs, 1, &coll);
    df_in_threads(3, run_until_refused, &r);
    for (int rank = 0; rank < 2; rank++)
      EVENTUALLY(atomic_load(&r.tallies[rank].calls) == r.submitted[rank]);
    df_free_contexts(ctxs, 2);
    for (int rank = 0; rank < 2; rank++)
      CHECK(atomic_load(&r.tallies[rank].calls) == r.submitted[rank], "%d callbacks for %d runs",
            atomic_load(&r.tallies[rank].calls), r.submitted[rank]);
  }
}

DF_TEST(abort, twice_and_at_rest, 30) {
  dfcclContext_t ctxs[2];
  df_make_contexts(ctxs, 2, NULL);
  OK(dfcclAbort(ctxs[0]));
  OK(dfcclAbort(ctxs[0]));
  df_free_contexts(ctxs, 2);
}
