/*
 * The watchdog is a thread that sleeps until the deadline. A test that still runs then is stuck.
 * The watchdog prints the test's present wait, the state of every context (dfcclDump) and the stack
 * of every thread to standard error, and ends the process with status 124.
 */
#include "support/harness.h"
#include "support/watchdog.h"

#include <dirent.h>
#include <errno.h>
#include <execinfo.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { CONTEXTS_MAX = 4096, CHILDREN_MAX = 256, STACK_MAX = 40, DUMPS_MAX = 24 };

static struct {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  pthread_t thread;
  bool running, stopping;
  pid_t owner; /* in a forked child the fields above describe the parent's watchdog */
  char name[256];
  double seconds;
  struct timespec deadline;
} watchdog = {.lock = PTHREAD_MUTEX_INITIALIZER};

static _Atomic(dfcclContext_t) contexts[CONTEXTS_MAX];
static atomic_int children[CHILDREN_MAX];
static _Thread_local const char *volatile waiting_for;

void df_waiting_for(const char *what) { waiting_for = what; }

void df_watch(dfcclContext_t ctx) {
  for (int i = 0; i < CONTEXTS_MAX; i++) {
    dfcclContext_t none = NULL;
    if (atomic_compare_exchange_strong(&contexts[i], &none, ctx)) return;
  }
}

void df_unwatch(dfcclContext_t ctx) {
  for (int i = 0; i < CONTEXTS_MAX; i++) {
    dfcclContext_t this = ctx;
    if (atomic_compare_exchange_strong(&contexts[i], &this, NULL)) return;
  }
}

void df_watch_child(int pid) {
  for (int i = 0; i < CHILDREN_MAX; i++) {
    int none = 0;
    if (atomic_compare_exchange_strong(&children[i], &none, pid)) return;
  }
}

void df_unwatch_child(int pid) {
  for (int i = 0; i < CHILDREN_MAX; i++) {
    int this = pid;
    if (atomic_compare_exchange_strong(&children[i], &this, 0)) return;
  }
}

_Noreturn void df_watchdog_end_process(int status) {
  if (watchdog.owner ==
      getpid()) /* otherwise the list is a copy, and names this child's siblings */
    for (int i = 0; i < CHILDREN_MAX; i++)
      if (atomic_load(&children[i]) > 0) kill(atomic_load(&children[i]), SIGKILL);
  _exit(status);
}

static void print_this_stack(int signal_number) {
  (void)signal_number;
  int saved_errno = errno;
  char line[160];
  const char *what = waiting_for;
  int length = snprintf(line, sizeof line, "-- thread %ld%s%s\n", (long)syscall(SYS_gettid),
                        what != NULL ? " waits for: " : "", what != NULL ? what : "");
  if (write(2, line, (size_t)length) < 0) return;
  void *frames[STACK_MAX];
  backtrace_symbols_fd(frames, backtrace(frames, STACK_MAX), 2);
  errno = saved_errno;
}

static void print_every_stack(void) {
  DIR *tasks = opendir("/proc/self/task");
  if (tasks == NULL) return;
  pid_t self = (pid_t)syscall(SYS_gettid);
  for (const struct dirent *task; (task = readdir(tasks)) != NULL;) {
    int thread = atoi(task->d_name);
    if (thread <= 0 || thread == self) continue;
    syscall(SYS_tgkill, getpid(), thread, SIGUSR1);
    df_sleep_ms(20); /* one after the other, so that the texts do not mix */
  }
  closedir(tasks);
}

static void report_stuck(void) {
  fprintf(stderr, "\n==== STUCK: %s did not end within %.0f s ====\n", watchdog.name,
          watchdog.seconds);
  df_print_repetition();
  fflush(NULL);
  print_every_stack();
  int dumped = 0;
  for (int i = 0; i < CONTEXTS_MAX && dumped < DUMPS_MAX; i++) {
    dfcclContext_t ctx = atomic_load(&contexts[i]);
    if (ctx == NULL) continue;
    fprintf(stderr, "---- context %d: \"%s\"\n", i, dfcclGetLastError(ctx));
    if (dfcclDump(ctx, 2) != dfcclSuccess)
      fprintf(stderr, "dfcclDump: %s\n", dfcclGetLastError(NULL));
    dumped++;
  }
  fprintf(stderr, "==== end of the report on %s ====\n", watchdog.name);
}

static void *watch(void *unused) {
  (void)unused;
  pthread_mutex_lock(&watchdog.lock);
  int waited = 0;
  while (!watchdog.stopping && waited != ETIMEDOUT) {
    struct timespec deadline = watchdog.deadline;
    waited = pthread_cond_timedwait(&watchdog.changed, &watchdog.lock, &deadline);
    if (memcmp(&deadline, &watchdog.deadline, sizeof deadline) != 0) waited = 0;
  }
  bool stuck = !watchdog.stopping;
  pthread_mutex_unlock(&watchdog.lock);
  if (!stuck) return NULL;
  alarm(20); /* the report itself must not get stuck */
  report_stuck();
  df_watchdog_end_process(124);
}

void df_watchdog_start(const char *name, double seconds) {
  if (watchdog.owner != getpid()) { /* the first start in this process */
    watchdog.owner = getpid();
    watchdog.running = false;
    memset(contexts, 0, sizeof contexts);
    memset(children, 0,
           sizeof children); /* a copy of the parent's list, which names this process's siblings */
    pthread_mutex_init(&watchdog.lock, NULL);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&watchdog.changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    struct sigaction action = {.sa_handler = print_this_stack, .sa_flags = SA_RESTART};
    sigaction(SIGUSR1, &action, NULL);
    void *frame;
    backtrace(&frame, 1); /* the first call loads a library: not in a signal handler */
  }
  pthread_mutex_lock(&watchdog.lock);
  snprintf(watchdog.name, sizeof watchdog.name, "%s", name);
  const char *other = getenv(
      "TEST_SECONDS"); /* for a developer who searches for a hang and wants a shorter limit */
  watchdog.seconds = other != NULL ? atof(other) : seconds * df_slowdown();
  /* No signal is sent: at the old deadline the watchdog reads the new one. Tests only move it
   * later. */
  clock_gettime(CLOCK_MONOTONIC, &watchdog.deadline);
  watchdog.deadline.tv_sec += (time_t)watchdog.seconds;
  watchdog.stopping = false;
  bool start = !watchdog.running;
  watchdog.running = true;
  pthread_mutex_unlock(&watchdog.lock);
  if (start && pthread_create(&watchdog.thread, NULL, watch, NULL) != 0) {
    perror("pthread_create");
    _exit(1);
  }
}

void df_watchdog_stop(void) {
  if (watchdog.owner != getpid() || !watchdog.running) return;
  pthread_mutex_lock(&watchdog.lock);
  watchdog.stopping = true;
  pthread_cond_signal(&watchdog.changed);
  pthread_mutex_unlock(&watchdog.lock);
  pthread_join(watchdog.thread, NULL);
  watchdog.running = false;
}

void df_test_run(const char *name, double seconds, df_test_body body) {
  df_watchdog_start(name, seconds);
  body();
  df_watchdog_stop();
}
