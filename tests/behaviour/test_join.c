/*
 * Promise: a process joins a job that has lost a rank, and is a member of collectives that are
 * registered afterwards; a newcomer that dies while it joins, or that does not come, changes
 * nothing; and wrong use is refused with a sentence, without effect on the job.
 * tests/survival/joins.c has random orders and deaths.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/processes.h"

enum { RANKS = 3, COUNT = 500, BEFORE = 1, AFTER = 2 };

typedef struct {
  atomic_int lost, has_id, ends, joined, admits, statuses[RANKS];
  dfcclUniqueId id;
} stage;

static stage *scene;
static int self;
static atomic_int lost_seen, joined_seen, status;

static void told(dfcclContext_t ctx, const dfcclMembership_t *m, void *arg) {
  (void)ctx;
  (void)arg;
  atomic_fetch_add(&lost_seen, m->nLost);
  atomic_fetch_add(&joined_seen, m->nJoined);
  CHECK(m->nJoined == 0 || m->joined[0] == 1, "rank %d has joined", m->joined[0]);
}

static dfcclConfig_t configure(int survive) {
  dfcclConfig_t config = DFCCL_CONFIG_INITIALIZER;
  config.backend = dfcclBackendCpu;
  config.survive = survive;
  config.membership = survive ? told : NULL;
  return config;
}

/* Sums powers of two of the ranks in the set. */
static void sum(dfcclContext_t ctx, dfcclCollId_t id, unsigned set) {
  static int32_t send[COUNT], recv[COUNT];
  for (int i = 0; i < COUNT; i++) send[i] = 1 << self;
  OK(dfcclRunAllReduce(ctx, id, send, recv, NULL, NULL));
  OK(dfcclWait(ctx, id));
  for (int i = 0; i < COUNT; i++)
    CHECK(recv[i] == (int32_t)set, "element %d is %x, not %x", i, (unsigned)recv[i], set);
}

static void admitted(dfcclContext_t ctx, dfcclResult_t result, void *arg) {
  (void)ctx;
  (void)arg;
  atomic_store(&status, 1 + (int)result);
}

static dfcclResult_t admit(dfcclContext_t ctx) {
  atomic_store(&status, 0);
  OK(dfcclAdmit(ctx, admitted, NULL));
  EVENTUALLY(atomic_load(&status) != 0);
  return (dfcclResult_t)(atomic_load(&status) - 1);
}

/* Rank 1 dies. Returns when the others have its loss behind them. */
static dfcclContext_t begin(int rank, int ranks, const dfcclUniqueId *id) {
  const dfcclConfig_t config = configure(1);
  self = rank;
  dfcclContext_t ctx = df_init(rank, ranks, id, &config);
  OK(dfcclRegisterAllReduce(ctx, BEFORE, COUNT, dfcclInt32, dfcclSum, NULL));
  sum(ctx, BEFORE, 7);
  if (rank == 1) {
    EVENTUALLY(atomic_load(&scene->lost) == RANKS - 1);
    raise(SIGKILL);
  }
  atomic_fetch_add(&scene->lost, 1);
  EVENTUALLY(atomic_load(&lost_seen) == 1);
  sum(ctx, BEFORE, 5);
  if (rank == 2) {
    OK(dfcclGetJoinId(ctx, &scene->id));
    atomic_store(&scene->has_id, 1);
  }
  return ctx;
}

static void run_with_newcomer(dfcclContext_t ctx) {
  OK(dfcclRegisterAllReduce(ctx, AFTER, COUNT, dfcclInt32, dfcclSum, NULL));
  sum(ctx, AFTER, 7);
}

static dfcclContext_t join(void) {
  const dfcclConfig_t config = configure(1);
  dfcclContext_t ctx = NULL;
  EVENTUALLY(atomic_load(&scene->has_id));
  OK(dfcclJoin(&ctx, &scene->id, &config));
  OK(dfcclGetRank(ctx, &self, NULL));
  CHECK(self == 1, "the newcomer is rank %d", self);
  df_watch(ctx);
  return ctx;
}

static pid_t start(void (*newcomer)(void)) { return df_start_process(newcomer, 40); }

static void end_job(df_family *family) {
  for (int r = 0; r < RANKS; r++) {
    const int ended = df_reap(family, r);
    CHECK(ended == 0 || (r == 1 && WIFSIGNALED(ended)), "rank %d ended with status %d", r, ended);
  }
}

static void be_member(int rank, int ranks, const dfcclUniqueId *id, void *arg) {
  (void)arg;
  dfcclContext_t ctx = begin(rank, ranks, id);
  RESULT(admit(ctx), dfcclSuccess);
  CHECK(atomic_load(&joined_seen) == 1, "%d have joined", atomic_load(&joined_seen));
  sum(ctx, BEFORE, 5); /* its group is as it was */
  run_with_newcomer(ctx);
  OK(dfcclDeregister(ctx, BEFORE));
  OK(dfcclRegisterAllReduce(ctx, BEFORE, COUNT, dfcclInt32, dfcclSum, NULL));
  sum(ctx, BEFORE, 7);
  df_finish(ctx);
}

static void be_newcomer(void) {
  dfcclContext_t ctx = join();
  dfcclMembership_t m = DFCCL_MEMBERSHIP_INITIALIZER;
  OK(dfcclGetMembership(ctx, &m));
  CHECK(m.nMembers == RANKS && m.view >= 2, "view %d has %d members", (int)m.view, m.nMembers);
  run_with_newcomer(ctx);
  OK(dfcclRegisterAllReduce(ctx, BEFORE, COUNT, dfcclInt32, dfcclSum, NULL));
  sum(ctx, BEFORE, 7);
  df_finish(ctx);
}

DF_TEST(join, lost_number, 60) {
  df_family family;
  scene = df_shared(sizeof *scene);
  df_fork(&family, RANKS, 50, be_member, NULL);
  df_end_process(start(be_newcomer), 0);
  end_job(&family);
}

/* Rank 0 calls dfcclAdmit when the newcomer is dead, rank 2 before. */
static void admit_twice(int rank, int ranks, const dfcclUniqueId *id, void *arg) {
  (void)arg;
  setenv("DFCCL_INIT_TIMEOUT_MS", "3000", 1);
  dfcclContext_t ctx = begin(rank, ranks, id);
  if (rank == 0) EVENTUALLY(atomic_load(&scene->admits));
  const dfcclResult_t first = admit(ctx);
  CHECK(first == dfcclRemoteError || first == dfcclTimeout, "%s", df_test_result_name(first));
  atomic_store(&scene->statuses[rank], (int)first);
  CHECK(atomic_load(&joined_seen) == 0 && atomic_load(&lost_seen) == 1, "somebody has joined");
  sum(ctx, BEFORE, 5);
  atomic_fetch_add(&scene->ends, 1);
  EVENTUALLY(atomic_load(&scene->ends) == RANKS - 1);
  CHECK(atomic_load(&scene->statuses[0]) == atomic_load(&scene->statuses[2]), "they differ");
  RESULT(admit(ctx), dfcclSuccess);
  run_with_newcomer(ctx);
  df_finish(ctx);
}

static void join_in_vain(void) {
  atomic_store(&scene->joined, 1);
  join();
}

static void join_late(void) {
  dfcclContext_t ctx = join();
  run_with_newcomer(ctx);
  df_finish(ctx);
}

DF_TEST(join, newcomer_dies, 60) {
  df_family family;
  scene = df_shared(sizeof *scene);
  df_fork(&family, RANKS, 50, admit_twice, NULL);
  const pid_t victim = start(join_in_vain);
  EVENTUALLY(atomic_load(&scene->joined) && atomic_load(&scene->has_id));
  df_sleep_ms(150); /* it is connected by then, usually */
  kill(victim, SIGKILL);
  df_end_process(victim, 1);
  atomic_store(&scene->admits, 1);
  EVENTUALLY(atomic_load(&scene->ends) == RANKS - 1);
  df_end_process(start(join_late), 0);
  end_job(&family);
}

/* ---- different numbers of runs */

enum { EXTRA = 2 }; /* runs that rank 0 has before the others */

static void run_more(dfcclContext_t ctx) {
  static int32_t send[EXTRA][COUNT], recv[EXTRA][COUNT];
  for (int i = 0; i < EXTRA; i++) {
    for (int k = 0; k < COUNT; k++) send[i][k] = 1 << self;
    OK(dfcclRunAllReduce(ctx, BEFORE, send[i], recv[i], NULL, NULL));
  }
}

/* Rank 0 has submitted runs before its call that rank 2 submits when its own call has ended. */
static void admit_between_others(int rank, int ranks, const dfcclUniqueId *id, void *arg) {
  (void)arg;
  dfcclContext_t ctx = begin(rank, ranks, id);
  /* begin() has made two runs. */
  if (rank == 0) run_more(ctx);
  RESULT(admit(ctx), dfcclMismatch);
  const char *sentence = dfcclGetLastError(ctx);
  CHECK(strstr(sentence, "collective 1 had 4 runs before it on rank 0 and 2 on rank 2"), "%s",
        sentence);
  CHECK(atomic_load(&joined_seen) == 0 && atomic_load(&lost_seen) == 1, "somebody has joined");
  if (rank == 2) run_more(ctx);
  OK(dfcclWait(ctx, BEFORE));
  RESULT(admit(ctx), dfcclSuccess);
  CHECK(atomic_load(&joined_seen) == 1, "%d have joined", atomic_load(&joined_seen));
  run_with_newcomer(ctx);
  df_finish(ctx);
}

DF_TEST(join, different_runs, 60) {
  df_family family;
  scene = df_shared(sizeof *scene);
  df_fork(&family, RANKS, 50, admit_between_others, NULL);
  df_end_process(start(join_late), 0);
  end_job(&family);
}

/* ---- wrong use */

static void expect(dfcclResult_t result, dfcclResult_t wanted, const char *part) {
  const char *sentence = dfcclGetLastError(NULL);
  CHECK(result == wanted && strstr(sentence, part), "%s: \"%s\", without \"%s\"",
        df_test_result_name(result), sentence, part);
}

static void misuse(void) {
  dfcclConfig_t config = configure(1);
  dfcclContext_t ctx = NULL;
  EVENTUALLY(atomic_load(&scene->has_id));
  dfcclUniqueId id = scene->id;
  expect(dfcclJoin(NULL, &id, &config), dfcclInvalidArgument, "ctx is NULL");
  expect(dfcclJoin(&ctx, NULL, &config), dfcclInvalidArgument, "id is NULL");
  expect(dfcclJoin(&ctx, &id, NULL), dfcclInvalidUsage, "needs config.survive 1 or 2");
  config.survive = 2;
  expect(dfcclJoin(&ctx, &id, &config), dfcclMismatch, "is 2 on the newcomer and 1 in the job");
  config.survive = 1;
  id.internal[40] ^= 1;
  expect(dfcclJoin(&ctx, &id, &config), dfcclInvalidArgument, "was damaged on its way");
  id = scene->id;
  id.internal[8]++;
  expect(dfcclJoin(&ctx, &id, &config), dfcclInvalidUsage, "is of version");
  OK(dfcclGetUniqueId(&id));
  expect(dfcclJoin(&ctx, &id, &config), dfcclInvalidArgument, "was not made by dfcclGetJoinId");
  expect(dfcclInit(&ctx, 2, scene->id, 0, &config), dfcclInvalidArgument,
         "was not made by dfcclGetUniqueId");
  CHECK(ctx == NULL, "ctx was set");
  setenv("DFCCL_INIT_TIMEOUT_MS", "300", 1);
  expect(dfcclJoin(&ctx, &scene->id, &config), dfcclTimeout, "have not called dfcclAdmit");
  atomic_store(&scene->ends, 1);
  EVENTUALLY(atomic_load(&scene->joined) == RANKS - 1); /* the job has ended */
  expect(dfcclJoin(&ctx, &scene->id, &config), dfcclRemoteError, "its job has ended");
}

static void be_misused(int rank, int ranks, const dfcclUniqueId *id, void *arg) {
  (void)arg;
  dfcclUniqueId entrance;
  dfcclContext_t ctx = begin(rank, ranks, id);
  RESULT(dfcclGetJoinId(ctx, NULL), dfcclInvalidArgument);
  EVENTUALLY(atomic_load(&scene->ends));
  sum(ctx, BEFORE, 5);
  CHECK(atomic_load(&joined_seen) == 0, "somebody has joined"); /* ranks that are ahead have left */
  OK(dfcclAdmit(ctx, admitted, NULL));
  RESULT(dfcclAdmit(ctx, admitted, NULL), dfcclInvalidUsage);
  RESULT(dfcclRegisterAllReduce(ctx, AFTER, 1, dfcclInt32, dfcclSum, NULL), dfcclInvalidUsage);
  OK(dfcclGetJoinId(ctx, &entrance));
  df_finish(ctx);
  CHECK(atomic_load(&status) == 1 + (int)dfcclAborted, "the admit ended with %d",
        atomic_load(&status) - 1);
  atomic_fetch_add(&scene->joined, 1);
}

DF_TEST(join, wrong_use, 60) {
  df_family family;
  scene = df_shared(sizeof *scene);
  df_fork(&family, RANKS, 50, be_misused, NULL);
  df_end_process(start(misuse), 0);
  end_job(&family);
}

static void without_survive(int rank, int ranks, const dfcclUniqueId *id, void *arg) {
  (void)arg;
  dfcclUniqueId entrance;
  dfcclContext_t ctx = df_init(rank, ranks, id, NULL);
  RESULT(dfcclGetJoinId(ctx, &entrance), dfcclInvalidUsage);
  RESULT(dfcclAdmit(ctx, NULL, NULL), dfcclInvalidUsage);
  df_finish(ctx);
}

DF_TEST(join, needs_survive, 30) {
  df_family family;
  df_fork(&family, 2, 25, without_survive, NULL);
  df_join(&family);
}
