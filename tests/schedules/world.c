/*
 * A world: contexts opened by the library's own df_context_open, collectives registered by its own
 * df_register, and an application of one or two threads for each rank. It is set up once, by one
 * schedule in which nobody is adverse; what the arena, the stacks and the kernel hold then is the
 * snapshot from which thousands of schedules begin.
 */
#include <string.h>

#include "prelude_declarations.h"
#include "world.h"
#include "host/runs/user_memory.h"
#include "host/state/registry.h"
#include "host/state/peer_info.h"
#include "host/registration/register.h"
#include "host/runs/runs.h"

app *sim_app;
int sim_world_stands;
int sim_compare_next;
static uint32_t sim_agents_of_world, allocation_that_fails;

int sim_world_is_over(void) {
  return sim_world_stands && sim_app->threads_left == 0 && sim_app->callbacks_left == 0;
}

void sim_world_check(void) {
  if (sim_endings)
    sim_endings_check();
  else
    sim_app_check();
}

uint32_t sim_app_agent(uint32_t rank, uint32_t thread) {
  return sim_agents_of_world - (sim_plan.n_ranks - rank) * sim_plan.n_threads + thread;
}

/* ---- setting up */

enum { SHARED_BYTES = 4 * DF_PAGE };

static void fill_buffers(void) {
  for (uint32_t rank = 0; rank < sim_plan.n_ranks; rank++)
    for (uint32_t c = 0; c < sim_plan.n_colls; c++)
      for (uint32_t r = 0; r < sim_plan.coll[c].runs; r++) {
        app_run *run = &sim_app->run[rank][c][r];
        const coll_plan *coll = &sim_plan.coll[c];
        uint32_t sends = sim_elements_of(coll, coll->count, 0),
                 receives = sim_elements_of(coll, coll->count, 1);
        *run = (app_run){.rank = rank, .coll = c, .run = r};
        run->send = sim_hidden_alloc(sends * sizeof(int32_t));
        run->recv = coll->in_place ? run->send : sim_hidden_alloc(receives * sizeof(int32_t));
        for (uint32_t i = 0; i < sends; i++) run->send[i] = sim_value_of(rank, run, i);
      }
}

static int sockets[MAX_RANKS][MAX_RANKS];

/* Each rank is a host of its own. */
static df_routes *make_routes(uint32_t rank) {
  uint64_t hosts[MAX_RANKS];
  for (uint32_t r = 0; r < sim_plan.n_ranks; r++) hosts[r] = r;
  return df_routes_make(hosts, sim_plan.n_ranks, rank);
}

static int is_behind_a_relay(uint32_t a, uint32_t b) {
  if (!sim_plan.hosts || !sim_only_relays) return 0;
  df_routes *routes = make_routes(a);
  const int is_behind = df_routes_next(routes, b) != b;
  df_routes_free(routes);
  return is_behind;
}

static void make_sockets(void) {
  for (uint32_t a = 0; a < sim_plan.n_ranks; a++)
    for (uint32_t b = 0; b < a; b++) {
      sockets[a][b] = sockets[b][a] = -1;
      if (is_behind_a_relay(a, b)) continue;
      int pair[2], ranks[2] = {(int)a, (int)b};
      if (sim_plan.hosts)
        sim_stream_pair(pair, ranks);
      else
        sim_socket_pair(pair, ranks);
      sockets[a][b] = pair[0];
      sockets[b][a] = pair[1];
    }
}

void df_mesh_close(df_mesh *mesh) {
  for (int r = 0; r < mesh->n_ranks; r++)
    if (mesh->sockets[r] >= 0) sim_close(mesh->sockets[r]);
  sim_free(mesh->sockets);
  sim_free(mesh->peer_info);
  sim_free(mesh->local);
  if (mesh->remote) sim_free(mesh->remote);
  df_routes_free(mesh->routes);
  *mesh = (df_mesh){0};
}

/* Higher ranks have called lower ones. */
static df_remote_rank *make_remote(uint32_t rank) {
  df_remote_rank *remote = sim_calloc(sim_plan.n_ranks, sizeof *remote);
  for (uint32_t r = 0; r < sim_plan.n_ranks; r++)
    remote[r] = (df_remote_rank){.is_remote = r != rank,
                                 .has_channel = r != rank && !is_behind_a_relay(rank, r),
                                 .calls = rank > r,
                                 .address = df_address_loopback(sim_wire_port(r)),
                                 .key = {(unsigned char)(rank + r), (unsigned char)(rank * r)}};
  return remote;
}

static void open_rank(uint32_t rank) {
  df_mesh mesh = {.n_ranks = (int)sim_plan.n_ranks, .rank = (int)rank};
  mesh.peer_info = sim_calloc(sim_plan.n_ranks, sizeof *mesh.peer_info);
  mesh.sockets = sim_calloc(sim_plan.n_ranks, sizeof *mesh.sockets);
  mesh.local = sim_calloc(sim_plan.n_ranks, 1);
  mesh.job[0] = sim_plan.processes ? (unsigned char)rank : 0;
  for (uint32_t r = 0; r < sim_plan.n_ranks; r++) {
    mesh.peer_info[r] = df_make_peer_info(&sim_plan.settings);
    mesh.local[r] = !sim_plan.processes || r == rank;
    mesh.n_local += mesh.local[r];
    mesh.sockets[r] = mesh.local[r] ? -1 : sockets[rank][r];
  }
  if (sim_plan.hosts) mesh.remote = make_remote(rank);
  if (sim_plan.hosts && sim_only_relays) mesh.routes = make_routes(rank);
  df_settings settings = sim_plan.settings;
  if (!(sim_plan.impatient >> rank & 1)) settings.timeout_ms = 0;
  uint32_t before = sim_agents_now.n;
  sim_agents_now.agent[0].rank = (int)rank;
  dfcclContext_t context;
  if (df_context_open(&context, sim_plan.n_ranks, rank, &settings, &mesh) != dfcclSuccess)
    sim_fail("rank %u could not be opened: %s", rank, df_last_sentence());
  for (uint32_t a = before; a < sim_agents_now.n; a++) {
    uint32_t i = a - before, blocks = (uint32_t)sim_plan.settings.max_blocks;
    sim_agents_now.agent[a].name = i < blocks ? "executor" : i == blocks ? "poller" : "service";
  }
  if (sim_plan.places[rank]) context->device.capacity = sim_plan.places[rank];
  sim_app->rank[rank].rank = rank;
  sim_app->rank[rank].context = context;
}

dfcclResult_t sim_register(uint32_t rank, uint32_t coll, uint32_t more) {
  const coll_plan *planned = &sim_plan.coll[coll];
  dfcclCollOptions_t options = DFCCL_COLL_OPTIONS_INITIALIZER;
  options.algorithm = planned->algorithm;
  options.priority = planned->priority;
  options.varying = planned->varying;
  int ranks[MAX_RANKS];
  if (planned->n_members < sim_plan.n_ranks) {
    for (uint32_t r = 0; r < sim_plan.n_ranks; r++)
      if (sim_is_member(r, coll)) ranks[options.nRanks++] = (int)r;
    options.ranks = ranks;
  }
  df_registration registration = {.operation = planned->operation,
                                  .id = coll + 1,
                                  .count = planned->count + more,
                                  .type = dfcclInt32,
                                  .op = dfcclSum,
                                  .root = (int)planned->root,
                                  .to = (int)planned->n_members - 1,
                                  .options = &options};
  return df_register(sim_app->rank[rank].context, &registration);
}

static void register_all(void) {
  for (uint32_t rank = 0; rank < sim_plan.n_ranks; rank++)
    for (uint32_t c = 0; c < sim_plan.n_colls; c++)
      if (sim_is_member(rank, c) && sim_register(rank, c, 0) != dfcclSuccess)
        sim_fail("rank %u could not register: %s", rank, df_last_sentence());
}

static void warm_up(void) {
  int32_t *buffer = sim_hidden_alloc(sim_plan.n_ranks * MAX_ELEMENTS * 2 * sizeof *buffer);
  memset(buffer, 0, sim_plan.n_ranks * MAX_ELEMENTS * 2 * sizeof *buffer);
  for (uint32_t rank = 0; rank < sim_plan.n_ranks; rank++)
    for (uint32_t c = 0; c < sim_plan.n_colls; c++) {
      int32_t *send = buffer + rank * MAX_ELEMENTS * 2;
      if (!sim_is_member(rank, c)) continue;
      if (sim_submit(rank, c, 0, send, send + MAX_ELEMENTS, NULL, NULL) != dfcclSuccess)
        sim_fail("the first run was refused");
    }
  for (uint32_t rank = 0; rank < sim_plan.n_ranks; rank++)
    while (df_has_outstanding(sim_app->rank[rank].context)) sim_yield();
}

/* Half of the ranks' buffers: in memory that other processes can read. */
static void share_buffers(void) {
  for (uint32_t rank = 0; rank < sim_plan.n_ranks; rank++) {
    void *memory;
    if (rank % 2 != sim_plan.shared_from) continue;
    if (df_memory_alloc(sim_app->rank[rank].context, &memory, SHARED_BYTES) != dfcclSuccess)
      sim_fail("no shared memory: %s", df_last_sentence());
    uint8_t *at = memory;
    for (uint32_t c = 0; c < sim_plan.n_colls; c++)
      for (uint32_t k = 0; k < sim_plan.coll[c].runs; k++) {
        app_run *run = &sim_app->run[rank][c][k];
        const coll_plan *coll = &sim_plan.coll[c];
        size_t sends = sim_elements_of(coll, coll->count, 0) * sizeof(int32_t);
        size_t receives = sim_elements_of(coll, coll->count, 1) * sizeof(int32_t);
        memcpy(at, run->send, sends);
        run->send = (int32_t *)at;
        if (!coll->in_place) at += DF_ALIGN_UP(sends, (size_t)DF_CACHE_LINE);
        run->recv = (int32_t *)at;
        at += DF_ALIGN_UP(receives, (size_t)DF_CACHE_LINE);
      }
  }
}

static void *set_up(void *unused) {
  (void)unused;
  sim_app = sim_calloc(1, sizeof *sim_app);
  fill_buffers();
  if (sim_plan.wires) sim_wire_begin();
  if (sim_endings) sim_endings_make();
  if (sim_plan.processes) make_sockets();
  for (uint32_t rank = 0; rank < sim_plan.n_ranks; rank++) open_rank(rank);
  if (sim_plan.processes) share_buffers();
  register_all();
  sim_settle(1);
  if (sim_plan.warm) warm_up();
  sim_settle(sim_plan.deep);
  for (uint32_t rank = 0; rank < sim_plan.n_ranks; rank++)
    for (uint32_t t = 0; t < sim_plan.n_threads; t++)
      sim_spawn("application", (int)rank, sim_endings ? sim_endings_thread : sim_app_thread,
                (void *)(uintptr_t)(rank * MAX_THREADS + t));
  sim_park();
  return NULL;
}

void sim_world_make(uint64_t seed) {
  sim_memory_forget();
  sim_system_reset();
  sim_worlds_set(NULL);
  memset(&sim_agents_now, 0, sizeof sim_agents_now);
  sim_world_stands = 0;
  sim_fail_allocation = sim_more_failures = 0;
  sim_is_quiet = 1;
  sim_death_step = UINT64_MAX;
  sim_steps = 0;
  sim_policy_now = (sim_policy){0};
  sim_quantum = 1;
  sim_random_now.state = seed;
  sim_world_draw(seed);
  sim_spawn("set-up", -1, set_up, NULL);
  sim_run();
  if (sim_failure) return;
  sim_end_agent(0);
  sim_agents_of_world = sim_agents_now.n;
  sim_snapshot_take();
}

static void draw_policy(void) {
  static const uint16_t quanta[] = {1, 2, 3, 5, 10, 30, 100};
  static const uint16_t stale[] = {0, 32, 128, 240};
  sim_policy *p = &sim_policy_now;
  sim_random *random = &sim_random_now;
  p->unfair_steps = 6000;
  uint32_t long_time = sim_is_small ? 400 : 1500;
  p->stops_at = p->in_vain = 0;
  p->quantum = quanta[sim_below(random, 7)];
  p->stale_of_256 = stale[sim_below(random, 4)];
  p->by_priority = (uint32_t)sim_one_in(random, 3);
  p->spurious = (uint32_t)sim_one_in(random, 8);
  p->slow_moves = (uint32_t)sim_one_in(random, 4);
  p->stalls = sim_one_in(random, 3) ? (uint32_t)sim_next(random) : 0;
  p->stalls_from = sim_one_in(random, 2) ? sim_below(random, long_time) : 0;
  p->stalls_until = p->stalls_from + (sim_is_small ? 50 : 200) + sim_below(random, long_time);
  p->changes = !p->by_priority && sim_one_in(random, 3) ? 1 + sim_below(random, 6) : 0;
  p->last_change = p->slow_most = sim_is_small ? 500 : 2000;
  p->nap_ends = 32;
  if (sim_percent_small == 0) return; /* as when the worlds of found.txt were found */
  if (sim_one_in(random, 2)) p->nap_ends = 256;
  if (sim_one_in(random, 4)) p->stops_at = 1 + sim_below(random, long_time);
  p->stops_for = 100 + sim_below(random, 2 * long_time);
  p->in_vain = 8u << sim_below(random, 4);
}

void sim_world_restore(uint64_t seed) {
  sim_snapshot_restore();
  sim_is_quiet = 0;
  sim_random_now.state = seed;
  sim_world_stands = 1;
  draw_policy();
  if (sim_endings)
    sim_endings_prepare();
  else
    sim_app_prepare();
  sim_agents_begin();
  sim_memory_begin();
  sim_uses_allocation_failure = sim_one_in(&sim_random_now, 16);
  /* endings.c decides; and messages of a switch are as those of a registration */
  if (sim_endings || sim_only_switches) sim_uses_allocation_failure = 0;
  sim_more_failures = 0;
  sim_fail_allocation =
      sim_uses_allocation_failure && sim_plan.warm ? 1 + sim_below(&sim_random_now, 4) : 0;
  if (sim_endings) sim_fail_allocation = sim_endings_failing_allocation();
  allocation_that_fails = sim_fail_allocation;
  sim_quantum = 1;
  /* Somebody must begin: any agent of the application. */
  uint32_t first = sim_app_agent(0, 0);
  sim_agents_now.current =
      first + sim_below(&sim_random_now, sim_plan.n_ranks * sim_plan.n_threads);
}

void sim_world_print(void) {
  static const char *const cqs[] = {"ring", "packed", "slots"};
  const df_settings *s = &sim_plan.settings;
  printf("world: %u ranks, %u thread(s) each, %lld block(s), queue of %lld, CQ %s, spin %lld/%lld, "
         "quit after %lld polls, %s%s%s%s%s%s\n",
         sim_plan.n_ranks, sim_plan.n_threads, s->max_blocks, s->queue_depth,
         cqs[s->tuning.policy.cq], s->tuning.policy.spin_front, s->tuning.policy.spin_min,
         s->tuning.policy.quit_polls, sim_plan.warm ? "links stand, " : "links to be made, ",
         s->tuning.policy.lend ? "buffers are lent" : "buffers are copied",
         s->tuning.policy.preempt_every ? ", preempted at every step" : "",
         s->tuning.policy.borrowed_turn_max ? ", first turns by submitters" : "",
         !sim_plan.wires                        ? ""
         : sim_plan.settings.net_resume_ms == 0 ? ", over wires"
                                                : ", over wires that resume",
         sim_plan.hosts ? ", on hosts" : "");
  if (sim_only_survivors) printf("  config.survive %d\n", s->survive);
  if (sim_plan.rails > 1 || sim_bulk_stride < 4096)
    printf("  %u rail(s) for slots of more than %u bytes\n", sim_plan.rails, sim_bulk_stride);
  for (uint32_t c = 0; c < sim_plan.n_colls; c++)
    printf("  collective %u: %s of %u int32, members 0x%x, root %u, %u run(s), priority %d, %s\n",
           c, df_operation_name(sim_plan.coll[c].operation), sim_plan.coll[c].count,
           sim_plan.coll[c].members, sim_plan.coll[c].root, sim_plan.coll[c].runs,
           sim_plan.coll[c].priority,
           sim_plan.coll[c].algorithm ? sim_plan.coll[c].algorithm : "auto");
  const sim_policy *p = &sim_policy_now;
  printf("adversary: quantum %u, stale %u/256, %s%s%s\n", p->quantum, p->stale_of_256,
         p->by_priority ? "by priority"
         : p->changes   ? "by order"
                        : "at random",
         p->spurious ? ", wakes for no reason" : "",
         allocation_that_fails ? ", no memory once" : "");
}

void sim_world_print_state(void) {
  for (uint32_t r = 0; sim_app && r < sim_plan.n_ranks; r++)
    if (sim_app->rank[r].context) sim_state_print(sim_app->rank[r].context);
}
