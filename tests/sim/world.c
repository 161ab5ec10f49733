/*
 * A world: contexts opened by the library's own df_context_open, collectives registered by its own
 * df_register, and an application of one or two threads for each rank. It is set up once, by one
 * schedule in which nobody is adverse; what the arena, the stacks and the kernel hold then is the
 * snapshot from which thousands of schedules begin.
 */
#include <stdlib.h>
#include <string.h>

#include "host/context.h"
#include "sim.h"
#include "prelude_declarations.h"

enum {
  MAX_RANKS = 4,
  MAX_COLLS = 3,
  MAX_RUNS = 3,
  MAX_ELEMENTS = 96,
  MAX_THREADS = 2,
  STACK_SAVED = 24 << 10
};

void sim_reset_worlds(void);

typedef struct coll_plan {
  df_operation operation;
  uint32_t count, root, runs;
  int in_place;
  const char *algorithm;
  int priority;
} coll_plan;

typedef struct world_plan {
  uint32_t n_ranks, n_colls, n_threads;
  int warm, deep;
  coll_plan coll[MAX_COLLS];
  df_settings settings;
} world_plan;

typedef enum { STYLE_WAIT_ALL, STYLE_WAIT_EACH, STYLE_CALLBACKS, STYLE_SYNC, STYLES } app_style;

typedef struct app_run {
  uint32_t rank, coll, run;
  int has_callback, accepted;
  uint32_t callbacks;
  int checked;
  int32_t *send, *recv;
} app_run;

typedef struct app_rank {
  uint32_t rank;
  dfcclContext_t context;
  uint32_t order[MAX_COLLS * MAX_RUNS], n_order;
  uint32_t thread_begin[MAX_THREADS + 1];
  app_style style;
  uint32_t resubmits; /* runs that callbacks submit */
} app_rank;

typedef struct app {
  app_rank rank[MAX_RANKS];
  app_run run[MAX_RANKS][MAX_COLLS][MAX_RUNS];
  uint32_t threads_left, callbacks_left;
} app;

static world_plan plan;
static app *the_app; /* in the arena */
static int set_up_done;

/* ---- the snapshot */

static struct {
  uint8_t arena[SIM_ARENA_BYTES];
  size_t arena_used, far_used;
  sim_agents agents;
  sim_system_state system;
  uint8_t stack[SIM_MAX_AGENTS][STACK_SAVED];
  size_t stack_bytes[SIM_MAX_AGENTS];
  uint64_t restored;
} snapshot;

static void take_snapshot(void) {
  snapshot.restored = 0;
  snapshot.arena_used = sim_arena_used;
  snapshot.far_used = sim_far_used;
  memcpy(snapshot.arena, sim_arena, sim_arena_used);
  snapshot.agents = sim_agents_now;
  snapshot.system = sim_system_now;
  for (uint32_t a = 0; a < sim_agents_now.n; a++) {
    const sim_agent *agent = &sim_agents_now.agent[a];
    snapshot.stack_bytes[a] = 0;
    if (agent->state == SIM_DONE) continue;
    size_t bytes = (size_t)(agent->stack + SIM_STACK_BYTES - (uint8_t *)agent->stack_pointer);
    if (bytes > STACK_SAVED) sim_fail("a parked agent's stack is too deep");
    snapshot.stack_bytes[a] = bytes;
    memcpy(snapshot.stack[a], agent->stack_pointer, bytes);
  }
}

static void restore_snapshot(void) {
  int compares = snapshot.restored < 3 || snapshot.restored % 16 == 0;
  snapshot.restored++;
  sim_memory_restore(snapshot.arena, snapshot.arena_used, compares);
  sim_arena_used = snapshot.arena_used;
  sim_far_used = snapshot.far_used;
  memcpy(&sim_agents_now, &snapshot.agents,
         offsetof(sim_agents, agent) + snapshot.agents.n * sizeof(sim_agent));
  sim_agents_now.n = snapshot.agents.n;
  sim_agents_now.current = snapshot.agents.current;
  sim_agents_now.runnable = snapshot.agents.runnable;
  sim_agents_now.now_ns = snapshot.agents.now_ns;
  sim_system_now = snapshot.system;
  for (uint32_t a = 0; a < sim_agents_now.n; a++)
    memcpy(sim_agents_now.agent[a].stack_pointer, snapshot.stack[a], snapshot.stack_bytes[a]);
}

/* ---- values: every contribution differs, so that nothing can be missing or counted twice */

static int32_t value_of(uint32_t rank, const app_run *run, uint32_t element) {
  return (int32_t)(1 + element * 7 + run->run * 1000 + run->coll * 5000) * (int32_t)(rank * 3 + 1);
}

static uint32_t elements_of(const coll_plan *coll, int output) {
  int wide = coll->operation == DF_OP_ALL_TO_ALL ||
             coll->operation == (output ? DF_OP_ALL_GATHER : DF_OP_REDUCE_SCATTER);
  return coll->count * (wide ? plan.n_ranks : 1);
}

static int32_t expected(const app_run *run, uint32_t i) {
  const coll_plan *coll = &plan.coll[run->coll];
  int32_t sum = 0;
  switch (coll->operation) {
  case DF_OP_ALL_REDUCE:
  case DF_OP_REDUCE:
    for (uint32_t r = 0; r < plan.n_ranks; r++) sum += value_of(r, run, i);
    return sum;
  case DF_OP_REDUCE_SCATTER:
    for (uint32_t r = 0; r < plan.n_ranks; r++)
      sum += value_of(r, run, run->rank * coll->count + i);
    return sum;
  case DF_OP_BROADCAST:
    return value_of(coll->root, run, i);
  case DF_OP_ALL_GATHER:
    return value_of(i / coll->count, run, i % coll->count);
  default: /* all-to-all */
    return value_of(i / coll->count, run, run->rank * coll->count + i % coll->count);
  }
}

static void check_run(app_run *run) {
  const coll_plan *coll = &plan.coll[run->coll];
  if (run->checked++)
    sim_fail("rank %u: run %u of collective %u is through a second time", run->rank, run->run,
             run->coll);
  uint32_t n = elements_of(coll, 1);
  int has_result = coll->operation != DF_OP_REDUCE || coll->root == run->rank;
  if (has_result) {
    sim_touch(run->recv, n * sizeof(int32_t), 0);
    for (uint32_t i = 0; i < n; i++)
      if (run->recv[i] != expected(run, i))
        sim_fail("rank %u: element %u of run %u of collective %u is %d instead of %d", run->rank, i,
                 run->run, run->coll, run->recv[i], expected(run, i));
  }
  /* The buffers are the application's again: nobody may look at them any more. */
  if (coll->operation == DF_OP_BROADCAST && coll->root != run->rank) return;
  uint32_t n_send = elements_of(coll, 0);
  sim_touch(run->send, n_send * sizeof(int32_t), 1);
  memset(run->send, 0x5a, n_send * sizeof(int32_t));
}

/* ---- the application */

static void app_submit(app_run *run);

static void on_callback(dfcclCollId_t id, dfcclResult_t status, void *argument) {
  app_run *run = argument;
  if (run->callbacks++)
    sim_fail("rank %u: a second callback of run %u of collective %u", run->rank, run->run,
             run->coll);
  if (id != run->coll + 1u) sim_fail("a callback of another collective");
  if (status != dfcclSuccess) sim_fail("rank %u: status %d", run->rank, (int)status);
  check_run(run);
  app_rank *rank = &the_app->rank[run->rank];
  if (rank->resubmits) {
    rank->resubmits--;
    uint32_t next = rank->order[rank->n_order - 1 - rank->resubmits];
    app_submit(&the_app->run[run->rank][next / MAX_RUNS][next % MAX_RUNS]);
  }
  the_app->callbacks_left--;
}

/* The i-th run on each rank meets the i-th on the others: which buffers it is, is decided here. */
static void app_submit(app_run *run) {
  app_rank *rank = &the_app->rank[run->rank];
  const coll_plan *coll = &plan.coll[run->coll];
  dfcclResult_t result = dfcclOutOfMemory;
  for (int attempt = 0; attempt < 3 && result == dfcclOutOfMemory; attempt++) {
    result = df_submit(rank->context, coll->operation, run->coll + 1, run->send, run->recv,
                       run->has_callback ? on_callback : NULL, run);
    if (result == dfcclOutOfMemory && !sim_uses_allocation_failure) break;
  }
  if (result != dfcclSuccess)
    sim_fail("rank %u: a run was refused with %d: %s", run->rank, (int)result, df_last_sentence());
  run->accepted = 1;
}

static void check_without_callback(uint32_t rank) {
  for (uint32_t c = 0; c < plan.n_colls; c++)
    for (uint32_t r = 0; r < plan.coll[c].runs; r++) {
      app_run *run = &the_app->run[rank][c][r];
      if (!run->has_callback && run->accepted && !run->checked) check_run(run);
    }
}

static void *app_thread(void *argument) {
  app_rank *rank = &the_app->rank[(uintptr_t)argument / MAX_THREADS];
  uint32_t thread = (uintptr_t)argument % MAX_THREADS;
  uint32_t end = rank->thread_begin[thread + 1];
  for (uint32_t i = rank->thread_begin[thread]; i < end; i++) {
    uint32_t which = rank->order[i];
    app_run *run = &the_app->run[rank->rank][which / MAX_RUNS][which % MAX_RUNS];
    app_submit(run);
    if (rank->style == STYLE_WAIT_EACH && df_wait(rank->context, run->coll + 1) != dfcclSuccess)
      sim_fail("dfcclWait failed");
    if (rank->style == STYLE_SYNC && sim_one_in(&sim_random_now, 2) &&
        df_device_synchronize(rank->context) != dfcclSuccess)
      sim_fail("dfcclDeviceSynchronize failed");
  }
  int waits = rank->style == STYLE_WAIT_ALL || rank->style == STYLE_SYNC;
  if (waits && df_wait_all(rank->context) != dfcclSuccess) sim_fail("dfcclWaitAll failed");
  if (plan.n_threads == 1 && (waits || rank->style == STYLE_WAIT_EACH)) {
    for (uint32_t c = 0; c < plan.n_colls; c++)
      for (uint32_t r = 0; r < plan.coll[c].runs; r++) {
        app_run *run = &the_app->run[rank->rank][c][r];
        if (run->accepted && run->has_callback && !run->callbacks && rank->style != STYLE_WAIT_EACH)
          sim_fail("rank %u: dfcclWaitAll returned before a callback", rank->rank);
      }
    check_without_callback(rank->rank);
  }
  the_app->threads_left--;
  return NULL;
}

int sim_world_is_over(void) {
  return set_up_done && the_app->threads_left == 0 && the_app->callbacks_left == 0;
}

void sim_world_check(void) {
  for (uint32_t rank = 0; rank < plan.n_ranks; rank++)
    for (uint32_t c = 0; c < plan.n_colls; c++)
      for (uint32_t r = 0; r < plan.coll[c].runs; r++) {
        const app_run *run = &the_app->run[rank][c][r];
        if (!run->accepted || !run->checked)
          sim_note_failure("rank %u: run %u of collective %u is lost (%s, %u callbacks)", rank, r,
                           c, run->accepted ? "accepted" : "not accepted", run->callbacks);
      }
}

/* ---- what a schedule decides about the application */

static void shuffle_runs(app_rank *rank, int same_on_all) {
  sim_random common = {.state = sim_random_now.state ^ 0x5bd1e995u};
  sim_random *random = same_on_all ? &common : &sim_random_now;
  uint32_t left[MAX_COLLS], next[MAX_COLLS] = {0}, total = 0;
  for (uint32_t c = 0; c < plan.n_colls; c++) total += left[c] = plan.coll[c].runs;
  rank->n_order = total;
  for (uint32_t i = 0; i < total; i++) {
    uint32_t k = sim_below(random, total - i), c = 0;
    while (k >= left[c]) k -= left[c++];
    left[c]--;
    rank->order[i] = c * MAX_RUNS + next[c]++;
  }
}

static void prepare_app(void) {
  app_style style = (app_style)sim_below(&sim_random_now, STYLES);
  int each_its_own = sim_one_in(&sim_random_now, 2);
  sim_random common = sim_random_now;
  int in_order = style == STYLE_WAIT_EACH || plan.n_threads > 1;
  the_app->threads_left = plan.n_ranks * plan.n_threads;
  the_app->callbacks_left = 0;
  for (uint32_t r = 0; r < plan.n_ranks; r++) {
    app_rank *rank = &the_app->rank[r];
    rank->style = style;
    if (each_its_own && !in_order) {
      static const app_style others[] = {STYLE_WAIT_ALL, STYLE_CALLBACKS, STYLE_SYNC};
      rank->style = others[sim_below(&sim_random_now, 3)];
    }
    if (in_order) {
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
    int callbacks = rank->style == STYLE_CALLBACKS || plan.n_threads > 1;
    if (rank->style == STYLE_CALLBACKS && plan.n_threads == 1 && plan.n_colls == 1 && all > 1)
      rank->resubmits = sim_one_in(&sim_random_now, 2) ? all - 1 : 0; /* each submits the next */
    rank->thread_begin[0] = 0;
    rank->thread_begin[1] = all - rank->resubmits;
    if (plan.n_threads > 1) { /* sorted by collective, cut between two of them */
      uint32_t n = 0;
      for (uint32_t c = 0; c < plan.n_colls; c++)
        for (uint32_t k = 0; k < plan.coll[c].runs; k++) rank->order[n++] = c * MAX_RUNS + k;
      rank->thread_begin[1] = plan.coll[0].runs;
      rank->thread_begin[2] = all;
    }
    for (uint32_t c = 0; c < plan.n_colls; c++)
      for (uint32_t k = 0; k < plan.coll[c].runs; k++) {
        app_run *run = &the_app->run[r][c][k];
        run->has_callback = callbacks || sim_one_in(&sim_random_now, 2);
        the_app->callbacks_left += (uint32_t)run->has_callback;
      }
  }
}

/* ---- setting up */

static void draw_settings(sim_random *random) {
  df_settings *s = &plan.settings;
  memset(s, 0, sizeof *s);
#define X(field, variable, standard, least, most, meaning) s->field = (standard);
  DF_SETTINGS_MAP(X)
#undef X
  s->backend = dfcclBackendCpu;
  s->cq = (df_cq_variant)sim_below(random, 3);
  s->max_blocks = sim_one_in(random, 4) ? 2 : 1;
  s->block_min = 64;
  s->queue_depth = 2 << sim_below(random, 2);
  s->spin_front = 1 + sim_below(random, 6);
  s->spin_min = 1 + sim_below(random, 2);
  s->spin_boost = 1 + sim_below(random, 3);
  s->fetch_polls = sim_below(random, 6);
  s->quit_polls = 1 + sim_below(random, 8);
  s->yield_polls = sim_one_in(random, 2) ? 2 : 1000;
  s->preempt_every = sim_one_in(random, 6);
  s->context_slots = 1 << sim_below(random, 2);
  s->slot_bytes = 64;
  s->slots = 2;
  s->flagged_max = sim_one_in(random, 2) ? 4096 : 0;
  s->direct = sim_one_in(random, 2);
  s->direct_min = 1;
  s->nap_us = 10;
  s->backlog = 64;
  snprintf(s->isa, sizeof s->isa, "plain");
}

static void draw_plan(uint64_t seed) {
  sim_random random = {.state = seed};
  memset(&plan, 0, sizeof plan);
  uint32_t size = sim_below(&random, 20);
  plan.n_ranks = size < 14 ? 2 : size < 19 ? 3 : 4;
  plan.n_colls = 1 + sim_below(&random, plan.n_ranks == 2 ? 3 : 2);
  plan.n_threads = plan.n_colls > 1 && sim_one_in(&random, 6) ? 2 : 1;
  plan.warm = sim_one_in(&random, 2);
  plan.deep = sim_one_in(&random, 2);
  draw_settings(&random);
  if (plan.n_ranks > 2 && sim_one_in(&random, 2)) plan.settings.max_blocks = 1;
  if (plan.n_ranks > 3) plan.settings.max_blocks = 1;
  for (uint32_t c = 0; c < plan.n_colls; c++) {
    coll_plan *coll = &plan.coll[c];
    coll->operation =
        sim_one_in(&random, 2) ? DF_OP_ALL_REDUCE : (df_operation)sim_below(&random, DF_OP_COUNT);
    uint32_t chunks = 1 + sim_below(&random, 3);
    coll->count = sim_one_in(&random, 2) ? 1 + sim_below(&random, 16) : 16 * chunks;
    if (coll->operation != DF_OP_ALL_REDUCE && coll->operation != DF_OP_REDUCE &&
        coll->operation != DF_OP_BROADCAST && coll->count > 32)
      coll->count = 32;
    if (coll->count * plan.n_ranks > MAX_ELEMENTS && coll->operation != DF_OP_ALL_REDUCE)
      coll->count = 16;
    coll->root = sim_below(&random, plan.n_ranks);
    coll->runs = 1 + (sim_one_in(&random, 3) ? sim_below(&random, MAX_RUNS) : 0);
    coll->algorithm = coll->operation == DF_OP_ALL_REDUCE && sim_one_in(&random, 2) ? "ring" : NULL;
    coll->priority = sim_one_in(&random, 8) ? 1 + (int)c : 0;
  }
}

/* Exploration: 2 ranks, 2 collectives of 2 chunks, each run once. The rest is drawn as ever. */
static void make_smallest(void) {
  plan.n_ranks = plan.n_colls = 2;
  plan.n_threads = 1;
  plan.settings.max_blocks = 1;
  for (uint32_t c = 0; c < plan.n_colls; c++)
    plan.coll[c] =
        (coll_plan){.operation = DF_OP_ALL_REDUCE, .count = 32, .runs = 1, .algorithm = "ring"};
}

static void fill_buffers(void) {
  for (uint32_t rank = 0; rank < plan.n_ranks; rank++)
    for (uint32_t c = 0; c < plan.n_colls; c++)
      for (uint32_t r = 0; r < plan.coll[c].runs; r++) {
        app_run *run = &the_app->run[rank][c][r];
        uint32_t sends = elements_of(&plan.coll[c], 0), receives = elements_of(&plan.coll[c], 1);
        *run = (app_run){.rank = rank, .coll = c, .run = r};
        run->send = sim_aligned_alloc(64, sends * sizeof(int32_t));
        run->recv = sim_aligned_alloc(64, receives * sizeof(int32_t));
        for (uint32_t i = 0; i < sends; i++) run->send[i] = value_of(rank, run, i);
      }
}

static void open_rank(uint32_t rank) {
  df_mesh mesh = {.n_ranks = (int)plan.n_ranks, .rank = (int)rank};
  mesh.cards = sim_calloc(plan.n_ranks, sizeof *mesh.cards);
  mesh.sockets = sim_calloc(plan.n_ranks, sizeof *mesh.sockets);
  mesh.local = sim_calloc(plan.n_ranks, 1);
  for (uint32_t r = 0; r < plan.n_ranks; r++) {
    mesh.cards[r] = df_context_card(&plan.settings);
    mesh.sockets[r] = -1;
    mesh.local[r] = 1;
  }
  uint32_t before = sim_agents_now.n;
  sim_agents_now.agent[0].rank = (int)rank;
  dfcclContext_t context;
  if (df_context_open(&context, plan.n_ranks, rank, &plan.settings, &mesh) != dfcclSuccess)
    sim_fail("rank %u could not be opened: %s", rank, df_last_sentence());
  for (uint32_t a = before; a < sim_agents_now.n; a++) {
    uint32_t i = a - before, blocks = (uint32_t)plan.settings.max_blocks;
    sim_agents_now.agent[a].name = i < blocks ? "executor" : i == blocks ? "poller" : "service";
  }
  the_app->rank[rank].rank = rank;
  the_app->rank[rank].context = context;
}

static void register_all(void) {
  for (uint32_t rank = 0; rank < plan.n_ranks; rank++)
    for (uint32_t c = 0; c < plan.n_colls; c++) {
      const coll_plan *coll = &plan.coll[c];
      dfcclCollOptions_t options = DFCCL_COLL_OPTIONS_INITIALIZER;
      options.algorithm = coll->algorithm;
      options.priority = coll->priority;
      df_registration registration = {.operation = coll->operation,
                                      .id = c + 1,
                                      .count = coll->count,
                                      .type = dfcclInt32,
                                      .op = dfcclSum,
                                      .root = (int)coll->root,
                                      .options = &options};
      if (df_register(the_app->rank[rank].context, &registration) != dfcclSuccess)
        sim_fail("rank %u could not register: %s", rank, df_last_sentence());
    }
}

static void warm_up(void) {
  int32_t *buffer = sim_calloc(plan.n_ranks * MAX_ELEMENTS * 2, sizeof *buffer);
  for (uint32_t rank = 0; rank < plan.n_ranks; rank++)
    for (uint32_t c = 0; c < plan.n_colls; c++) {
      int32_t *send = buffer + rank * MAX_ELEMENTS * 2;
      if (df_submit(the_app->rank[rank].context, plan.coll[c].operation, c + 1, send,
                    send + MAX_ELEMENTS, NULL, NULL) != dfcclSuccess)
        sim_fail("the first run was refused");
    }
  for (uint32_t rank = 0; rank < plan.n_ranks; rank++)
    while (df_has_outstanding(the_app->rank[rank].context)) sim_yield();
}

static void *set_up(void *unused) {
  (void)unused;
  the_app = sim_calloc(1, sizeof *the_app);
  fill_buffers();
  for (uint32_t rank = 0; rank < plan.n_ranks; rank++) open_rank(rank);
  register_all();
  sim_settle(1);
  if (plan.warm) warm_up();
  sim_settle(plan.deep);
  for (uint32_t rank = 0; rank < plan.n_ranks; rank++)
    for (uint32_t t = 0; t < plan.n_threads; t++)
      sim_spawn("application", (int)rank, app_thread, (void *)(uintptr_t)(rank * MAX_THREADS + t));
  sim_park();
  return NULL;
}

void sim_world_make(uint64_t seed) {
  sim_memory_forget();
  sim_system_reset();
  sim_reset_worlds();
  memset(&sim_agents_now, 0, sizeof sim_agents_now);
  set_up_done = 0;
  sim_fail_allocation = 0;
  sim_is_quiet = 1;
  sim_steps = 0;
  sim_policy_now = (sim_policy){0};
  sim_quantum = 1;
  sim_random_now.state = seed;
  draw_plan(seed);
  if (sim_is_exploring) make_smallest();
  sim_spawn("set-up", -1, set_up, NULL);
  sim_run();
  if (sim_failure) return;
  sim_agents_now.agent[0].state = SIM_DONE;
  sim_agents_now.runnable &= ~1u;
  take_snapshot();
}

static void draw_policy(void) {
  static const uint16_t quanta[] = {1, 2, 3, 5, 10, 30, 100};
  static const uint16_t stale[] = {0, 32, 128, 240};
  sim_policy *p = &sim_policy_now;
  sim_random *random = &sim_random_now;
  p->quantum = quanta[sim_below(random, 7)];
  p->stale_of_256 = stale[sim_below(random, 4)];
  p->by_priority = (uint32_t)sim_one_in(random, 3);
  p->spurious = (uint32_t)sim_one_in(random, 8);
  p->stalls = sim_one_in(random, 3) ? (uint32_t)sim_next(random) : 0;
  p->stalls_until = 200 + sim_below(random, 1500);
  p->unfair_steps = 6000;
}

void sim_world_restore(uint64_t seed) {
  restore_snapshot();
  sim_is_quiet = 0;
  sim_random_now.state = seed;
  set_up_done = 1;
  draw_policy();
  prepare_app();
  sim_agents_begin();
  sim_memory_begin();
  sim_uses_allocation_failure = sim_one_in(&sim_random_now, 16);
  sim_fail_allocation =
      sim_uses_allocation_failure && plan.warm ? 1 + sim_below(&sim_random_now, 4) : 0;
  sim_quantum = 1;
  /* Somebody must begin: any agent of the application. */
  uint32_t first = sim_agents_now.n - plan.n_ranks * plan.n_threads;
  sim_agents_now.current = first + sim_below(&sim_random_now, plan.n_ranks * plan.n_threads);
}

void sim_world_print(void) {
  static const char *const cqs[] = {"ring", "packed", "slots"};
  const df_settings *s = &plan.settings;
  printf("world: %u ranks, %u thread(s) each, %lld block(s), queue of %lld, CQ %s, spin %lld/%lld, "
         "quit after %lld polls, %s%s%s\n",
         plan.n_ranks, plan.n_threads, s->max_blocks, s->queue_depth, cqs[s->cq], s->spin_front,
         s->spin_min, s->quit_polls, plan.warm ? "links stand, " : "links to be made, ",
         s->direct ? "buffers are lent" : "buffers are copied",
         s->preempt_every ? ", preempted at every step" : "");
  for (uint32_t c = 0; c < plan.n_colls; c++)
    printf("  collective %u: %s of %u int32, root %u, %u run(s), priority %d, %s\n", c,
           df_operation_name(plan.coll[c].operation), plan.coll[c].count, plan.coll[c].root,
           plan.coll[c].runs, plan.coll[c].priority,
           plan.coll[c].algorithm ? plan.coll[c].algorithm : "auto");
  const sim_policy *p = &sim_policy_now;
  printf("adversary: quantum %u, stale %u/256, %s%s\n", p->quantum, p->stale_of_256,
         p->by_priority ? "by priority" : "at random", p->spurious ? ", wakes for no reason" : "");
}

void sim_world_print_state(void) {
  for (uint32_t r = 0; the_app && r < plan.n_ranks; r++)
    if (the_app->rank[r].context) sim_state_print(the_app->rank[r].context);
}
