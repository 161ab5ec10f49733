/*
 * The application of worlds that end: it submits, waits, synchronises, deregisters and registers
 * anew, from its own threads and in callbacks; ranks abort, die or keep others waiting beyond their
 * timeout; and in the end every rank that lives closes its context. Whatever happens, each accepted
 * run has one completion with a status that something explains, and nothing is left behind.
 *
 * Without a cause nothing may fail; and if all that happened is that ranks left a collective early,
 * a run that all members have submitted succeeds.
 */
#include <stdlib.h>

#include "prelude_declarations.h"
#include "world.h"

enum { LIVES = 2, MAX_STEPS = 48 };

typedef enum {
  STEP_SUBMIT,
  STEP_WAIT,
  STEP_WAIT_ALL,
  STEP_SYNC,
  STEP_TRY_DEREGISTER, /* although runs may be outstanding, or to come */
  STEP_DEREGISTER,
  STEP_REGISTER,
  STEP_ABORT,
  STEP_PAUSE,
  STEP_LEAVE, /* what remains is not done: the context is closed */
  STEP_NAP,   /* as long as a timeout */
  STEP_LATER  /* when others' runs have timed out */
} step_kind;

typedef struct step {
  step_kind kind;
  uint32_t coll, n;
} step;

typedef struct coll_state { /* on one rank */
  uint32_t life, next;      /* registration, and run to submit */
  uint32_t accepted[LIVES];
  int refused[LIVES];
} coll_state;

typedef struct rank_state {
  step steps[MAX_THREADS][MAX_STEPS];
  uint32_t n_steps[MAX_THREADS];
  coll_state coll[MAX_COLLS];
  uint32_t helper;
  int has_aborted, leaves, lingers, is_closed, is_dead;
} rank_state;

/* What a callback does beside being counted. */
typedef enum { NOTHING, MOVES_ON, ABORTS, PAUSES } callback_deed;

typedef struct endings {
  rank_state rank[MAX_RANKS];
  callback_deed deed[MAX_RANKS][MAX_COLLS][MAX_RUNS];
  dfcclResult_t status[MAX_RANKS][MAX_COLLS][MAX_RUNS];
  uint32_t first[MAX_COLLS]; /* so many runs in the first life */
  int interlude[MAX_COLLS];  /* there is a registration without runs between the two lives ... */
  int odd[MAX_COLLS];        /* ... which on this rank is of another count; -1 */
  uint64_t allocations;      /* of the application itself */
  int aborts, deaths, early, late, no_memory;
  int dying; /* this rank; -1 */
} endings;

static endings *now; /* in the arena */

/* ---- what is allowed */

static int something_happened(void) {
  return now->aborts || now->deaths || now->early || now->late || now->no_memory ||
         sim_plan.settings.timeout_ms;
}

static int is_explained(uint32_t rank, dfcclResult_t status) {
  switch (status) {
  case dfcclSuccess:
    return 1;
  case dfcclAborted:
    return now->rank[rank].has_aborted;
  case dfcclTimeout:
    return sim_plan.settings.timeout_ms != 0;
  case dfcclOutOfMemory:
  case dfcclSystemError: /* shared memory */
    return now->no_memory;
  case dfcclRemoteError:
    return something_happened();
  default:
    return 0;
  }
}

static void expect(uint32_t rank, const char *what, dfcclResult_t status, int also) {
  if (is_explained(rank, status) || (int)status == also) return;
  sim_fail("rank %u: %s gave %d, which nothing explains: %s", rank, what, (int)status,
           df_last_sentence());
}

/* ---- callbacks */

static void submit(uint32_t rank, uint32_t coll);
static void deregister(uint32_t rank, uint32_t coll);
static void register_next(uint32_t rank, uint32_t coll);
static void abort_rank(uint32_t rank);

static void pause_for(uint32_t n) {
  while (n--) sim_yield();
}

static void move_on(uint32_t rank, uint32_t coll) {
  coll_state *state = &now->rank[rank].coll[coll];
  deregister(rank, coll);
  if (now->first[coll] == sim_plan.coll[coll].runs) return;
  register_next(rank, coll);
  while (state->next < sim_plan.coll[coll].runs && !state->refused[1]) submit(rank, coll);
}

static void on_callback(dfcclCollId_t id, dfcclResult_t status, void *argument) {
  app_run *run = argument;
  uint32_t rank = run->rank;
  if (run->callbacks++)
    sim_fail("rank %u: a second callback of run %u of collective %u", rank, run->run, run->coll);
  if (now->rank[rank].is_closed) sim_fail("rank %u: a callback after dfcclDestroy", rank);
  if (id != run->coll + 1u) sim_fail("a callback of another collective");
  expect(rank, "a run", status, -1);
  now->status[rank][run->coll][run->run] = status;
  if (status == dfcclSuccess)
    sim_check_run(run);
  else
    sim_take_back(run);
  callback_deed deed = now->deed[rank][run->coll][run->run];
  if (deed == MOVES_ON) move_on(rank, run->coll);
  if (deed == ABORTS) abort_rank(rank);
  if (deed == PAUSES) pause_for(40);
}

/* ---- steps */

/* Others wait for what was refused, and this rank perhaps for them. */
static void give_up_without_memory(uint32_t rank) {
  if (now->no_memory) abort_rank(rank);
}

/* Returns 0 when it was refused. */
static int try_submit(app_run *run) {
  uint32_t rank = run->rank, life = run->run >= now->first[run->coll];
  coll_state *state = &now->rank[rank].coll[run->coll];
  if (state->refused[life]) return 0; /* what follows would meet other runs */
  int was_aborted = now->rank[rank].has_aborted == 2;
  run->accepted = 1; /* the callback may come first */
  dfcclResult_t result =
      df_submit(sim_app->rank[rank].context, sim_plan.coll[run->coll].operation, run->coll + 1,
                run->send, run->recv, run->has_callback ? on_callback : NULL, run);
  if (result == dfcclSuccess) {
    if (was_aborted) sim_fail("rank %u: a run was accepted after dfcclAbort", rank);
    state->accepted[life]++;
    return 1;
  }
  run->accepted = 0;
  state->refused[life] = 1;
  give_up_without_memory(rank);
  expect(rank, "dfcclRun", result, now->early || now->no_memory ? dfcclInvalidArgument : -1);
  if (run->callbacks) sim_fail("rank %u: a refused run has a callback", rank);
  return 0;
}

static void submit(uint32_t rank, uint32_t coll) {
  app_run *run = &sim_app->run[rank][coll][now->rank[rank].coll[coll].next++];
  if (try_submit(run) || now->deed[rank][coll][run->run] != MOVES_ON) return;
  /* The others' callbacks register it anew, and wait for this rank. */
  df_wait(sim_app->rank[rank].context, coll + 1);
  move_on(rank, coll);
}

static void deregister(uint32_t rank, uint32_t coll) {
  dfcclResult_t result = df_deregister(sim_app->rank[rank].context, coll + 1);
  int may_be_gone = now->early || now->no_memory;
  if (result == dfcclSuccess || (result == dfcclInvalidArgument && may_be_gone)) return;
  sim_fail("rank %u: dfcclDeregister failed with %d: %s", rank, (int)result, df_last_sentence());
}

static void try_deregister(uint32_t rank, uint32_t coll) {
  now->early++; /* before others can see it */
  dfcclResult_t result = df_deregister(sim_app->rank[rank].context, coll + 1);
  if (result == dfcclSuccess) return;
  now->early--;
  if (result == dfcclInvalidUsage || result == dfcclInvalidArgument) return;
  sim_fail("rank %u: dfcclDeregister failed with %d: %s", rank, (int)result, df_last_sentence());
}

static void register_next(uint32_t rank, uint32_t coll) {
  coll_state *state = &now->rank[rank].coll[coll];
  state->life++;
  state->next = now->first[coll];
  dfcclResult_t result = dfcclSuccess;
  if (now->interlude[coll]) {
    result = sim_register(rank, coll, now->odd[coll] == (int)rank);
    if (result == dfcclSuccess) deregister(rank, coll);
  }
  if (result == dfcclSuccess) result = sim_register(rank, coll, 0);
  if (result == dfcclSuccess) return;
  state->refused[1] = 1;
  expect(rank, "dfcclRegister", result, -1);
  give_up_without_memory(rank);
}

static void abort_rank(uint32_t rank) {
  now->aborts++;
  if (!now->rank[rank].has_aborted) now->rank[rank].has_aborted = 1;
  df_abort(sim_app->rank[rank].context);
  now->rank[rank].has_aborted = 2;
}

/* Has another rank with a timeout a run that this one has not submitted? It must end. */
static int is_waited_for(uint32_t rank) {
  for (uint32_t r = 0; r < sim_plan.n_ranks; r++) {
    if (r == rank || now->rank[r].is_dead || !(sim_plan.impatient >> r & 1)) continue;
    for (uint32_t c = 0; c < sim_plan.n_colls; c++)
      for (uint32_t k = sim_is_member(rank, c) ? now->rank[rank].coll[c].next : UINT32_MAX;
           k < sim_plan.coll[c].runs; k++) {
        const app_run *run = &sim_app->run[r][c][k];
        if (run->accepted && run->has_callback && !run->callbacks) return 1;
      }
  }
  return 0;
}

/* Has another rank a run that this one has refused? It must end, although this one stays. */
static int has_refused_others(uint32_t rank) {
  for (uint32_t r = 0; r < sim_plan.n_ranks; r++) {
    if (r == rank || now->rank[r].is_dead) continue;
    for (uint32_t c = 0; c < sim_plan.n_colls; c++)
      for (uint32_t k = 0; k < sim_plan.coll[c].runs; k++) {
        const app_run *run = &sim_app->run[r][c][k];
        const coll_state *mine = &now->rank[rank].coll[c];
        uint32_t life = k >= now->first[c], number = life ? k - now->first[c] : k;
        if (run->accepted && run->has_callback && !run->callbacks && mine->refused[life] &&
            number >= mine->accepted[life])
          return 1;
      }
  }
  return 0;
}

static void nap(long long ms) {
  sim_block(SIM_WAITS_FUTEX, now, sim_agents_now.now_ns + (uint64_t)ms * 1000000u);
}

static void do_step(uint32_t rank, const step *s) {
  dfcclContext_t context = sim_app->rank[rank].context;
  switch (s->kind) {
  case STEP_SUBMIT:
    submit(rank, s->coll);
    break;
  case STEP_WAIT:
    /* Not registered: a callback or the helper has deregistered it. */
    expect(rank, "dfcclWait", df_wait(context, s->coll + 1), dfcclInvalidArgument);
    break;
  case STEP_WAIT_ALL:
    expect(rank, "dfcclWaitAll", df_wait_all(context), -1);
    break;
  case STEP_SYNC:
    expect(rank, "dfcclDeviceSynchronize", df_device_synchronize(context), -1);
    break;
  case STEP_TRY_DEREGISTER:
    try_deregister(rank, s->coll);
    break;
  case STEP_DEREGISTER:
    deregister(rank, s->coll);
    break;
  case STEP_REGISTER:
    register_next(rank, s->coll);
    break;
  case STEP_ABORT:
    abort_rank(rank);
    break;
  case STEP_PAUSE:
    pause_for(s->n);
    break;
  case STEP_LEAVE:
    now->early++; /* others' later runs end, as if this rank had deregistered */
    now->rank[rank].leaves = 1;
    break;
  case STEP_NAP:
    nap(sim_plan.settings.timeout_ms);
    break;
  case STEP_LATER:
    do {
      nap(sim_plan.settings.timeout_ms);
    } while (is_waited_for(rank));
    break;
  }
}

void *sim_endings_thread(void *argument) {
  uint32_t rank = (uint32_t)((uintptr_t)argument / MAX_THREADS);
  uint32_t thread = (uintptr_t)argument % MAX_THREADS;
  rank_state *state = &now->rank[rank];
  for (uint32_t i = 0; i < state->n_steps[thread] && (thread > 0 || !state->leaves); i++)
    do_step(rank, &state->steps[thread][i]);
  if (thread == 0) {
    while (state->lingers && has_refused_others(rank)) nap(1);
    sim_thread_join(state->helper, NULL); /* no other call is in progress when it is destroyed */
    if (df_context_close(sim_app->rank[rank].context) != dfcclSuccess)
      sim_fail("dfcclDestroy failed");
    state->is_closed = 1;
  }
  sim_app->threads_left--;
  return NULL;
}

/* ---- what a schedule decides */

static void add(uint32_t rank, uint32_t thread, step_kind kind, uint32_t coll, uint32_t n) {
  rank_state *state = &now->rank[rank];
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
  add_submissions(rank, none, now->first);
  for (uint32_t c = 0; c < sim_plan.n_colls; c++) {
    after[c] = in_callback[c] ? all[c] : now->first[c];
    if (in_callback[c] || keeps[c] || !sim_is_member(rank, c)) continue;
    if (sim_one_in(&sim_random_now, 8)) add(rank, 0, STEP_WAIT_ALL, 0, 0);
    add(rank, 0, STEP_WAIT, c, 0);
    add(rank, 0, STEP_DEREGISTER, c, 0);
    if (now->first[c] < all[c]) add(rank, 0, STEP_REGISTER, c, 0);
  }
  add_submissions(rank, after, all);
  if (sim_one_in(&sim_random_now, 3)) add(rank, 0, STEP_WAIT_ALL, 0, 0);
}

static void draw_helper(uint32_t rank) {
  sim_random *random = &sim_random_now;
  for (uint32_t i = sim_below(random, 3); i > 0; i--) {
    static const step_kind kinds[] = {STEP_SYNC, STEP_WAIT, STEP_WAIT_ALL};
    add(rank, 1, STEP_PAUSE, 0, sim_below(random, 200));
    add(rank, 1, kinds[sim_below(random, 3)], sim_below(random, sim_plan.n_colls), 0);
  }
}

/* Between two steps of the rank's own program, or of its helper's. */
static void insert(uint32_t rank, step_kind kind) {
  sim_random *random = &sim_random_now;
  rank_state *state = &now->rank[rank];
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

static void draw_causes(void) {
  sim_random *random = &sim_random_now;
  uint32_t kind = sim_below(random, 8), rank = sim_below(random, sim_plan.n_ranks);
  sim_death_step = UINT64_MAX;
  now->dying = -1;
  if (kind < 2) { /* abort */
    app_run *run = any_run(rank);
    if (sim_one_in(random, 3) && now->deed[rank][run->coll][run->run] == NOTHING)
      now->deed[rank][run->coll][run->run] = ABORTS;
    else
      insert(rank, STEP_ABORT);
  }
  if (kind == 2 || kind == 3) insert(rank, STEP_TRY_DEREGISTER);
  if (kind == 3) insert(sim_below(random, sim_plan.n_ranks), STEP_TRY_DEREGISTER);
  if ((kind == 4 || kind == 5) && sim_plan.processes) {
    now->dying = (int)rank;
    sim_death_step = sim_below(random, sim_one_in(random, 2) ? 600 : 4000);
  }
  if (kind >= 4 && kind <= 6 && now->dying < 0 && !sim_plan.settings.timeout_ms)
    insert(rank, STEP_LEAVE);
  if (kind >= 5 && sim_plan.settings.timeout_ms) { /* one is late, or does not come at all */
    now->late = 1;
    insert(rank, STEP_LATER);
    if (sim_one_in(random, 2)) insert((rank + 1) % sim_plan.n_ranks, STEP_NAP);
  }
}

void sim_endings_prepare(void) {
  sim_random *random = &sim_random_now;
  int in_callback[MAX_COLLS], keeps[MAX_COLLS];
  uint64_t allocations = now->allocations;
  memset(now, 0, sizeof *now);
  now->allocations = allocations;
  sim_app->threads_left = sim_plan.n_ranks * MAX_THREADS;
  for (uint32_t c = 0; c < sim_plan.n_colls; c++) {
    now->first[c] = 1 + sim_below(random, sim_plan.coll[c].runs);
    in_callback[c] = sim_one_in(random, 3);
    now->interlude[c] = sim_one_in(random, 3);
    now->odd[c] = sim_one_in(random, 2) ? (int)sim_below(random, sim_plan.n_ranks) : -1;
    keeps[c] = now->first[c] == sim_plan.coll[c].runs && sim_one_in(random, 2);
  }
  for (uint32_t r = 0; r < sim_plan.n_ranks; r++) {
    for (uint32_t c = 0; c < sim_plan.n_colls; c++)
      for (uint32_t k = 0; k < sim_plan.coll[c].runs; k++) {
        int moves_on = in_callback[c] && k + 1 == now->first[c];
        sim_app->run[r][c][k].has_callback = moves_on || !sim_one_in(random, 4);
        now->deed[r][c][k] = moves_on ? MOVES_ON : sim_one_in(random, 8) ? PAUSES : NOTHING;
      }
    draw_main_thread(r, in_callback, keeps);
    draw_helper(r);
    now->rank[r].helper = sim_app_agent(r, 1);
    now->rank[r].lingers = sim_one_in(random, 2);
  }
  draw_causes();
}

/* One allocation, or several in a row, in some schedules: calls may be refused then, and runs fail.
 */
uint32_t sim_endings_failing_allocation(void) {
  if (sim_percent_small == 0 || !sim_one_in(&sim_random_now, 8)) return 0;
  now->no_memory = 1;
  if (sim_one_in(&sim_random_now, 2)) sim_more_failures = 1 + sim_below(&sim_random_now, 6);
  return 1 + sim_below(&sim_random_now, 24);
}

void sim_endings_make(void) {
  now = sim_calloc(1, sizeof *now);
  now->allocations = sim_system_now.allocations;
}

void sim_world_death(void) {
  if (now->dying < 0) {
    sim_death_step = UINT64_MAX;
    return;
  }
  if (sim_holds_outside_lock(now->dying)) return; /* real processes have one each */
  rank_state *state = &now->rank[now->dying];
  sim_death_step = UINT64_MAX;
  if (state->is_closed) return;
  for (uint32_t t = 0; t < MAX_THREADS; t++)
    if (sim_agents_now.agent[sim_app_agent((uint32_t)now->dying, t)].state != SIM_DONE)
      sim_app->threads_left--;
  now->deaths = 1;
  state->is_dead = 1;
  sim_stop_rank(now->dying);
  sim_sockets_die(now->dying);
}

/* ---- the end of a schedule */

static void check_runs(uint32_t rank, uint32_t coll) {
  const rank_state *state = &now->rank[rank];
  for (uint32_t k = 0; k < sim_plan.coll[coll].runs; k++) {
    app_run *run = &sim_app->run[rank][coll][k];
    if (run->has_callback && run->callbacks != (uint32_t)run->accepted)
      sim_note_failure("rank %u: run %u of collective %u was %s, and has %u callbacks", rank, k,
                       coll, run->accepted ? "accepted" : "refused", run->callbacks);
    if (!something_happened() && !run->accepted)
      sim_note_failure("rank %u: run %u of collective %u was refused, and nothing explains it",
                       rank, k, coll);
    uint32_t life = k >= now->first[coll], number = life ? k - now->first[coll] : k;
    uint32_t all = UINT32_MAX;
    for (uint32_t r = 0; r < sim_plan.n_ranks; r++)
      if (sim_is_member(r, coll) && now->rank[r].coll[coll].accepted[life] < all)
        all = now->rank[r].coll[coll].accepted[life];
    int only_early = !now->aborts && !now->deaths && !now->late && !now->no_memory &&
                     !sim_plan.settings.timeout_ms;
    if (only_early && number < all && run->has_callback &&
        now->status[rank][coll][k] != dfcclSuccess)
      sim_note_failure("rank %u: run %u of collective %u failed with %d, although every member had "
                       "submitted it",
                       rank, k, coll, (int)now->status[rank][coll][k]);
  }
  if (!state->is_closed) sim_note_failure("rank %u has not closed its context", rank);
}

void sim_endings_check(void) {
  for (uint32_t r = 0; r < sim_plan.n_ranks; r++)
    for (uint32_t c = 0; c < sim_plan.n_colls && !now->rank[r].is_dead; c++)
      if (sim_is_member(r, c)) check_runs(r, c);
  if (now->deaths) return;
  for (uint32_t a = 0; a < sim_agents_now.n; a++)
    if (sim_agents_now.agent[a].state != SIM_DONE)
      sim_note_failure("rank %d: a thread is left", sim_agents_now.agent[a].rank);
  if (sim_system_now.allocations != now->allocations)
    sim_note_failure("%lld pieces of memory are left",
                     (long long)(sim_system_now.allocations - now->allocations));
  if (sim_open_descriptors() != 0)
    sim_note_failure("%u descriptors are left", sim_open_descriptors());
  if (sim_worlds_get() != NULL) sim_note_failure("a world is left");
}
