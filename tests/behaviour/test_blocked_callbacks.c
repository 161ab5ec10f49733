/*
 * Promise: a callback that blocks delays callbacks of its own collective and other callbacks. It
 * never delays dfcclWait*, dfcclTest, or the completion of other collectives' runs that have no
 * callback. A waiting thread runs only the callbacks that it waits for.
 */
#include "support/buffers.h"

enum { BLOCKED = 1, BARE = 2, CALLED = 3, RANKS = 2 };

static atomic_int gate_entered, gate_open;

static void block(dfcclCollId_t coll, dfcclResult_t status, void *arg) {
  (void)coll;
  (void)status;
  (void)arg;
  atomic_store(&gate_entered, 1);
  while (!atomic_load(&gate_open)) df_nap();
}

typedef struct {
  dfcclContext_t ctxs[RANKS];
  int32_t send[8], recv[RANKS][4][8];
} job;

static void make(job *j) {
  *j = (job){0};
  df_make_contexts(j->ctxs, RANKS, NULL);
  df_collective coll = df_simple(8, RANKS);
  for (dfcclCollId_t id = BLOCKED; id <= CALLED; id++) df_register_all(j->ctxs, id, &coll);
}

static void run(job *j, int rank, dfcclCollId_t id, dfcclCallback_t callback, void *arg) {
  OK(dfcclRunAllReduce(j->ctxs[rank], id, j->send, j->recv[rank][id], callback, arg));
}

/* A library thread of rank 0 is inside a callback that does not return. */
static void block_the_poller(job *j) {
  run(j, 0, BLOCKED, block, NULL);
  run(j, 1, BLOCKED, NULL, NULL);
  EVENTUALLY(atomic_load(&gate_entered));
}

static void end(job *j) {
  atomic_store(&gate_open, 1);
  for (int rank = 0; rank < RANKS; rank++) OK(dfcclWaitAll(j->ctxs[rank]));
  df_free_contexts(j->ctxs, RANKS);
}

static int is_done(job *j, int rank, dfcclCollId_t id) {
  int done = -1;
  OK(dfcclTest(j->ctxs[rank], id, &done));
  return done;
}

/* The callback returns only after the wait for the other collective has returned. */
DF_TEST(blocked_callbacks, a_wait_for_another_collective_returns, 30) {
  job j;
  make(&j);
  block_the_poller(&j);
  run(&j, 0, BARE, NULL, NULL);
  run(&j, 1, BARE, NULL, NULL);
  OK(dfcclWait(j.ctxs[0], BARE));
  CHECK(is_done(&j, 0, BARE), "it was waited for");
  CHECK(!is_done(&j, 0, BLOCKED), "its callback has not returned");
  end(&j);
}

DF_TEST(blocked_callbacks, a_test_of_another_collective_returns, 30) {
  job j;
  make(&j);
  block_the_poller(&j);
  for (int i = 0; i < 20; i++) {
    run(&j, 0, BARE, NULL, NULL);
    run(&j, 1, BARE, NULL, NULL);
    EVENTUALLY(is_done(&j, 0, BARE));
  }
  end(&j);
}

/* The waiting thread runs the callbacks of its own collective, since no other thread does. */
DF_TEST(blocked_callbacks, a_wait_runs_the_callbacks_it_waits_for, 30) {
  job j;
  df_tally tally = {0};
  make(&j);
  block_the_poller(&j);
  for (int i = 0; i < 50; i++) {
    run(&j, 0, CALLED, df_tally_callback, &tally);
    run(&j, 0, CALLED, NULL, NULL);
    run(&j, 1, CALLED, NULL, NULL);
    run(&j, 1, CALLED, NULL, NULL);
    OK(dfcclWait(j.ctxs[0], CALLED));
    CHECK(atomic_load(&tally.calls) == i + 1, "%d of %d callbacks", atomic_load(&tally.calls),
          i + 1);
  }
  end(&j);
}

/* Several threads wait, each for its own collective, while the poller is in a callback. */
enum { WAITERS = 4, FIRST = 10, ROUNDS = 200 };

typedef struct {
  job *j;
  df_tally tally[WAITERS];
} crew;

static void wait_each(int which, void *arg) {
  crew *c = arg;
  dfcclCollId_t id = FIRST + (dfcclCollId_t)which;
  int32_t send[8] = {0}, recv[RANKS][8];
  for (int i = 0; i < ROUNDS; i++) {
    for (int rank = 0; rank < RANKS; rank++)
      OK(dfcclRunAllReduce(c->j->ctxs[rank], id, send, recv[rank],
                           rank == 0 ? df_tally_callback : NULL, &c->tally[which]));
    OK(dfcclWait(c->j->ctxs[0], id));
    OK(dfcclWait(c->j->ctxs[1], id));
    CHECK(atomic_load(&c->tally[which].calls) == i + 1, "%d of %d callbacks",
          atomic_load(&c->tally[which].calls), i + 1);
  }
}

DF_TEST(blocked_callbacks, several_waiters_run_their_own, 60) {
  job j;
  crew c = {.j = &j};
  make(&j);
  df_collective coll = df_simple(8, RANKS);
  for (dfcclCollId_t id = FIRST; id < FIRST + WAITERS; id++) df_register_all(j.ctxs, id, &coll);
  block_the_poller(&j);
  df_in_threads(WAITERS, wait_each, &c);
  end(&j);
}

/* One thread waits. The callback of another collective returns only after that wait has
 * returned. */
static atomic_int has_returned;

static void until_returned(dfcclCollId_t coll, dfcclResult_t status, void *arg) {
  (void)coll;
  (void)status;
  (void)arg;
  atomic_store(&gate_entered, 1);
  while (!atomic_load(&has_returned)) df_nap();
}

static void wait_or_meet(int who, void *arg) {
  job *j = arg;
  if (who == 0) {
    OK(dfcclWait(j->ctxs[0], BARE));
    atomic_store(&has_returned, 1);
    return;
  }
  df_sleep_ms(20); /* the waiting thread is inside its call, and drives the device */
  run(j, 1, BLOCKED, NULL, NULL);
  EVENTUALLY(atomic_load(&gate_entered));
  run(j, 1, BARE, NULL, NULL);
}

DF_TEST(blocked_callbacks, a_waiter_runs_no_callback_of_others, 30) {
  job j;
  make(&j);
  run(&j, 0, BARE, NULL, NULL);
  run(&j, 0, BLOCKED, until_returned, NULL);
  df_in_threads(2, wait_or_meet, &j);
  end(&j);
}

/* dfcclWaitAll waits for exactly the runs that were submitted before the call. */
static void wait_for_all_or_go_on(int who, void *arg) {
  job *j = arg;
  if (who == 0) {
    OK(dfcclWaitAll(j->ctxs[0]));
    atomic_store(&has_returned, 1);
    return;
  }
  df_sleep_ms(20); /* the other thread has begun to wait */
  run(j, 0, BLOCKED, until_returned, NULL);
  run(j, 1, BLOCKED, NULL, NULL);
  EVENTUALLY(atomic_load(&gate_entered));
  run(j, 1, CALLED, NULL, NULL);
  run(j, 1, BARE, NULL, NULL);
}

DF_TEST(blocked_callbacks, waiting_for_all_is_not_for_later_runs, 30) {
  job j;
  df_tally tally = {0};
  make(&j);
  run(&j, 0, BARE, NULL, NULL);
  run(&j, 0, CALLED, df_tally_callback, &tally);
  df_in_threads(2, wait_for_all_or_go_on, &j);
  CHECK(atomic_load(&tally.calls) == 1, "dfcclWaitAll returned before a callback");
  end(&j);
}

/* Callbacks of one collective run one at a time and in order, on whichever thread. */
typedef struct {
  dfcclContext_t ctx;
  atomic_int inside, next, wrong;
} order;

typedef struct {
  order *of;
  int number;
} place;

static void in_order(dfcclCollId_t coll, dfcclResult_t status, void *arg) {
  place *p = arg;
  (void)coll;
  if (status != dfcclSuccess || atomic_fetch_add(&p->of->inside, 1) != 0 ||
      atomic_load(&p->of->next) != p->number)
    atomic_fetch_add(&p->of->wrong, 1);
  if (p->number % 7 == 0) df_nap();
  atomic_store(&p->of->next, p->number + 1);
  atomic_fetch_sub(&p->of->inside, 1);
}

static void wait_for_called(int who, void *arg) {
  job *j = arg;
  OK(who % 2 ? dfcclWait(j->ctxs[0], CALLED) : dfcclWaitAll(j->ctxs[0]));
}

DF_TEST(blocked_callbacks, one_at_a_time_and_in_order, 60) {
  enum { RUNS = 300 };
  static order o;
  static place places[RUNS];
  job j;
  make(&j);
  for (int round = 0; round < 10; round++) {
    atomic_store(&o.next, 0);
    for (int i = 0; i < RUNS; i++) {
      places[i] = (place){.of = &o, .number = i};
      run(&j, 0, CALLED, in_order, &places[i]);
      run(&j, 1, CALLED, NULL, NULL);
    }
    df_in_threads(4, wait_for_called, &j);
    CHECK(atomic_load(&o.next) == RUNS && atomic_load(&o.wrong) == 0, "%d callbacks, %d wrong",
          atomic_load(&o.next), atomic_load(&o.wrong));
  }
  end(&j);
}
