/*
 * Agents: fibers, the adversary that chooses among them, and what they may wait for. Everything
 * runs on one thread; a switch costs a few nanoseconds.
 */
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "sim.h"
#include "prelude_declarations.h"

sim_agents sim_agents_now;
sim_policy sim_policy_now;
sim_random sim_random_now;
int64_t sim_quantum;
uint64_t sim_steps, sim_runs;
int sim_is_running, sim_is_quiet, sim_is_tracing;
uint64_t sim_death_step = UINT64_MAX;

static void *main_stack_pointer;
static uint32_t priorities[SIM_MAX_AGENTS], lowest;
static uint32_t in_vain; /* looks since an agent stands still */
static uint32_t round_robin;

enum {
  PATIENCE = 300, /* steps of one agent after which it is put last: it may wait for another */
  FAIR_QUANTUM = 48,
  FAIR_STEPS = 400000, /* after which a schedule must have ended */
  LONG_SLEEP_NS =
      100 * 1000 * 1000, /* sleeps that only a wake-up may end: devices/cpu/executor.h */
  STEP_NS = 20
};

/* ---- fibers */

#if defined(__x86_64__)
/* Saves what the ABI lets a function keep, and goes on where the other left off. */
void sim_switch(void **save, void *load);
__asm__(".text\n.p2align 4\n.globl sim_switch\n.type sim_switch,@function\nsim_switch:\n"
        "  pushq %rbp\n  pushq %rbx\n  pushq %r12\n  pushq %r13\n  pushq %r14\n  pushq %r15\n"
        "  movq %rsp, (%rdi)\n  movq %rsi, %rsp\n"
        "  popq %r15\n  popq %r14\n  popq %r13\n  popq %r12\n  popq %rbx\n  popq %rbp\n"
        "  ret\n.size sim_switch,.-sim_switch\n");
#else
#error "the simulation needs a context switch for this processor"
#endif

extern uint8_t __start_sim_thread_local[] __attribute__((weak));
extern uint8_t __stop_sim_thread_local[] __attribute__((weak));
enum { THREAD_LOCAL_BYTES = 64 };
static uint32_t thread_locals[SIM_MAX_AGENTS][THREAD_LOCAL_BYTES / sizeof(uint32_t)];

static size_t thread_local_bytes(void) {
  return (size_t)(__stop_sim_thread_local - __start_sim_thread_local);
}

static void switch_to(uint32_t agent) {
  uint32_t from = sim_agents_now.current;
  if (agent == from) return;
  uint32_t *here = (uint32_t *)(void *)__start_sim_thread_local;
  for (size_t i = 0, n = thread_local_bytes() / sizeof *here; i < n; i++) {
    thread_locals[from][i] = here[i];
    here[i] = thread_locals[agent][i];
  }
  sim_agents_now.current = agent;
  sim_switch(&sim_agents_now.agent[from].stack_pointer, sim_agents_now.agent[agent].stack_pointer);
}

void sim_leave(void) {
  sim_agent *me = &sim_agents_now.agent[sim_agents_now.current];
  size_t bytes = thread_local_bytes();
  memcpy(thread_locals[sim_agents_now.current], __start_sim_thread_local, bytes);
  sim_switch(&me->stack_pointer, main_stack_pointer);
  __builtin_unreachable();
}

/* Goes back to the main program and returns when it runs the agents again. */
static void leave_and_return(void) {
  sim_agent *me = &sim_agents_now.agent[sim_agents_now.current];
  memcpy(thread_locals[sim_agents_now.current], __start_sim_thread_local, thread_local_bytes());
  sim_switch(&me->stack_pointer, main_stack_pointer);
}

void *sim_thread_locals(uint32_t agent, size_t *bytes) {
  *bytes = sizeof thread_locals[agent];
  return thread_locals[agent];
}

void sim_run(void) {
  sim_agent *next = &sim_agents_now.agent[sim_agents_now.current];
  memcpy(__start_sim_thread_local, thread_locals[sim_agents_now.current], thread_local_bytes());
  sim_runs++;
  sim_is_running = 1;
  sim_switch(&main_stack_pointer, next->stack_pointer);
  sim_is_running = 0;
}

static void set_state(uint32_t agent, sim_state state) {
  sim_agent *it = &sim_agents_now.agent[agent];
  uint32_t bit = 1u << agent;
  int naps = (state == SIM_WAITS_FUTEX || state == SIM_WAITS_EVENT) && it->deadline != UINT64_MAX;
  sim_agents_now.in[it->state] &= ~bit;
  sim_agents_now.in[state] |= bit;
  sim_agents_now.naps = naps ? sim_agents_now.naps | bit : sim_agents_now.naps & ~bit;
  it->state = state;
}

static void entry(void) {
  sim_agent *me = &sim_agents_now.agent[sim_agents_now.current];
  me->run(me->argument);
  set_state(sim_agents_now.current, SIM_DONE);
  sim_wake_those(SIM_WAITS_JOIN, NULL);
  for (;;) sim_choose();
}

uint32_t sim_spawn(const char *name, int rank, void *(*run)(void *), void *argument) {
  static uint8_t *stacks;
  if (stacks == NULL) {
    stacks = mmap(NULL, (size_t)SIM_MAX_AGENTS * SIM_STACK_BYTES, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stacks == MAP_FAILED) sim_fail("no memory for stacks");
  }
  uint32_t a = sim_agents_now.n++;
  if (a >= SIM_MAX_AGENTS) sim_fail("the world has too many agents");
  sim_agent *agent = &sim_agents_now.agent[a];
  *agent = (sim_agent){.stack = stacks + (size_t)a * SIM_STACK_BYTES,
                       .run = run,
                       .argument = argument,
                       .name = name,
                       .rank = rank};
  void **top = (void **)(agent->stack + SIM_STACK_BYTES);
  *--top = NULL; /* keeps the entry's stack aligned as after a call */
  *--top = (void *)(uintptr_t)entry;
  top -= 6;
  memset(top, 0, 6 * sizeof *top);
  agent->stack_pointer = top;
  memset(thread_locals[a], 0, THREAD_LOCAL_BYTES);
  if (thread_local_bytes() > THREAD_LOCAL_BYTES || thread_local_bytes() % sizeof(uint32_t) != 0)
    sim_fail("thread-local variables of another size than expected");
  set_state(a, SIM_RUNNABLE);
  sim_view_of_new_agent(a, sim_agents_now.current);
  return a;
}

/* ---- the adversary */

/* Each as likely as the others. */
static uint32_t random_bit(uint32_t bits) {
  uint32_t n = 0;
  for (uint32_t left = bits; left; left &= left - 1) n++;
  uint32_t skip = n > 1 ? sim_below(&sim_random_now, n) : 0;
  while (skip--) bits &= bits - 1;
  return sim_first_bit(bits);
}

static void end_earliest_sleep(uint32_t sleepers) {
  uint32_t earliest = sim_first_bit(sleepers);
  for (uint32_t bits = sleepers; bits; bits &= bits - 1) {
    uint32_t a = sim_first_bit(bits);
    if (sim_agents_now.agent[a].deadline < sim_agents_now.agent[earliest].deadline) earliest = a;
  }
  if (sim_agents_now.agent[earliest].deadline > sim_agents_now.now_ns)
    sim_agents_now.now_ns = sim_agents_now.agent[earliest].deadline;
  sim_wake(earliest, 1);
}

/* No agent can continue: time passes, or the world has ended, or is stuck. */
static void nobody_runs(void) {
  uint32_t sleepers = sim_agents_now.naps;
  for (uint32_t bits = sim_agents_now.in[SIM_WAITS_GATE]; bits; bits &= bits - 1)
    if (sleepers == 0 || sim_agents_now.agent[sim_first_bit(bits)].deadline == 0) {
      sim_wake(sim_first_bit(bits), 0);
      return;
    }
  if (sleepers == 0)
    sim_fail("stuck: everybody sleeps or waits, nothing will ever wake anybody, and runs are "
             "outstanding");
  if (!sim_is_quiet && sim_steps < sim_policy_now.unfair_steps) {
    uint32_t one = random_bit(sleepers);
    if (sim_agents_now.agent[one].deadline > sim_agents_now.now_ns)
      sim_agents_now.now_ns = sim_agents_now.agent[one].deadline;
    sim_wake(one, 1);
  } else {
    end_earliest_sleep(sleepers);
  }
}

static uint32_t draw_quantum(void) {
  uint32_t most = sim_policy_now.quantum;
  if (most <= 1) return 1;
  return 1 + sim_below(&sim_random_now, 2 * most - 1);
}

static uint32_t first_of(uint32_t bits) {
  uint32_t best = sim_first_bit(bits);
  for (bits &= bits - 1; bits; bits &= bits - 1)
    if (priorities[sim_first_bit(bits)] > priorities[best]) best = sim_first_bit(bits);
  return best;
}

static void put_last(uint32_t agent) { priorities[agent] = lowest--; }

/* Few changes of an order among the agents find what a few rare orders of events are enough for
 * (Burckhardt et al., "A randomized scheduler with probabilistic guarantees of finding bugs"). */
static uint32_t choose_by_order(uint32_t bits) {
  uint32_t mean = sim_policy_now.last_change / sim_policy_now.changes;
  if (sim_quantum <= 0) put_last(sim_agents_now.current);
  sim_quantum = 1 + sim_below(&sim_random_now, 2 * mean);
  if (sim_quantum > PATIENCE) sim_quantum = PATIENCE;
  return first_of(bits);
}

void sim_stand_still(uint32_t agent, uint32_t steps) {
  sim_policy_now.stalls = 1u << agent;
  sim_policy_now.stalls_from = (uint32_t)sim_steps;
  sim_policy_now.stalls_until = (uint32_t)sim_steps + steps;
}

static uint32_t choose_unfairly(uint32_t bits) {
  if (sim_one_in(&sim_random_now,
                 sim_policy_now.nap_ends)) { /* a nap ends, or a sleep for no reason */
    uint32_t sleepers = sim_agents_now.naps;
    if (sim_policy_now.spurious) sleepers |= sim_agents_now.in[SIM_WAITS_FUTEX];
    if (sleepers) sim_wake(random_bit(sleepers), 1);
  }
  if (sim_policy_now.stops_at && sim_steps >= sim_policy_now.stops_at) {
    sim_stand_still(sim_agents_now.current, sim_policy_now.stops_for);
    sim_policy_now.stops_at = 0;
  }
  if (sim_steps >= sim_policy_now.stalls_from && sim_steps < sim_policy_now.stalls_until &&
      (bits & ~sim_policy_now.stalls))
    bits &= ~sim_policy_now.stalls;
  if (sim_policy_now.changes) return choose_by_order(bits);
  sim_quantum = draw_quantum();
  if (!sim_policy_now.by_priority) return random_bit(bits);
  uint32_t best = first_of(bits);
  if (sim_one_in(&sim_random_now, 4)) priorities[best] = (uint32_t)sim_next(&sim_random_now);
  return best;
}

/* The threads of a rank are never scheduled again. */
void sim_stop_rank(int rank) {
  for (uint32_t a = 0; a < sim_agents_now.n; a++)
    if (sim_agents_now.agent[a].rank == rank) set_state(a, SIM_DONE);
}

void sim_end_agent(uint32_t agent) { set_state(agent, SIM_DONE); }

void sim_choose(void) {
  if (sim_is_exhausting && !sim_is_quiet) {
    leave_and_return();
    return;
  }
  if (sim_steps >= sim_death_step) sim_world_death();
  if (sim_world_is_over()) sim_leave();
  if (sim_is_exploring && !sim_is_quiet &&
      sim_quantum <= 0) { /* at an access, not of its own will */
    sim_quantum = 1;
    switch_to(sim_explore_point());
    return;
  }
  while (sim_agents_now.in[SIM_RUNNABLE] == 0) nobody_runs();
  sim_agents_now.now_ns = sim_agents_now.now_ns + STEP_NS * 8;
  uint32_t next;
  if (!sim_is_quiet && sim_steps < sim_policy_now.unfair_steps) {
    next = choose_unfairly(sim_agents_now.in[SIM_RUNNABLE]);
  } else {
    if (sim_steps > (uint64_t)sim_policy_now.unfair_steps + FAIR_STEPS)
      sim_fail("no progress: runs are outstanding after %d fair steps", (int)FAIR_STEPS);
    sim_policy_now.stale_of_256 = 0;
    uint32_t runnable = sim_agents_now.in[SIM_RUNNABLE];
    uint32_t later = runnable & ~((2u << round_robin) - 1);
    round_robin = sim_first_bit(later ? later : runnable);
    next = round_robin;
    sim_quantum = sim_is_exploring && !sim_is_quiet ? 1 : FAIR_QUANTUM;
    for (uint32_t bits = sim_agents_now.naps; bits; bits &= bits - 1) {
      uint32_t a = sim_first_bit(bits);
      if (sim_agents_now.agent[a].deadline <= sim_agents_now.now_ns) sim_wake(a, 1);
    }
  }
  switch_to(next);
}

void sim_block(sim_state state, const void *waits_for, uint64_t deadline) {
  sim_agent *me = &sim_agents_now.agent[sim_agents_now.current];
  me->waits_for = waits_for;
  me->deadline = deadline;
  me->timed_out = 0;
  set_state(sim_agents_now.current, state);
  if (sim_is_exhausting) sim_exhaust_sleep(waits_for);
  sim_choose();
}

void sim_wake(uint32_t agent, int timed_out) {
  sim_agents_now.agent[agent].timed_out = timed_out;
  if (sim_is_exhausting) { /* states of which only the past differs are one */
    sim_agents_now.agent[agent].waits_for = NULL;
    sim_agents_now.agent[agent].deadline = 0;
  }
  set_state(agent, SIM_RUNNABLE);
}

void sim_wake_those(sim_state state, const void *waiting_for) {
  for (uint32_t bits = sim_agents_now.in[state]; bits; bits &= bits - 1)
    if (sim_agents_now.agent[sim_first_bit(bits)].waits_for == waiting_for)
      sim_wake(sim_first_bit(bits), 0);
}

/* Other agents go first, because an agent that polls waits for one of them. */
void sim_pause(void) {
  sim_steps++;
  if (sim_is_exhausting) {
    sim_exhaust_pause();
    return;
  }
  if (sim_policy_now.in_vain && sim_steps >= sim_policy_now.stalls_from &&
      sim_steps < sim_policy_now.stalls_until && ++in_vain >= sim_policy_now.in_vain)
    sim_policy_now.stalls_until = in_vain = 0;
  if (sim_policy_now.by_priority && !sim_is_quiet)
    priorities[sim_agents_now.current] = (uint32_t)sim_next(&sim_random_now) >> 8;
  if (sim_policy_now.changes) put_last(sim_agents_now.current);
  sim_choose();
}

void sim_midway(void) {
  if (sim_is_exhausting) {
    sim_exhaust_data();
    return;
  }
  sim_policy *p = &sim_policy_now;
  if (p->slow_moves && sim_one_in(&sim_random_now, 8)) {
    sim_stand_still(sim_agents_now.current, 100 + sim_below(&sim_random_now, p->slow_most));
    sim_quantum = 0;
  }
  sim_point();
}

int sim_yield(void) {
  sim_pause();
  return 0;
}

void sim_agents_begin(void) {
  sim_steps = 0;
  round_robin = in_vain = 0;
  lowest = 1u << 24;                              /* below nearly all that are drawn */
  memset(thread_locals, 0, sizeof thread_locals); /* as they were: nobody was inside a callback */
  for (uint32_t a = 0; a < sim_agents_now.n; a++)
    priorities[a] = (uint32_t)sim_next(&sim_random_now);
}

/* ---- threads, locks, sleeps */

int sim_thread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                      void *argument) {
  (void)attributes;
  int rank = sim_agents_now.agent[sim_agents_now.current].rank;
  *thread = sim_spawn(NULL, rank, run, argument);
  sim_agents_now.agent[*thread].daemon = 1;
  return 0;
}

int sim_thread_join(pthread_t thread, void **result) {
  while (sim_agents_now.agent[thread].state != SIM_DONE)
    sim_block(SIM_WAITS_JOIN, NULL, UINT64_MAX);
  sim_view_of_joined((uint32_t)thread, sim_agents_now.current);
  if (result) *result = NULL;
  return 0;
}

int sim_mutex_init(pthread_mutex_t *mutex) {
  memset(mutex, 0, sizeof *mutex);
  return 0;
}

static uint32_t *owner_of(pthread_mutex_t *mutex) { return (uint32_t *)mutex; }

/* One outside of the arena would not be as it was when the next schedule begins. */
static pthread_mutex_t *kept(pthread_mutex_t *mutex) {
  int is_inside = (uintptr_t)mutex - (uintptr_t)sim_arena < SIM_ARENA_BYTES;
  return is_inside ? mutex : (pthread_mutex_t *)(void *)sim_arena;
}
int sim_holds_outside_lock(int rank) {
  uint32_t owner = *owner_of(kept(NULL));
  return owner != 0 && sim_agents_now.agent[owner - 1].rank == rank;
}

static int try_lock(pthread_mutex_t *mutex, sim_intention intention) {
  mutex = kept(mutex);
  sim_point_at(mutex, intention);
  if (*owner_of(mutex)) return EBUSY;
  sim_acquire_from(mutex);
  *owner_of(mutex) = sim_agents_now.current + 1; /* until unlocked, nobody looks at its location */
  SIM_TRACE("locks", mutex, 0, 0);
  return 0;
}

int sim_mutex_trylock(pthread_mutex_t *mutex) { return try_lock(mutex, SIM_WRITES); }

int sim_mutex_lock(pthread_mutex_t *mutex) {
  mutex = kept(mutex);
  while (try_lock(mutex, SIM_LOCKS) != 0) {
    if (*owner_of(mutex) == sim_agents_now.current + 1)
      sim_fail("a thread locks what it has locked already");
    sim_block(SIM_WAITS_MUTEX, mutex, UINT64_MAX);
  }
  return 0;
}

int sim_mutex_unlock(pthread_mutex_t *mutex) {
  mutex = kept(mutex);
  if (*owner_of(mutex) != sim_agents_now.current + 1)
    sim_fail("a thread unlocks what it has not locked");
  SIM_TRACE("unlocks", mutex, 0, 0);
  *owner_of(mutex) = 0;
  sim_release_to(mutex);
  sim_wake_those(SIM_WAITS_MUTEX, mutex);
  sim_point();
  return 0;
}

long sim_futex(uint32_t *word, int operation, uint32_t value, const struct timespec *timeout) {
  int waits = (operation & FUTEX_CMD_MASK) == FUTEX_WAIT;
  if (sim_is_exhausting)
    sim_exhaust_point(word, waits ? SIM_READS : SIM_WRITES);
  else
    sim_point();
  if (waits) {
    if (*word != value) return -1; /* the kernel compares the newest value */
    uint64_t limit =
        timeout ? (uint64_t)timeout->tv_sec * 1000000000u + (uint64_t)timeout->tv_nsec : UINT64_MAX;
    /* A sleep that a wake-up ought to end lasts for ever here: or a lost one would be hidden. */
    int endless = limit >= LONG_SLEEP_NS || (sim_is_exhausting && !sim_exhaust_naps());
    uint64_t deadline = endless ? UINT64_MAX : sim_agents_now.now_ns + limit;
    SIM_TRACE(deadline == UINT64_MAX ? "sleeps" : "naps", word, value, 0);
    sim_block(SIM_WAITS_FUTEX, word, deadline);
    SIM_TRACE("wakes", word, value, 0);
    return 0;
  }
  SIM_TRACE("wakes all of", word, 0, 0);
  sim_wake_those(SIM_WAITS_FUTEX, word);
  return 0; /* how many nobody asks */
}

/* Time passes when everybody else sleeps, too. */
void sim_usleep(unsigned us) {
  if (sim_is_quiet || sim_is_exhausting)
    sim_yield();
  else
    sim_block(SIM_WAITS_FUTEX, &sim_agents_now, sim_agents_now.now_ns + us * 1000ull);
}

int sim_clock(clockid_t clock, struct timespec *now) {
  (void)clock;
  if (!sim_is_exhausting) sim_agents_now.now_ns += STEP_NS; /* there time stands still */
  now->tv_sec = (time_t)(sim_agents_now.now_ns / 1000000000u);
  now->tv_nsec = (long)(sim_agents_now.now_ns % 1000000000u);
  return 0;
}

uint64_t sim_seconds_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void sim_settle(int deeply) { sim_block(SIM_WAITS_GATE, NULL, deeply ? UINT64_MAX : 0); }

/* Parks the caller, and everybody with it, until the main program goes on. */
void sim_park(void) { leave_and_return(); }

void sim_wait_world(void) { sim_block(SIM_WAITS_WORLD, NULL, UINT64_MAX); }
