/*
 * The description of a world, drawn from its seed: ranks, collectives, settings; whether it is
 * small, a crowd, one that ends, or one of those that are explored.
 */
#include <stdio.h>
#include <string.h>

#include "control/view_quorum.h"
#include "world.h"

world_plan sim_plan;
int sim_endings, sim_is_small;
uint32_t sim_percent_small = 90, sim_percent_endings;
int sim_is_crowd, sim_only_crowds, sim_only_wires, sim_only_hosts, sim_only_rails, sim_only_relays,
    sim_only_varying, sim_only_others, sim_only_switches, sim_only_survivors;

/* Worlds on record have these, and stay what they are. */
enum { DRAWN_OPERATIONS = DF_OP_ALL_TO_ALL + 1 };

static void draw_settings(sim_random *random) {
  df_settings *s = &sim_plan.settings;
  memset(s, 0, sizeof *s);
#define X(field, variable, standard, least, most, meaning) s->field = (standard);
  DF_SETTINGS_MAP(X)
#undef X
#define X(field, standard, least, most, meaning) s->tuning.policy.field = (standard);
  DF_POLICY_MAP(X)
#undef X
  s->backend = dfcclBackendCpu;
  s->tuning.policy.cq = sim_below(random, 3);
  s->max_blocks = sim_one_in(random, 4) ? 2 : 1;
  s->tuning.policy.block_min = 64;
  s->queue_depth = 2 << sim_below(random, 2);
  s->tuning.policy.spin_front = 1 + sim_below(random, 6);
  s->tuning.policy.spin_min = 1 + sim_below(random, 2);
  s->tuning.policy.spin_boost = 1 + sim_below(random, 3);
  s->tuning.policy.fetch_polls = sim_below(random, 6);
  s->tuning.policy.quit_polls = 1 + sim_below(random, 8);
  s->tuning.policy.yield_polls = sim_one_in(random, 2) ? 2 : 1000;
  s->tuning.policy.preempt_every = sim_one_in(random, 6);
  /* Not from the same sequence: worlds that are on record stay what they are. */
  sim_random apart = {.state = random->state ^ 0x2545f4914f6cdd1dull};
  if (sim_one_in(&apart, 3)) s->tuning.policy.borrowed_turn_max = 0;
  if (sim_one_in(&apart, 2)) s->tuning.policy.pages_after = 0;
  if (sim_one_in(&apart, 2)) s->tuning.policy.way = DF_WAY_RANDOM;
  s->context_slots = 1 << sim_below(random, 2);
  s->tuning.policy.slot_bytes = 64;
  s->tuning.policy.slots = 2;
  s->tuning.policy.flagged_max = sim_one_in(random, 2) ? 4096 : 0;
  s->tuning.policy.lend = sim_one_in(random, 2);
  s->tuning.policy.lend_min = 1;
  s->tuning.policy.net_lend_min = 1;
  s->tuning.policy.nap_us = 10;
  s->backlog = 64;
  snprintf(s->isa, sizeof s->isa, "plain");
}

/* Many small runs, a queue of two entries: runs wait for room there, and for earlier ones to end.
 */
static void crowd(sim_random *random) {
  sim_plan.n_ranks = 2;
  sim_plan.n_threads = 1;
  sim_plan.settings.queue_depth = 2;
  sim_plan.settings.max_blocks = 1 + sim_below(random, 2);
  int several_blocks = sim_plan.settings.max_blocks > 1; /* may be several runs apart */
  sim_plan.n_colls = several_blocks ? 1 : 1 + sim_below(random, 2);
  for (uint32_t c = 0; c < sim_plan.n_colls; c++) {
    coll_plan *coll = &sim_plan.coll[c];
    coll->operation = DF_OP_ALL_REDUCE;
    coll->count = several_blocks || sim_one_in(random, 2) ? 32 : 1 + sim_below(random, 8);
    coll->root = 0;
    coll->runs = several_blocks          ? MAX_RUNS - sim_below(random, 3)
                 : sim_plan.n_colls == 1 ? 2 + sim_below(random, MAX_RUNS - 1)
                                         : 2 + sim_below(random, 2);
  }
}

static void draw_plan(uint64_t seed) {
  sim_random random = {.state = seed};
  memset(&sim_plan, 0, sizeof sim_plan);
  uint32_t size = sim_below(&random, 20);
  sim_plan.n_ranks = size < 14 ? 2 : size < 19 ? 3 : 4;
  if (sim_only_relays)
    sim_plan.n_ranks =
        3 + (size >= 12 && !sim_only_switches); /* with two hosts there is no relay */
  sim_plan.n_colls = 1 + sim_below(&random, sim_plan.n_ranks == 2 ? 3 : 2);
  sim_plan.n_threads = sim_plan.n_colls > 1 && sim_one_in(&random, 6) ? 2 : 1;
  sim_plan.warm = sim_one_in(&random, 2);
  sim_plan.deep = sim_one_in(&random, 2);
  draw_settings(&random);
  if (sim_plan.n_ranks > 2 && sim_one_in(&random, 2)) sim_plan.settings.max_blocks = 1;
  if (sim_plan.n_ranks > 3) sim_plan.settings.max_blocks = 1;
  for (uint32_t c = 0; c < sim_plan.n_colls; c++) {
    coll_plan *coll = &sim_plan.coll[c];
    coll->operation = sim_one_in(&random, 2) ? DF_OP_ALL_REDUCE
                                             : (df_operation)sim_below(&random, DRAWN_OPERATIONS);
    uint32_t chunks = 1 + sim_below(&random, 3);
    coll->count = sim_one_in(&random, 2) ? 1 + sim_below(&random, 16) : 16 * chunks;
    if (coll->operation != DF_OP_ALL_REDUCE && coll->operation != DF_OP_REDUCE &&
        coll->operation != DF_OP_BROADCAST && coll->count > 32)
      coll->count = 32;
    if (coll->count * sim_plan.n_ranks > MAX_ELEMENTS && coll->operation != DF_OP_ALL_REDUCE)
      coll->count = 16;
    coll->root = sim_below(&random, sim_plan.n_ranks);
    coll->runs = 1 + (sim_one_in(&random, 3) ? sim_below(&random, FEW_RUNS) : 0);
    coll->algorithm = coll->operation == DF_OP_ALL_REDUCE && sim_one_in(&random, 2) ? "ring" : NULL;
    coll->priority = sim_one_in(&random, 8) ? 1 + (int)c : 0;
  }
  sim_random others = {.state = seed ^ 0x5bd1e995u};
  if (sim_one_in(&others, 5)) crowd(&others);
}

/* Most bugs need few runs of few collectives on two ranks: worlds in which a schedule is short. */
static void shrink(uint64_t seed) {
  static const struct {
    uint32_t colls, more_colls, runs, more_runs;
    int warm, oversubscribed;
  } shapes[] = {{1, 1, 1, 1, 1, 0}, {1, 1, 2, 1, 1, 0}, {1, 1, 1, 1, 0, 0},
                {2, 1, 1, 1, 1, 0}, {2, 2, 1, 2, 1, 1}, {1, 1, 3, 4, 1, 1}};
  static const uint8_t drawn[] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5};
  sim_random random = {.state = seed ^ 0x2545f491u};
  uint32_t shape = drawn[sim_below(&random, sizeof drawn)];
  int several_blocks = sim_one_in(&random, 3);
  sim_plan.n_ranks = 2;
  sim_plan.n_threads = 1;
  sim_plan.warm = shapes[shape].warm;
  sim_plan.settings.max_blocks = 1 + several_blocks;
  if (shapes[shape].oversubscribed) sim_plan.settings.queue_depth = 2;
  sim_plan.n_colls = shapes[shape].colls + sim_below(&random, shapes[shape].more_colls);
  for (uint32_t c = 0; c < sim_plan.n_colls; c++) {
    coll_plan *coll = &sim_plan.coll[c];
    coll->operation = sim_one_in(&random, 2) ? DF_OP_ALL_REDUCE
                                             : (df_operation)sim_below(&random, DRAWN_OPERATIONS);
    coll->algorithm = coll->operation == DF_OP_ALL_REDUCE && sim_one_in(&random, 2) ? "ring" : NULL;
    coll->runs = shapes[shape].runs + sim_below(&random, shapes[shape].more_runs);
    coll->root = sim_below(&random, 2);
    coll->count = several_blocks && sim_one_in(&random, 2)
                      ? 32
                      : 1 + sim_below(&random, sim_one_in(&random, 2) ? 4 : 32);
  }
}

/*
 * Situations that occur only if the daemon has no room: a collective of two blocks, of which one
 * may be as many runs ahead as are allowed; or three collectives in an SQ of two entries, of which
 * one is waited for before the others are submitted elsewhere (application.c).
 */
static void make_crowd(uint64_t seed) {
  sim_random random = {.state = seed ^ 0x3c6ef372u};
  int ahead = sim_one_in(&random, 2);
  sim_plan.n_ranks = 2;
  sim_plan.n_threads = 1;
  sim_plan.warm = 1;
  sim_plan.n_colls = ahead ? 1 : 3;
  sim_plan.settings.max_blocks = 1 + ahead;
  sim_plan.settings.queue_depth = ahead && sim_one_in(&random, 2) ? 8 : 2;
  for (uint32_t c = 0; c < sim_plan.n_colls; c++)
    sim_plan.coll[c] = (coll_plan){.operation = DF_OP_ALL_REDUCE,
                                   .count = ahead ? 32 : 1 + sim_below(&random, 4),
                                   .runs = ahead ? MAX_RUNS - sim_below(&random, 3) : 1,
                                   .algorithm = sim_one_in(&random, 2) ? "ring" : NULL};
}

/* Exploration: 2 ranks, 2 collectives of 2 chunks, each run once. The rest is drawn as ever. */
static void make_smallest(void) {
  sim_plan.n_ranks = sim_plan.n_colls = 2;
  sim_plan.n_threads = 1;
  sim_plan.settings.max_blocks = 1;
  for (uint32_t c = 0; c < sim_plan.n_colls; c++)
    sim_plan.coll[c] =
        (coll_plan){.operation = DF_OP_ALL_REDUCE, .count = 32, .runs = 1, .algorithm = "ring"};
}

/* Exhaustive exploration: no more patience than one look. */
static void make_exhaustible(void) {
  const sim_smallest *s = &sim_smallest_now;
  sim_plan.n_ranks = 2;
  sim_plan.n_threads = 1;
  sim_plan.n_colls = s->colls;
  sim_plan.warm = 1;
  sim_plan.deep = 0;
  df_settings *settings = &sim_plan.settings;
  settings->max_blocks = 1;
  settings->queue_depth = s->depth;
  settings->tuning.policy.spin_front = settings->tuning.policy.spin_min =
      settings->tuning.policy.spin_boost = 1;
  settings->tuning.policy.fetch_polls = 0;
  settings->tuning.policy.quit_polls = 1;
  settings->tuning.policy.yield_polls = 1000;
  settings->tuning.policy.preempt_every = 0;
  settings->context_slots = 1;
  settings->tuning.policy.borrowed_turn_max = s->first_turns ? 4096 : 0;
  settings->tuning.policy.flagged_max = 4096;
  settings->tuning.policy.lend = s->lends;
  settings->tuning.policy.spread = 0;
  settings->tuning.policy.cq = s->cq;
  /* A ring of 2 ranks has 2 pieces: of one element, one is empty. */
  for (uint32_t c = 0; c < s->colls; c++)
    sim_plan.coll[c] = (coll_plan){.operation = DF_OP_ALL_REDUCE,
                                   .count = s->chunks == 1 ? 1 : 16 * s->chunks,
                                   .runs = s->runs,
                                   .algorithm = "ring"};
}

/* Some collectives of some of the ranks: groups overlap. */
static void draw_groups(uint64_t seed) {
  sim_random random = {.state = seed ^ 0x7f4a7c15u};
  uint32_t all = (1u << sim_plan.n_ranks) - 1;
  for (uint32_t c = 0; c < sim_plan.n_colls; c++) sim_plan.coll[c].members = all;
  if (sim_plan.n_ranks > 2 && sim_percent_small != 0 && sim_one_in(&random, 2))
    for (uint32_t c = 0; c < sim_plan.n_colls; c++) {
      uint32_t without = sim_below(&random, sim_plan.n_ranks + 1);
      if (without < sim_plan.n_ranks) sim_plan.coll[c].members &= ~(1u << without);
    }
  for (uint32_t c = 0; c < sim_plan.n_colls; c++) {
    coll_plan *coll = &sim_plan.coll[c];
    coll->n_members = (uint32_t)__builtin_popcount(coll->members);
    if (coll->root >= coll->n_members) coll->root = 0;
  }
}

enum {
  VISITS = 0x1b873597,
  COMMONS = 0x6c8e9cf5,
  COUNTS = 0x2f1b3a95,
  OTHERS = 0x51ed270b,
  RESUMES = 0x3c6ef372,
  SWITCHES = 0x6a09e667,
  SURVIVES = 0x2545f491
};

static void draw_others(uint64_t seed) {
  sim_random random = {.state = seed ^ OTHERS};
  for (uint32_t c = 0; c < sim_plan.n_colls; c++) {
    coll_plan *coll = &sim_plan.coll[c];
    const uint32_t others = DF_OP_COUNT - DRAWN_OPERATIONS;
    coll->operation = (df_operation)(DRAWN_OPERATIONS + sim_below(&random, others));
    if (coll->operation == DF_OP_BARRIER && sim_only_varying) coll->operation = DF_OP_SCAN;
    if (coll->operation == DF_OP_SEND_RECV && coll->n_members != 2) coll->operation = DF_OP_GATHER;
    if (coll->operation == DF_OP_SEND_RECV) coll->root = 0;
    coll->algorithm =
        df_operation_is_scan(coll->operation) && sim_one_in(&random, 2) ? "ring" : NULL;
    if (coll->count * coll->n_members > MAX_ELEMENTS) coll->count = MAX_ELEMENTS / coll->n_members;
  }
}

static void draw_counts(uint64_t seed) {
  sim_random random = {.state = seed ^ COUNTS};
  for (uint32_t c = 0; c < sim_plan.n_colls; c++) {
    coll_plan *coll = &sim_plan.coll[c];
    coll->varying = 1;
    if (coll->count < 2) coll->count = 2;
    for (uint32_t k = 0; k < MAX_RUNS; k++)
      coll->counts[k] = sim_one_in(&random, 3) ? 0 : 1 + sim_below(&random, coll->count);
  }
}

/* A switch takes some runs. */
static void draw_switches(uint64_t seed) {
  sim_random random = {.state = seed ^ SWITCHES};
  for (uint32_t c = 0; c < sim_plan.n_colls; c++)
    sim_plan.coll[c].runs = MAX_RUNS - sim_below(&random, 4);
  /* A rank that refuses every variant, or a second one. A next home needs a place, too. */
  if (!sim_only_survivors && sim_one_in(&random, 2))
    sim_plan.places[sim_below(&random, sim_plan.n_ranks)] =
        2 * sim_plan.n_colls + 2 * sim_below(&random, 2);
}

static void draw_endings(uint64_t seed) {
  sim_random random = {.state = ~seed};
  sim_plan.n_threads = MAX_THREADS;
  sim_plan.processes = sim_one_in(&random, 2) || sim_only_survivors;
  sim_plan.shared_from = sim_below(&random, 2);
  sim_random apart = {.state = seed ^ VISITS}; /* worlds on record stay what they are */
  sim_random commons = {.state = seed ^ COMMONS};
  if (sim_plan.processes && sim_one_in(&commons, 2))
    sim_plan.settings.tuning.policy.common = 2, sim_plan.settings.tuning.policy.lend = 1;
  sim_plan.visits = sim_percent_small != 0 && !sim_only_survivors && sim_one_in(&apart, 2);
  if (sim_one_in(&random, 4) && !sim_only_survivors)
    sim_plan.settings.timeout_ms = 1 + sim_below(&random, 4);
  sim_plan.impatient = sim_one_in(&random, 2) ? UINT32_MAX : 1 + sim_below(&random, 14);
  for (uint32_t c = 0; c < sim_plan.n_colls; c++)
    sim_plan.coll[c].runs = 1 + sim_below(&random, sim_is_small ? 2 : FEW_RUNS);
}

/* More ranks than in other worlds: survivors must agree. */
static void draw_survivors(uint64_t seed) {
  sim_random random = {.state = seed ^ SURVIVES};
  sim_plan.n_ranks = 2 + sim_below(&random, 3);
  if (sim_plan.n_ranks > 3) sim_plan.settings.max_blocks = 1;
  for (uint32_t c = 0; c < sim_plan.n_colls; c++) {
    coll_plan *coll = &sim_plan.coll[c];
    if (coll->count * sim_plan.n_ranks > MAX_ELEMENTS && coll->operation != DF_OP_ALL_REDUCE)
      coll->count = MAX_ELEMENTS / sim_plan.n_ranks;
    coll->root = sim_below(&random, sim_plan.n_ranks);
    coll->in_place = sim_one_in(&random, 2);
  }
  sim_plan.settings.survive = 1 + (int)sim_below(&random, 2);
  sim_plan.settings.membership = sim_survive_notified;
}

void sim_world_draw(uint64_t seed) {
  sim_random kinds = {.state = seed ^ 0x632be59bu};
  sim_is_small = sim_below(&kinds, 100) < sim_percent_small;
  sim_endings = sim_below(&kinds, 100) < sim_percent_endings;
  sim_is_crowd = sim_only_crowds && !sim_endings;
  if (sim_is_crowd || sim_only_relays) sim_is_small = 0;
  draw_plan(seed);
  if (sim_is_small) shrink(seed);
  if (sim_is_crowd) make_crowd(seed);
  if (sim_is_exploring) make_smallest();
  if (sim_smallest_now.colls) make_exhaustible();
  if (sim_only_survivors) draw_survivors(seed);
  draw_groups(seed);
  if (sim_only_others) draw_others(seed);
  for (uint32_t c = 0; c < sim_plan.n_colls; c++)
    sim_plan.coll[c].in_place &= sim_plan.coll[c].operation == DF_OP_ALL_REDUCE;
  if (sim_endings) draw_endings(seed);
  if (sim_only_switches) draw_switches(seed);
  if (sim_only_varying) draw_counts(seed);
  sim_plan.wires = sim_only_wires && (sim_plan.processes || !sim_endings);
  if (!sim_plan.wires) return;
  sim_plan.processes = 1;
  sim_plan.settings.net = DF_NET_TCP;
  sim_random resumes = {.state = seed ^ RESUMES};
  const int day_ms = 86400000; /* the adversary lets any time pass */
  sim_plan.settings.net_timeout_ms = day_ms;
  sim_plan.settings.net_resume_ms = !sim_endings || sim_one_in(&resumes, 2) ? day_ms : 0;
  sim_plan.hosts = sim_only_hosts;
  /* Between hosts deaths prove nothing, and any number of ranks may die. */
  if (sim_plan.hosts && sim_only_survivors) sim_plan.settings.quorum = DF_QUORUM_NONE;
  if (sim_plan.hosts || sim_only_survivors)
    sim_plan.settings.net_timeout_ms = 0; /* no questions: they end sleeps */
  sim_plan.rails = sim_only_rails ? 1 + sim_below(&resumes, 3) : 1;
  sim_bulk_stride = sim_only_rails ? 64 * sim_below(&resumes, 3) : 4096;
}
