/*
 * Promises of src/host/runs/wait.c about threads that leave a waiting call:
 *   - A thread that others can observe inside dfcclWait, because it sleeps there or runs a
 *     callback, is counted, and is no longer counted when it has left.
 *   - dfcclDestroy lets all counted threads leave before it frees the context.
 */
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "host/state/context.h"
#include "two_ranks.h"

enum { RANKS = 2, COUNT = 10 };

typedef struct job {
  dfcclContext_t ctxs[RANKS];
  int32_t send[COUNT], recv[RANKS][COUNT];
} job;

static void make(job *j) {
  memset(j, 0, sizeof *j);
  two_ranks_open(j->ctxs);
  for (int r = 0; r < RANKS; r++)
    OK(dfcclRegisterAllReduce(j->ctxs[r], 1, COUNT, dfcclInt32, dfcclSum, NULL));
}

static void run(job *j, int rank, dfcclCallback_t callback, void *argument) {
  OK(dfcclRunAllReduce(j->ctxs[rank], 1, j->send, j->recv[rank], callback, argument));
}

static uint32_t waiters(job *j) { return df_observe_u32(&j->ctxs[0]->runs.waiters); }

static void *wait_for_one(void *ctx) {
  OK(dfcclWait(ctx, 1));
  return NULL;
}

DF_TEST(waiters, a_thread_that_sleeps_inside_is_counted, 30) {
  job j;
  pthread_t waiter;
  make(&j);
  run(&j, 0, NULL, NULL);
  pthread_create(&waiter, NULL, wait_for_one, j.ctxs[0]);
  EVENTUALLY(waiters(&j) == 1);
  run(&j, 1, NULL, NULL);
  pthread_join(waiter, NULL);
  CHECK(waiters(&j) == 0, "%u are still counted", waiters(&j));
  OK(dfcclWaitAll(j.ctxs[0]));
  OK(dfcclDeviceSynchronize(j.ctxs[0]));
  RESULT(dfcclWait(j.ctxs[0], 99), dfcclInvalidArgument);
  CHECK(waiters(&j) == 0, "%u are counted after calls that have returned", waiters(&j));
  two_ranks_close(j.ctxs);
}

static job *seen_job;
static pthread_t waiting_thread;
static int seen_inside, seen_uncounted;

static void look(dfcclCollId_t coll, dfcclResult_t status, void *argument) {
  (void)coll, (void)argument;
  OK(status);
  if (!pthread_equal(pthread_self(), waiting_thread)) return; /* the poller was first */
  seen_inside++;
  seen_uncounted += waiters(seen_job) != 1;
}

DF_TEST(waiters, a_thread_that_runs_a_callback_inside_is_counted, 60) {
  job j;
  make(&j);
  seen_job = &j;
  waiting_thread = pthread_self();
  for (int i = 0; i < 1000 && seen_inside < 10; i++) {
    run(&j, 0, look, NULL);
    run(&j, 1, NULL, NULL);
    OK(dfcclWait(j.ctxs[0], 1));
  }
  CHECK(seen_uncounted == 0, "%d of %d callbacks inside dfcclWait ran uncounted", seen_uncounted,
        seen_inside);
  CHECK(waiters(&j) == 0, "%u are still counted", waiters(&j));
  two_ranks_close(j.ctxs);
}

/* ---- destroying */

static uint32_t has_left;

static void *destroy_and_look(void *ctx) {
  two_ranks_destroy(ctx);
  CHECK(df_observe_u32(&has_left) == 1, "it did not wait for a thread inside");
  return NULL;
}

DF_TEST(waiters, destroy_lets_them_leave, 30) {
  job j;
  pthread_t destroyer;
  make(&j);
  df_system_add_u32(&j.ctxs[0]->runs.waiters, 1);
  pthread_create(&destroyer, NULL, destroy_and_look, j.ctxs[0]);
  usleep(50 * 1000);
  df_publish_u32(&has_left, 1);
  df_system_sub_u32(&j.ctxs[0]->runs.waiters, 1);
  pthread_join(destroyer, NULL);
  two_ranks_destroy(j.ctxs[1]);
}

static void *wait_in_vain(void *ctx) {
  RESULT(dfcclWait(ctx, 1), dfcclAborted);
  return NULL;
}

/* As a watchdog does: no thread joins the thread that it releases. */
DF_TEST(waiters, abort_and_destroy_while_a_thread_waits, 60) {
  for (int i = 0; i < 20; i++) {
    job j;
    pthread_t waiter;
    make(&j);
    run(&j, 0, NULL, NULL);
    pthread_create(&waiter, NULL, wait_in_vain, j.ctxs[0]);
    EVENTUALLY(waiters(&j) == 1);
    OK(dfcclAbort(j.ctxs[0]));
    two_ranks_destroy(j.ctxs[0]);
    pthread_join(waiter, NULL);
    two_ranks_destroy(j.ctxs[1]);
  }
}
