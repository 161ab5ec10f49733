#include "support/processes.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/memory.h"
#include "support/ranks.h"
#include "support/rest.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define LEAK_CHECK 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define LEAK_CHECK 1
#endif
#ifdef LEAK_CHECK
#include <sanitizer/lsan_interface.h>
#endif

/* Rank 0 creates the id and writes it once for each other rank; reads of one id's size never
 * mix. */
static void exchange_id(int rank, int ranks, const int ends[2], dfcclUniqueId *id) {
  if (rank == 0) {
    OK(dfcclGetUniqueId(id));
    for (int other = 1; other < ranks; other++)
      CHECK(write(ends[1], id, sizeof *id) == (ssize_t)sizeof *id, "write: %s", strerror(errno));
  } else {
    CHECK(read(ends[0], id, sizeof *id) == (ssize_t)sizeof *id, "read: %s", strerror(errno));
  }
  close(ends[0]);
  close(ends[1]);
}

static void (*enter_rank)(int rank, int ranks);

void df_on_rank_start(void (*enter)(int rank, int ranks)) { enter_rank = enter; }

static _Noreturn void be_rank(int rank, int ranks, const int ends[2], double seconds,
                              df_rank_body body, void *arg) {
  char name[64];
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (enter_rank != NULL) enter_rank(rank, ranks);
  snprintf(name, sizeof name, "rank %d of %d (process %d)", rank, ranks, (int)getpid());
  df_watchdog_start(name, seconds);
  dfcclUniqueId id;
  exchange_id(rank, ranks, ends, &id);
  body(rank, ranks, &id, arg);
  df_watchdog_stop();
  fflush(NULL);
#ifdef LEAK_CHECK
  if (__lsan_do_recoverable_leak_check() != 0) _exit(2);
#endif
  _exit(0);
}

void df_fork(df_family *family, int ranks, double seconds, df_rank_body body, void *arg) {
  int ends[2];
  CHECK(ranks <= DF_FAMILY_MAX, "%d processes", ranks);
  CHECK(pipe(ends) == 0, "pipe: %s", strerror(errno));
  family->ranks = ranks;
  fflush(NULL);
  df_quiet_before_fork();
  for (int rank = 0; rank < ranks; rank++) {
    pid_t pid = fork();
    CHECK(pid >= 0, "fork: %s", strerror(errno));
    if (pid == 0) be_rank(rank, ranks, ends, seconds, body, arg);
    family->pids[rank] = pid;
    df_watch_child(pid);
  }
  close(ends[0]);
  close(ends[1]);
}

int df_reap(df_family *family, int rank) {
  int status = 0;
  df_waiting_for("a rank's process to end");
  while (waitpid(family->pids[rank], &status, 0) < 0)
    CHECK(errno == EINTR, "waitpid: %s", strerror(errno));
  df_waiting_for(NULL);
  df_unwatch_child(family->pids[rank]);
  return status;
}

void df_join(df_family *family) {
  for (int rank = 0; rank < family->ranks; rank++) {
    int status = df_reap(family, rank);
    CHECK(status == 0, "the process of rank %d ended with status %d, signal %d", rank,
          WIFEXITED(status) ? WEXITSTATUS(status) : -1, WIFSIGNALED(status) ? WTERMSIG(status) : 0);
  }
}

dfcclConfig_t df_config(void) {
  dfcclConfig_t config = DFCCL_CONFIG_INITIALIZER;
  config.backend = df_on_cuda() ? dfcclBackendCuda : dfcclBackendCpu;
  return config;
}

pid_t df_start_process(void (*body)(void), double seconds) {
  fflush(NULL);
  const pid_t pid = fork();
  CHECK(pid >= 0, "fork: %s", strerror(errno));
  if (pid > 0) return pid;
  df_watchdog_start("a process beside the ranks", seconds);
  body();
  df_watchdog_stop();
  fflush(NULL);
  _exit(0);
}

void df_end_process(pid_t pid, int is_killed) {
  int ended = 0;
  CHECK(waitpid(pid, &ended, 0) == pid, "waitpid: %s", strerror(errno));
  CHECK(is_killed ? WIFSIGNALED(ended) : ended == 0, "the process ended with status %d", ended);
}

int df_test_devices(void) {
  const char *devices = getenv("TEST_DEVICES");
  return df_on_cuda() && devices != NULL ? atoi(devices) : 0;
}

dfcclContext_t df_init(int rank, int ranks, const dfcclUniqueId *id, const dfcclConfig_t *config) {
  dfcclConfig_t own = config != NULL ? *config : df_config();
  dfcclContext_t ctx = NULL;
  if (df_test_devices() > 0 && own.device < 0) own.device = rank % df_test_devices();
  df_memory_show_program();
  df_waiting_for("dfcclInit");
  OK(dfcclInit(&ctx, ranks, *id, rank, &own));
  df_waiting_for(NULL);
  df_watch(ctx);
  return ctx;
}

void df_finish(dfcclContext_t ctx) {
  df_unwatch(ctx);
  df_waiting_for("dfcclDestroy");
  OK(dfcclDestroy(ctx));
  df_waiting_for(NULL);
}

void *df_shared(size_t bytes) {
  void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(memory != MAP_FAILED, "mmap: %s", strerror(errno));
  return memory;
}
