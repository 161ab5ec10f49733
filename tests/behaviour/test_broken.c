/*
 * Promise: later calls on a broken context fail at once. A waiting call returns when the runs that
 * it waits for have ended. It returns their failing status if there is one, otherwise the failure
 * that broke the context. It never hangs, and it never returns dfcclSuccess.
 */
#include "support/buffers.h"

enum { RANKS = 3, COUNT = 8, SHARED = 1, PAIR = 2, UNUSED = 3 };

typedef struct {
  dfcclContext_t ctxs[RANKS];
  int32_t send[COUNT], recv[RANKS][COUNT];
} job;

/* Rank 2 aborts. Ranks 0 and 1 have a collective of which rank 2 is no member. */
static void make(job *j) {
  static const int pair[] = {0, 1};
  df_make_contexts(j->ctxs, RANKS, NULL);
  df_collective coll = df_simple(COUNT, RANKS);
  df_register_all(j->ctxs, SHARED, &coll);
  df_register_all(j->ctxs, UNUSED, &coll);
  dfcclCollOptions_t options = DFCCL_COLL_OPTIONS_INITIALIZER;
  options.ranks = pair;
  options.nRanks = 2;
  for (int rank = 0; rank < 2; rank++)
    OK(dfcclRegisterAllReduce(j->ctxs[rank], PAIR, COUNT, dfcclInt32, dfcclSum, &options));
}

static void run(job *j, int rank, dfcclCollId_t id) {
  OK(dfcclRunAllReduce(j->ctxs[rank], id, j->send, j->recv[rank], NULL, NULL));
}

static void break_it(job *j) {
  OK(dfcclAbort(j->ctxs[2]));
  for (int rank = 0; rank < 2; rank++)
    EVENTUALLY(dfcclRunAllReduce(j->ctxs[rank], UNUSED, j->send, j->recv[rank], NULL, NULL) ==
               dfcclRemoteError);
}

static void says_so(dfcclContext_t ctx, dfcclResult_t result) {
  RESULT(result, dfcclRemoteError);
  CHECK(df_mentions(dfcclGetLastError(NULL), "rank 2"), "\"%s\"", dfcclGetLastError(NULL));
  CHECK(df_mentions(dfcclGetLastError(ctx), "rank 2"), "\"%s\"", dfcclGetLastError(ctx));
}

DF_TEST(broken, every_later_call_fails, 30) {
  static job j;
  int done = -1;
  make(&j);
  for (int rank = 0; rank < RANKS; rank++) run(&j, rank, SHARED);
  for (int rank = 0; rank < RANKS; rank++) OK(dfcclWait(j.ctxs[rank], SHARED));
  break_it(&j);
  for (int rank = 0; rank < 2; rank++) {
    dfcclContext_t ctx = j.ctxs[rank];
    for (int twice = 0; twice < 2; twice++) {
      says_so(ctx, dfcclWait(ctx, SHARED));
      says_so(ctx, dfcclWait(ctx, UNUSED));
      says_so(ctx, dfcclWaitAll(ctx));
      says_so(ctx, dfcclDeviceSynchronize(ctx));
      done = -1;
      says_so(ctx, dfcclTest(ctx, SHARED, &done));
      CHECK(done == 1, "all its runs are complete");
    }
    says_so(ctx, dfcclRegisterAllReduce(ctx, 9, 1, dfcclInt32, dfcclSum, NULL));
    OK(dfcclDeregister(ctx, SHARED));
  }
  RESULT(dfcclWaitAll(j.ctxs[2]), dfcclAborted);
  RESULT(dfcclDeviceSynchronize(j.ctxs[2]), dfcclAborted);
  df_free_contexts(j.ctxs, RANKS);
}

/* Runs that do not need the lost rank continue, and waiting for them works. */
DF_TEST(broken, runs_that_can_complete_do, 30) {
  static job j;
  int done = -1;
  make(&j);
  run(&j, 0, PAIR); /* rank 1 submits later, when its context is broken: the run ends */
  run(&j, 0, SHARED);
  break_it(&j);
  says_so(j.ctxs[0], dfcclWait(j.ctxs[0], SHARED));
  for (int rank = 0; rank < 2; rank++) says_so(j.ctxs[rank], dfcclWait(j.ctxs[rank], PAIR));
  says_so(j.ctxs[0], dfcclTest(j.ctxs[0], PAIR, &done));
  CHECK(done == 1, "it was waited for");
  df_free_contexts(j.ctxs, RANKS);
}
