/*
 * The next accesses of agents, for all interleavings (exhaust.c): at which accesses others may go
 * on, and which agents must go on so that no interleaving is missed.
 */
#include <string.h>

#include "exhaust.h"

enum {
  OUTSIDE = SIM_ARENA_BYTES / 4, /* a word that stands for the kernel ... */
  DATA,                          /* ... and one for all that is moved */
  WORDS,
  LONG_SPIN = 10000 /* pauses, or accesses of words of its own, of one transition */
};

int sim_is_exhausting;
sim_smallest sim_smallest_now;

int sim_exhaust_naps(void) { return sim_smallest_now.naps; }

sim_step sim_next_steps[SIM_MAX_AGENTS + 1] __attribute__((aligned(SIM_PIECE)));
static uint32_t readers[WORDS], writers[WORDS]; /* agents that do so at any time, by bit */
static int is_new; /* an access that was not known when sets of agents were chosen */
static uint32_t spins;

static uint32_t word_of(const volatile void *p) {
  uint64_t offset = (uint64_t)((uintptr_t)p - (uintptr_t)sim_arena);
  return offset < SIM_ARENA_BYTES ? (uint32_t)(offset / 4) : OUTSIDE;
}

static int is_shared(uint32_t word) {
  uint32_t all = readers[word] | writers[word];
  return writers[word] != 0 && (all & (all - 1)) != 0;
}

static void stop_before(uint32_t word, sim_intention intention) {
  sim_next_steps[sim_agents_now.current] = (sim_step){word, intention};
  spins = 0;
  sim_choose();
}

static void spin(void) {
  if (++spins >= LONG_SPIN) stop_before(OUTSIDE, SIM_SPINS);
}

static void point(uint32_t word, sim_intention intention) {
  uint32_t me = 1u << sim_agents_now.current;
  uint32_t *accesses = intention == SIM_READS ? readers : writers;
  if (sim_is_quiet) return;
  if (!(accesses[word] & me)) {
    accesses[word] |= me;
    is_new |= is_shared(word);
  }
  if (is_shared(word))
    stop_before(word, intention);
  else
    spin();
}

void sim_exhaust_point(const volatile void *p, sim_intention intention) {
  point(word_of(p), intention);
}

/* So a movement is two, of which each is before or after any other's. */
void sim_exhaust_data(void) { point(DATA, SIM_WRITES); }

void sim_exhaust_sleep(const volatile void *p) {
  sim_next_steps[sim_agents_now.current] = (sim_step){word_of(p), SIM_SLEEPS};
}

void sim_exhaust_pause(void) { spin(); }

/* Whom it can interfere with, or be held up by. */
static uint32_t conflicting(uint32_t agent) {
  const sim_step *p = &sim_next_steps[agent];
  switch (p->intention) {
  case SIM_READS:
  case SIM_SLEEPS:
    return writers[p->word];
  case SIM_WRITES:
  case SIM_LOCKS:
    return readers[p->word] | writers[p->word];
  default:
    return 0;
  }
}

static int is_enabled(uint32_t agent) {
  const sim_agent *a = &sim_agents_now.agent[agent];
  if (a->state == SIM_RUNNABLE)
    return sim_next_steps[agent].intention != SIM_LOCKS ||
           *(const uint32_t *)(const void *)(sim_arena + 4ull * sim_next_steps[agent].word) == 0;
  return sim_smallest_now.naps && (sim_agents_now.naps >> agent & 1);
}

uint32_t sim_enabled_agents(void) {
  uint32_t bits = 0;
  for (uint32_t a = 0; a < sim_agents_now.n; a++) bits |= (uint32_t)is_enabled(a) << a;
  return bits;
}

/* The smallest persistent set that begins with one of them. */
uint32_t sim_persistent_set(uint32_t enabled) {
  uint32_t best = enabled;
  uint32_t ended = sim_agents_now.in[SIM_DONE];
  for (uint32_t seeds = enabled; seeds; seeds &= seeds - 1) {
    uint32_t set = seeds & -seeds, seen = 0;
    while (set & ~seen) {
      uint32_t a = sim_first_bit(set & ~seen);
      seen |= 1u << a;
      set |= conflicting(a) & ~ended;
    }
    set &= enabled;
    if (__builtin_popcount(set) < __builtin_popcount(best)) best = set;
  }
  return best;
}

int sim_has_new_accesses(void) { return is_new; }

void sim_steps_begin(void) {
  is_new = 0;
  memset(sim_next_steps, 0, sizeof sim_next_steps);
  for (uint32_t a = 0; a < sim_agents_now.n; a++) {
    const sim_agent *agent = &sim_agents_now.agent[a];
    sim_next_steps[a] = (sim_step){word_of(agent->waits_for), SIM_SLEEPS};
    if (agent->state == SIM_RUNNABLE) sim_next_steps[a] = (sim_step){0, SIM_GOES_ON};
  }
}

void sim_step_on(uint32_t agent) {
  sim_agents_now.current = agent;
  sim_next_steps[agent] = (sim_step){0, SIM_GOES_ON};
  spins = 0;
  sim_run();
}

uint32_t sim_count_shared_words(void) {
  uint32_t words = 0;
  for (uint32_t w = 0; w < WORDS; w++) words += (uint32_t)is_shared(w);
  return words;
}
