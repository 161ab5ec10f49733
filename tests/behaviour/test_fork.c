/*
 * Promises about fork(). A forked child cannot disturb the job of its parent, and every call on a
 * context of the parent is refused in the child with a sentence. The death of a rank is detected
 * although a child of it lives on. A child can create jobs of its own, whatever other threads did
 * at the fork, and in a callback too. A child of the child keeps the child's files.
 */
#include "support/buffers.h"
#include "support/processes.h"
#include "support/rest.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { COUNT = 1000, COLL = 5 };

static void child_watchdog(const char *name) { df_watchdog_start(name, 20); }

static void expect_success(pid_t child) {
  int status;
  CHECK(waitpid(child, &status, 0) == child, "no child");
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child's status is 0x%x", status);
}

/* ---- the parent's contexts */

static void refused(dfcclResult_t result, const char *call) {
  CHECK(result == dfcclInvalidUsage, "%s: %s", call, df_test_result_name(result));
  const char *sentence = dfcclGetLastError(NULL);
  CHECK(df_mentions(sentence, "forked"), "%s: \"%s\"", call, sentence);
}
#define REFUSED(call) refused(call, #call)

static void expect_all_refused(dfcclContext_t ctx) {
  static float buffer[COUNT];
  int done, rank, ranks;
  void *memory;
  dfcclStats_t stats = DFCCL_STATS_INITIALIZER;
  REFUSED(dfcclRunAllReduce(ctx, COLL, buffer, buffer, NULL, NULL));
  REFUSED(dfcclRegisterAllReduce(ctx, COLL + 1, 1, dfcclFloat32, dfcclSum, NULL));
  REFUSED(dfcclDeregister(ctx, COLL));
  REFUSED(dfcclTest(ctx, COLL, &done));
  REFUSED(dfcclWait(ctx, COLL));
  REFUSED(dfcclWaitAll(ctx));
  REFUSED(dfcclDeviceSynchronize(ctx));
  REFUSED(dfcclMemAlloc(ctx, &memory, 100));
  REFUSED(dfcclGetStats(ctx, &stats));
  REFUSED(dfcclGetRank(ctx, &rank, &ranks));
  REFUSED(dfcclAbort(ctx));
  REFUSED(dfcclDestroy(ctx));
}

static void be_parent(int rank, int ranks, const dfcclUniqueId *id, void *arg) {
  (void)arg;
  static float send[COUNT], recv[COUNT];
  dfcclContext_t ctx = df_init(rank, ranks, id, NULL);
  OK(dfcclRegisterAllReduce(ctx, COLL, COUNT, dfcclFloat32, dfcclSum, NULL));
  for (int round = 0; round < 20; round++) {
    for (int i = 0; i < COUNT; i++) send[i] = (float)(rank + i + round);
    if (rank == 0) df_quiet_before_fork();
    pid_t child = rank == 0 ? fork() : -1;
    if (child == 0) {
      child_watchdog("a child of rank 0");
      expect_all_refused(ctx);
      _exit(0);
    }
    OK(dfcclRunAllReduce(ctx, COLL, send, recv, NULL, NULL));
    if (child > 0) expect_success(child);
    OK(dfcclWait(ctx, COLL));
    for (int i = 0; i < COUNT; i++)
      CHECK(recv[i] == (float)(2 * i + 2 * round + 1), "round %d: element %d is %g", round, i,
            (double)recv[i]);
  }
  df_finish(ctx);
}

DF_TEST(fork, a_child_cannot_touch_the_job_of_its_parent, 60) {
  df_family family;
  df_fork(&family, 2, 50, be_parent, NULL);
  df_join(&family);
}

/* ---- descriptors and mappings of a child */

static int count_holds(const char *kind) {
  char name[64], target[64];
  int n = 0;
  for (int fd = 0; fd < 1024; fd++) {
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(name, target, sizeof target - 1);
    if (length < 0) continue;
    target[length] = '\0';
    n += strncmp(target, kind, strlen(kind)) == 0;
  }
  return n;
}

static void be_parent_of_an_idle_child(int rank, int ranks, const dfcclUniqueId *id, void *arg) {
  static const char *const kinds[] = {"socket:", "anon_inode:[event"};
  static float send[COUNT], recv[COUNT];
  int before[2];
  for (int i = 0; i < 2; i++) before[i] = count_holds(kinds[i]);
  setenv("DFCCL_NET", arg, 1);
  dfcclContext_t ctx = df_init(rank, ranks, id, NULL);
  OK(dfcclRegisterAllReduce(ctx, COLL, COUNT, dfcclFloat32, dfcclSum, NULL));
  OK(dfcclRunAllReduce(ctx, COLL, send, recv, NULL, NULL));
  OK(dfcclWait(ctx, COLL));
  df_quiet_before_fork();
  pid_t child = fork();
  if (child == 0) {
    child_watchdog("an idle child");
    for (int i = 0; i < 2; i++)
      CHECK(count_holds(kinds[i]) <= before[i], "%s: the child holds %d, its parent held %d",
            kinds[i], count_holds(kinds[i]), before[i]);
    _exit(0);
  }
  expect_success(child);
  df_finish(ctx);
}

DF_TEST(fork, a_child_holds_nothing_of_its_parent, 60) {
  static char *const nets[] = {"auto", "tcp"};
  for (int i = 0; i < 2; i++) {
    df_family family;
    df_fork(&family, 2, 30, be_parent_of_an_idle_child, nets[i]);
    df_join(&family);
  }
}

/* ---- a rank that dies while its child lives */

typedef struct scene {
  atomic_int ready;
  atomic_int child;
} scene;

static void be_survivor_or_victim(int rank, int ranks, const dfcclUniqueId *id, void *arg) {
  scene *s = arg;
  static float send[COUNT], recv[COUNT];
  dfcclContext_t ctx = df_init(rank, ranks, id, NULL);
  OK(dfcclRegisterAllReduce(ctx, COLL, COUNT, dfcclFloat32, dfcclSum, NULL));
  OK(dfcclRunAllReduce(ctx, COLL, send, recv, NULL, NULL));
  OK(dfcclWait(ctx, COLL));
  if (rank == 1) {
    pid_t child = fork();
    if (child == 0)
      for (;;) pause();
    atomic_store(&s->child, (int)child);
    raise(SIGKILL);
  }
  OK(dfcclRunAllReduce(ctx, COLL, send, recv, NULL, NULL));
  RESULT(dfcclWait(ctx, COLL), dfcclRemoteError);
  CHECK(df_mentions(dfcclGetLastError(ctx), "rank 1"), "\"%s\"", dfcclGetLastError(ctx));
  df_finish(ctx);
}

DF_TEST(fork, a_rank_that_dies_is_noticed_although_its_child_lives, 60) {
  df_family family;
  scene *s = df_shared(sizeof *s);
  df_fork(&family, 2, 20, be_survivor_or_victim, s);
  int survivor = df_reap(&family, 0), victim = df_reap(&family, 1);
  kill(atomic_load(&s->child), SIGKILL);
  CHECK(WIFSIGNALED(victim), "the victim's status is 0x%x", victim);
  CHECK(WIFEXITED(survivor) && WEXITSTATUS(survivor) == 0, "the survivor's status is 0x%x",
        survivor);
}

/* ---- a child's own jobs */

static atomic_int stop_making;

static void *make_jobs(void *arg) {
  (void)arg;
  while (!atomic_load(&stop_making)) {
    dfcclContext_t ctxs[2];
    dfcclConfig_t config = df_config();
    OK(dfcclInitAll(ctxs, 2, &config));
    for (int r = 0; r < 2; r++) OK(dfcclDestroy(ctxs[r]));
  }
  return NULL;
}

static void run_a_job(void) {
  dfcclContext_t ctxs[2];
  float buffers[2] = {1, 2};
  dfcclConfig_t config = df_config();
  OK(dfcclInitAll(ctxs, 2, &config));
  for (int r = 0; r < 2; r++) {
    OK(dfcclRegisterAllReduce(ctxs[r], COLL, 1, dfcclFloat32, dfcclSum, NULL));
    OK(dfcclRunAllReduce(ctxs[r], COLL, &buffers[r], &buffers[r], NULL, NULL));
  }
  for (int r = 0; r < 2; r++) OK(dfcclWait(ctxs[r], COLL));
  CHECK(buffers[0] == 3 && buffers[1] == 3, "%g and %g", (double)buffers[0], (double)buffers[1]);
  for (int r = 0; r < 2; r++) OK(dfcclDestroy(ctxs[r]));
}

/* ---- children of children, and of callbacks */

enum { FILES = 64 };

/* The child has reused the descriptors' numbers of the parent's context. */
static void be_child_with_files(void) {
  int files[FILES];
  for (int i = 0; i < FILES; i++) files[i] = dup(STDERR_FILENO);
  df_quiet_before_fork();
  pid_t grandchild = fork();
  if (grandchild == 0) {
    for (int i = 0; i < FILES; i++)
      CHECK(fcntl(files[i], F_GETFD) >= 0, "the grandchild has lost file %d", files[i]);
    run_a_job();
    _exit(0);
  }
  expect_success(grandchild);
  _exit(0);
}

static void be_grandparent(int rank, int ranks, const dfcclUniqueId *id, void *arg) {
  setenv("DFCCL_NET", arg, 1);
  dfcclContext_t ctx = df_init(rank, ranks, id, NULL);
  df_quiet_before_fork();
  pid_t child = fork();
  if (child == 0) {
    child_watchdog("a child with files of its own");
    be_child_with_files();
  }
  expect_success(child);
  df_finish(ctx);
}

DF_TEST(fork, a_childs_children_keep_its_files, 60) {
  static char *const nets[] = {"auto", "tcp"};
  for (int i = 0; i < 2; i++) {
    df_family family;
    df_fork(&family, 2, 40, be_grandparent, nets[i]);
    df_join(&family);
  }
}

static void fork_inside(dfcclCollId_t coll, dfcclResult_t status, void *arg) {
  (void)coll, (void)status, (void)arg;
  df_quiet_before_fork();
  pid_t child = fork();
  if (child == 0) {
    child_watchdog("a child of a callback");
    run_a_job();
    _exit(0);
  }
  expect_success(child);
}

DF_TEST(fork, a_child_of_a_callback_makes_jobs_of_its_own, 60) {
  dfcclContext_t ctx;
  float buffer = 1;
  dfcclConfig_t config = df_config();
  OK(dfcclInitAll(&ctx, 1, &config));
  OK(dfcclRegisterAllReduce(ctx, COLL, 1, dfcclFloat32, dfcclSum, NULL));
  OK(dfcclRunAllReduce(ctx, COLL, &buffer, &buffer, fork_inside, NULL));
  OK(dfcclWait(ctx, COLL));
  OK(dfcclDestroy(ctx));
}

/* A sanitizer's allocator has locks of its own, which may be held for ever in a child. The
 * library's own locks are tested under sanitizers too: unit/test_process_inbox.c. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif

DF_TEST(fork, a_child_makes_jobs_of_its_own_whatever_other_threads_did, 120) {
#ifdef SANITIZED
  DF_SKIP("a sanitizer's allocator does not survive a fork among threads that allocate");
#endif
  pthread_t maker;
  CHECK(pthread_create(&maker, NULL, make_jobs, NULL) == 0, "no thread");
  for (int i = 0; i < 40; i++) {
    pid_t child = fork();
    if (child == 0) {
      child_watchdog("a child with a job of its own");
      run_a_job();
      _exit(0);
    }
    expect_success(child);
  }
  atomic_store(&stop_making, 1);
  pthread_join(maker, NULL);
}
