/*
 * Promise: with config.survive a job goes on without lost ranks, also those that leave, are
 * stopped, are excluded or give up; collectives whose root is lost fail; groups may name lost
 * ranks; and wrong use is refused with a sentence. tests/survival/kills.c has the exact results of
 * runs that are under way when a rank dies.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/buffers.h"
#include "support/processes.h"

enum { RANKS = 4, COUNT = 1000, ALL = 1, FROM_ROOT = 2, OF_TWO = 3, LATER = 4, GATHERED = 5 };

typedef struct {
  atomic_int ready, arrived, gone, told[RANKS], reasons[RANKS];
  atomic_int view[RANKS];
  int survive;
} stage;

static stage *scene;
static int self;

static void fill(int32_t *to, int32_t value) {
  for (int i = 0; i < COUNT; i++) to[i] = value;
}

static void told(dfcclContext_t ctx, const dfcclMembership_t *m, void *arg) {
  (void)ctx;
  (void)arg;
  for (int i = 0; i < m->nLost; i++) atomic_store(&scene->reasons[m->lost[i]], (int)m->reasons[i]);
  atomic_fetch_add(&scene->told[self], m->nLost);
  atomic_store(&scene->view[self], (int)m->view);
}

static dfcclContext_t begin(int rank, int ranks, const dfcclUniqueId *id) {
  dfcclConfig_t config = DFCCL_CONFIG_INITIALIZER;
  config.backend = dfcclBackendCpu;
  config.survive = scene->survive;
  config.membership = told;
  self = rank;
  dfcclContext_t ctx = df_init(rank, ranks, id, &config);
  OK(dfcclRegisterAllReduce(ctx, ALL, COUNT, dfcclInt32, dfcclSum, NULL));
  return ctx;
}

/* All-reduces until the sum is that of the ranks in the set; other ranks may still be lost. */
static void sum_until(dfcclContext_t ctx, dfcclCollId_t coll, unsigned set) {
  static int32_t send[COUNT], recv[COUNT];
  int32_t wanted = 0, got = -1;
  for (int r = 0; r < RANKS; r++)
    if (set >> r & 1) wanted += 1 << r;
  while (got != wanted) {
    fill(send, 1 << self);
    OK(dfcclRunAllReduce(ctx, coll, send, recv, NULL, NULL));
    const dfcclResult_t waited = dfcclWait(ctx, coll);
    CHECK(waited == dfcclSuccess || (waited == dfcclRemoteError && scene->survive == 2), "%s: %s",
          df_test_result_name(waited), dfcclGetLastError(ctx));
    if (waited == dfcclSuccess) got = recv[COUNT - 1];
    for (int i = 0; i < COUNT && waited == dfcclSuccess; i++)
      CHECK(recv[i] == got, "element %d is %d, the last one %d", i, recv[i], got);
  }
}

static void meet(int n) {
  atomic_fetch_add(&scene->arrived, 1);
  EVENTUALLY(atomic_load(&scene->arrived) >= n);
}

/* Waits until the victim is ready, and makes it a zombie or lets it leave. */
static void play(df_rank_body body, int survive) {
  df_family family;
  memset(scene, 0, sizeof *scene);
  scene->survive = survive;
  df_fork(&family, RANKS, 50, body, NULL);
  for (int r = 0; r < RANKS; r++) {
    const int status = df_reap(&family, r);
    CHECK(status == 0 || (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL),
          "the process of rank %d ended with status %d", r, status);
  }
}

static void end_after_death(int rank, int ranks, const dfcclUniqueId *id, void *arg) {
  (void)arg;
  int32_t send[COUNT], recv[RANKS * COUNT];
  dfcclContext_t ctx = begin(rank, ranks, id);
  dfcclCollOptions_t two = DFCCL_COLL_OPTIONS_INITIALIZER, three = DFCCL_COLL_OPTIONS_INITIALIZER;
  const int with_victim[] = {0, 1, 3}, others[] = {2, 3};
  two.ranks = others;
  two.nRanks = 2;
  three.ranks = with_victim;
  three.nRanks = 3;
  OK(dfcclRegisterBroadcast(ctx, FROM_ROOT, COUNT, dfcclInt32, 1, NULL));
  OK(dfcclRegisterAllGather(ctx, GATHERED, COUNT, dfcclInt32, NULL));
  if (rank >= 2) OK(dfcclRegisterAllReduce(ctx, OF_TWO, COUNT, dfcclInt32, dfcclSum, &two));
  sum_until(ctx, ALL, 15);
  OK(dfcclRunBroadcast(ctx, FROM_ROOT, send, recv, NULL, NULL));
  OK(dfcclWait(ctx, FROM_ROOT));
  meet(RANKS);
  if (rank == 1) raise(SIGKILL);
  sum_until(ctx, ALL, 13);
  EVENTUALLY(atomic_load(&scene->told[rank]) == 1);
  CHECK(atomic_load(&scene->reasons[1]) == dfcclRemoteError, "the reason is %d",
        atomic_load(&scene->reasons[1]));
  if (rank >= 2) sum_until(ctx, OF_TWO, 12); /* has lost nobody */
  /* The root is lost: refused, or failed. */
  dfcclResult_t result = dfcclRunBroadcast(ctx, FROM_ROOT, send, recv, NULL, NULL);
  if (result == dfcclSuccess) result = dfcclWait(ctx, FROM_ROOT);
  CHECK(result == dfcclRemoteError, "%s", df_test_result_name(result));
  CHECK(strstr(dfcclGetLastError(ctx), "its root, rank 1, is lost since view 1"), "\"%s\"",
        dfcclGetLastError(ctx));
  /* The piece of the lost rank is a hole, and others keep their places. */
  fill(send, 100 + rank);
  OK(dfcclRunAllGather(ctx, GATHERED, send, recv, NULL, NULL));
  OK(dfcclWait(ctx, GATHERED));
  for (int r = 0; r < RANKS; r++)
    for (int i = 0; i < COUNT && r != 1; i++)
      CHECK(recv[r * COUNT + i] == 100 + r, "piece %d is %d", r, recv[r * COUNT + i]);
  /* A group may name a lost rank. */
  if (rank != 2) {
    OK(dfcclRegisterAllReduce(ctx, LATER, COUNT, dfcclInt32, dfcclSum, &three));
    sum_until(ctx, LATER, 9);
    OK(dfcclDeregister(ctx, LATER));
  }
  meet(2 * RANKS - 1);
  df_finish(ctx);
}

DF_TEST(survive, a_dead_rank, 60) {
  scene = df_shared(sizeof *scene);
  play(end_after_death, 1);
  play(end_after_death, 2);
}

/* A rank that leaves is lost too. */
static void leave(int rank, int ranks, const dfcclUniqueId *id, void *arg) {
  (void)arg;
  dfcclContext_t ctx = begin(rank, ranks, id);
  sum_until(ctx, ALL, 15);
  meet(RANKS);
  if (rank == 0) {
    df_finish(ctx);
    return;
  }
  sum_until(ctx, ALL, 14);
  EVENTUALLY(atomic_load(&scene->told[rank]) == 1);
  CHECK(atomic_load(&scene->reasons[0]) == dfcclSuccess, "the reason is %d",
        atomic_load(&scene->reasons[0]));
  meet(2 * RANKS - 1);
  if (rank == 1) { /* its context breaks, and the others go on without it */
    OK(dfcclAbort(ctx));
    df_finish(ctx);
    return;
  }
  sum_until(ctx, ALL, 12);
  df_finish(ctx);
}

DF_TEST(survive, ranks_that_leave_or_abort, 60) {
  scene = df_shared(sizeof *scene);
  play(leave, 1);
}

/* A stopped process that wakes up must not go on. */
static void be_stopped(int rank, int ranks, const dfcclUniqueId *id, void *arg) {
  (void)arg;
  setenv("DFCCL_NET_TIMEOUT_MS", "400", 1);
  dfcclContext_t ctx = begin(rank, ranks, id);
  sum_until(ctx, ALL, 15);
  meet(RANKS);
  if (rank == 2) {
    const pid_t child = fork();
    if (child == 0) { /* wakes its parent when the others have gone on */
      while (atomic_load(&scene->gone) < RANKS - 1) df_nap();
      kill(getppid(), SIGCONT);
      _exit(0);
    }
    raise(SIGSTOP);
    int32_t send[COUNT] = {0}, recv[COUNT];
    dfcclResult_t result = dfcclRunAllReduce(ctx, ALL, send, recv, NULL, NULL);
    if (result == dfcclSuccess) result = dfcclWait(ctx, ALL);
    CHECK(result == dfcclRemoteError, "%s", df_test_result_name(result));
    CHECK(strstr(dfcclGetLastError(ctx), "not a majority"), "\"%s\"", dfcclGetLastError(ctx));
    CHECK(waitpid(child, NULL, 0) == child, "%s", strerror(errno));
    OK(dfcclDestroy(ctx));
    df_unwatch(ctx);
    return;
  }
  sum_until(ctx, ALL, 11);
  EVENTUALLY(atomic_load(&scene->told[rank]) == 1);
  CHECK(atomic_load(&scene->reasons[2]) == dfcclTimeout, "the reason is %d",
        atomic_load(&scene->reasons[2]));
  atomic_fetch_add(&scene->gone, 1);
  EVENTUALLY(atomic_load(&scene->gone) == RANKS - 1);
  sum_until(ctx, ALL, 11);
  meet(2 * RANKS - 1);
  df_finish(ctx);
}

DF_TEST(survive, a_stopped_rank, 60) {
  scene = df_shared(sizeof *scene);
  play(be_stopped, 1);
}

static void exclude(int rank, int ranks, const dfcclUniqueId *id, void *arg) {
  (void)arg;
  const int victim = 3, none = 7, me = rank, all[] = {0, 1, 2, 3};
  dfcclContext_t ctx = begin(rank, ranks, id);
  sum_until(ctx, ALL, 15);
  RESULT(dfcclExclude(ctx, &me, 1), dfcclInvalidArgument);
  RESULT(dfcclExclude(ctx, &none, 1), dfcclInvalidArgument);
  RESULT(dfcclExclude(ctx, NULL, 1), dfcclInvalidArgument);
  RESULT(dfcclExclude(ctx, &victim, 0), dfcclInvalidArgument);
  if (rank == 0) RESULT(dfcclExclude(ctx, all + 1, 3), dfcclInvalidArgument);
  meet(RANKS);
  if (rank == 1) OK(dfcclExclude(ctx, &victim, 1));
  if (rank == victim) {
    EVENTUALLY(atomic_load(&scene->gone) == RANKS - 1);
    int32_t send[COUNT] = {0}, recv[COUNT];
    dfcclResult_t result = dfcclRunAllReduce(ctx, ALL, send, recv, NULL, NULL);
    if (result == dfcclSuccess) result = dfcclWait(ctx, ALL);
    CHECK(result == dfcclRemoteError, "%s", df_test_result_name(result));
    CHECK(strstr(dfcclGetLastError(ctx), "not a majority"), "\"%s\"", dfcclGetLastError(ctx));
    df_unwatch(ctx);
    OK(dfcclDestroy(ctx));
    return;
  }
  sum_until(ctx, ALL, 7);
  EVENTUALLY(atomic_load(&scene->told[rank]) == 1);
  CHECK(atomic_load(&scene->reasons[victim]) == dfcclAborted, "the reason is %d",
        atomic_load(&scene->reasons[victim]));
  OK(dfcclExclude(ctx, &victim, 1)); /* is lost already */
  dfcclMembership_t m = DFCCL_MEMBERSHIP_INITIALIZER;
  OK(dfcclGetMembership(ctx, &m));
  CHECK(m.view == 1 && m.nMembers == 3 && m.members[2] == 2 && m.nLost == 1 && m.lost[0] == victim,
        "view %llu has %d members", (unsigned long long)m.view, m.nMembers);
  atomic_fetch_add(&scene->gone, 1);
  meet(2 * RANKS - 1);
  df_finish(ctx);
}

DF_TEST(survive, an_excluded_rank, 60) {
  scene = df_shared(sizeof *scene);
  play(exclude, 1);
}

static void differ(int rank, int ranks, const dfcclUniqueId *id, void *arg) {
  (void)arg;
  dfcclConfig_t config = DFCCL_CONFIG_INITIALIZER;
  dfcclContext_t ctx = NULL;
  config.backend = dfcclBackendCpu;
  config.survive = rank == 2 ? 2 : 1;
  RESULT(dfcclInit(&ctx, ranks, *id, rank, &config), dfcclMismatch);
  CHECK(strstr(dfcclGetLastError(NULL), "config.survive is "), "\"%s\"", dfcclGetLastError(NULL));
  meet(RANKS); /* rank 0 has the job's door */
}

enum { VECTOR = 10, ROOTED, SHORT, SCALED, EMPTY };

static void register_kinds(dfcclContext_t ctx) {
  const size_t counts[RANKS] = {10, 0, 300, 7};
  const int32_t factor = 3;
  dfcclCollOptions_t varying = DFCCL_COLL_OPTIONS_INITIALIZER;
  dfcclRedOp_t scaled;
  varying.varying = 1;
  OK(dfcclRegisterAllGatherV(ctx, VECTOR, counts, NULL, dfcclInt32, NULL));
  OK(dfcclRegisterBroadcast(ctx, ROOTED, COUNT, dfcclInt32, RANKS - 1, NULL));
  OK(dfcclRegisterAllReduce(ctx, SHORT, 1000 * COUNT, dfcclInt32, dfcclSum, &varying));
  OK(dfcclRedOpCreatePreMulSum(ctx, &scaled, &factor, dfcclInt32, 0));
  OK(dfcclRegisterAllReduce(ctx, SCALED, COUNT, dfcclInt32, scaled, NULL));
  OK(dfcclRedOpDestroy(ctx, scaled));
  OK(dfcclRegisterAllReduce(ctx, EMPTY, 0, dfcclInt32, dfcclSum, NULL));
}

/* Each kind once; 1: with the contribution of the rank that is lost later. */
static void run_kinds(dfcclContext_t ctx, int with_victim) {
  static int32_t send[COUNT], recv[COUNT];
  const size_t counts[RANKS] = {10, 0, 300, 7};
  fill(send, 1 << self);
  fill(recv, -1);
  OK(dfcclRunAllGatherV(ctx, VECTOR, send, recv, NULL, NULL));
  OK(dfcclWait(ctx, VECTOR));
  for (size_t r = 0, at = 0; r < RANKS; at += counts[r], r++)
    for (size_t i = 0; i < counts[r] && (r != 2 || with_victim); i++)
      CHECK(recv[at + i] == 1 << r, "piece %zu is %d", r, recv[at + i]);
  OK(dfcclRunBroadcast(ctx, ROOTED, send, recv, NULL, NULL));
  OK(dfcclWait(ctx, ROOTED));
  CHECK(recv[COUNT - 1] == 8, "the root's element is %d", recv[COUNT - 1]);
  /* In place, and shorter than registered: nothing behind the run's elements changes. */
  dfcclRun_t run = DFCCL_RUN_INITIALIZER;
  fill(recv, 1 << self);
  run.sendBuf = run.recvBuf = recv;
  run.count = 100;
  OK(dfcclRun(ctx, SHORT, &run));
  OK(dfcclWait(ctx, SHORT));
  const int32_t sum = with_victim ? 15 : 11;
  CHECK(recv[0] == sum && recv[99] == sum && recv[100] == 1 << self, "%d %d %d", recv[0], recv[99],
        recv[100]);
  OK(dfcclRunAllReduce(ctx, SCALED, send, recv, NULL, NULL));
  OK(dfcclWait(ctx, SCALED));
  CHECK(recv[0] == 3 * sum, "%d", recv[0]);
  OK(dfcclRunAllReduce(ctx, EMPTY, NULL, NULL, NULL, NULL));
  OK(dfcclWait(ctx, EMPTY));
}

static void run_all_kinds(int rank, int ranks, const dfcclUniqueId *id, void *arg) {
  (void)arg;
  dfcclContext_t ctx = begin(rank, ranks, id);
  register_kinds(ctx);
  run_kinds(ctx, 1);
  sum_until(ctx, ALL, 15);
  meet(RANKS);
  if (rank == 2) raise(SIGKILL);
  sum_until(ctx, ALL, 11); /* from here on without rank 2 */
  run_kinds(ctx, 0);
  meet(2 * RANKS - 1);
  df_finish(ctx);
}

DF_TEST(survive, every_kind, 60) {
  scene = df_shared(sizeof *scene);
  play(run_all_kinds, 1);
  play(run_all_kinds, 2);
}

/* The first runs failed before this rank had registered the collective. */
static void register_late(int rank, int ranks, const dfcclUniqueId *id, void *arg) {
  (void)arg;
  int32_t send[COUNT], recv[COUNT];
  dfcclContext_t ctx = begin(rank, ranks, id);
  sum_until(ctx, ALL, 15);
  if (rank != 0) {
    OK(dfcclRegisterAllReduce(ctx, LATER, COUNT, dfcclInt32, dfcclSum, NULL));
    fill(send, 1000);
    for (int i = 0; i < 2; i++) OK(dfcclRunAllReduce(ctx, LATER, send, recv, NULL, NULL));
  }
  meet(RANKS);
  if (rank == 3) raise(SIGKILL);
  sum_until(ctx, ALL, 7);
  EVENTUALLY(atomic_load(&scene->told[rank]) == 1);
  if (rank == 0) {
    OK(dfcclRegisterAllReduce(ctx, LATER, COUNT, dfcclInt32, dfcclSum, NULL));
    fill(send, 1000);
    for (int i = 0; i < 2; i++) OK(dfcclRunAllReduce(ctx, LATER, send, recv, NULL, NULL));
  }
  for (uint64_t run = 0; run < 2; run++)
    RESULT(dfcclWaitRun(ctx, LATER, run, -1),
           scene->survive == 2 ? dfcclRemoteError : dfcclSuccess);
  fill(send, 1 << rank);
  OK(dfcclRunAllReduce(ctx, LATER, send, recv, NULL, NULL));
  OK(dfcclWaitRun(ctx, LATER, 2, -1));
  CHECK(recv[COUNT - 1] == 7, "the sum is %d", recv[COUNT - 1]);
  meet(2 * RANKS - 1);
  df_finish(ctx);
}

DF_TEST(survive, a_registration_after_the_view, 60) {
  scene = df_shared(sizeof *scene);
  play(register_late, 1);
  play(register_late, 2);
}

DF_TEST(survive, values_that_differ, 60) {
  scene = df_shared(sizeof *scene);
  play(differ, 0);
}

DF_TEST(survive, wrong_use, 30) {
  dfcclContext_t ctx = NULL;
  dfcclMembership_t m = DFCCL_MEMBERSHIP_INITIALIZER;
  const int other = 1;
  static const struct {
    int survive, most;
    dfcclResult_t result;
    const char *words;
  } configurations[] = {{3, 0, dfcclInvalidArgument, "config.survive is 3"},
                        {-1, 0, dfcclInvalidArgument, "config.survive is -1"},
                        {1, -1, dfcclInvalidArgument, "config.maxRanks is -1"},
                        {1, 1, dfcclInvalidArgument, "config.maxRanks is 1"},
                        {1, 3, dfcclInvalidUsage, "config.maxRanks is 3"}};
  dfcclContext_t both[2];
  for (size_t i = 0; i < sizeof configurations / sizeof *configurations; i++) {
    dfcclConfig_t config = DFCCL_CONFIG_INITIALIZER;
    config.backend = dfcclBackendCpu;
    config.survive = configurations[i].survive;
    config.maxRanks = configurations[i].most;
    RESULT(dfcclInitAll(both, 2, &config), configurations[i].result);
    CHECK(strstr(dfcclGetLastError(NULL), configurations[i].words), "\"%s\"",
          dfcclGetLastError(NULL));
  }
  dfcclConfig_t config = DFCCL_CONFIG_INITIALIZER;
  config.backend = dfcclBackendCpu;
  OK(dfcclInitAll(&ctx, 1, &config));
  RESULT(dfcclGetMembership(ctx, &m), dfcclInvalidUsage);
  RESULT(dfcclGetMembership(ctx, NULL), dfcclInvalidArgument);
  m.size = 3;
  RESULT(dfcclGetMembership(ctx, &m), dfcclInvalidArgument);
  RESULT(dfcclExclude(ctx, &other, 1), dfcclInvalidUsage);
  OK(dfcclDestroy(ctx));
  config.survive = 1;
  OK(dfcclInitAll(&ctx, 1, &config));
  RESULT(dfcclRegisterAllToAllDynamic(ctx, 1, 10, dfcclInt32, NULL), dfcclInvalidUsage);
  CHECK(strstr(dfcclGetLastError(ctx), "AllToAllDynamic"), "\"%s\"", dfcclGetLastError(ctx));
  OK(dfcclDestroy(ctx));
}
