/* The application: its threads submit the runs of a schedule in any order, and wait in several
 * ways. */
#include "world.h"
#include "host/switching/plan_switch.h"
#include "host/runs/runs.h"

static void app_submit(app_run *run);

dfcclResult_t sim_submit(uint32_t rank, uint32_t coll, uint32_t count, const void *send, void *recv,
                         dfcclCallback_t callback, void *argument) {
  df_run run = {
      .send = send, .recv = recv, .count = count, .callback = callback, .argument = argument};
  uint64_t number;
  return df_submit_run(sim_app->rank[rank].context, DF_OF_KIND(sim_plan.coll[coll].operation),
                       coll + 1, &run, &number);
}

static void on_callback(dfcclCollId_t id, dfcclResult_t status, void *argument) {
  app_run *run = argument;
  if (run->callbacks++)
    sim_fail("rank %u: a second callback of run %u of collective %u", run->rank, run->run,
             run->coll);
  if (id != run->coll + 1u) sim_fail("a callback of another collective");
  if (status != dfcclSuccess) sim_fail("rank %u: status %d", run->rank, (int)status);
  sim_check_run(run);
  app_rank *rank = &sim_app->rank[run->rank];
  if (rank->resubmits) {
    rank->resubmits--;
    uint32_t next = rank->order[rank->n_order - 1 - rank->resubmits];
    app_submit(&sim_app->run[run->rank][next / MAX_RUNS][next % MAX_RUNS]);
  }
  sim_app->callbacks_left--;
}

/* The world's own run, if links stand, was the first. */
static uint64_t number_of(const app_run *run) { return run->run + (sim_plan.warm ? 1u : 0u); }

static dfcclResult_t submit_numbered(app_run *run) {
  dfcclRun_t given = DFCCL_RUN_INITIALIZER;
  given.sendBuf = run->send;
  given.recvBuf = run->recv;
  given.callback = run->has_callback ? on_callback : NULL;
  given.arg = run;
  given.count = sim_plan.coll[run->coll].counts[run->run];
  dfcclResult_t result = df_submit_given(sim_app->rank[run->rank].context, run->coll + 1, &given);
  if (result == dfcclSuccess && given.run != number_of(run))
    sim_fail("rank %u: run %u is numbered %u", run->rank, (uint32_t)number_of(run),
             (uint32_t)given.run);
  return result;
}

/* The i-th run on each rank meets the i-th on the others: which buffers it is, is decided here. */
static void app_submit(app_run *run) {
  const coll_plan *coll = &sim_plan.coll[run->coll];
  dfcclResult_t result = dfcclOutOfMemory;
  for (int attempt = 0; attempt < 3 && result == dfcclOutOfMemory; attempt++) {
    result = run->is_numbered ? submit_numbered(run)
                              : sim_submit(run->rank, run->coll, coll->counts[run->run], run->send,
                                           run->recv, run->has_callback ? on_callback : NULL, run);
    if (result == dfcclOutOfMemory && !sim_uses_allocation_failure) break;
  }
  if (result != dfcclSuccess)
    sim_fail("rank %u: a run was refused with %d: %s", run->rank, (int)result, df_last_sentence());
  run->accepted = 1;
}

/* For a thread that has waited for its submissions. */
static void check_without_callback(const app_rank *rank, uint32_t thread) {
  for (uint32_t i = rank->thread_begin[thread]; i < rank->thread_begin[thread + 1]; i++) {
    uint32_t which = rank->order[i];
    app_run *run = &sim_app->run[rank->rank][which / MAX_RUNS][which % MAX_RUNS];
    if (!run->has_callback && !run->checked) sim_check_run(run);
  }
}

static void wait_for(const app_rank *rank, const app_run *run) {
  dfcclResult_t result = run->is_numbered
                             ? df_wait_run(rank->context, run->coll + 1, number_of(run), -1)
                             : df_wait(rank->context, run->coll + 1);
  if (result != dfcclSuccess) sim_fail("dfcclWait or dfcclWaitRun failed with %d", (int)result);
}

/* The run may need others that this thread has yet to submit. */
static void look_at(const app_rank *rank, const app_run *run) {
  dfcclResult_t result = df_wait_run(rank->context, run->coll + 1, number_of(run), 0);
  if (result == dfcclSuccess && run->has_callback && !run->callbacks)
    sim_fail("rank %u: dfcclWaitRun returned before the callback", run->rank);
  if (result != dfcclSuccess && result != dfcclInProgress)
    sim_fail("dfcclWaitRun failed with %d", (int)result);
}

/* For a collective that the rank leads: any algorithm of the operation, or the registered one; any
 * number of slots.
 * */
void sim_ask_to_switch(uint32_t rank) {
  const uint32_t most =
      (sim_endings ? 8 : 16) / sim_plan.n_ranks; /* for which the simulated memory has room */
  if (!sim_only_switches || sim_app->switches == most || !sim_one_in(&sim_random_now, 2)) return;
  const uint32_t c = sim_below(&sim_random_now, sim_plan.n_colls);
  dfcclContext_t context = sim_app->rank[rank].context;
  df_variant_spec spec = {.algorithm = sim_below(&sim_random_now, DF_ALGORITHMS),
                          .slots = 2u << sim_below(&sim_random_now, 3),
                          .slot_bytes = 64u << sim_below(&sim_random_now, 3),
                          .copies = sim_one_in(&sim_random_now, 2)};
  if (!df_algorithm_has((int)spec.algorithm, sim_plan.coll[c].operation))
    spec = (df_variant_spec){.algorithm = DF_AS_REGISTERED};
  dfcclResult_t result = df_plan_switch_ask(context, c + 1, &spec);
  sim_app->switches += result == dfcclSuccess;
  if (result == dfcclSuccess || result == dfcclInvalidUsage || result == dfcclInvalidArgument)
    return;
  if (result != dfcclOutOfMemory || !(sim_uses_allocation_failure || sim_endings))
    sim_fail("rank %u: a change of collective %u gave %d", rank, c, (int)result);
}

void *sim_app_thread(void *argument) {
  app_rank *rank = &sim_app->rank[(uintptr_t)argument / MAX_THREADS];
  uint32_t thread = (uintptr_t)argument % MAX_THREADS;
  uint32_t end = rank->thread_begin[thread + 1];
  for (uint32_t i = rank->thread_begin[thread]; i < end; i++) {
    uint32_t which = rank->order[i];
    app_run *run = &sim_app->run[rank->rank][which / MAX_RUNS][which % MAX_RUNS];
    app_submit(run);
    sim_ask_to_switch(rank->rank);
    if (rank->style == STYLE_WAIT_EACH)
      wait_for(rank, run);
    else if (run->is_numbered)
      look_at(rank, run);
    if (rank->style == STYLE_SYNC && sim_one_in(&sim_random_now, 2) &&
        df_device_synchronize(rank->context) != dfcclSuccess)
      sim_fail("dfcclDeviceSynchronize failed");
  }
  int waits = rank->style == STYLE_WAIT_ALL || rank->style == STYLE_SYNC;
  if (waits && df_wait_all(rank->context) != dfcclSuccess) sim_fail("dfcclWaitAll failed");
  if (waits || rank->style == STYLE_WAIT_EACH) check_without_callback(rank, thread);
  if (sim_plan.n_threads == 1 && waits) {
    for (uint32_t c = 0; c < sim_plan.n_colls; c++)
      for (uint32_t r = 0; r < sim_plan.coll[c].runs; r++) {
        app_run *run = &sim_app->run[rank->rank][c][r];
        if (run->accepted && run->has_callback && !run->callbacks)
          sim_fail("rank %u: dfcclWaitAll returned before a callback", rank->rank);
      }
  }
  sim_app->threads_left--;
  return NULL;
}

void sim_app_check(void) {
  for (uint32_t rank = 0; rank < sim_plan.n_ranks; rank++)
    for (uint32_t c = 0; c < sim_plan.n_colls; c++)
      for (uint32_t r = 0; sim_is_member(rank, c) && r < sim_plan.coll[c].runs; r++) {
        const app_run *run = &sim_app->run[rank][c][r];
        if (!run->accepted || !run->checked)
          sim_note_failure("rank %u: run %u of collective %u is lost (%s, %u callbacks)", rank, r,
                           c, run->accepted ? "accepted" : "not accepted", run->callbacks);
      }
}

/* ---- decisions of a schedule about the application */

static void shuffle_runs(app_rank *rank, int same_on_all) {
  sim_random common = {.state = sim_random_now.state ^ 0x5bd1e995u};
  sim_random *random = same_on_all ? &common : &sim_random_now;
  uint32_t left[MAX_COLLS], next[MAX_COLLS] = {0}, total = 0;
  for (uint32_t c = 0; c < sim_plan.n_colls; c++)
    total += left[c] = sim_is_member(rank->rank, c) ? sim_plan.coll[c].runs : 0;
  rank->n_order = total;
  for (uint32_t i = 0; i < total; i++) {
    uint32_t k = sim_below(random, total - i), c = 0;
    while (k >= left[c]) k -= left[c++];
    left[c]--;
    rank->order[i] = c * MAX_RUNS + next[c]++;
  }
}

/* Exhaustive exploration: collectives in opposite orders; of one alone each run is waited for. */
static void prepare_smallest(void) {
  int callbacks = sim_smallest_now.callbacks;
  sim_app->threads_left = 2;
  sim_app->callbacks_left = 0;
  for (uint32_t r = 0; r < 2; r++) {
    app_rank *rank = &sim_app->rank[r];
    uint32_t n = sim_plan.n_colls, runs = sim_plan.coll[0].runs;
    rank->style = callbacks ? STYLE_CALLBACKS : n > 1 ? STYLE_WAIT_ALL : STYLE_WAIT_EACH;
    rank->thread_begin[0] = rank->resubmits = rank->n_order = 0;
    for (uint32_t k = 0; k < runs; k++)
      for (uint32_t i = 0; i < n; i++) {
        rank->order[rank->n_order++] = (r ? n - 1 - i : i) * MAX_RUNS + k;
        sim_app->run[r][i][k].has_callback = callbacks;
        sim_app->callbacks_left += (uint32_t)callbacks;
      }
    rank->thread_begin[1] = rank->n_order;
  }
}

void sim_app_prepare(void) {
  if (sim_smallest_now.colls) {
    prepare_smallest();
    return;
  }
  app_style style = (app_style)sim_below(&sim_random_now, STYLES);
  int each_its_own = sim_one_in(&sim_random_now, 2);
  sim_random common = sim_random_now;
  int in_order = style == STYLE_WAIT_EACH || sim_plan.n_threads > 1;
  /* With two submitting threads, some execute first turns of the runs that they wait for. */
  sim_random bare = {.state = sim_random_now.state ^ 0xa0761d6478bd642full};
  int without = sim_plan.n_threads > 1 && sim_one_in(&bare, 2);
  /* One rank submits everything, in any order; the others wait for each, in one order. */
  sim_random apart = {.state = sim_random_now.state ^ 0x9fb21c651e98df25ull};
  int mixed = sim_is_crowd && sim_plan.n_colls > 1 && sim_one_in(&apart, 2);
  uint32_t eager = sim_below(&apart, sim_plan.n_ranks);
  sim_random numbers = {.state = sim_random_now.state ^ 0xd1b54a32d192ed03ull};
  sim_app->threads_left = sim_plan.n_ranks * sim_plan.n_threads;
  sim_app->callbacks_left = 0;
  for (uint32_t r = 0; r < sim_plan.n_ranks; r++) {
    app_rank *rank = &sim_app->rank[r];
    rank->style = style;
    if (each_its_own && !in_order) {
      static const app_style others[] = {STYLE_WAIT_ALL, STYLE_CALLBACKS, STYLE_SYNC};
      rank->style = others[sim_below(&sim_random_now, 3)];
    }
    if (mixed) {
      sim_random kept = sim_random_now;
      sim_random_now = r == eager ? apart : common;
      rank->style = r == eager ? STYLE_WAIT_ALL : STYLE_WAIT_EACH;
      shuffle_runs(rank, 0);
      sim_random_now = kept;
    } else if (in_order) {
      sim_random kept = sim_random_now;
      sim_random_now = common;
      shuffle_runs(rank, 0);
      sim_random_now = kept;
    } else {
      shuffle_runs(rank, 0);
    }
    /* A collective's runs are submitted by one thread, so that each keeps its number. */
    rank->resubmits = 0;
    uint32_t all = rank->n_order;
    int callbacks = rank->style == STYLE_CALLBACKS || (sim_plan.n_threads > 1 && !without);
    if (rank->style == STYLE_CALLBACKS && sim_plan.n_threads == 1 && sim_plan.n_colls == 1 &&
        all > 1)
      rank->resubmits = sim_one_in(&sim_random_now, 2) ? all - 1 : 0; /* each submits the next */
    rank->thread_begin[0] = 0;
    rank->thread_begin[1] = all - rank->resubmits;
    if (sim_plan.n_threads > 1) { /* sorted by collective, cut between two of them */
      uint32_t n = 0;
      for (uint32_t c = 0; c < sim_plan.n_colls; c++)
        for (uint32_t k = 0; sim_is_member(r, c) && k < sim_plan.coll[c].runs; k++)
          rank->order[n++] = c * MAX_RUNS + k;
      rank->thread_begin[1] = sim_is_member(r, 0) ? sim_plan.coll[0].runs : 0;
      rank->thread_begin[2] = all;
    }
    for (uint32_t c = 0; c < sim_plan.n_colls; c++)
      for (uint32_t k = 0; sim_is_member(r, c) && k < sim_plan.coll[c].runs; k++) {
        app_run *run = &sim_app->run[r][c][k];
        run->has_callback = callbacks || sim_one_in(without ? &bare : &sim_random_now, 2);
        run->is_numbered = !sim_is_exploring && sim_one_in(&numbers, 4);
        sim_app->callbacks_left += (uint32_t)run->has_callback;
      }
  }
}
