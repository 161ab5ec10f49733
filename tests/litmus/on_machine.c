/*
 * The litmus tests on threads of this very machine: [--seconds S] [--test NAME]
 *
 * Rounds are played in batches: each side goes through all of a batch's states as fast as it can,
 * so that the sides overlap as often as the machine allows. A forbidden outcome must not occur in
 * any round. Where a fence of the first side is needed, it is looked for without it as well: how
 * often it came then says whether this machine, under this load, could have shown it at all. That
 * number is printed and judged by nobody.
 */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests.h"

enum { BATCH_BYTES = 256 << 10, MOST_ROUNDS = 256, LIMIT_S = 170 };

_Thread_local int litmus_unfenced;

static const litmus_test *test;
static uint8_t *states;
static uint32_t rounds, sides;
static int unfenced;
static double seconds = 6;
static uint32_t stop;
static struct { DF_ALIGNED(64) uint64_t number; } arrived[LITMUS_SIDES];

/* All sides meet: each calls it with its own count of meetings. Yields, because there may be one
 * processor for all. */
static void meet(uint32_t side, uint64_t number) {
  df_publish_u64(&arrived[side].number, number);
  for (uint32_t s = 0; s < sides; s++)
    for (uint32_t polls = 1; df_observe_u64(&arrived[s].number) < number; polls++) {
      if (polls % 200 == 0)
        sched_yield();
      else
        df_pause();
    }
}

static void play(uint32_t side) {
  litmus_unfenced = unfenced && side == 0;
  for (uint32_t i = 0; i < rounds; i++) test->side[side](states + i * test->bytes);
  litmus_unfenced = 0;
}

static void *other_side(void *argument) {
  uint32_t side = (uint32_t)(uintptr_t)argument;
  for (uint64_t number = 1;; number += 2) {
    meet(side, number);
    if (df_load_relaxed_u32(&stop)) return NULL;
    play(side);
    meet(side, number + 1);
  }
}

static void prepare(void) {
  memset(states, 0, rounds * test->bytes);
  for (uint32_t i = 0; i < rounds; i++) test->prepare(states + i * test->bytes);
}

static void count(uint64_t outcomes[3]) {
  for (uint32_t i = 0; i < rounds; i++) outcomes[test->judge(states + i * test->bytes)]++;
}

/* For so long; counts the outcomes. Returns 0 where threads could not be made. */
static int run(double how_long, uint64_t outcomes[3]) {
  pthread_t threads[LITMUS_SIDES];
  uint64_t end = df_clock_ns() + (uint64_t)(how_long * 1e9);
  memset(arrived, 0, sizeof arrived);
  memset(outcomes, 0, 3 * sizeof *outcomes);
  stop = 0;
  for (uint32_t s = 1; s < sides; s++)
    if (pthread_create(&threads[s], NULL, other_side, (void *)(uintptr_t)s) != 0) return 0;
  for (uint64_t number = 1; !stop; number += 2) {
    prepare();
    if (df_clock_ns() > end && number > 1) df_store_relaxed_u32(&stop, 1);
    meet(0, number);
    if (stop) break;
    play(0);
    meet(0, number + 1);
    count(outcomes);
  }
  for (uint32_t s = 1; s < sides; s++) pthread_join(threads[s], NULL);
  return 1;
}

static void print(const char *how, const uint64_t outcomes[3]) {
  printf("# %s %s: forbidden in %llu, met in %llu of %llu rounds\n", test->name, how,
         (unsigned long long)outcomes[LITMUS_FORBIDDEN], (unsigned long long)outcomes[LITMUS_SEEN],
         (unsigned long long)(outcomes[0] + outcomes[1] + outcomes[2]));
}

static int needs_first_fence(void) {
  for (uint32_t i = 0; i < LITMUS_WEAKENINGS && test->needed[i].without; i++)
    if (test->needed[i].side == 0 && test->needed[i].without == LITMUS_FENCE) return 1;
  return 0;
}

static int check(const litmus_test *which) {
  uint64_t outcomes[3], without[3];
  double share = seconds / litmus_count();
  test = which;
  sides = litmus_sides(test);
  rounds = (uint32_t)DF_MIN((size_t)MOST_ROUNDS, DF_MAX((size_t)1, BATCH_BYTES / test->bytes));
  states = aligned_alloc(64, rounds * test->bytes);
  if (states == NULL) return 0;
  unfenced = 0;
  int ran = run(needs_first_fence() ? share / 2 : share, outcomes);
  if (ran) print("as it is", outcomes);
  unfenced = 1;
  if (ran && needs_first_fence() && run(share / 2, without))
    print("without the first side's fences", without);
  free(states);
  return ran && outcomes[LITMUS_FORBIDDEN] == 0;
}

int main(int argc, char **argv) {
  const char *name = NULL;
  for (int i = 1; i < argc; i += 2) {
    if (i + 1 < argc && strcmp(argv[i], "--seconds") == 0 && atof(argv[i + 1]) > 0)
      seconds = atof(argv[i + 1]);
    else if (i + 1 < argc && strcmp(argv[i], "--test") == 0)
      name = argv[i + 1];
    else {
      const int is_question = strcmp(argv[i], "--help") == 0;
      fprintf(is_question ? stdout : stderr, "usage: %s [--seconds S] [--test NAME]\n", argv[0]);
      return is_question ? 0 : 2;
    }
  }
  alarm(LIMIT_S + (unsigned)seconds); /* no side waits for another; if one does, it ends here */
  return litmus_check_all(name, check);
}
