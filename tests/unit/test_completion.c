/*
 * Promises of src/host/completion.c: a run's status is what became of that run, in whatever order
 * the host hears of a collective's runs. They end in order, but several threads and several queues
 * tell of them: a run that succeeded is never told as failed, because a later one that failed was
 * heard of first, nor one that failed as a success.
 */
#include <stdlib.h>

#include "host/context.h"
#include "support/harness.h"

enum { RANKS = 2, COLL = 7, COUNT = 4, MOST_RUNS = 3 };

typedef struct job {
  dfcclContext_t ctxs[RANKS];
  int32_t buffers[RANKS][COUNT];
  df_driver driver;
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

/* Rank 0's daemon is on its device, and is executed by this thread only, since it wants to drive.
 */
static void make(job *j) {
  *j = (job){0};
  setenv("DFCCL_QUIT_POLLS", "1000000000", 1);
  dfcclConfig_t config = DFCCL_CONFIG_INITIALIZER;
  config.backend = dfcclBackendCpu;
  config.maxBlocks = 1;
  OK(dfcclInitAll(j->ctxs, RANKS, &config));
  for (int r = 0; r < RANKS; r++)
    OK(dfcclRegisterAllReduce(j->ctxs[r], COLL, COUNT, dfcclInt32, dfcclSum, NULL));
  for (int r = 0; r < RANKS; r++) run(j, r, NULL);
  for (int r = 0; r < RANKS; r++) OK(dfcclWait(j->ctxs[r], COLL));
  j->ctxs[0]->ops->drive_begin(j->ctxs[0], &j->driver);
}

static void drive(job *j) { j->ctxs[0]->ops->drive_turn(j->ctxs[0], &j->driver, 1); }

static int has_entry(const job *j) { return df_cq_has_entry(&j->ctxs[0]->device->cq); }

/* The runs that rank 1 does not meet. */
static void give_up(job *j) {
  pthread_mutex_lock(&j->ctxs[0]->lock);
  df_fail_collective(j->ctxs[0], df_find(j->ctxs[0], COLL), dfcclTimeout, 1, "it took too long");
  pthread_mutex_unlock(&j->ctxs[0]->lock);
}

static void expect_statuses(job *j, uint32_t runs, uint32_t succeed) {
  EVENTUALLY(df_observe_u32(&j->ended) == runs);
  for (uint32_t i = 0; i < runs; i++)
    RESULT(j->statuses[i], i < succeed ? dfcclSuccess : dfcclTimeout);
}

static void *destroy(void *ctx) {
  OK(dfcclDestroy(ctx));
  return NULL;
}

static void free_job(job *j) {
  pthread_t threads[RANKS];
  j->ctxs[0]->ops->drive_end(j->ctxs[0], &j->driver);
  for (int r = 0; r < RANKS; r++) pthread_create(&threads[r], NULL, destroy, j->ctxs[r]);
  for (int r = 0; r < RANKS; r++) pthread_join(threads[r], NULL);
}

/* A thread that has ended a run in its last turn has not told of it yet, when the next run has
 * ended too, and its CQE is taken. */
static void tell_late(dfcclCallback_t callback) {
  job j;
  df_noted_bells bells;
  uint32_t collective;
  make(&j);
  dfcclContext_t ctx = j.ctxs[0];
  run(&j, 0, callback);
  run(&j, 1, NULL);
  EVENTUALLY(ctx->ops->last_turn(ctx, &collective, &bells));
  run(&j, 0, note); /* rank 1 does not */
  drive(&j);
  give_up(&j);
  while (!has_entry(&j) && df_load_relaxed_u64(&ctx->cqes_seen) < 2) drive(&j);
  df_reap_and_ring(ctx); /* or the poller has done so */
  df_sleep_ms(10); /* the poller has heard that the collective failed, and sleeps again */
  EVENTUALLY(df_load_relaxed_u32(&ctx->poller_bell.sleepers) == 1);
  if (!df_complete_untold(ctx, collective, &bells)) df_ring_poller(ctx);
  expect_statuses(&j, callback ? 2 : 1, callback ? 1 : 0);
  free_job(&j);
}

DF_TEST(completion, a_last_turn_that_is_told_late, 30) { tell_late(note); }
DF_TEST(completion, a_last_turn_without_callback_that_is_told_late, 30) { tell_late(NULL); }

/* Three CQEs, of which the last two are of runs that were given up, in every order: each in a ring
 * of its own, they may be found so. */
DF_TEST(completion, cqes_in_any_order, 30) {
  static const int orders[][MOST_RUNS] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                          {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
  for (size_t i = 0; i < DF_COUNT_OF(orders); i++) {
    job j;
    df_cqe cqes[MOST_RUNS];
    make(&j);
    dfcclContext_t ctx = j.ctxs[0];
    df_poller_stop(ctx); /* this thread takes them */
    ctx->stopping = 0;
    run(&j, 1, NULL);
    for (int k = 0; k < MOST_RUNS; k++) run(&j, 0, note);
    while (!has_entry(&j)) drive(&j); /* the first one; the second has no peer */
    give_up(&j);
    for (int k = 0; k < MOST_RUNS; k++)
      while (!df_cq_pop_mpsc(&ctx->device->cq, &cqes[k])) drive(&j);
    for (int k = 0; k < MOST_RUNS; k++) df_cq_push_mpsc(&ctx->device->cq, 0, cqes[orders[i][k]]);
    OK(df_poller_start(ctx));
    df_ring_poller(ctx);
    expect_statuses(&j, MOST_RUNS, 1);
    free_job(&j);
  }
}
