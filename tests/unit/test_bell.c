/*
 * Promises of src/base/bell.c:
 *   - A ring after prepare never lets the sleeper continue to sleep (tests/model/bell.pml checks
 *     every interleaving).
 *   - A sleep ends when the bell is rung, or when its time has passed.
 *   - If nobody sleeps, ringing costs no wake-up. Sleepers are counted exactly.
 *   - All of that holds between processes, too.
 */
#include "base/bell.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "support/harness.h"

enum { FOREVER_MS = 100000 };

DF_TEST(bell, no_sleeper, 30) {
  df_bell bell = {0};
  df_bell_ring(&bell);
  CHECK(bell.sequence == 0, "a wake-up for nobody");
  df_bell_prepare(&bell);
  df_bell_prepare(&bell);
  CHECK(bell.sleepers == 2, "%u sleepers", bell.sleepers);
  df_bell_cancel(&bell);
  df_bell_ring(&bell);
  CHECK(bell.sequence == 1, "one is about to sleep");
  df_bell_cancel(&bell);
  CHECK(bell.sleepers == 0, "%u sleepers", bell.sleepers);
}

DF_TEST(bell, rung_after_prepare_does_not_sleep, 30) {
  df_bell bell = {0};
  for (int i = 0; i < 100; i++) {
    uint32_t handle = df_bell_prepare(&bell);
    df_bell_ring(&bell);
    df_bell_sleep(&bell, handle, UINT64_MAX); /* would never return */
    CHECK(bell.sleepers == 0, "%u sleepers", bell.sleepers);
  }
}

DF_TEST(bell, a_sleep_ends_with_its_time, 30) {
  df_bell bell = {0};
  uint64_t start = df_clock_ns();
  for (int i = 0; i < 5; i++) {
    uint32_t handle = df_bell_prepare(&bell);
    df_bell_sleep(&bell, handle, 2000000);
  }
  CHECK(df_clock_ns() - start < (uint64_t)FOREVER_MS * 1000000, "it slept on");
  CHECK(bell.sleepers == 0, "%u sleepers", bell.sleepers);
}

/* Two sides pass a number to each other, and sleep during the other side's turn. */
typedef struct table {
  df_bell bell[2];
  uint64_t turn;
  uint64_t plain; /* belongs to the side whose turn it is */
} table;

static void play(table *t, uint64_t side, uint64_t turns) {
  for (uint64_t i = side; i < turns; i += 2) {
    while (df_observe_u64(&t->turn) != i) {
      uint32_t handle = df_bell_prepare(&t->bell[side]);
      if (df_observe_u64(&t->turn) == i)
        df_bell_cancel(&t->bell[side]);
      else
        df_bell_sleep(&t->bell[side], handle, UINT64_MAX);
    }
    CHECK(t->plain == i, "turn %llu: %llu", (unsigned long long)i, (unsigned long long)t->plain);
    t->plain = i + 1;
    df_publish_u64(&t->turn, i + 1);
    df_bell_ring(&t->bell[1 - side]);
  }
}

static table shared_table;
static uint64_t shared_turns;

static void *play_second(void *unused) {
  (void)unused;
  play(&shared_table, 1, shared_turns);
  return NULL;
}

DF_TEST(bell, no_wake_up_is_lost_between_threads, 60) {
  pthread_t thread;
  shared_turns = 10000;
  CHECK(pthread_create(&thread, NULL, play_second, NULL) == 0, "no thread");
  play(&shared_table, 0, shared_turns);
  pthread_join(thread, NULL);
  CHECK(shared_table.bell[0].sleepers + shared_table.bell[1].sleepers == 0, "somebody sleeps");
}

DF_TEST(bell, no_wake_up_is_lost_between_processes, 60) {
  table *t = mmap(NULL, sizeof *t, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(t != MAP_FAILED, "no shared memory");
  pid_t child = fork();
  if (child == 0) {
    alarm(50);
    play(t, 1, 5000);
    _exit(t->bell[1].sleepers != 0);
  }
  df_watch_child(child);
  play(t, 0, 5000);
  int status;
  CHECK(waitpid(child, &status, 0) == child && status == 0, "the child ended with %d", status);
  df_unwatch_child(child);
  munmap(t, sizeof *t);
}

/* Many sleepers, one bell: every one of them wakes up. */
enum { SLEEPERS = 8 };
static df_bell crowd_bell;
static uint32_t crowd_open;

static void *sleep_in_crowd(void *unused) {
  (void)unused;
  while (!df_observe_u32(&crowd_open)) {
    uint32_t handle = df_bell_prepare(&crowd_bell);
    if (df_observe_u32(&crowd_open))
      df_bell_cancel(&crowd_bell);
    else
      df_bell_sleep(&crowd_bell, handle, UINT64_MAX);
  }
  return NULL;
}

DF_TEST(bell, every_sleeper_wakes_up, 30) {
  for (int round = 0; round < 50; round++) {
    pthread_t threads[SLEEPERS];
    df_publish_u32(&crowd_open, 0);
    for (int i = 0; i < SLEEPERS; i++)
      CHECK(pthread_create(&threads[i], NULL, sleep_in_crowd, NULL) == 0, "no thread");
    if (round % 2) EVENTUALLY(df_load_relaxed_u32(&crowd_bell.sleepers) == SLEEPERS);
    df_publish_u32(&crowd_open, 1);
    df_bell_ring(&crowd_bell);
    for (int i = 0; i < SLEEPERS; i++) pthread_join(threads[i], NULL);
    CHECK(crowd_bell.sleepers == 0, "%u sleepers", crowd_bell.sleepers);
  }
}
