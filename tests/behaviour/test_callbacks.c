/*
 * Promise: the callback runs exactly once for each accepted run, with no lock held. It may submit
 * further runs, register, deregister, call dfcclTest and query the context. A callback that blocks
 * delays only other callbacks, never the daemon and never a peer. The library's thread gives it a
 * stack of 1 MiB.
 */
#include "support/buffers.h"

#include <pthread.h>

enum { CHAIN = 500 };

typedef struct {
  dfcclContext_t ctx;
  dfcclContext_t *all;
  int rank;
  atomic_int calls;
  atomic_int refused;
  int32_t send[4], recv[4];
} chain;

static void resubmit(dfcclCollId_t coll, dfcclResult_t status, void *arg) {
  chain *self = arg;
  if (status != dfcclSuccess) atomic_fetch_add(&self->refused, 1);
  if (atomic_load(&self->calls) + 1 < CHAIN &&
      dfcclRunAllReduce(self->ctx, coll, self->send, self->recv, resubmit, self) != dfcclSuccess)
    atomic_fetch_add(&self->refused, 1);
  atomic_fetch_add(&self->calls, 1);
}

DF_TEST(callbacks, resubmit, 30) {
  dfcclContext_t ctxs[3];
  df_make_contexts(ctxs, 3, NULL);
  df_collective coll = df_simple(4, 3);
  df_register_all(ctxs, 1, &coll);
  static chain chains[3];
  for (int rank = 0; rank < 3; rank++) {
    chains[rank] = (chain){.ctx = ctxs[rank], .rank = rank, .send = {1, 2, 3, rank}};
    OK(dfcclRunAllReduce(ctxs[rank], 1, chains[rank].send, chains[rank].recv, resubmit,
                         &chains[rank]));
  }
  for (int rank = 0; rank < 3; rank++) {
    EVENTUALLY(atomic_load(&chains[rank].calls) == CHAIN);
    CHECK(atomic_load(&chains[rank].refused) == 0, "a run from a callback was refused or failed");
  }
  for (int rank = 0; rank < 3; rank++) {
    OK(dfcclWaitAll(ctxs[rank]));
    const int32_t *r = chains[rank].recv;
    CHECK(r[0] == 3 && r[1] == 6 && r[2] == 9 && r[3] == 3, "wrong: %d %d %d %d", r[0], r[1], r[2],
          r[3]);
  }
  df_free_contexts(ctxs, 3);
}

/* The same while every rank is inside dfcclWait, which may run callbacks. dfcclWait covers the runs
 * that were submitted before the call, so it is repeated until the chain has ended. */
static void wait_until_done(int rank, void *arg) {
  chain *chains = arg;
  while (atomic_load(&chains[rank].calls) < CHAIN) OK(dfcclWait(chains[rank].ctx, 1));
}

DF_TEST(callbacks, resubmit_while_waiting, 30) {
  dfcclContext_t ctxs[2];
  df_make_contexts(ctxs, 2, NULL);
  df_collective coll = df_simple(4, 2);
  df_register_all(ctxs, 1, &coll);
  static chain chains[2];
  for (int rank = 0; rank < 2; rank++) {
    chains[rank] = (chain){.ctx = ctxs[rank], .rank = rank};
    OK(dfcclRunAllReduce(ctxs[rank], 1, chains[rank].send, chains[rank].recv, resubmit,
                         &chains[rank]));
  }
  df_in_threads(2, wait_until_done, chains);
  CHECK(atomic_load(&chains[0].refused) + atomic_load(&chains[1].refused) == 0, "refused");
  df_free_contexts(ctxs, 2);
}

/* Each callback deregisters its collective's predecessor, registers the next one and runs it. */
static void register_next(dfcclCollId_t coll, dfcclResult_t status, void *arg) {
  chain *self = arg;
  df_collective next = df_simple(4, 2);
  int done = -1;
  bool good = status == dfcclSuccess;
  if (coll > 100) good = good && dfcclDeregister(self->ctx, coll - 1) == dfcclSuccess;
  good = good && dfcclTest(self->ctx, coll, &done) == dfcclSuccess && done == 1;
  if (atomic_load(&self->calls) + 1 < 100) {
    good = good && df_register(self->ctx, coll + 1, &next) == dfcclSuccess;
    good = good && dfcclRunAllReduce(self->ctx, coll + 1, self->send, self->recv, register_next,
                                     self) == dfcclSuccess;
  }
  if (!good) atomic_fetch_add(&self->refused, 1);
  atomic_fetch_add(&self->calls, 1);
}

DF_TEST(callbacks, register_and_deregister, 30) {
  dfcclContext_t ctxs[2];
  df_make_contexts(ctxs, 2, NULL);
  df_collective coll = df_simple(4, 2);
  df_register_all(ctxs, 100, &coll);
  static chain chains[2];
  for (int rank = 0; rank < 2; rank++) {
    chains[rank] = (chain){.ctx = ctxs[rank], .rank = rank, .send = {5, 6, 7, 8}};
    OK(dfcclRunAllReduce(ctxs[rank], 100, chains[rank].send, chains[rank].recv, register_next,
                         &chains[rank]));
  }
  for (int rank = 0; rank < 2; rank++) {
    EVENTUALLY(atomic_load(&chains[rank].calls) == 100);
    CHECK(atomic_load(&chains[rank].refused) == 0, "%d calls from callbacks failed: \"%s\"",
          atomic_load(&chains[rank].refused), dfcclGetLastError(ctxs[rank]));
    CHECK(chains[rank].recv[3] == 16, "wrong result %d", chains[rank].recv[3]);
  }
  df_free_contexts(ctxs, 2);
}

static atomic_int gate_entered, gate_open;

static void block(dfcclCollId_t coll, dfcclResult_t status, void *arg) {
  (void)coll;
  (void)status;
  (void)arg;
  atomic_store(&gate_entered, 1);
  while (!atomic_load(&gate_open)) df_nap();
}

/* While rank 0's callback blocks, other collectives of rank 0 still move data for their peers, and
 * the peers' callbacks run. Rank 0's own later callbacks run when the gate opens, each once. */
DF_TEST(callbacks, a_blocking_one_delays_only_callbacks, 30) {
  enum { LATER = 50 };
  static int32_t send[64], recv[3][LATER + 1][64];
  dfcclContext_t ctxs[3];
  df_make_contexts(ctxs, 3, NULL);
  df_collective first = df_simple(64, 3), second = df_simple(64, 3);
  second.kind = DF_ALL_GATHER;
  second.count = 16;
  df_register_all(ctxs, 1, &first);
  df_register_all(ctxs, 2, &second);
  df_tally peers = {0}, own = {0};
  OK(dfcclRunAllReduce(ctxs[0], 1, send, recv[0][0], block, NULL));
  for (int rank = 1; rank < 3; rank++)
    OK(dfcclRunAllReduce(ctxs[rank], 1, send, recv[rank][0], df_tally_callback, &peers));
  EVENTUALLY(atomic_load(&gate_entered));
  for (int i = 1; i <= LATER; i++)
    for (int rank = 0; rank < 3; rank++)
      OK(dfcclRunAllGather(ctxs[rank], 2, send, recv[rank][i], df_tally_callback,
                           rank == 0 ? &own : &peers));
  EVENTUALLY(atomic_load(&peers.calls) == 2 * (LATER + 1)); /* while rank 0's gate is closed */
  CHECK(atomic_load(&own.calls) <= LATER, "more callbacks than runs");
  dfcclStats_t stats = df_stats(ctxs[0]);
  CHECK(stats.sqesSubmitted == LATER + 1, "%llu submitted",
        (unsigned long long)stats.sqesSubmitted);
  atomic_store(&gate_open, 1);
  EVENTUALLY(atomic_load(&own.calls) == LATER);
  for (int rank = 0; rank < 3; rank++) OK(dfcclWaitAll(ctxs[rank]));
  CHECK(atomic_load(&own.calls) == LATER && atomic_load(&own.failures) == 0, "not exactly once");
  df_free_contexts(ctxs, 3);
}

static void wait_for_the_first(int rank, void *arg) {
  dfcclContext_t *ctxs = arg;
  (void)rank;
  OK(dfcclWait(ctxs[0], 1));
}

static void open_the_gate(int rank, void *arg) {
  if (rank == 0) {
    wait_for_the_first(rank, arg);
    return;
  }
  static int32_t send[16], recv[2][32];
  dfcclContext_t *ctxs = arg;
  df_tally peer = {0};
  EVENTUALLY(atomic_load(&gate_entered)); /* possibly inside rank 0's dfcclWait */
  for (int i = 0; i < 50; i++) {
    OK(dfcclRunAllGather(ctxs[0], 2, send, recv[0], NULL, NULL));
    OK(dfcclRunAllGather(ctxs[1], 2, send, recv[1], df_tally_callback, &peer));
    EVENTUALLY(atomic_load(&peer.calls) == i + 1);
  }
  atomic_store(&gate_open, 1);
}

/* The same when the thread that would drive the device is in dfcclWait and runs the callback. */
DF_TEST(callbacks, a_blocking_one_inside_wait_delays_no_peer, 30) {
  int32_t send[64] = {0}, recv[2][64];
  dfcclContext_t ctxs[2];
  df_make_contexts(ctxs, 2, NULL);
  df_collective first = df_simple(64, 2), second = df_simple(16, 2);
  second.kind = DF_ALL_GATHER;
  df_register_all(ctxs, 1, &first);
  df_register_all(ctxs, 2, &second);
  OK(dfcclRunAllReduce(ctxs[0], 1, send, recv[0], block, NULL));
  OK(dfcclRunAllReduce(ctxs[1], 1, send, recv[1], NULL, NULL));
  df_in_threads(2, open_the_gate, ctxs);
  OK(dfcclWaitAll(ctxs[0]));
  df_free_contexts(ctxs, 2);
}

static atomic_int refusals;

static void try_to_wait(dfcclCollId_t coll, dfcclResult_t status, void *arg) {
  dfcclContext_t ctx = arg;
  (void)status;
  atomic_fetch_add(&refusals, dfcclWait(ctx, coll) == dfcclInvalidUsage);
  atomic_fetch_add(&refusals, df_mentions(dfcclGetLastError(NULL), "callback"));
  atomic_fetch_add(&refusals, dfcclWaitAll(ctx) == dfcclInvalidUsage);
  atomic_fetch_add(&refusals, dfcclDeviceSynchronize(ctx) == dfcclInvalidUsage);
  atomic_fetch_add(&refusals, dfcclDestroy(ctx) == dfcclInvalidUsage);
}

/* A wait inside a callback would wait for the callback itself, so it is refused, by name. */
DF_TEST(callbacks, may_not_wait_or_destroy, 30) {
  dfcclContext_t ctxs[2];
  int32_t send[2] = {0}, recv[2][2];
  df_make_contexts(ctxs, 2, NULL);
  df_collective coll = df_simple(2, 2);
  df_register_all(ctxs, 1, &coll);
  for (int rank = 0; rank < 2; rank++)
    OK(dfcclRunAllReduce(ctxs[rank], 1, send, recv[rank], try_to_wait, ctxs[rank]));
  for (int rank = 0; rank < 2; rank++) OK(dfcclWait(ctxs[rank], 1));
  CHECK(atomic_load(&refusals) == 10, "%d of 10 refusals", atomic_load(&refusals));
  df_exchange(ctxs, 1, &coll, 1, 0);
  df_free_contexts(ctxs, 2);
}

/* dfcclAbort and queries are allowed inside a callback. */
static void abort_inside(dfcclCollId_t coll, dfcclResult_t status, void *arg) {
  (void)coll;
  dfcclContext_t ctx = arg;
  int rank = -1, ranks = -1;
  dfcclStats_t stats = DFCCL_STATS_INITIALIZER;
  if (status == dfcclSuccess && dfcclGetRank(ctx, &rank, &ranks) == dfcclSuccess && ranks == 2 &&
      dfcclGetStats(ctx, &stats) == dfcclSuccess && dfcclAbort(ctx) == dfcclSuccess)
    atomic_fetch_add(&refusals, 1);
}

DF_TEST(callbacks, may_abort, 30) {
  dfcclContext_t ctxs[2];
  int32_t send[2] = {0}, recv[3][2];
  df_tally tally = {0};
  df_make_contexts(ctxs, 2, NULL);
  df_collective coll = df_simple(2, 2);
  df_register_all(ctxs, 1, &coll);
  df_register_all(ctxs, 2, &coll);
  OK(dfcclRunAllReduce(ctxs[0], 2, send, recv[2], df_tally_callback,
                       &tally)); /* the run is blocked */
  OK(dfcclRunAllReduce(ctxs[0], 1, send, recv[0], abort_inside, ctxs[0]));
  OK(dfcclRunAllReduce(ctxs[1], 1, send, recv[1], NULL, NULL));
  EVENTUALLY(atomic_load(&tally.calls) == 1);
  CHECK(atomic_load(&tally.status) == dfcclAborted, "%s",
        df_test_result_name((dfcclResult_t)atomic_load(&tally.status)));
  EVENTUALLY(atomic_load(&refusals) == 1);
  df_free_contexts(ctxs, 2);
}

/* The sentence of a refused call is the context's latest failure, whichever call failed. */
static void expect_latest(dfcclContext_t ctx, dfcclResult_t result, const char *function) {
  RESULT(result, dfcclInvalidUsage);
  CHECK(df_mentions(dfcclGetLastError(ctx), function), "\"%s\" does not name %s",
        dfcclGetLastError(ctx), function);
}

static void refuse_each(dfcclCollId_t coll, dfcclResult_t status, void *arg) {
  dfcclContext_t ctx = arg;
  OK(status);
  RESULT(dfcclTest(ctx, 99, NULL), dfcclInvalidArgument); /* an older failure */
  expect_latest(ctx, dfcclWait(ctx, coll), "dfcclWait ");
  expect_latest(ctx, dfcclWaitAll(ctx), "dfcclWaitAll");
  expect_latest(ctx, dfcclWaitRun(ctx, coll, 0, 0), "dfcclWaitRun");
  expect_latest(ctx, dfcclDeviceSynchronize(ctx), "dfcclDeviceSynchronize");
  expect_latest(ctx, dfcclDestroy(ctx), "dfcclDestroy");
}

DF_TEST(callbacks, a_refused_call_is_the_latest_failure, 30) {
  dfcclContext_t ctx;
  int32_t send[2] = {0}, recv[2];
  df_make_contexts(&ctx, 1, NULL);
  df_collective coll = df_simple(2, 1);
  df_register_all(&ctx, 1, &coll);
  OK(dfcclRunAllReduce(ctx, 1, send, recv, refuse_each, ctx));
  OK(dfcclWait(ctx, 1));
  df_free_contexts(&ctx, 1);
}

/* dfcclTest and dfcclDeregister agree on whether runs are complete, inside the last callback and
 * outside. */
typedef struct {
  dfcclContext_t ctx;
  atomic_int entered, leave, done_inside;
  dfcclResult_t deregistered;
} asked;

static void ask_inside(dfcclCollId_t coll, dfcclResult_t status, void *arg) {
  asked *a = arg;
  int done = -1;
  (void)status;
  atomic_store(&a->entered, 1);
  while (!atomic_load(&a->leave)) df_nap();
  OK(dfcclTest(a->ctx, coll, &done));
  a->deregistered = dfcclDeregister(a->ctx, coll);
  atomic_store(&a->done_inside, done);
}

DF_TEST(callbacks, completeness_is_one_question, 30) {
  static asked first, last;
  dfcclContext_t ctx;
  int32_t send[2] = {0}, recv[2];
  int done = -1;
  df_make_contexts(&ctx, 1, NULL);
  first.ctx = last.ctx = ctx;
  df_collective coll = df_simple(2, 1);
  df_register_all(&ctx, 1, &coll);
  OK(dfcclRunAllReduce(ctx, 1, send, recv, ask_inside, &first));
  OK(dfcclRunAllReduce(ctx, 1, send, recv, ask_inside, &last));
  EVENTUALLY(atomic_load(&first.entered));
  atomic_store(&first.leave, 1); /* the other run's callback has not been called */
  EVENTUALLY(atomic_load(&last.entered));
  CHECK(atomic_load(&first.done_inside) == 0, "a later run's callback is still to come");
  RESULT(first.deregistered, dfcclInvalidUsage);
  OK(dfcclTest(ctx, 1, &done));
  CHECK(done == 0, "another thread is inside the callback");
  RESULT(dfcclDeregister(ctx, 1), dfcclInvalidUsage);
  atomic_store(&last.leave, 1);
  EVENTUALLY(atomic_load(&last.done_inside) == 1);
  OK(last.deregistered);
  RESULT(dfcclTest(ctx, 1, &done), dfcclInvalidArgument);
  df_free_contexts(&ctx, 1);
}

static void measure_stack(dfcclCollId_t coll, dfcclResult_t status, void *arg) {
  (void)coll, (void)status;
  pthread_attr_t attributes;
  size_t bytes = 0;
  if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
    pthread_attr_getstacksize(&attributes, &bytes);
    pthread_attr_destroy(&attributes);
  }
  atomic_store((atomic_size_t *)arg, bytes + 1);
}

DF_TEST(callbacks, have_a_stack_of_a_mebibyte, 30) {
  dfcclContext_t ctxs[2];
  int32_t send[2] = {0}, recv[2][2];
  atomic_size_t sizes[2] = {0, 0};
  df_make_contexts(ctxs, 2, NULL);
  df_collective coll = df_simple(2, 2);
  df_register_all(ctxs, 1, &coll);
  for (int rank = 0; rank < 2; rank++)
    OK(dfcclRunAllReduce(ctxs[rank], 1, send, recv[rank], measure_stack, &sizes[rank]));
  for (int rank = 0; rank < 2;
       rank++) { /* no thread waits, so the library's thread runs the callback */
    EVENTUALLY(atomic_load(&sizes[rank]) != 0);
    size_t bytes = atomic_load(&sizes[rank]) - 1;
    CHECK(bytes >= 1024 * 1024, "rank %d: a stack of %zu bytes", rank, bytes);
  }
  df_free_contexts(ctxs, 2);
}
