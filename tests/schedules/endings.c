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

#include "endings.h"
#include "host/runs/collective_failure.h"
#include "host/lifecycle/peer_failure.h"
#include "host/state/registry.h"
#include "host/registration/register.h"
#include "host/runs/runs.h"
endings *sim_endings_now;
int32_t *sim_between_send[MAX_RANKS][MAX_COLLS], *sim_between_recv[MAX_RANKS][MAX_COLLS];

/* ---- allowed endings */

static int something_happened(void) {
  return sim_endings_now->aborts || sim_endings_now->deaths || sim_endings_now->early ||
         sim_endings_now->late || sim_endings_now->no_memory || sim_plan.settings.timeout_ms;
}

static int has_disagreement(void) {
  for (uint32_t c = 0; c < sim_plan.n_colls; c++)
    if (sim_endings_now->visited[c] && sim_endings_now->odd[c] >= 0) return 1;
  return 0;
}

static int is_explained(uint32_t rank, dfcclResult_t status) {
  switch (status) {
  case dfcclSuccess:
    return 1;
  case dfcclAborted:
    return sim_endings_now->rank[rank].has_aborted || sim_endings_now->rank[rank].has_aborted_one;
  case dfcclTimeout:
    return sim_plan.settings.timeout_ms != 0;
  case dfcclOutOfMemory:
  case dfcclSystemError: /* shared memory */
    return sim_endings_now->no_memory;
  case dfcclMismatch: /* the status of a run between two lives: calls that wait may return it */
    return has_disagreement();
  case dfcclRemoteError:
    for (uint32_t c = 0; sim_only_survivors && c < sim_plan.n_colls; c++)
      if (sim_survive_may_fail(c)) return 1;
    return !sim_only_survivors && something_happened();
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
  coll_state *state = &sim_endings_now->rank[rank].coll[coll];
  deregister(rank, coll);
  if (sim_endings_now->first[coll] == sim_plan.coll[coll].runs) return;
  register_next(rank, coll);
  while (state->next < sim_plan.coll[coll].runs && !state->refused[1]) submit(rank, coll);
}

static void on_callback(dfcclCollId_t id, dfcclResult_t status, void *argument) {
  app_run *run = argument;
  uint32_t rank = run->rank;
  if (run->callbacks++)
    sim_fail("rank %u: a second callback of run %u of collective %u", rank, run->run, run->coll);
  if (sim_endings_now->rank[rank].is_closed)
    sim_fail("rank %u: a callback after dfcclDestroy", rank);
  if (id != run->coll + 1u) sim_fail("a callback of another collective");
  if (status == dfcclMismatch) sim_fail("rank %u: a run of members that agree mismatches", rank);
  expect(rank, "a run", status, -1);
  sim_endings_now->status[rank][run->coll][run->run] = status;
  if (sim_only_survivors)
    sim_survive_ended(run, status);
  else if (status == dfcclSuccess)
    sim_check_run(run);
  else
    sim_take_back(run);
  callback_deed deed = sim_endings_now->deed[rank][run->coll][run->run];
  if (deed == MOVES_ON) move_on(rank, run->coll);
  if (deed == ABORTS) abort_rank(rank);
  if (deed == PAUSES) pause_for(40);
}

/* ---- steps */

/* Others wait for what was refused, and this rank perhaps for them. */
static void give_up_without_memory(uint32_t rank) {
  if (sim_endings_now->no_memory) abort_rank(rank);
}

/* Returns 0 when it was refused. */
static int try_submit(app_run *run) {
  uint32_t rank = run->rank, life = run->run >= sim_endings_now->first[run->coll];
  coll_state *state = &sim_endings_now->rank[rank].coll[run->coll];
  if (state->refused[life]) return 0; /* later runs would be matched with other runs */
  int was_aborted = sim_endings_now->rank[rank].has_aborted == 2;
  run->accepted = 1; /* the callback may come first */
  dfcclResult_t result =
      sim_submit(rank, run->coll, sim_plan.coll[run->coll].counts[run->run], run->send, run->recv,
                 run->has_callback ? on_callback : NULL, run);
  if (result == dfcclSuccess) {
    if (was_aborted) sim_fail("rank %u: a run was accepted after dfcclAbort", rank);
    state->accepted[life]++;
    return 1;
  }
  run->accepted = 0;
  state->refused[life] = 1;
  if (result == dfcclMismatch) sim_fail("rank %u: a run of members that agree is refused", rank);
  give_up_without_memory(rank);
  expect(rank, "dfcclRun", result,
         sim_endings_now->early || sim_endings_now->no_memory ? dfcclInvalidArgument : -1);
  if (run->callbacks) sim_fail("rank %u: a refused run has a callback", rank);
  return 0;
}

static void submit(uint32_t rank, uint32_t coll) {
  app_run *run = &sim_app->run[rank][coll][sim_endings_now->rank[rank].coll[coll].next++];
  if (try_submit(run) || sim_endings_now->deed[rank][coll][run->run] != MOVES_ON) return;
  /* The others' callbacks register it anew, and wait for this rank. */
  df_wait(sim_app->rank[rank].context, coll + 1);
  move_on(rank, coll);
}

static void deregister(uint32_t rank, uint32_t coll) {
  dfcclResult_t result = df_deregister(sim_app->rank[rank].context, coll + 1);
  int may_be_gone = sim_endings_now->early || sim_endings_now->no_memory;
  if (result == dfcclSuccess || (result == dfcclInvalidArgument && may_be_gone)) return;
  sim_fail("rank %u: dfcclDeregister failed with %d: %s", rank, (int)result, df_last_sentence());
}

static void try_deregister(uint32_t rank, uint32_t coll) {
  sim_endings_now->early++; /* before others can see it */
  dfcclResult_t result = df_deregister(sim_app->rank[rank].context, coll + 1);
  if (result == dfcclSuccess) return;
  sim_endings_now->early--;
  if (result == dfcclInvalidUsage || result == dfcclInvalidArgument) return;
  sim_fail("rank %u: dfcclDeregister failed with %d: %s", rank, (int)result, df_last_sentence());
}

/* Every run of members that disagree ends so, and no run of other members. */
static void expect_between(uint32_t rank, uint32_t coll, const char *what, dfcclResult_t status) {
  int gone = sim_endings_now->early || sim_endings_now->no_memory;
  if (status == dfcclInvalidArgument && gone) return;
  expect(rank, what, status, sim_endings_now->odd[coll] >= 0 ? (int)dfcclMismatch : -1);
}

static void on_callback_between(dfcclCollId_t id, dfcclResult_t status, void *argument) {
  between_run *run = argument;
  (void)id;
  if (run->callbacks++) sim_fail("rank %u: a second callback between two lives", run->rank);
  if (sim_endings_now->odd[run->coll] >= 0 && status == dfcclSuccess)
    sim_fail("rank %u: a run succeeded, although members disagree", run->rank);
  expect_between(run->rank, run->coll, "a run between two lives", status);
}

static void on_callback_earlier(dfcclCollId_t id, dfcclResult_t status, void *argument) {
  between_run *run = argument;
  (void)id;
  if (run->earlier_callbacks++) sim_fail("rank %u: a second callback of an earlier run", run->rank);
  if (status == dfcclMismatch)
    sim_fail("rank %u: a run of equal counts fails with the next one", run->rank);
  expect(run->rank, "a run of equal counts", status, -1);
}

/* A call on a rank that has detected the mismatch is refused. */
static void run_between(uint32_t rank, uint32_t coll) {
  dfcclContext_t context = sim_app->rank[rank].context;
  between_run *run = &sim_endings_now->between[rank][coll];
  const coll_plan *plan = &sim_plan.coll[coll];
  if (plan->varying) {
    dfcclResult_t earlier =
        sim_submit(rank, coll, 1, run->send, run->recv, on_callback_earlier, run);
    if (earlier != dfcclSuccess) {
      expect_between(rank, coll, "dfcclRun of equal counts", earlier);
      give_up_without_memory(rank);
      return;
    }
    run->earlier_accepted = 1;
  }
  run->accepted = 1;
  const int differs = plan->varying && sim_endings_now->odd[coll] == (int)rank;
  dfcclResult_t result = sim_submit(rank, coll, differs ? plan->count / 2 : 0, run->send, run->recv,
                                    on_callback_between, run);
  if (result != dfcclSuccess) {
    run->accepted = 0;
    expect_between(rank, coll, "dfcclRun between two lives", result);
    give_up_without_memory(rank);
    if (run->earlier_accepted)
      expect_between(rank, coll, "dfcclWait of equal counts", df_wait(context, coll + 1));
    return;
  }
  result = df_wait(context, coll + 1);
  if (run->callbacks != 1 && result != dfcclInvalidArgument)
    sim_fail("rank %u: dfcclWait returned before the callback", rank);
  expect_between(rank, coll, "dfcclWait between two lives", result);
}

static void register_next(uint32_t rank, uint32_t coll) {
  coll_state *state = &sim_endings_now->rank[rank].coll[coll];
  state->life++;
  state->next = sim_endings_now->first[coll];
  dfcclResult_t result = dfcclSuccess;
  if (sim_endings_now->interlude[coll]) {
    /* For varying collectives the run differs. */
    const int is_odd = sim_endings_now->odd[coll] == (int)rank && !sim_plan.coll[coll].varying;
    result = sim_register(rank, coll, (uint32_t)is_odd);
    if (result == dfcclSuccess && sim_endings_now->visited[coll]) run_between(rank, coll);
    if (result == dfcclSuccess) deregister(rank, coll);
  }
  if (result == dfcclSuccess) result = sim_register(rank, coll, 0);
  if (result == dfcclSuccess) return;
  state->refused[1] = 1;
  expect(rank, "dfcclRegister", result, -1);
  give_up_without_memory(rank);
}

static void abort_rank(uint32_t rank) {
  sim_endings_now->aborts++;
  if (!sim_endings_now->rank[rank].has_aborted) sim_endings_now->rank[rank].has_aborted = 1;
  df_abort(sim_app->rank[rank].context, NULL);
  sim_endings_now->rank[rank].has_aborted = 2;
}

static void abort_one(uint32_t rank, uint32_t coll) {
  const dfcclCollId_t id = coll + 1;
  sim_endings_now->aborts++;
  sim_endings_now->rank[rank].has_aborted_one = 1;
  dfcclResult_t result = df_abort_collectives(sim_app->rank[rank].context, &id, 1, NULL);
  if (result != dfcclSuccess && result != dfcclInvalidArgument) /* not registered just now */
    sim_fail("rank %u: dfcclAbortCollectives gave %d: %s", rank, (int)result, df_last_sentence());
}

/* Has another rank with a timeout a run that this one has not submitted? It must end. */
static int is_waited_for(uint32_t rank) {
  for (uint32_t r = 0; r < sim_plan.n_ranks; r++) {
    if (r == rank || sim_endings_now->rank[r].is_dead || !(sim_plan.impatient >> r & 1)) continue;
    for (uint32_t c = 0; c < sim_plan.n_colls; c++)
      for (uint32_t k = sim_is_member(rank, c) ? sim_endings_now->rank[rank].coll[c].next
                                               : UINT32_MAX;
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
    if (r == rank || sim_endings_now->rank[r].is_dead) continue;
    for (uint32_t c = 0; c < sim_plan.n_colls; c++)
      for (uint32_t k = 0; k < sim_plan.coll[c].runs; k++) {
        const app_run *run = &sim_app->run[r][c][k];
        const coll_state *mine = &sim_endings_now->rank[rank].coll[c];
        uint32_t life = k >= sim_endings_now->first[c],
                 number = life ? k - sim_endings_now->first[c] : k;
        if (run->accepted && run->has_callback && !run->callbacks && mine->refused[life] &&
            number >= mine->accepted[life])
          return 1;
      }
  }
  return 0;
}

static void nap(long long ms) {
  sim_block(SIM_WAITS_FUTEX, sim_endings_now, sim_agents_now.now_ns + (uint64_t)ms * 1000000u);
}

static void do_step(uint32_t rank, const step *s) {
  dfcclContext_t context = sim_app->rank[rank].context;
  switch (s->kind) {
  case STEP_SUBMIT:
    submit(rank, s->coll);
    sim_ask_to_switch(rank);
    break;
  case STEP_WAIT:
    /* Not registered: a callback or the second thread has deregistered it. */
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
  case STEP_ABORT_ONE:
    abort_one(rank, s->coll);
    break;
  case STEP_PAUSE:
    pause_for(s->n);
    break;
  case STEP_LEAVE:
    sim_endings_now->early++; /* others' later runs end, as if this rank had deregistered */
    sim_endings_now->rank[rank].leaves = 1;
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
  rank_state *state = &sim_endings_now->rank[rank];
  for (uint32_t i = 0; i < state->n_steps[thread] && (thread > 0 || !state->leaves); i++)
    do_step(rank, &state->steps[thread][i]);
  if (thread == 0) {
    while (state->lingers && has_refused_others(rank)) nap(1);
    sim_thread_join(state->second_thread,
                    NULL); /* no other call is in progress when it is destroyed */
    state->closes = 1;
    if (df_context_close(sim_app->rank[rank].context) != dfcclSuccess)
      sim_fail("dfcclDestroy failed");
    state->is_closed = 1;
  }
  sim_app->threads_left--;
  return NULL;
}

/* ---- the schedule itself */

void sim_endings_make(void) {
  sim_endings_now = sim_calloc(1, sizeof *sim_endings_now);
  sim_endings_now->allocations = sim_system_now.allocations;
  for (uint32_t r = 0; r < sim_plan.n_ranks; r++)
    for (uint32_t c = 0; c < sim_plan.n_colls; c++) {
      sim_between_send[r][c] = sim_hidden_alloc(BETWEEN_BYTES);
      sim_between_recv[r][c] = sim_hidden_alloc(BETWEEN_BYTES);
      memset(sim_between_send[r][c], 0, BETWEEN_BYTES);
    }
}

void sim_world_death(void) {
  if (sim_endings_now->dying < 0) {
    sim_death_step = UINT64_MAX;
    return;
  }
  if (sim_holds_outside_lock(sim_endings_now->dying)) return; /* real processes have one each */
  rank_state *state = &sim_endings_now->rank[sim_endings_now->dying];
  sim_death_step = UINT64_MAX;
  if (state->is_closed) return;
  for (uint32_t t = 0; t < MAX_THREADS; t++)
    if (sim_agents_now.agent[sim_app_agent((uint32_t)sim_endings_now->dying, t)].state != SIM_DONE)
      sim_app->threads_left--;
  sim_endings_now->deaths = 1;
  state->is_dead = 1;
  sim_stop_rank(sim_endings_now->dying);
  sim_sockets_die(sim_endings_now->dying);
  sim_wire_die(sim_endings_now->dying);
  if (sim_only_survivors) sim_survive_next_death(sim_steps);
}

/* ---- the end of a schedule */

static void check_runs(uint32_t rank, uint32_t coll) {
  const rank_state *state = &sim_endings_now->rank[rank];
  for (uint32_t k = 0; k < sim_plan.coll[coll].runs; k++) {
    app_run *run = &sim_app->run[rank][coll][k];
    if (run->has_callback && run->callbacks != (uint32_t)run->accepted)
      sim_note_failure("rank %u: run %u of collective %u was %s, and has %u callbacks", rank, k,
                       coll, run->accepted ? "accepted" : "refused", run->callbacks);
    const int must_be_accepted =
        sim_only_survivors ? !sim_survive_may_fail(coll) : !something_happened();
    if (must_be_accepted && !run->accepted)
      sim_note_failure("rank %u: run %u of collective %u was refused, and nothing explains it",
                       rank, k, coll);
    uint32_t life = k >= sim_endings_now->first[coll],
             number = life ? k - sim_endings_now->first[coll] : k;
    uint32_t all = UINT32_MAX;
    for (uint32_t r = 0; r < sim_plan.n_ranks; r++)
      if (sim_is_member(r, coll) && sim_endings_now->rank[r].coll[coll].accepted[life] < all)
        all = sim_endings_now->rank[r].coll[coll].accepted[life];
    int only_early = !sim_endings_now->aborts && !sim_endings_now->deaths &&
                     !sim_endings_now->late && !sim_endings_now->no_memory &&
                     !sim_plan.settings.timeout_ms;
    if (only_early && number < all && run->has_callback &&
        sim_endings_now->status[rank][coll][k] != dfcclSuccess)
      sim_note_failure("rank %u: run %u of collective %u failed with %d, although every member had "
                       "submitted it",
                       rank, k, coll, (int)sim_endings_now->status[rank][coll][k]);
  }
  const between_run *between = &sim_endings_now->between[rank][coll];
  if (between->callbacks != (uint32_t)between->accepted ||
      between->earlier_callbacks != (uint32_t)between->earlier_accepted)
    sim_note_failure("rank %u: a run of collective %u between two lives was %s, and has %u "
                     "callbacks",
                     rank, coll, between->accepted ? "accepted" : "refused", between->callbacks);
  if (!state->is_closed) sim_note_failure("rank %u has not closed its context", rank);
}

void sim_endings_check(void) {
  for (uint32_t r = 0; r < sim_plan.n_ranks; r++)
    for (uint32_t c = 0; c < sim_plan.n_colls && !sim_endings_now->rank[r].is_dead; c++)
      if (sim_is_member(r, c)) check_runs(r, c);
  if (sim_endings_now->deaths) return;
  for (uint32_t a = 0; a < sim_agents_now.n; a++)
    if (sim_agents_now.agent[a].state != SIM_DONE && sim_agents_now.agent[a].rank >= 0)
      sim_note_failure("rank %d: a thread is left", sim_agents_now.agent[a].rank);
  if (sim_system_now.allocations != sim_endings_now->allocations)
    sim_note_failure("%lld pieces of memory are left",
                     (long long)(sim_system_now.allocations - sim_endings_now->allocations));
  if (sim_open_descriptors() != 0)
    sim_note_failure("%u descriptors are left", sim_open_descriptors());
  if (sim_worlds_get() != NULL) sim_note_failure("a world is left");
}
