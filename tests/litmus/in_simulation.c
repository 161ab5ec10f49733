/*
 * The litmus tests under the memory and scheduler of tests/schedules:
 *
 *   schedules_litmus [--schedules N] [--seed S] [--test NAME]
 *
 * A schedule is one round. A forbidden outcome must not occur in any of N schedules, and it must
 * occur soon when an order that the test needs is taken away from one side. The linker leads the
 * library's accesses through the functions below, which do that.
 */
#include <stdlib.h>
#include <unistd.h>

/* The simulated calls' own names; not what prelude.h makes of them. */
#include "../schedules/prelude_declarations.h"
#include "../schedules/sim.h"
#include "tests.h"

enum { LIMIT_S = 170, SOON = 100000, QUIET_QUANTUM = 1 << 30 };

static const litmus_test *test;
static litmus_weakening weak;
static uint64_t schedules = 30000, seed = 1;
static void *state;

/* ---- removal of memory orders */

uint64_t __real_sim_load(const volatile void *p, unsigned bytes, int order);
void __real_sim_store(volatile void *p, uint64_t value, unsigned bytes, int order);
uint64_t __real_sim_modify(volatile void *p, uint64_t operand, unsigned bytes,
                           sim_operation operation, int order);
int __real_sim_compare_exchange(volatile void *p, void *expected, uint64_t desired, unsigned bytes,
                                int success, int failure);
void __real_sim_fence(int order);
uint64_t __wrap_sim_load(const volatile void *p, unsigned bytes, int order);
void __wrap_sim_store(volatile void *p, uint64_t value, unsigned bytes, int order);
uint64_t __wrap_sim_modify(volatile void *p, uint64_t operand, unsigned bytes,
                           sim_operation operation, int order);
int __wrap_sim_compare_exchange(volatile void *p, void *expected, uint64_t desired, unsigned bytes,
                                int success, int failure);
void __wrap_sim_fence(int order);

static int lacks(uint32_t what) {
  return (weak.without & what) && sim_is_running && sim_agents_now.current == weak.side;
}

static int order_left(int order) {
  int publishes =
      order == __ATOMIC_RELEASE || order == __ATOMIC_ACQ_REL || order == __ATOMIC_SEQ_CST;
  int observes =
      order == __ATOMIC_ACQUIRE || order == __ATOMIC_ACQ_REL || order == __ATOMIC_SEQ_CST;
  if (!lacks(LITMUS_PUBLISH | LITMUS_OBSERVE)) return order;
  publishes = publishes && !lacks(LITMUS_PUBLISH);
  observes = observes && !lacks(LITMUS_OBSERVE);
  if (publishes) return observes ? __ATOMIC_ACQ_REL : __ATOMIC_RELEASE;
  return observes ? __ATOMIC_ACQUIRE : __ATOMIC_RELAXED;
}

uint64_t __wrap_sim_load(const volatile void *p, unsigned bytes, int order) {
  return __real_sim_load(p, bytes, order_left(order));
}
void __wrap_sim_store(volatile void *p, uint64_t value, unsigned bytes, int order) {
  __real_sim_store(p, value, bytes, order_left(order));
}
uint64_t __wrap_sim_modify(volatile void *p, uint64_t operand, unsigned bytes,
                           sim_operation operation, int order) {
  if (lacks(LITMUS_MODIFY) && operation == SIM_SUB && operand == 0)
    return __real_sim_load(p, bytes, __ATOMIC_ACQUIRE);
  return __real_sim_modify(p, operand, bytes, operation, order_left(order));
}
int __wrap_sim_compare_exchange(volatile void *p, void *expected, uint64_t desired, unsigned bytes,
                                int success, int failure) {
  if (!lacks(LITMUS_MODIFY))
    return __real_sim_compare_exchange(p, expected, desired, bytes, order_left(success), failure);
  uint64_t before = __real_sim_load(p, bytes, __ATOMIC_ACQUIRE);
  if (memcmp(&before, expected, bytes) != 0) return 0;
  __real_sim_store(p, desired, bytes, __ATOMIC_RELEASE);
  return 1;
}
void __wrap_sim_fence(int order) {
  if (!lacks(LITMUS_FENCE)) __real_sim_fence(order);
}

/* ---- functions that the simulator calls in its program */

void sim_fail_outside(void) {
  printf("Bail out! %s: %s\n", test->name, sim_failure);
  exit(1);
}
int sim_world_is_over(void) {
  for (uint32_t a = 0; a < sim_agents_now.n; a++)
    if (sim_agents_now.agent[a].state != SIM_DONE) return 0;
  return 1;
}
void sim_world_death(void) {}
int sim_is_exploring, sim_is_exhausting;
void sim_exhaust_point(const volatile void *p, sim_intention intention) {
  (void)p, (void)intention;
}
void sim_exhaust_sleep(const volatile void *p) { (void)p; }
void sim_exhaust_pause(void) {}
void sim_exhaust_data(void) {}
int sim_exhaust_naps(void) { return 1; }
uint32_t sim_explore_point(void) { return sim_agents_now.current; }
void sim_explore_access(const volatile void *p, int is_write) { (void)p, (void)is_write; }

/* ---- one schedule */

static void draw_policy(void) {
  static const uint8_t quanta[] = {1, 1, 2, 4, 10}, stale[] = {0, 64, 128, 240};
  sim_random *random = &sim_random_now;
  sim_policy_now = (sim_policy){.quantum = quanta[sim_below(random, sizeof quanta)],
                                .stale_of_256 = stale[sim_below(random, sizeof stale)],
                                .by_priority = (uint32_t)sim_one_in(random, 3),
                                .unfair_steps = 6000};
  sim_policy_now.stalls = sim_one_in(random, 2) ? (uint32_t)sim_next(random) : 0;
  sim_policy_now.stalls_until = sim_below(random, 60);
}

/* Outside of the sides nobody is adverse. */
static void set_quiet(int quiet) {
  sim_is_quiet = quiet;
  sim_quantum = quiet ? QUIET_QUANTUM : 1;
}

static void *play(void *side) {
  test->side[(uintptr_t)side](state);
  return NULL;
}

static litmus_outcome run_schedule(uint64_t number) {
  sim_failure = NULL;
  sim_random_now = (sim_random){.state = seed};
  sim_random_now.state = sim_next(&sim_random_now) + number;
  memset(&sim_agents_now, 0, sizeof sim_agents_now);
  set_quiet(1);
  memset(state, 0, test->bytes);
  test->prepare(state);
  draw_policy();
  uint32_t n = litmus_sides(test);
  for (uint32_t side = 0; side < n; side++)
    sim_spawn("side", (int)side, play, (void *)(uintptr_t)side);
  sim_memory_begin();
  sim_agents_begin();
  sim_agents_now.current = sim_below(&sim_random_now, n);
  set_quiet(0);
  sim_run();
  set_quiet(1);
  return sim_failure ? LITMUS_FORBIDDEN : test->judge(state);
}

/* Until the forbidden outcome, or so many; counts the outcomes, and says what was wrong. */
static void look(uint64_t most, uint64_t outcomes[3]) {
  memset(outcomes, 0, 3 * sizeof *outcomes);
  for (uint64_t number = 0; number < most && outcomes[LITMUS_FORBIDDEN] == 0; number++)
    outcomes[run_schedule(number)]++;
}

static const char *what_is_missing(uint32_t without) {
  static const char *const names[] = {"",
                                      "releases",
                                      "acquires",
                                      "",
                                      "fences",
                                      "releases and fences",
                                      "acquires and fences",
                                      "",
                                      "atomic read-modify-writes"};
  return names[without];
}

/* Without something: it must be found, or it must not. */
static int check_weakened(const litmus_weakening *weakening, int must_be_found) {
  uint64_t outcomes[3];
  weak = *weakening;
  look(must_be_found ? SOON : schedules, outcomes);
  int found = outcomes[LITMUS_FORBIDDEN] != 0;
  printf("# %s without side %u's %s: ", test->name, weak.side, what_is_missing(weak.without));
  if (found)
    printf("forbidden after %llu schedules%s%s%s\n",
           (unsigned long long)(outcomes[0] + outcomes[1] + outcomes[2]),
           must_be_found ? "" : ", WRONGLY", sim_failure ? ": " : "",
           sim_failure ? sim_failure : "");
  else
    printf("not seen in %llu schedules%s\n", (unsigned long long)(outcomes[0] + outcomes[1]),
           must_be_found ? ", BUT NEEDED" : "");
  weak.without = 0;
  return found == must_be_found;
}

static int check(const litmus_test *which) {
  uint64_t outcomes[3];
  test = which;
  sim_memory_forget();
  sim_system_reset();
  memset(&sim_agents_now, 0, sizeof sim_agents_now);
  set_quiet(1);
  state = sim_aligned_alloc(64, test->bytes);
  look(schedules, outcomes);
  int good = outcomes[LITMUS_FORBIDDEN] == 0 && outcomes[LITMUS_SEEN] != 0;
  printf("# %s as it is: met in %llu of %llu schedules%s%s\n", test->name,
         (unsigned long long)outcomes[LITMUS_SEEN],
         (unsigned long long)(outcomes[0] + outcomes[1] + outcomes[2]),
         outcomes[LITMUS_FORBIDDEN] ? ", FORBIDDEN in the last: " : "",
         outcomes[LITMUS_FORBIDDEN] && sim_failure ? sim_failure : "");
  for (uint32_t i = 0; i < LITMUS_WEAKENINGS && test->needed[i].without; i++)
    good &= check_weakened(&test->needed[i], 1);
  for (uint32_t i = 0; i < LITMUS_WEAKENINGS && test->spare[i].without; i++)
    good &= check_weakened(&test->spare[i], 0);
  return good;
}

int main(int argc, char **argv) {
  const char *name = NULL;
  for (int i = 1; i < argc; i += 2) {
    if (i + 1 < argc && strcmp(argv[i], "--schedules") == 0)
      schedules = strtoull(argv[i + 1], NULL, 10);
    else if (i + 1 < argc && strcmp(argv[i], "--seed") == 0)
      seed = strtoull(argv[i + 1], NULL, 10);
    else if (i + 1 < argc && strcmp(argv[i], "--test") == 0)
      name = argv[i + 1];
    else {
      const int is_question = strcmp(argv[i], "--help") == 0;
      fprintf(is_question ? stdout : stderr, "usage: %s [--schedules N] [--seed S] [--test NAME]\n",
              argv[0]);
      return is_question ? 0 : 2;
    }
  }
  alarm(LIMIT_S);
  return litmus_check_all(name, check);
}
