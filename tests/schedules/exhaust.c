/*
 * All interleavings of the smallest worlds, under sequentially consistent memory: each state that
 * the library's own code can come to, once.
 *
 * A state is what tells how it goes on: the lines of the arena that differ from the world's
 * snapshot at any time, the live stack of each agent with its registers, what each agent is about
 * to do, who sleeps on what, and the simulated kernel. Words that no decision reads are left out
 * (exhaust_state.c). It is known by two hashes of 64 bits; a state that was met before is not gone
 * through again. States are gone through depth first; what a transition changes is noted and taken
 * back.
 *
 * A transition is what an agent does from one access that others may see, of a word that others
 * access too, to its next one. Time stands still: nothing here depends on it but the end of naps,
 * which may come at any moment, or never (sim_smallest.background).
 *
 * Reduction: in each state only a persistent set of agents goes on, those with whose next accesses
 * none of the others can ever interfere (Godefroid, "Partial-order methods for the verification of
 * concurrent systems"); who accesses which words is found out meanwhile, and all begins anew
 * when it was not known before. Where a cycle closes, all agents go on, so that none is forgotten.
 *
 * Plain accesses are no transitions of their own, since nobody else's is unordered with them: that
 * is what the random schedules check.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "devices/cpu/executor.h"
#include "exhaust.h"

enum {
  COMPARE_EVERY = 256,
  WALKS = 1000, /* before the exploration, so that it seldom begins anew */
  LONGEST_WALK = 5000
};

/* ---- one transition */

static uint32_t took_part;

static void go_on(uint32_t agent) {
  took_part |= 1u << agent;
  sim_step_on(agent);
  sim_note_agent(agent);
}

/* The agent's, and whatever those that it wakes do without being seen. */
static void take(uint32_t agent) {
  if (sim_agents_now.agent[agent].state != SIM_RUNNABLE) sim_wake(agent, 1);
  go_on(agent);
  for (uint32_t a = 0; a < sim_agents_now.n && !sim_failure && !sim_world_is_over(); a++) {
    int goes_on =
        sim_next_steps[a].intention == SIM_GOES_ON || sim_next_steps[a].intention == SIM_SLEEPS;
    if (sim_agents_now.agent[a].state == SIM_RUNNABLE && goes_on) {
      go_on(a);
      a = UINT32_MAX; /* it may have woken others */
    }
  }
  sim_note_common();
}

/* ---- depth first */

typedef struct frame {
  uint64_t place;
  size_t changes;                         /* before it */
  uint32_t to_do, enabled, done, current; /* agents, by bit; the one that goes on */
} frame;
static frame *path;
static volatile sig_atomic_t is_to_end;
static size_t n_path, most_path, longest;
static uint64_t most_states, transitions, ends, reductions;

static frame *push(uint64_t place, size_t changes_before) {
  if (n_path == most_path) {
    most_path = most_path ? most_path * 2 : 1 << 12;
    path = realloc(path, most_path * sizeof *path);
    if (path == NULL) abort();
  }
  frame *f = &path[n_path++];
  uint32_t enabled = sim_enabled_agents();
  *f = (frame){.place = place, .changes = changes_before, .enabled = enabled};
  f->to_do = sim_persistent_set(enabled);
  reductions += f->to_do != enabled;
  if (n_path > longest) longest = n_path;
  sim_met_set_on_path(place, 1);
  if (enabled == 0)
    sim_note_failure("stuck: nobody can go on, nothing will ever wake anybody, and runs are "
                     "outstanding");
  return f;
}

static void pop(void) {
  const frame *f = &path[--n_path];
  sim_met_set_on_path(f->place, 0);
  sim_undo_changes(f->changes);
}

typedef enum { ALL_GOOD, BEGIN_ANEW, GONE_WRONG, TOO_MANY } outcome;

/* An agent of the last frame goes on. */
static outcome extend(void) {
  frame *f = &path[n_path - 1];
  size_t before = sim_noted_changes();
  int is_first;
  f->current = sim_first_bit(f->to_do);
  f->to_do &= f->to_do - 1;
  f->done |= 1u << f->current;
  transitions++;
  take(f->current);
  if (sim_failure) return GONE_WRONG;
  int is_over = sim_world_is_over();
  if (is_over) sim_world_check();
  if (sim_failure) return GONE_WRONG;
  if (sim_has_new_lines(is_over || transitions % COMPARE_EVERY == 0) || sim_has_new_accesses())
    return BEGIN_ANEW;
  uint64_t place = sim_met_place(&is_first);
  sim_met_note_edge(f->place, place);
  if (is_first && !is_over) {
    push(place, before);
    return sim_failure                                    ? GONE_WRONG
           : sim_met_states() >= most_states || is_to_end ? TOO_MANY
                                                          : ALL_GOOD;
  }
  if (is_first) {
    ends++;
    sim_met_note_end(place);
  }
  if (sim_met_is_on_path(place))
    f->to_do |= f->enabled & ~f->done; /* a cycle: nobody is forgotten */
  sim_undo_changes(before);
  return ALL_GOOD;
}

static void begin(void) {
  sim_failure = NULL;
  sim_compare_next = 1;
  sim_is_exhausting = 0; /* all is copied back by what is remembered of accesses */
  sim_world_restore(0);
  sim_is_exhausting = 1;
  sim_policy_now = (sim_policy){0};
  sim_fail_allocation = sim_uses_allocation_failure = 0;
  sim_quantum = INT64_MAX;
  n_path = 0;
  sim_steps_begin();
  for (uint32_t r = 0; r < sim_plan.n_ranks && !sim_smallest_now.background; r++) {
    df_executor *executor = sim_app->rank[r].context->device.state;
    executor->expects_waiter = 1; /* waiting threads drive; executors sleep */
  }
  sim_state_begin();
}

/* At random, until the end: which lines change, and who accesses which words. */
static outcome walk(sim_random *random) {
  uint32_t agent = 0, patience = 1 + sim_below(random, 30);
  begin();
  sim_state_lay_out();
  for (uint32_t i = 0; i < LONGEST_WALK; i++) {
    uint32_t enabled = sim_enabled_agents(), skip;
    if (sim_failure || enabled == 0) break; /* the exploration finds that as well */
    if (!(enabled >> agent & 1) || sim_one_in(random, patience)) {
      skip = sim_below(random, (uint32_t)__builtin_popcount(enabled));
      while (skip--) enabled &= enabled - 1;
      agent = sim_first_bit(enabled);
    }
    take(agent);
    if (sim_failure || sim_world_is_over()) break;
  }
  sim_has_new_lines(1);
  return sim_failure ? GONE_WRONG : ALL_GOOD;
}

static outcome explore(void) {
  int is_first;
  begin();
  sim_state_lay_out();
  if (sim_failure) return GONE_WRONG;
  sim_met_forget();
  transitions = ends = longest = reductions = 0;
  push(sim_met_place(&is_first), 0);
  while (n_path > 0) {
    outcome result = ALL_GOOD;
    if (path[n_path - 1].to_do)
      result = extend();
    else
      pop();
    if (result != ALL_GOOD) return result;
  }
  return ALL_GOOD;
}

/* The way to what went wrong, again, and told. */
static void explain(void) {
  size_t n = n_path;
  uint8_t *who = malloc(n + 1);
  if (who == NULL) return;
  printf("FAILED: %s\n", sim_failure);
  for (size_t i = 0; i < n; i++) who[i] = (uint8_t)path[i].current;
  int was_stuck = path[n - 1].enabled == 0;
  begin();
  sim_state_lay_out();
  sim_is_tracing = 1;
  sim_trace_begin();
  for (size_t i = 0; i + (size_t)was_stuck < n && sim_failure == NULL; i++) take(who[i]);
  sim_world_print();
  sim_trace_print();
  fflush(stdout);
  sim_world_print_state();
  free(who);
}

static void print_agents(void) {
  printf("  agents:");
  for (uint32_t a = 0; a < sim_agents_now.n; a++)
    if (took_part >> a & 1)
      printf(" %s of rank %d%s", sim_agents_now.agent[a].name, sim_agents_now.agent[a].rank,
             took_part >> a > 1 ? "," : "");
  printf("\n");
}

static void on_end(int number) {
  (void)number;
  is_to_end = 1;
}

int sim_exhaust(uint64_t most) {
  const sim_smallest *s = &sim_smallest_now;
  uint64_t began = sim_seconds_ns(), rounds = 0;
  outcome result;
  most_states = most;
  signal(SIGTERM, on_end); /* with what there is until then */
  if (!sim_met_open(most)) return 0;
  sim_failure = NULL;
  sim_world_make(1);
  if (sim_failure) {
    printf("the world could not be made: %s\n", sim_failure);
    return 0;
  }
  sim_random random = {.state = 1};
  for (uint32_t i = 0; i < WALKS; i++) walk(&random);
  do {
    rounds++;
    result = explore();
  } while (result == BEGIN_ANEW);
  double seconds = (double)(sim_seconds_ns() - began) * 1e-9;
  printf("all interleavings of %u collective(s) of %u chunk(s), %u run(s), SQ of %u, %s, %s, %s, "
         "%s, CQ %u:\n",
         s->colls, s->chunks, s->runs, s->depth, s->callbacks ? "callbacks" : "waits",
         s->naps         ? "naps end at any moment"
         : s->background ? "executors are woken"
                         : "executors sleep",
         s->first_turns ? "first turns" : "no first turns", s->lends ? "lent" : "copied", s->cq);
  print_agents();
  printf(
      "  %llu states, %llu transitions, %llu ends, %u shared words, %u pieces, longest path %zu, "
      "reduced %llu, %llu round(s), %.1f s\n",
      (unsigned long long)sim_met_states(), (unsigned long long)transitions,
      (unsigned long long)ends, sim_count_shared_words(), sim_state_pieces(), longest,
      (unsigned long long)reductions, (unsigned long long)rounds, seconds);
  if (result == GONE_WRONG) {
    explain();
    return 0;
  }
  if (result == TOO_MANY) {
    printf("  not complete: %s\n", is_to_end ? "ended by a signal" : "too many states");
    return 0;
  }
  uint64_t endless = sim_met_all_edges() ? sim_met_count_endless() : 0;
  if (endless) {
    printf("FAILED: no way leads from %llu states to an end\n", (unsigned long long)endless);
    return 0;
  }
  printf("  complete: all are good%s\n",
         sim_met_all_edges() ? ", and a way leads from each state to an end" : "");
  return 1;
}
