/*
 * Promise: if a peer dies, the affected runs end with dfcclRemoteError through their callbacks on
 * every surviving member, and the sentence names the peer. Later calls fail at once. The survivors
 * can be destroyed and end cleanly. tests/kills/campaign measures the time of detection.
 */
#include "support/buffers.h"
#include "support/processes.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RANKS = 4, COLLECTIVES = 3, VICTIM = 2 };

/* Memory that the processes share. */
typedef struct {
  atomic_int ready, in_the_middle;
  atomic_int killed;
  int delay_us; /* the time between the first run and the victim's death */
  bool kill_before_run;
} stage;

static void report_status(dfcclCollId_t coll, dfcclResult_t status, void *arg) {
  df_tally_callback(coll, status, arg);
}

/* Runs collectives until one fails. */
static void work_until_failure(dfcclContext_t ctx, int rank, stage *scene) {
  static int32_t send[5000], recv[COLLECTIVES][5000];
  df_tally tally = {0};
  dfcclResult_t refused = dfcclSuccess;
  for (int round = 0; refused == dfcclSuccess && atomic_load(&tally.failures) == 0; round++) {
    int submitted = 0;
    for (int i = 0; i < COLLECTIVES && refused == dfcclSuccess; i++) {
      int c = (i + rank) % COLLECTIVES;
      refused = dfcclRunAllReduce(ctx, (dfcclCollId_t)c, send, recv[c], report_status, &tally);
      submitted += refused == dfcclSuccess;
    }
    if (round == 3) atomic_fetch_add(&scene->in_the_middle, 1);
    dfcclResult_t waited = dfcclWaitAll(ctx);
    CHECK(waited == dfcclSuccess || waited == dfcclRemoteError, "dfcclWaitAll: %s",
          df_test_result_name(waited));
    (void)submitted;
  }
  CHECK(atomic_load(&scene->killed), "a run failed before anybody was killed: \"%s\"",
        dfcclGetLastError(ctx));
  if (atomic_load(&tally.failures) > 0)
    CHECK(atomic_load(&tally.status) == dfcclRemoteError, "%s",
          df_test_result_name((dfcclResult_t)atomic_load(&tally.status)));
  if (refused != dfcclSuccess)
    CHECK(refused == dfcclRemoteError, "%s", df_test_result_name(refused));
}

static void expect_broken(dfcclContext_t ctx) {
  int32_t send[1] = {0}, recv[1] = {0};
  char number[16];
  snprintf(number, sizeof number, "%d", VICTIM);
  CHECK(df_mentions(dfcclGetLastError(ctx), number), "the sentence does not name rank %d: \"%s\"",
        VICTIM, dfcclGetLastError(ctx));
  RESULT(dfcclRunAllReduce(ctx, 0, send, recv, NULL, NULL), dfcclRemoteError);
  RESULT(dfcclRegisterAllReduce(ctx, 99, 1, dfcclInt32, dfcclSum, NULL), dfcclRemoteError);
}

static void be_rank(int rank, int ranks, const dfcclUniqueId *id, void *arg) {
  stage *scene = arg;
  dfcclContext_t ctx = df_init(rank, ranks, id, NULL);
  df_collective coll = df_simple(5000, ranks);
  for (int c = 0; c < COLLECTIVES; c++) OK(df_register(ctx, (dfcclCollId_t)c, &coll));
  atomic_fetch_add(&scene->ready, 1);
  if (scene->kill_before_run && rank == VICTIM)
    for (;;) pause();
  work_until_failure(ctx, rank, scene);
  CHECK(rank != VICTIM, "the victim survived");
  expect_broken(ctx);
  df_finish(ctx);
}

static void kill_one(int delay_us, bool before_run) {
  stage *scene = df_shared(sizeof *scene);
  df_family family;
  scene->delay_us = delay_us;
  scene->kill_before_run = before_run;
  df_fork(&family, RANKS, 30, be_rank, scene);
  EVENTUALLY(atomic_load(&scene->ready) == RANKS);
  if (!before_run) EVENTUALLY(atomic_load(&scene->in_the_middle) == RANKS);
  usleep((useconds_t)delay_us);
  atomic_store(&scene->killed, 1);
  kill(family.pids[VICTIM], SIGKILL);
  int status = df_reap(&family, VICTIM);
  CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "wait status %d", status);
  for (int rank = 0; rank < RANKS; rank++) {
    if (rank == VICTIM) continue;
    status = df_reap(&family, rank);
    CHECK(status == 0, "survivor %d ended with wait status %d", rank, status);
  }
}

DF_TEST(peer_killed, at_random_moments, 120) {
  df_random random = {2025};
  int times = df_slowdown() == 1 ? 12 : 4;
  for (int i = 0; i < times; i++) kill_one(df_random_below(&random, 20000), false);
}

DF_TEST(peer_killed, registered_but_never_ran, 30) { kill_one(1000, true); }

/* The peer is killed while the others wait for it in dfcclInit. */
static void lose_one_in_init(int rank, int ranks, const dfcclUniqueId *id, void *arg) {
  stage *scene = arg;
  if (rank == VICTIM)
    for (;;) pause();
  dfcclContext_t ctx = NULL;
  dfcclConfig_t config = df_config();
  atomic_fetch_add(&scene->ready, 1);
  dfcclResult_t result = dfcclInit(&ctx, ranks, *id, rank, &config);
  CHECK(result == dfcclTimeout || result == dfcclRemoteError, "dfcclInit: %s",
        df_test_result_name(result));
  CHECK(ctx == NULL, "a context was made in spite of the failure");
  char number[16];
  snprintf(number, sizeof number, "%d", VICTIM);
  if (rank == 0)
    CHECK(df_mentions(dfcclGetLastError(NULL), number), "rank %d is not named: \"%s\"", VICTIM,
          dfcclGetLastError(NULL));
}

DF_TEST(peer_killed, during_init, 60) {
  stage *scene = df_shared(sizeof *scene);
  df_family family;
  setenv("DFCCL_INIT_TIMEOUT_MS", "8000", 1);
  df_fork(&family, RANKS, 30, lose_one_in_init, scene);
  EVENTUALLY(atomic_load(&scene->ready) == RANKS - 1);
  kill(family.pids[VICTIM], SIGKILL);
  df_reap(&family, VICTIM);
  for (int rank = 0; rank < RANKS; rank++)
    if (rank != VICTIM) CHECK(df_reap(&family, rank) == 0, "survivor %d failed", rank);
}
