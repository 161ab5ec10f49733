/*
 * Promise: each call waits for exactly the runs that it names. dfcclWaitAll: every run that was
 * submitted before it, whatever else completes meanwhile. dfcclWait: not for other collectives'
 * callbacks. dfcclDestroy: also for the runs that callbacks submit while it waits. dfcclAbort:
 * never for user code.
 */
#include "support/buffers.h"

#include <sched.h>
#include <semaphore.h>

enum { CHAINS = 16 };

typedef struct {
  dfcclContext_t ctx;
  atomic_int left, calls, failures;
  int32_t send, recv;
} chain;

/* Submits the collective again until the chain's count is used up. */
static void again(dfcclCollId_t id, dfcclResult_t status, void *arg) {
  chain *c = arg;
  atomic_fetch_add(&c->calls, 1);
  if (status != dfcclSuccess) atomic_fetch_add(&c->failures, 1);
  if (status == dfcclSuccess && atomic_fetch_sub(&c->left, 1) > 0)
    OK(dfcclRunAllReduce(c->ctx, id, &c->send, &c->recv, again, c));
}

static void register_alone(dfcclContext_t ctx, dfcclCollId_t id, int rank) {
  dfcclCollOptions_t options = DFCCL_COLL_OPTIONS_INITIALIZER;
  options.ranks = &rank;
  options.nRanks = 1;
  OK(dfcclRegisterAllReduce(ctx, id, 1, dfcclInt32, dfcclSum, &options));
}

static void be_late(int rank, void *arg) {
  dfcclContext_t *ctxs = arg;
  static int32_t send[10], recv[2][10];
  if (rank == 1) {
    df_sleep_ms(100);
    OK(dfcclRunAllReduce(ctxs[1], 1, send, recv[1], NULL, NULL));
    OK(dfcclWait(ctxs[1], 1));
    return;
  }
  int done = 0;
  OK(dfcclRunAllReduce(ctxs[0], 1, send, recv[0], NULL, NULL));
  OK(dfcclWaitAll(ctxs[0]));
  OK(dfcclTest(ctxs[0], 1, &done));
  CHECK(done, "dfcclWaitAll returned before a run that was submitted before it was complete");
}

DF_TEST(waiting, all_means_all, 30) {
  dfcclContext_t ctxs[2];
  static chain busy;
  df_make_contexts(ctxs, 2, NULL);
  df_collective coll = df_simple(10, 2);
  df_register_all(ctxs, 1, &coll);
  busy.ctx = ctxs[0];
  atomic_store(&busy.left, 1 << 30);
  register_alone(ctxs[0], 2, 0);
  OK(dfcclRunAllReduce(ctxs[0], 2, &busy.send, &busy.recv, again, &busy));
  df_in_threads(2, be_late, ctxs);
  atomic_store(&busy.left, 0);
  OK(dfcclWaitAll(ctxs[0]));
  df_free_contexts(ctxs, 2);
}

DF_TEST(waiting, for_one_among_busy_ones, 60) {
  dfcclContext_t ctx;
  static chain busy[CHAINS];
  int32_t send = 1, recv;
  df_make_contexts(&ctx, 1, NULL);
  for (int c = 0; c < CHAINS; c++) {
    busy[c].ctx = ctx;
    atomic_store(&busy[c].left, 1 << 30);
    register_alone(ctx, (dfcclCollId_t)c, 0);
    for (int i = 0; i < 3; i++)
      OK(dfcclRunAllReduce(ctx, (dfcclCollId_t)c, &busy[c].send, &busy[c].recv, again, &busy[c]));
  }
  register_alone(ctx, CHAINS, 0);
  df_waiting_for("one collective among others that never rest");
  for (int i = 0; i < 200; i++) {
    OK(dfcclRunAllReduce(ctx, CHAINS, &send, &recv, NULL, NULL));
    OK(dfcclWait(ctx, CHAINS));
  }
  for (int c = 0; c < CHAINS; c++) atomic_store(&busy[c].left, 0);
  df_free_contexts(&ctx, 1);
}

DF_TEST(waiting, destroy_waits_for_chains, 60) {
  for (int i = 0; i < 20; i++) {
    dfcclContext_t ctxs[2];
    static chain chains[2];
    df_make_contexts(ctxs, 2, NULL);
    df_collective coll = df_simple(1, 2);
    df_register_all(ctxs, 1, &coll);
    for (int rank = 0; rank < 2; rank++) {
      chains[rank] = (chain){.ctx = ctxs[rank]};
      atomic_store(&chains[rank].left, 300);
      OK(dfcclRunAllReduce(ctxs[rank], 1, &chains[rank].send, &chains[rank].recv, again,
                           &chains[rank]));
    }
    df_free_contexts(ctxs, 2);
    for (int rank = 0; rank < 2; rank++)
      CHECK(atomic_load(&chains[rank].calls) == 301 && atomic_load(&chains[rank].failures) == 0,
            "rank %d: %d of 301 callbacks, %d failures", rank, atomic_load(&chains[rank].calls),
            atomic_load(&chains[rank].failures));
  }
}

static void wait_for_permission(dfcclCollId_t coll, dfcclResult_t status, void *arg) {
  (void)coll;
  (void)status;
  sem_wait(arg);
}

DF_TEST(waiting, abort_runs_no_user_code, 30) {
  for (int i = 0; i < 50; i++) {
    dfcclContext_t ctxs[2];
    static int32_t send[10], recv[10];
    sem_t permission;
    sem_init(&permission, 0, 0);
    df_make_contexts(ctxs, 2, NULL);
    df_collective coll = df_simple(10, 2);
    df_register_all(ctxs, 1, &coll);
    for (int run = 0; run < 3; run++)
      OK(dfcclRunAllReduce(ctxs[0], 1, send, recv, wait_for_permission, &permission));
    df_waiting_for("dfcclAbort, which must not wait for a callback");
    OK(dfcclAbort(ctxs[0]));
    for (int run = 0; run < 3; run++) sem_post(&permission);
    df_free_contexts(ctxs, 2);
    sem_destroy(&permission);
  }
}

/* ---- collectives that come and go while they are waited for ---- */

typedef struct {
  dfcclContext_t ctxs[2];
  atomic_int returned;
} comer;

static void deregister_slowly(dfcclCollId_t id, dfcclResult_t status, void *arg) {
  comer *c = arg;
  CHECK(status == dfcclSuccess || status == dfcclRemoteError, "%s", df_test_result_name(status));
  OK(dfcclDeregister(c->ctxs[0], id));
  for (int i = 0; i < 20; i++) sched_yield();
  atomic_store(&c->returned, 1);
}

static void wait_for_callback(int thread, void *arg) {
  comer *c = arg;
  (void)thread;
  dfcclResult_t result = dfcclWait(c->ctxs[0], 5);
  if (result == dfcclSuccess)
    CHECK(atomic_load(&c->returned), "dfcclWait returned before the callback");
  else
    CHECK(result == dfcclInvalidArgument, "%s",
          df_test_result_name(result)); /* deregistered already */
}

/* dfcclWait waits for a callback also when the callback has deregistered its collective, on
 * whichever thread. The next collective, perhaps at the same place of the tables, is not confused
 * with it. */
DF_TEST(waiting, for_a_callback_that_deregisters, 60) {
  static comer c;
  int32_t send = 1, recv;
  df_make_contexts(c.ctxs, 1, NULL);
  df_waiting_for("a callback that deregisters its collective");
  for (int round = 0; round < 200; round++) {
    atomic_store(&c.returned, 0);
    register_alone(c.ctxs[0], 5, 0);
    OK(dfcclRunAllReduce(c.ctxs[0], 5, &send, &recv, deregister_slowly, &c));
    df_in_threads(2, wait_for_callback, &c);
    EVENTUALLY(atomic_load(&c.returned));
    OK(dfcclWaitAll(c.ctxs[0]));
    /* The next collective starts without any count of the previous one. */
    int done = 0;
    register_alone(c.ctxs[0], 6, 0);
    for (int run = 0; run < 3; run++) {
      recv = 0;
      OK(dfcclRunAllReduce(c.ctxs[0], 6, &send, &recv, NULL, NULL));
      OK(dfcclWait(c.ctxs[0], 6));
      CHECK(recv == 1, "dfcclWait returned before the run");
    }
    OK(dfcclTest(c.ctxs[0], 6, &done));
    CHECK(done, "runs are outstanding after dfcclWait");
    OK(dfcclDeregister(c.ctxs[0], 6));
    RESULT(dfcclWait(c.ctxs[0], 6), dfcclInvalidArgument);
    RESULT(dfcclTest(c.ctxs[0], 6, &done), dfcclInvalidArgument);
  }
  df_waiting_for(NULL);
  df_free_contexts(c.ctxs, 1);
}

static void wait_or_end(int thread, void *arg) {
  comer *c = arg;
  if (thread == 1) {
    OK(dfcclDeregister(c->ctxs[1], 5));
    return;
  }
  dfcclResult_t result = dfcclWait(c->ctxs[0], 5);
  CHECK(result == dfcclRemoteError || result == dfcclInvalidArgument, "%s: a run that failed",
        df_test_result_name(result));
}

/* and the call returns its failure */
DF_TEST(waiting, for_a_failure_whose_callback_deregisters, 60) {
  static comer c;
  int32_t send = 1, recv;
  df_make_contexts(c.ctxs, 2, NULL);
  df_collective coll = df_simple(1, 2);
  df_waiting_for("a run that its peer will never meet");
  for (int round = 0; round < 100; round++) {
    atomic_store(&c.returned, 0);
    df_register_all(c.ctxs, 5, &coll);
    OK(dfcclRunAllReduce(c.ctxs[0], 5, &send, &recv, deregister_slowly, &c));
    df_in_threads(2, wait_or_end, &c);
    EVENTUALLY(atomic_load(&c.returned));
    RESULT(dfcclDeregister(c.ctxs[0], 5), dfcclInvalidArgument);
  }
  df_waiting_for(NULL);
  df_free_contexts(c.ctxs, 2);
}
