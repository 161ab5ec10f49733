/*
 * One rank's part of a random program. The waits are chosen so that a right library cannot hang. A
 * rank blocks only at the end of a phase, after it has submitted all runs that it submits itself. A
 * callback starts only later runs of its own collective or of collectives of a higher slot.
 */
#include "execute.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const program_slot *slot_of(const execution *e, int slot) {
  return &e->program->phase[e->phase].slot[slot];
}

static void register_slot(execution *e, int slot) {
  slot_state *state = &e->slots[slot];
  if (state->registered) return;
  state->registered = true;
  dfcclResult_t result = df_register(e->ctx, slot_of(e, slot)->id, &state->local);
  if (result == dfcclInvalidArgument && state->local.algorithm != NULL) {
    state->local.algorithm = NULL; /* the algorithm does not apply: the same on all members */
    result = df_register(e->ctx, slot_of(e, slot)->id, &state->local);
  }
  OK(result);
}

static void on_complete(dfcclCollId_t coll, dfcclResult_t status, void *arg);

static uint64_t number_of(const execution *e, int slot, int run) {
  return (uint64_t)(slot_of(e, slot)->first_run + run);
}

static void submit_by_number(execution *e, int slot, int run) {
  const program_slot *shared = slot_of(e, slot);
  run_record *record = &e->slots[slot].records[run];
  dfcclRun_t given = DFCCL_RUN_INITIALIZER;
  given.sendBuf = record->buffers.send;
  given.recvBuf = record->buffers.recv;
  given.callback = record->with_callback ? on_complete : NULL;
  given.arg = record;
  if (shared->coll.varying)
    given.count = program_count(shared, shared->first_run + run);
  else if (run % 2 == 0)
    given.count = shared->coll.count; /* as registered */
  OK(dfcclRun(e->ctx, shared->id, &given));
  CHECK(given.run == number_of(e, slot, run), "run %llu is numbered %llu",
        (unsigned long long)number_of(e, slot, run), (unsigned long long)given.run);
}

static void submit(execution *e, int slot, int run) {
  run_record *record = &e->slots[slot].records[run];
  const program_slot *shared = slot_of(e, slot);
  if (record->by_number || shared->coll.varying) {
    submit_by_number(e, slot, run);
    return;
  }
  OK(df_run(e->ctx, shared->id, shared->coll.kind, record->buffers.send, record->buffers.recv,
            record->with_callback ? on_complete : NULL, record));
}

/* Called from a callback: registers and submits in place of the driver. */
static void start_slot(execution *e, int slot) {
  const slot_state *state = &e->slots[slot];
  register_slot(e, slot);
  for (int run = 0; run < slot_of(e, slot)->runs && run < state->chained_from; run++)
    submit(e, slot, run);
}

static void on_complete(dfcclCollId_t coll, dfcclResult_t status, void *arg) {
  run_record *record = arg;
  execution *e = record->owner;
  const program_slot *slot = slot_of(e, record->slot);
  char what[256];
  if (status != dfcclSuccess) {
    df_describe(&slot->coll, what, sizeof what);
    CHECK(false, "rank %d: run %d of %s: %s: \"%s\"", e->rank, record->run, what,
          df_test_result_name(status), dfcclGetLastError(e->ctx));
  }
  CHECK(coll == slot->id, "the callback of id %llx was given id %llx", (unsigned long long)slot->id,
        (unsigned long long)coll);
  if (record->check_in_callback) df_buffers_check(&record->buffers);
  const int next = record->run + 1;
  if (next < slot->runs && next >= e->slots[record->slot].chained_from)
    submit(e, record->slot, next);
  if (next == slot->runs)
    for (int other = 0; other < SLOTS_MAX; other++)
      if (e->slots[other].member && e->slots[other].started_by == record->slot)
        start_slot(e, other);
  atomic_fetch_add(&record->calls, 1);
  atomic_fetch_add(&e->calls, 1);
}

void execution_begin(execution *e, const program *p, dfcclContext_t ctx, int rank) {
  memset(e, 0, sizeof *e);
  e->program = p;
  e->ctx = ctx;
  e->rank = rank;
  e->phase = -1;
  e->random.state = p->seed ^ (0xC0FFEEull * (uint64_t)(rank + 1));
}

/* Whether a callback of this run has something to start; the run then needs a callback. */
static bool triggers(const execution *e, int slot, int run) {
  const int next = run + 1, runs = slot_of(e, slot)->runs;
  if (next < runs && next >= e->slots[slot].chained_from) return true;
  for (int other = 0; next == runs && other < SLOTS_MAX; other++)
    if (e->slots[other].member && e->slots[other].started_by == slot) return true;
  return false;
}

static void plan_slot(execution *e, int slot) {
  const program_slot *shared = slot_of(e, slot);
  slot_state *state = &e->slots[slot];
  state->member = df_position(&shared->coll, e->rank) >= 0;
  state->chained_from = RUNS_MAX;
  state->started_by = -1;
  if (!state->member) return;
  if (shared->fresh) {
    state->local = shared->coll;
    state->registered = false;
    if (e->program->priorities && df_random_chance(&e->random, 30))
      state->local.priority += e->rank;
  }
  if (df_random_chance(&e->random, 25)) state->chained_from = 1 + df_random_below(&e->random, 3);
  if (shared->runs == 0 || slot == 0 || !df_random_chance(&e->random, 15)) return;
  const int other = df_random_below(&e->random, slot);
  if (e->slots[other].member && slot_of(e, other)->runs > 0) state->started_by = other;
}

static int random_flags(execution *e) {
  int flags = 0;
  if (df_random_chance(&e->random, 35)) flags |= DF_IN_PLACE;
  if (df_random_chance(&e->random, 25)) flags |= DF_ODD_OFFSET;
  if (df_random_chance(&e->random, 30)) flags |= DF_UNUSED_NULL;
  if (e->program->memory && df_random_chance(&e->random, 25)) flags |= DF_ZERO_COPY;
  return flags;
}

static void plan_runs(execution *e, int slot) {
  const program_slot *shared = slot_of(e, slot);
  slot_state *state = &e->slots[slot];
  if (!state->member) return;
  for (int run = 0; run < shared->runs; run++) {
    run_record *record = &state->records[run];
    record->owner = e;
    record->slot = slot;
    record->run = run;
    record->with_callback = triggers(e, slot, run) || df_random_chance(&e->random, 85);
    record->check_in_callback = df_random_chance(&e->random, 50);
    record->by_number = df_random_chance(&e->random, 40);
    atomic_store(&record->calls, 0);
    e->expected_calls += record->with_callback;
    const size_t count = program_count(shared, shared->first_run + run);
    record->coll = shared->coll;
    if (count != 0) record->coll.count = count;
    df_buffers_make(&record->buffers, e->ctx, &record->coll, df_position(&shared->coll, e->rank),
                    (uint64_t)(shared->first_run + run), random_flags(e));
    if (state->started_by < 0 && run < state->chained_from) e->actions[e->action_count++] = slot;
  }
}

enum { SUBMIT_DOOMED = SLOTS_MAX, ABORT_DOOMED, SUBMIT_EXTRA };

static void plan_doomed(execution *e) {
  doomed *d = &e->doomed;
  doomed_begin(d, e->program, e->phase, e->ctx, e->rank);
  if (d->phase == NULL) return;
  for (int i = 0; i < d->phase->doomed_runs; i++) e->actions[e->action_count++] = SUBMIT_DOOMED;
  if (e->rank == d->phase->aborter) e->actions[e->action_count++] = ABORT_DOOMED;
}

static void plan_extras(execution *e) {
  const program_phase *phase = &e->program->phase[e->phase];
  df_random random = {e->program->seed ^ (0xE57Aull * (uint64_t)(e->rank + 1)) ^
                      (uint64_t)e->phase << 40}; /* recorded programs must not change */
  for (int i = 0; i < phase->extras; i++) {
    extra_begin(&e->extras[i], e->program, e->phase, i, e->ctx, e->rank, &random);
    for (int run = 0; e->extras[i].shared && run < phase->extra[i].runs; run++)
      e->actions[e->action_count++] = SUBMIT_EXTRA + i;
  }
}

bool execution_begin_phase(execution *e) {
  if (++e->phase == e->program->phases) return false;
  e->action_count = e->next_action = e->expected_calls = 0;
  atomic_store(&e->calls, 0);
  memset(e->next_run, 0, sizeof e->next_run);
  for (int slot = 0; slot < SLOTS_MAX; slot++) e->slots[slot].member = false;
  const int slots = e->program->phase[e->phase].slots;
  for (int slot = 0; slot < slots; slot++) plan_slot(e, slot);
  for (int slot = 0; slot < slots; slot++) plan_runs(e, slot);
  plan_doomed(e);
  plan_extras(e);
  df_random_shuffle(&e->random, e->actions, e->action_count);
  int order[SLOTS_MAX] = {0, 1, 2, 3, 4, 5};
  df_random_shuffle(&e->random, order, SLOTS_MAX);
  for (int i = 0; i < SLOTS_MAX;
       i++) { /* registers the collectives that no run has registered, and some others */
    int slot = order[i];
    if (slot >= slots || !e->slots[slot].member || e->slots[slot].registered) continue;
    if (slot_of(e, slot)->runs == 0 ||
        (e->slots[slot].started_by < 0 && df_random_chance(&e->random, 50)))
      register_slot(e, slot);
  }
  return true;
}

/* Makes calls that are allowed at any moment and must disturb nothing. */
static void do_something_else(execution *e) {
  switch (df_random_below(&e->random, 30)) {
  case 0:
  case 1:
    df_waiting_for("dfcclDeviceSynchronize");
    OK(dfcclDeviceSynchronize(e->ctx));
    df_waiting_for(NULL);
    break;
  case 2:
    sched_yield();
    break;
  case 3:
    df_nap();
    break;
  case 4:
    (void)df_stats(e->ctx);
    break;
  case 5:
    if (df_random_chance(&e->random, 20)) {
      int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
      OK(dfcclDump(e->ctx, nowhere));
      close(nowhere);
    }
    break;
  default:
    break;
  }
}

/* The latest run may need other runs that this thread has yet to submit. */
static void wait_a_little(execution *e, int slot) {
  int timeout_ms = df_random_below(&e->random, 3);
  dfcclResult_t result = dfcclWaitRun(e->ctx, slot_of(e, slot)->id,
                                      number_of(e, slot, e->next_run[slot] - 1), timeout_ms);
  CHECK(result == dfcclSuccess || result == dfcclInProgress, "dfcclWaitRun: %s",
        df_test_result_name(result));
}

bool execution_step(execution *e) {
  if (e->next_action == e->action_count) return false;
  const int slot = e->actions[e->next_action++];
  do_something_else(e);
  if (slot == SUBMIT_DOOMED) {
    doomed_submit(&e->doomed);
    return true;
  }
  if (slot == ABORT_DOOMED) {
    doomed_abort(&e->doomed);
    return true;
  }
  if (slot >= SUBMIT_EXTRA) {
    extra_submit(&e->extras[slot - SUBMIT_EXTRA]);
    return true;
  }
  register_slot(e, slot);
  submit(e, slot, e->next_run[slot]++);
  if (df_random_chance(&e->random, 10)) {
    int done = 0;
    OK(dfcclTest(e->ctx, slot_of(e, slot)->id, &done));
  }
  if (df_random_chance(&e->random, 10)) wait_a_little(e, slot);
  return true;
}

/* The runs that the driver has submitted itself. */
static void wait_for_runs(execution *e, int slot) {
  const slot_state *state = &e->slots[slot];
  const int runs = slot_of(e, slot)->runs;
  if (!state->member || state->started_by >= 0) return;
  for (int run = 0; run < runs && run < state->chained_from; run++) {
    OK(dfcclWaitRun(e->ctx, slot_of(e, slot)->id, number_of(e, slot, run), -1));
    CHECK(atomic_load(&state->records[run].calls) == state->records[run].with_callback,
          "dfcclWaitRun has returned after %d callbacks", atomic_load(&state->records[run].calls));
  }
}

static void wait_for_phase(execution *e) {
  const int slots = e->program->phase[e->phase].slots;
  df_waiting_for("the phase's runs, in dfcclWait or dfcclWaitAll");
  for (int i = 0; i < slots; i++)
    if (df_random_chance(&e->random, 30)) wait_for_runs(e, (i + e->rank) % slots);
  if (df_random_chance(&e->random, 50)) {
    dfcclResult_t result = dfcclWaitAll(e->ctx);
    CHECK(doomed_explains(&e->doomed, result), "dfcclWaitAll: %s", df_test_result_name(result));
  }
  /* Callbacks may submit runs after any wait, so their own callbacks are counted. */
  EVENTUALLY(atomic_load(&e->calls) == e->expected_calls);
  df_waiting_for("the phase's runs, in dfcclWait");
  for (int i = 0; i < slots; i++) {
    int slot = (i + e->rank) % slots, done = 0;
    if (!e->slots[slot].member) continue;
    OK(dfcclWait(e->ctx, slot_of(e, slot)->id));
    OK(dfcclTest(e->ctx, slot_of(e, slot)->id, &done));
    CHECK(done == 1, "dfcclTest says that runs are outstanding after dfcclWait");
  }
  df_waiting_for(NULL);
}

void execution_end_phase(execution *e) {
  const int slots = e->program->phase[e->phase].slots;
  wait_for_phase(e);
  doomed_end(&e->doomed);
  for (int i = 0; i < e->program->phase[e->phase].extras; i++) extra_end(&e->extras[i]);
  for (int slot = 0; slot < slots; slot++) {
    if (!e->slots[slot].member) continue;
    const program_slot *shared = slot_of(e, slot);
    for (int run = 0; run < shared->runs; run++) {
      run_record *record = &e->slots[slot].records[run];
      CHECK(atomic_load(&record->calls) == record->with_callback, "%d callbacks of one run",
            atomic_load(&record->calls));
      df_buffers_check(&record->buffers);
      df_buffers_free(&record->buffers);
      e->runs_done++;
      e->elements_done += df_recv_elements(&record->coll);
    }
    if (shared->last) OK(dfcclDeregister(e->ctx, shared->id));
  }
  dfcclStats_t stats = df_stats(e->ctx);
  CHECK(stats.sqesSubmitted == stats.cqesWritten, "rank %d at rest: %llu submitted, %llu CQEs",
        e->rank, (unsigned long long)stats.sqesSubmitted, (unsigned long long)stats.cqesWritten);
}

void execution_play(execution *e) {
  while (execution_begin_phase(e)) {
    while (execution_step(e)) {
    }
    execution_end_phase(e);
  }
}
