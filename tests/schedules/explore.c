/*
 * Every schedule of a small world with at most so many preemptions, instead of random ones. Between
 * preemptions nothing is left to chance: an agent runs until it pauses, sleeps or waits, then the
 * next one that can run goes on, in turn. A preemption is possible at each lock, system call, and
 * atomic access of a word that others access too, to each other agent that can run. Which words
 * those are is found out meanwhile: when there is a new one, the variant is explored anew. Loads
 * return the newest value: this is about the order of execution; older values are the random
 * schedules' part.
 */
#include <stdio.h>
#include <string.h>

#include "sim.h"

enum { MAX_POINTS = 20000, MAX_BOUND = 3 };

int sim_is_exploring;

static struct {
  uint32_t at[MAX_BOUND], to[MAX_BOUND], n; /* the preemptions of this schedule */
  uint32_t next, point;
  int is_private; /* the access that comes next: nobody else accesses that word */
} now;
static struct {
  uint32_t readers[SIM_ARENA_BYTES / 4], writers[SIM_ARENA_BYTES / 4]; /* bits of words */
  uint32_t n, n_before;
} shared;
static uint32_t others[MAX_BOUND + 1][MAX_POINTS]; /* other agents that could run, for each point */

static int is_shared(uint64_t word) {
  uint32_t all = shared.readers[word] | shared.writers[word];
  return shared.writers[word] != 0 && (all & (all - 1)) != 0;
}

void sim_explore_access(const volatile void *p, int is_write) {
  uint64_t offset = (uint64_t)((uintptr_t)p - (uintptr_t)sim_arena), word = offset / 4;
  if (offset >= SIM_ARENA_BYTES || sim_is_quiet) return;
  uint32_t *accesses = is_write ? shared.writers : shared.readers;
  int was = is_shared(word);
  accesses[word] |= 1u << sim_agents_now.current;
  now.is_private = !is_shared(word);
  shared.n += !was && !now.is_private;
}

/* At an access: the agent that preempts, or the current one. */
uint32_t sim_explore_point(void) {
  uint32_t me = sim_agents_now.current, point = now.point++;
  if (point >= MAX_POINTS) sim_fail("no progress: runs are outstanding after %u points", point);
  others[now.n][point] = now.is_private ? 0 : sim_agents_now.in[SIM_RUNNABLE] & ~(1u << me);
  now.is_private = 0;
  if (now.next == now.n || now.at[now.next] != point) return me;
  return now.to[now.next++];
}

static int run_one(uint64_t seed) {
  now.next = now.point = 0;
  now.is_private = 0;
  sim_failure = NULL;
  sim_world_restore(seed);
  sim_policy_now = (sim_policy){0};
  sim_fail_allocation = 0;
  sim_uses_allocation_failure = 0;
  sim_run();
  if (sim_failure == NULL) sim_world_check();
  if (sim_failure == NULL && now.next != now.n) sim_note_failure("a preemption did not happen");
  return sim_failure == NULL;
}

static void explain(uint64_t seed) {
  sim_is_tracing = 1;
  sim_trace_begin();
  run_one(seed);
  sim_world_print();
  sim_trace_print();
  fflush(stdout);
  sim_world_print_state();
  printf("FAILED: %s\n  preemptions:", sim_failure ? sim_failure : "not when repeated");
  for (uint32_t i = 0; i < now.n; i++)
    printf(" at access %u by rank %d's %s", now.at[i], sim_agents_now.agent[now.to[i]].rank,
           sim_agents_now.agent[now.to[i]].name);
  printf("\n");
}

/* The schedule with the preemptions so far, and all that have more of them, later ones. */
static int explore_from(uint64_t seed, uint32_t bound, uint64_t *schedules) {
  uint32_t n = now.n;
  (*schedules)++;
  if (!run_one(seed)) return 0;
  uint32_t points = now.point;
  if (n == bound) return 1;
  for (uint32_t p = n ? now.at[n - 1] + 1 : 0; p < points; p++)
    for (uint32_t bits = others[n][p]; bits; bits &= bits - 1) {
      now.n = n + 1;
      now.at[n] = p;
      now.to[n] = (uint32_t)__builtin_ctz(bits);
      if (!explore_from(seed, bound, schedules)) return 0;
      now.n = n;
    }
  return 1;
}

/* Until no word is found to be shared that was taken for an agent's own. */
static int explore_variant(uint64_t seed, uint32_t bound, uint64_t *schedules) {
  memset(&shared, 0, sizeof shared);
  for (uint32_t b = 0; b <= bound; b++) do {
      shared.n_before = shared.n;
      *schedules = now.n = 0;
      if (!explore_from(seed, b, schedules)) return 0;
    } while (shared.n != shared.n_before);
  return 1;
}

int sim_explore(uint64_t first, uint64_t variants, uint32_t bound) {
  uint64_t all = 0;
  if (bound > MAX_BOUND) bound = MAX_BOUND;
  sim_is_exploring = 1;
  for (uint64_t v = first; v < first + variants; v++) {
    uint64_t schedules = 0;
    sim_failure = NULL;
    sim_world_make(v);
    if (sim_failure) {
      printf("the world could not be made: %s\n", sim_failure);
      return 0;
    }
    if (!explore_variant(v, bound, &schedules)) {
      explain(v);
      printf("  again: schedules --explore %u --variants 1 --first-world %llu\n", bound,
             (unsigned long long)v);
      return 0;
    }
    printf(
        "variant %llu: all %llu schedules with up to %u preemption(s) are good (%u shared words)\n",
        (unsigned long long)v, (unsigned long long)schedules, bound, shared.n);
    all += schedules;
  }
  printf("exploration: %llu schedules, complete up to %u preemption(s) of %llu variant(s)\n",
         (unsigned long long)all, bound, (unsigned long long)variants);
  return 1;
}
