/* Promises of src/host/runs/completion.c. A run's status is the outcome of that run, in whatever
 * order the host receives the completions of a collective. The runs end in order, but several
 * threads and several queues report them. A successful run is never reported as failed because a
 * later, failed one was reported first, nor is a failed run reported as successful. The poller runs
 * callbacks that no waiting thread runs. */
#include <stdlib.h>

#include "base/mutex.h"
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
  df_tune("quit_polls", "1000000000");
  df_tune("spread", "0"); /* the count of a processor's ranks takes the lock */
  two_ranks_open(j->ctxs);
}

/* After one run its links are connected. */
static void add(job *j, dfcclCollId_t coll) {
  for (int r = 0; r < RANKS; r++)
    OK(dfcclRegisterAllReduce(j->ctxs[r], coll, COUNT, dfcclInt32, dfcclSum, NULL));
  for (int r = 0; r < RANKS; r++)
    OK(dfcclRunAllReduce(j->ctxs[r], coll, j->buffers[r], j->buffers[r], NULL, NULL));
  for (int r = 0; r < RANKS; r++) OK(dfcclWait(j->ctxs[r], coll));
}

/* Rank 0's daemon is in its device, and only this thread executes it, because it requests to
 * drive. */
static void hold(job *j) {
  j->ctxs[0]->device.executor->progress_begin(&j->ctxs[0]->device, &j->driver);
  while (!j->driver.held) drive(j);
}

static void make(job *j) {
  open_job(j);
  add(j, COLL);
  hold(j);
}

/* Its block has no owner, as last turns need it. It is still requested, so that no thread takes
 * it. */
static void let_go(job *j) {
  j->driver.held = 0;
  df_publish_u32(&j->driver.executor->blocks[0].owner, 0);
}

static int has_entry(const job *j) { return df_cq_has_entry(&j->ctxs[0]->device.shared->cq); }

/* [lock] Submits the runs for which rank 1 has none. */
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

/* A thread that has ended a run in its last turn has not reported it yet when the later runs have
 * ended too and their CQEs are taken. */
static void report_late(dfcclCallback_t callback, uint32_t later) {
  job j;
  df_borrowed_turn turn;
  uint32_t in_device = DF_MIN(later, (uint32_t)DF_RUNS_AHEAD - 1);
  make(&j);
  dfcclContext_t ctx = j.ctxs[0];
  run(&j, 0, callback);
  run(&j, 1, NULL);
  let_go(&j);
  EVENTUALLY(ctx->device.executor->last_turn(&ctx->device, &turn));
  for (uint32_t i = 0; i < later; i++) run(&j, 0, note); /* rank 1 submits none */
  drive(&j);
  df_rank_lock(&ctx->lock);
  give_up(&j);
  df_rank_unlock(&ctx->lock);
  while (df_load_relaxed_u64(&ctx->runs.cqes_seen) <
         1 + in_device) { /* the first run's callbacks, and these */
    drive(&j);
    df_reap_and_ring(ctx); /* or the poller does */
  }
  df_sleep_ms(10); /* the poller has received the collective's failure, and sleeps again */
  EVENTUALLY(df_load_relaxed_u32(&ctx->runs.poller_bell.sleepers) == 1);
  CHECK(df_observe_u32(&j.ended) == 0, "a run was reported before an earlier one");
  if (!df_complete_borrowed(ctx, &turn)) df_ring_poller(ctx);
  expect_statuses(&j, later + (callback != NULL), callback != NULL);
  free_job(&j);
}

DF_TEST(completion, a_last_turn_that_is_reported_late, 30) { report_late(note, 1); }
DF_TEST(completion, a_last_turn_without_callback_that_is_reported_late, 30) {
  report_late(NULL, 1);
}
/* More than the daemon holds: the others wait on the host. */
DF_TEST(completion, a_last_turn_that_is_reported_late_before_many, 30) {
  report_late(NULL, MOST_RUNS - 1);
}

/* Pretends to the context that a thread sleeps. */
DF_TEST(completion, a_last_turn_wakes_the_waiting_thread, 30) {
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

/* Takes three CQEs, of which the last two belong to runs that were given up, in every order; they
 * may be found so, because each is in a ring of its own. No other thread takes them meanwhile,
 * because this thread has the lock, which these turns do not need. */
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
    df_rank_lock(&ctx->lock);
    while (!has_entry(&j)) drive(&j); /* the first run; the second has no peer */
    give_up(&j);
    for (int k = 0; k < CQES; k++)
      while (!df_cq_pop_mpsc(&ctx->device.shared->cq, &cqes[k])) drive(&j);
    for (int k = 0; k < CQES; k++) df_cq_push_mpsc(&ctx->device.shared->cq, 0, cqes[orders[i][k]]);
    df_rank_unlock(&ctx->lock);
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

/* A waiting thread finds that many runs with callbacks have ended, its own among them, while the
 * poller sleeps. It runs its own callback and leaves, and nothing else would wake the poller. */
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
  df_rank_lock(&ctx->lock);
  for (uint64_t wanted = cqes_written(&j) + 1 + OTHER_RUNS; cqes_written(&j) < wanted;) drive(&j);
  df_rank_unlock(&ctx->lock);
  OK(dfcclWait(ctx, COLL));
  CHECK(df_observe_u32(&j.ended) == 1, "its own callback has not run");
  EVENTUALLY(df_observe_u32(&others_ended) == OTHER_RUNS);
  free_job(&j);
}
