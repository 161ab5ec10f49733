/*
 * Promises of src/host/runs/completion.c: a run's status is what became of that run, in whatever order
 * the host hears of a collective's runs. They end in order, but several threads and several queues
 * tell of them: a run that succeeded is never told as failed, because a later one that failed was
 * heard of first, nor one that failed as a success. Callbacks that a waiter does not come to run
 * are run by the poller.
 */
#include <stdlib.h>

#include "devices/cpu/executor.h"
#include "host/state/context.h"
#include "host/runs/collective_failure.h"
#include "host/state/registry.h"
#include "host/runs/runs.h"
#include "two_ranks.h"

enum { RANKS = 2, COLL = 7, COUNT = 4, CQES = 3, MOST_RUNS = 6 };

typedef struct job {
  dfcclContext_t ctxs[RANKS];
  int32_t buffers[RANKS][COUNT];
  df_progress_thread driver;
  dfcclResult_t statuses[MOST_RUNS];
  uint32_t ended;
} job;

static void note(dfcclCollId_t coll, dfcclResult_t status, void *argument) {
  job *j = argument;
  CHECK(coll == COLL && j->ended < MOST_RUNS, "callback %u of collective %llu", j->ended,
        (unsigned long long)coll);
  j->statuses[j->ended] = status;
  df_publish_u32(&j->ended, j->ended + 1);
}

static void run(job *j, int rank, dfcclCallback_t callback) {
  OK(dfcclRunAllReduce(j->ctxs[rank], COLL, j->buffers[rank], j->buffers[rank], callback, j));
}

static void drive(job *j) {
  j->ctxs[0]->device.executor->progress_turn(&j->ctxs[0]->device, &j->driver, 1);
}

static void open_job(job *j) {
  *j = (job){0};
  setenv("DFCCL_QUIT_POLLS", "1000000000", 1);
  setenv("DFCCL_SPREAD", "0", 1); /* to count the ranks of a processor takes the lock */
  two_ranks_open(j->ctxs);
}

/* After one run its links stand. */
static void add(job *j, dfcclCollId_t coll) {
  for (int r = 0; r < RANKS; r++)
    OK(dfcclRegisterAllReduce(j->ctxs[r], coll, COUNT, dfcclInt32, dfcclSum, NULL));
  for (int r = 0; r < RANKS; r++)
    OK(dfcclRunAllReduce(j->ctxs[r], coll, j->buffers[r], j->buffers[r], NULL, NULL));
  for (int r = 0; r < RANKS; r++) OK(dfcclWait(j->ctxs[r], coll));
}

/* Rank 0's daemon is on its device, and is executed by this thread only, since it wants to drive.
 */
static void hold(job *j) {
  j->ctxs[0]->device.executor->progress_begin(&j->ctxs[0]->device, &j->driver);
  while (!j->driver.held) drive(j);
}

static void make(job *j) {
  open_job(j);
  add(j, COLL);
  hold(j);
}

/* Its block has no owner, as last turns want it. It is still wanted, so that nobody takes it. */
static void let_go(job *j) {
  j->driver.held = 0;
  df_publish_u32(&j->driver.executor->blocks[0].owner, 0);
}

static int has_entry(const job *j) { return df_cq_has_entry(&j->ctxs[0]->device.shared->cq); }

/* [lock] The runs that rank 1 does not meet. */
static void give_up(job *j) {
  df_fail_collective(j->ctxs[0], df_find(j->ctxs[0], COLL), dfcclTimeout, 1, "it took too long");
}

static void expect_statuses(job *j, uint32_t runs, uint32_t succeed) {
  EVENTUALLY(df_observe_u32(&j->ended) == runs);
  for (uint32_t i = 0; i < runs; i++)
    RESULT(j->statuses[i], i < succeed ? dfcclSuccess : dfcclTimeout);
}

static void free_job(job *j) {
  j->ctxs[0]->device.executor->progress_end(&j->ctxs[0]->device, &j->driver);
  two_ranks_close(j->ctxs);
}

/* A thread that has ended a run in its last turn has not told of it yet, when the later ones have
 * ended too, and their CQEs are taken. */
static void tell_late(dfcclCallback_t callback, uint32_t later) {
  job j;
  df_borrowed_turn turn;
  uint32_t in_device = DF_MIN(later, (uint32_t)DF_RUNS_AHEAD - 1);
  make(&j);
  dfcclContext_t ctx = j.ctxs[0];
  run(&j, 0, callback);
  run(&j, 1, NULL);
  let_go(&j);
  EVENTUALLY(ctx->device.executor->last_turn(&ctx->device, &turn));
  for (uint32_t i = 0; i < later; i++) run(&j, 0, note); /* rank 1 does not */
  drive(&j);
  pthread_mutex_lock(&ctx->lock);
  give_up(&j);
  pthread_mutex_unlock(&ctx->lock);
  while (df_load_relaxed_u64(&ctx->runs.cqes_seen) <
         1 + in_device) { /* the first run's, and these */
    drive(&j);
    df_reap_and_ring(ctx); /* or the poller does */
  }
  df_sleep_ms(10); /* the poller has heard that the collective failed, and sleeps again */
  EVENTUALLY(df_load_relaxed_u32(&ctx->runs.poller_bell.sleepers) == 1);
  CHECK(df_observe_u32(&j.ended) == 0, "a run was told before an earlier one");
  if (!df_complete_borrowed(ctx, &turn)) df_ring_poller(ctx);
  expect_statuses(&j, later + (callback != NULL), callback != NULL);
  free_job(&j);
}

DF_TEST(completion, a_last_turn_that_is_told_late, 30) { tell_late(note, 1); }
DF_TEST(completion, a_last_turn_without_callback_that_is_told_late, 30) { tell_late(NULL, 1); }
/* More than the daemon holds: the others wait on the host. */
DF_TEST(completion, a_last_turn_that_is_told_late_before_many, 30) {
  tell_late(NULL, MOST_RUNS - 1);
}

/* Somebody sleeps, as far as the context knows. */
DF_TEST(completion, a_last_turn_wakes_who_waits, 30) {
  job j;
  df_borrowed_turn turn;
  make(&j);
  dfcclContext_t ctx = j.ctxs[0];
  run(&j, 0, NULL);
  run(&j, 1, NULL);
  let_go(&j);
  EVENTUALLY(ctx->device.executor->last_turn(&ctx->device, &turn));
  df_system_add_u32(&ctx->runs.sleeping_waiters, 1);
  uint32_t before = df_load_relaxed_u32(&ctx->device.work_bell->sequence);
  CHECK(df_complete_borrowed(ctx, &turn), "something is left to do");
  CHECK(df_load_relaxed_u32(&ctx->device.work_bell->sequence) != before, "nobody rang");
  df_system_sub_u32(&ctx->runs.sleeping_waiters, 1);
  OK(dfcclWait(ctx, COLL));
  free_job(&j);
}

/* Three CQEs, of which the last two are of runs that were given up, in every order: each in a ring
 * of its own, they may be found so. Nobody takes them meanwhile, since this thread has the lock,
 * which these turns do not need. */
DF_TEST(completion, cqes_in_any_order, 30) {
  static const int orders[][CQES] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                     {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
  for (size_t i = 0; i < DF_COUNT_OF(orders); i++) {
    job j;
    df_cqe cqes[CQES];
    make(&j);
    dfcclContext_t ctx = j.ctxs[0];
    run(&j, 1, NULL);
    for (int k = 0; k < CQES; k++) run(&j, 0, note);
    pthread_mutex_lock(&ctx->lock);
    while (!has_entry(&j)) drive(&j); /* the first one; the second has no peer */
    give_up(&j);
    for (int k = 0; k < CQES; k++)
      while (!df_cq_pop_mpsc(&ctx->device.shared->cq, &cqes[k])) drive(&j);
    for (int k = 0; k < CQES; k++) df_cq_push_mpsc(&ctx->device.shared->cq, 0, cqes[orders[i][k]]);
    pthread_mutex_unlock(&ctx->lock);
    df_ring_poller(ctx);
    expect_statuses(&j, CQES, 1);
    free_job(&j);
  }
}

enum { OTHERS = 8, OTHER_RUNS = OTHERS * DF_RUNS_AHEAD };
static int32_t other_buffers[RANKS][OTHERS][COUNT];
static uint32_t others_ended;

static void count_other(dfcclCollId_t coll, dfcclResult_t status, void *argument) {
  (void)coll, (void)argument;
  OK(status);
  df_system_add_u32(&others_ended, 1);
}

static void run_others(job *j, int rank, dfcclCallback_t callback) {
  for (uint32_t i = 0; i < OTHERS; i++)
    for (int k = 0; k < DF_RUNS_AHEAD; k++) {
      int32_t *buffer = other_buffers[rank][i];
      OK(dfcclRunAllReduce(j->ctxs[rank], COLL + 1 + i, buffer, buffer, callback, NULL));
    }
}

static uint64_t cqes_written(job *j) {
  return df_load_relaxed_u64(&j->driver.executor->blocks[0].block->stats.cqes_written);
}

/* A waiter finds that many runs with callbacks have ended, its own among them, while the poller
 * sleeps. It runs its own callback, and leaves: nothing else will wake the poller. */
DF_TEST(completion, callbacks_that_a_waiter_leaves_are_run_by_the_poller, 30) {
  job j;
  open_job(&j);
  for (dfcclCollId_t i = 0; i <= OTHERS; i++) add(&j, COLL + i);
  hold(&j);
  dfcclContext_t ctx = j.ctxs[0];
  for (int r = 0; r < RANKS; r++) {
    run(&j, r, r == 0 ? note : NULL);
    run_others(&j, r, r == 0 ? count_other : NULL);
  }
  EVENTUALLY(df_load_relaxed_u32(&ctx->runs.poller_bell.sleepers) == 1);
  pthread_mutex_lock(&ctx->lock);
  for (uint64_t wanted = cqes_written(&j) + 1 + OTHER_RUNS; cqes_written(&j) < wanted;) drive(&j);
  pthread_mutex_unlock(&ctx->lock);
  OK(dfcclWait(ctx, COLL));
  CHECK(df_observe_u32(&j.ended) == 1, "its own callback has not run");
  EVENTUALLY(df_observe_u32(&others_ended) == OTHER_RUNS);
  free_job(&j);
}
