/*
 * Never: the ringer sees no sleeper, and the sleeper sees no news (store buffering). Both sides of
 * src/base/bell.h as they are, between prepare's look and ring's look.
 *
 * For comparison the same without the ringer's fence: how often the forbidden outcome came then
 * says whether this machine, under this load, could have shown it at all. That number is printed
 * and judged by nobody.
 */
#include "base/bell.h"
#include "litmus.h"

enum { CELLS = 512 };

typedef struct cell {
  df_bell bell;
  DF_ALIGNED(64) uint64_t news;
  DF_ALIGNED(64) uint64_t sleeper_saw;
  DF_ALIGNED(64) uint64_t ringer_saw;
} cell;

static cell cells[CELLS];
static litmus_meeting meeting;
static uint64_t stop;
static int fenced;

static void *ring(void *unused) {
  (void)unused;
  for (uint64_t number = 1;; number += 2) {
    litmus_meet(&meeting, 0, number);
    if (df_observe_u64(&stop)) return NULL;
    for (int i = 0; i < CELLS; i++) {
      cell *c = &cells[i];
      df_publish_u64(&c->news, 1);
      if (fenced) df_wake_fence(); /* the first half of df_bell_ring; the look is its second */
      c->ringer_saw = df_load_relaxed_u32(&c->bell.sleepers);
    }
    litmus_meet(&meeting, 0, number + 1);
  }
}

/* Returns how often the forbidden outcome was seen. */
static uint64_t run(double seconds, int with_fence, uint64_t *rounds) {
  pthread_t thread;
  uint64_t forbidden = 0, end = df_clock_ns() + (uint64_t)(seconds * 1e9);
  memset(&meeting, 0, sizeof meeting);
  stop = 0;
  fenced = with_fence;
  *rounds = 0;
  if (pthread_create(&thread, NULL, ring, NULL) != 0) exit(1);
  for (uint64_t number = 1;; number += 2) {
    memset(cells, 0, sizeof cells);
    if (df_clock_ns() > end) df_publish_u64(&stop, 1);
    litmus_meet(&meeting, 1, number);
    if (df_load_relaxed_u64(&stop)) break;
    for (int i = 0; i < CELLS; i++) {
      cell *c = &cells[i];
      df_bell_prepare(&c->bell);
      c->sleeper_saw = df_observe_u64(&c->news);
    }
    litmus_meet(&meeting, 1, number + 1);
    for (int i = 0; i < CELLS; i++) forbidden += !cells[i].sleeper_saw && !cells[i].ringer_saw;
    *rounds += CELLS;
  }
  pthread_join(thread, NULL);
  return forbidden;
}

int main(int argc, char **argv) {
  double seconds = litmus_seconds(argc, argv);
  uint64_t rounds, compared;
  uint64_t forbidden = run(seconds / 2, 1, &rounds);
  uint64_t without = run(seconds / 2, 0, &compared);
  printf(
      "bell: a lost wake-up in %llu of %llu rounds; without the ringer's fence in %llu of %llu\n",
      (unsigned long long)forbidden, (unsigned long long)rounds, (unsigned long long)without,
      (unsigned long long)compared);
  return forbidden != 0 || rounds == 0;
}
