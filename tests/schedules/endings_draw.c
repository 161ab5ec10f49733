/* Decisions of schedules with endings before they begin: the actions of agents, and the failures.
 * */
#include <string.h>

#include "endings.h"

static void add(uint32_t rank, uint32_t thread, step_kind kind, uint32_t coll, uint32_t n) {
  rank_state *state = &sim_endings_now->rank[rank];
  if (state->n_steps[thread] == MAX_STEPS) return;
  state->steps[thread][state->n_steps[thread]++] = (step){kind, coll, n};
}

/* The runs from[c] to to[c] of each collective, in any order. */
static void add_submissions(uint32_t rank, const uint32_t *from, const uint32_t *to) {
  uint32_t left[MAX_COLLS], total = 0;
  for (uint32_t c = 0; c < sim_plan.n_colls; c++)
    total += left[c] = sim_is_member(rank, c) ? to[c] - from[c] : 0;
  for (; total > 0; total--) {
    uint32_t k = sim_below(&sim_random_now, total), c = 0;
    while (k >= left[c]) k -= left[c++];
    left[c]--;
    add(rank, 0, STEP_SUBMIT, c, 0);
    if (sim_one_in(&sim_random_now, 8)) add(rank, 0, STEP_SYNC, 0, 0);
    if (sim_one_in(&sim_random_now, 8)) add(rank, 0, STEP_PAUSE, 0, sim_below(&sim_random_now, 60));
  }
}

static void draw_main_thread(uint32_t rank, const int *in_callback, const int *keeps) {
  static const uint32_t none[MAX_COLLS];
  uint32_t all[MAX_COLLS], after[MAX_COLLS];
  for (uint32_t c = 0; c < sim_plan.n_colls; c++) all[c] = sim_plan.coll[c].runs;
  add_submissions(rank, none, sim_endings_now->first);
  for (uint32_t c = 0; c < sim_plan.n_colls; c++) {
    after[c] = in_callback[c] ? all[c] : sim_endings_now->first[c];
    if (in_callback[c] || keeps[c] || !sim_is_member(rank, c)) continue;
    if (sim_one_in(&sim_random_now, 8)) add(rank, 0, STEP_WAIT_ALL, 0, 0);
    add(rank, 0, STEP_WAIT, c, 0);
    add(rank, 0, STEP_DEREGISTER, c, 0);
    if (sim_endings_now->first[c] < all[c]) add(rank, 0, STEP_REGISTER, c, 0);
  }
  add_submissions(rank, after, all);
  if (sim_one_in(&sim_random_now, 3)) add(rank, 0, STEP_WAIT_ALL, 0, 0);
}

static void draw_second_thread(uint32_t rank) {
  sim_random *random = &sim_random_now;
  for (uint32_t i = sim_below(random, 3); i > 0; i--) {
    static const step_kind kinds[] = {STEP_SYNC, STEP_WAIT, STEP_WAIT_ALL};
    add(rank, 1, STEP_PAUSE, 0, sim_below(random, 200));
    add(rank, 1, kinds[sim_below(random, 3)], sim_below(random, sim_plan.n_colls), 0);
  }
}

/* Between two steps of the rank's first or second thread. */
static void insert(uint32_t rank, step_kind kind) {
  sim_random *random = &sim_random_now;
  rank_state *state = &sim_endings_now->rank[rank];
  uint32_t thread = kind == STEP_LEAVE ? 0 : sim_below(random, MAX_THREADS);
  uint32_t n = state->n_steps[thread];
  uint32_t coll = sim_below(random, sim_plan.n_colls), at = sim_below(random, n + 1);
  if (n == MAX_STEPS) return;
  if (thread == 1 && sim_one_in(random, 2)) add(rank, 1, STEP_PAUSE, 0, sim_below(random, 300));
  at = state->n_steps[thread] > n ? n + 1 : at;
  if (state->n_steps[thread] == MAX_STEPS) return;
  for (uint32_t i = state->n_steps[thread]++; i > at; i--)
    state->steps[thread][i] = state->steps[thread][i - 1];
  state->steps[thread][at] = (step){kind, coll, 0};
}

static app_run *any_run(uint32_t rank) {
  uint32_t c = sim_below(&sim_random_now, sim_plan.n_colls);
  return &sim_app->run[rank][c][sim_below(&sim_random_now, sim_plan.coll[c].runs)];
}

/* Ranks die, and nothing else happens. */
static void draw_deaths(void) {
  sim_endings_now->deaths_left = sim_below(&sim_random_now, sim_plan.n_ranks);
  sim_survive_next_death(0);
}

static void draw_causes(void) {
  sim_random *random = &sim_random_now, apart = {.state = random->state ^ 0x8ebc6af09c88c6e3ull};
  uint32_t kind = sim_below(random, 8), rank = sim_below(random, sim_plan.n_ranks);
  sim_death_step = UINT64_MAX;
  sim_endings_now->dying = -1;
  if (kind < 2) { /* abort */
    app_run *run = any_run(rank);
    if (sim_one_in(random, 3) && sim_endings_now->deed[rank][run->coll][run->run] == NOTHING)
      sim_endings_now->deed[rank][run->coll][run->run] = ABORTS;
    else
      insert(rank, sim_one_in(&apart, 2) ? STEP_ABORT_ONE : STEP_ABORT);
  }
  if (kind == 2 || kind == 3) insert(rank, STEP_TRY_DEREGISTER);
  if (kind == 3) insert(sim_below(random, sim_plan.n_ranks), STEP_TRY_DEREGISTER);
  if ((kind == 4 || kind == 5) && sim_plan.processes) {
    sim_endings_now->dying = (int)rank;
    sim_death_step = sim_below(random, sim_one_in(random, 2) ? 600 : 4000);
  }
  if (kind >= 4 && kind <= 6 && sim_endings_now->dying < 0 && !sim_plan.settings.timeout_ms)
    insert(rank, STEP_LEAVE);
  if (kind >= 5 && sim_plan.settings.timeout_ms) { /* one is late, or does not come at all */
    sim_endings_now->late = 1;
    insert(rank, STEP_LATER);
    if (sim_one_in(random, 2)) insert((rank + 1) % sim_plan.n_ranks, STEP_NAP);
  }
}

void sim_endings_prepare(void) {
  sim_random *random = &sim_random_now;
  int in_callback[MAX_COLLS], keeps[MAX_COLLS];
  uint64_t allocations = sim_endings_now->allocations;
  memset(sim_endings_now, 0, sizeof *sim_endings_now);
  sim_endings_now->allocations = allocations;
  sim_app->threads_left = sim_plan.n_ranks * MAX_THREADS;
  for (uint32_t c = 0; c < sim_plan.n_colls; c++) {
    sim_endings_now->first[c] = 1 + sim_below(random, sim_plan.coll[c].runs);
    in_callback[c] = sim_one_in(random, 3);
    sim_endings_now->interlude[c] = sim_one_in(random, 3);
    sim_endings_now->odd[c] = sim_one_in(random, 2) ? (int)sim_below(random, sim_plan.n_ranks) : -1;
    if (sim_only_survivors) sim_endings_now->interlude[c] = 0, sim_endings_now->odd[c] = -1;
    if (sim_endings_now->odd[c] >= 0 && !sim_is_member((uint32_t)sim_endings_now->odd[c], c))
      sim_endings_now->odd[c] = -1;
    keeps[c] = sim_endings_now->first[c] == sim_plan.coll[c].runs && sim_one_in(random, 2);
  }
  sim_random apart = {.state = random->state ^ 0x632be59bd9b4e019ull};
  for (uint32_t c = 0; c < sim_plan.n_colls && sim_plan.visits; c++)
    sim_endings_now->visited[c] =
        !in_callback[c] && sim_one_in(&apart, 2); /* callbacks cannot wait */
  for (uint32_t r = 0; r < sim_plan.n_ranks; r++) {
    for (uint32_t c = 0; c < sim_plan.n_colls; c++) {
      between_run *run = &sim_endings_now->between[r][c];
      *run = (between_run){
          .rank = r, .coll = c, .send = sim_between_send[r][c], .recv = sim_between_recv[r][c]};
    }
    for (uint32_t c = 0; c < sim_plan.n_colls; c++)
      for (uint32_t k = 0; k < sim_plan.coll[c].runs; k++) {
        int moves_on = in_callback[c] && k + 1 == sim_endings_now->first[c];
        sim_app->run[r][c][k].has_callback = moves_on || !sim_one_in(random, 4);
        sim_endings_now->deed[r][c][k] = moves_on                ? MOVES_ON
                                         : sim_one_in(random, 8) ? PAUSES
                                                                 : NOTHING;
      }
    draw_main_thread(r, in_callback, keeps);
    draw_second_thread(r);
    sim_endings_now->rank[r].second_thread = sim_app_agent(r, 1);
    sim_endings_now->rank[r].lingers = sim_one_in(random, 2);
  }
  if (sim_only_survivors)
    draw_deaths();
  else
    draw_causes();
}

/* One allocation, or several in a row, in some schedules: calls may be refused then, and runs fail.
 */
uint32_t sim_endings_failing_allocation(void) {
  if (sim_percent_small == 0 || sim_only_survivors || !sim_one_in(&sim_random_now, 8)) return 0;
  sim_endings_now->no_memory = 1;
  if (sim_one_in(&sim_random_now, 2)) sim_more_failures = 1 + sim_below(&sim_random_now, 6);
  return 1 + sim_below(&sim_random_now, 24);
}
