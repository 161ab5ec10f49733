/*
 * Promises of src/plans: for every operation, algorithm, group size, root and position
 *   - the collective's result is right, in place or not, whatever the order in which ranks step,
 *     with one slot for each link and with several;
 *   - every message that is sent is received, exactly once and as long;
 *   - a link's messages are numbered in program order on both of its ends;
 *   - nothing is read or written outside of buffers, slots and scratch memory (address sanitizer);
 *   - a plan that is said to lend all messages sends none from scratch memory, and so on all ranks;
 *   - the bits of a result do not depend on the order of steps.
 */
#include "plans/plan.h"

#include "group.h"
#include "random_cuts.h"

#include <stdio.h>

typedef struct algorithm {
  df_operation operation;
  const char *name;
  int rooted;
} algorithm;

static const algorithm algorithms[] = {
    {DF_OP_ALL_REDUCE, "ring", 0},
    {DF_OP_ALL_REDUCE, "allpairs", 0},
    {DF_OP_ALL_REDUCE, "doubling", 0},
    {DF_OP_ALL_REDUCE, "rabenseifner", 0},
    {DF_OP_ALL_REDUCE, "doubletree", 0},
    {DF_OP_ALL_REDUCE, "direct", 0},
    {DF_OP_ALL_REDUCE, "flat", 0},
    {DF_OP_ALL_REDUCE, "twolevel", 0},
    {DF_OP_ALL_REDUCE, "hierarchical", 0},
    {DF_OP_ALL_REDUCE, "bcube", 0},
    {DF_OP_ALL_REDUCE, "binaryblocks", 0},
    {DF_OP_ALL_REDUCE, "trees", 0},
    {DF_OP_REDUCE, "trees", 1},
    {DF_OP_BROADCAST, "trees", 1},
    {DF_OP_ALL_GATHER, "trees", 0},
    {DF_OP_REDUCE_SCATTER, "trees", 0},
    {DF_OP_REDUCE, "ring", 1},
    {DF_OP_REDUCE, "rabenseifner", 1},
    {DF_OP_REDUCE, "binomial", 1},
    {DF_OP_REDUCE, "doubletree", 1},
    {DF_OP_REDUCE, "flat", 1},
    {DF_OP_REDUCE, "twolevel", 1},
    {DF_OP_REDUCE, "hierarchical", 1},
    {DF_OP_REDUCE, "ordered", 1},
    {DF_OP_BROADCAST, "ring", 1},
    {DF_OP_BROADCAST, "binomial", 1},
    {DF_OP_BROADCAST, "doubletree", 1},
    {DF_OP_BROADCAST, "flat", 1},
    {DF_OP_BROADCAST, "scatter-allgather", 1},
    {DF_OP_BROADCAST, "twolevel", 1},
    {DF_OP_BROADCAST, "hierarchical", 1},
    {DF_OP_ALL_GATHER, "ring", 0},
    {DF_OP_ALL_GATHER, "doubling", 0},
    {DF_OP_ALL_GATHER, "bruck", 0},
    {DF_OP_ALL_GATHER, "pat", 0},
    {DF_OP_ALL_GATHER, "direct", 0},
    {DF_OP_ALL_GATHER, "twolevel", 0},
    {DF_OP_ALL_GATHER, "hierarchical", 0},
    {DF_OP_REDUCE_SCATTER, "ring", 0},
    {DF_OP_REDUCE_SCATTER, "halving", 0},
    {DF_OP_REDUCE_SCATTER, "pat", 0},
    {DF_OP_REDUCE_SCATTER, "direct", 0},
    {DF_OP_REDUCE_SCATTER, "twolevel", 0},
    {DF_OP_REDUCE_SCATTER, "hierarchical", 0},
    {DF_OP_REDUCE_SCATTER, "ordered", 0},
    {DF_OP_ALL_TO_ALL, "pairwise", 0},
    {DF_OP_ALL_TO_ALL, "bruck", 0},
    {DF_OP_ALL_TO_ALL, "direct", 0},
    {DF_OP_ALL_TO_ALL, "hierarchical", 0},
    {DF_OP_GATHER, "flat", 1},
    {DF_OP_SCATTER, "flat", 1},
    {DF_OP_SEND_RECV, "direct", 0},
    {DF_OP_BARRIER, "dissemination", 0},
    {DF_OP_BARRIER, "twolevel", 0},
    {DF_OP_BARRIER, "direct", 0},
    {DF_OP_BARRIER, "flat", 0},
    {DF_OP_SCAN, "doubling", 0},
    {DF_OP_SCAN, "ring", 0},
    {DF_OP_EXCLUSIVE_SCAN, "doubling", 0},
    {DF_OP_EXCLUSIVE_SCAN, "ring", 0},
};

/* ---- values and their expectation ---- */

static int64_t value_of(uint32_t rank, uint64_t at, uint64_t run) {
  return (int64_t)((rank * 37 + at * 11 + run * 5 + rank * at) % 23) - 7;
}

static void put(const group *g, void *buffer, uint64_t at, int64_t value) {
  if (g->o.type == dfcclInt32) ((int32_t *)buffer)[at] = (int32_t)value;
  if (g->o.type == dfcclInt8) ((int8_t *)buffer)[at] = (int8_t)value;
  if (g->o.type == dfcclInt64) ((int64_t *)buffer)[at] = value;
  if (g->o.type == dfcclFloat32) /* values whose sum depends on the order */
    ((float *)buffer)[at] = (float)value * 1.1f + (value % 3 == 0 ? 1e6f : 1e-4f);
}

static int64_t got(const group *g, const void *buffer, uint64_t at) {
  if (g->o.type == dfcclInt32) return ((const int32_t *)buffer)[at];
  if (g->o.type == dfcclInt8) return ((const int8_t *)buffer)[at];
  return ((const int64_t *)buffer)[at];
}

static int64_t wrapped(const group *g, int64_t value) {
  if (g->o.type == dfcclInt32) return (int32_t)(uint32_t)(uint64_t)value;
  if (g->o.type == dfcclInt8) return (int8_t)(uint8_t)(uint64_t)value;
  return value;
}

/* The group of the first n ranks. */
static int64_t reduced(const group *g, uint32_t n, uint64_t at, uint64_t run) {
  int64_t result = value_of(0, at, run);
  for (uint32_t r = 1; r < n; r++) {
    int64_t v = value_of(r, at, run);
    result = g->o.op == dfcclMax   ? DF_MAX(result, v)
             : g->o.op == dfcclMin ? DF_MIN(result, v)
                                   : wrapped(g, result + v);
  }
  return g->o.op == dfcclAvg ? result / (int64_t)g->o.n : result;
}

static int64_t expected(const group *g, uint32_t rank, uint64_t at, uint64_t run) {
  uint64_t count = g->o.count;
  switch (g->o.operation) {
  case DF_OP_BROADCAST:
    return value_of(g->o.root, at, run);
  case DF_OP_SEND_RECV:
    return value_of(0, at, run);
  case DF_OP_SCATTER:
    return value_of(g->o.root, rank * count + at, run);
  case DF_OP_SCAN:
    return reduced(g, rank + 1, at, run);
  case DF_OP_EXCLUSIVE_SCAN:
    return reduced(g, rank, at, run);
  case DF_OP_GATHER:
  case DF_OP_ALL_GATHER:
    return value_of((uint32_t)(at / count), at % count, run);
  case DF_OP_REDUCE_SCATTER:
    return reduced(g, g->o.n, rank * count + at, run);
  case DF_OP_ALL_TO_ALL:
    return value_of((uint32_t)(at / count), rank * count + at % count, run);
  default:
    return reduced(g, g->o.n, at, run);
  }
}

/* Gives every rank its buffers for a run. */
static void prepare(group *g, uint64_t run) {
  const group_options *o = &g->o;
  for (uint32_t r = 0; r < o->n; r++) {
    group_rank *me = &g->ranks[r];
    uint64_t inputs = o->count * group_pieces(o, 0), outputs = o->count * group_pieces(o, 1);
    uint8_t *send = me->input, *recv = me->output;
    const int wide_input = group_pieces(o, 0) > 1, wide_output = group_pieces(o, 1) > 1;
    if (o->in_place && wide_output && !wide_input)
      send = recv + r * o->count * g->element;
    else if (o->in_place && wide_input && !wide_output)
      recv = send + r * o->count * g->element;
    else if (o->in_place)
      send = recv;
    for (uint64_t i = 0; i < outputs; i++) put(g, recv, i, 99);
    for (uint64_t i = 0; i < inputs; i++) put(g, send, i, value_of(r, i, run));
    /* A rank may lack the buffers that it does not need. */
    me->send = df_operation_uses(o->operation, 0, r, o->root, o->n) ? send : NULL;
    me->recv = df_operation_uses(o->operation, 1, r, o->root, o->n) ? recv : NULL;
    if (o->count == 0) me->send = me->recv = NULL;
  }
}

static void check_results(const group *g, uint64_t run) {
  for (uint32_t r = 0; r < g->o.n; r++) {
    const void *recv = g->ranks[r].recv;
    uint64_t outputs = recv ? g->o.count * group_pieces(&g->o, 1) : 0;
    for (uint64_t i = 0; i < outputs; i++)
      CHECK(got(g, recv, i) == expected(g, r, i, run),
            "%s %s, %u ranks, root %u, %llu elements, run %llu: rank %u element %llu is %lld "
            "instead of %lld",
            df_operation_name(g->o.operation), g->o.algorithm, g->o.n, g->o.root,
            (unsigned long long)g->o.count, (unsigned long long)run, r, (unsigned long long)i,
            (long long)got(g, recv, i), (long long)expected(g, r, i, run));
    /* The input is unchanged, unless the run was in place. */
    if (!g->o.in_place && g->ranks[r].send)
      for (uint64_t i = 0; i < g->o.count * group_pieces(&g->o, 0); i++)
        CHECK(got(g, g->ranks[r].send, i) == wrapped(g, value_of(r, i, run)),
              "%s: rank %u's input was overwritten", df_operation_name(g->o.operation), r);
  }
}

static void execute(const group_options *options, uint64_t seed, int runs) {
  group g;
  group_open(&g, options, seed);
  for (int k = 0; k < runs; k++) {
    uint64_t run = options->first_run + (uint64_t)k;
    prepare(&g, run);
    group_run(&g, run);
    check_results(&g, run);
  }
  group_close(&g);
}

/* Types, operators, blocks, lending and in-place by the seed; the rest by the caller. */
static group_options variation(const algorithm *a, uint32_t n, uint32_t root, uint64_t count,
                               uint32_t slots, df_random *random) {
  static const dfcclDataType_t types[] = {dfcclInt32, dfcclInt8, dfcclInt64};
  static const dfcclRedOp_t ops[] = {dfcclSum, dfcclMax, dfcclMin, dfcclAvg};
  group_options o = {.operation = a->operation,
                     .algorithm = a->name,
                     .n = n,
                     .root = root,
                     .count = count,
                     .type = types[df_random_below(random, 3)],
                     .op = ops[df_random_below(random, df_operation_is_scan(a->operation) ? 3 : 4)],
                     .lends = df_random_chance(random, 40),
                     .common = df_random_chance(random, 30) ? 1u << df_random_below(random, 3) : 0,
                     .in_place = df_random_chance(random, 40),
                     .cuts = random_cuts(random),
                     .ahead = df_random_chance(random, 30)};
  o.limits = (df_shape_limits){.slot_bytes = 64u << df_random_below(random, 3),
                               .slots = slots,
                               .flagged_max = df_random_chance(random, 50) ? 4096 : 0,
                               .packed_max = df_random_chance(random, 50) ? DF_PACKED_MAX : 0,
                               .block_min = df_random_chance(random, 50) ? 64 : 1 << 20,
                               .max_blocks = 1 + (uint32_t)df_random_below(random, 3)};
  return o;
}

static void every_count(const algorithm *a, uint32_t n, uint32_t root, df_random *random) {
  const uint64_t counts[] = {0, 1, n - 1, n, n + 1, 7 * n + 3, 61 * n + 29};
  for (size_t i = 0; i < DF_COUNT_OF(counts); i++)
    for (uint32_t slots = 2; slots <= 4; slots *= 2) {
      group_options o = variation(a, n, root, counts[i], slots, random);
      execute(&o, df_random_next(random), 2);
    }
}

static uint32_t most_ranks(df_operation operation, uint32_t most) {
  return operation == DF_OP_SEND_RECV ? 2 : most;
}

/* Every size up to 9 with every root, and some up to 17: test_plan_check.c looks at all of them. */
static void every_size(df_operation operation) {
  df_random random = {0x1234 + (uint64_t)operation};
  for (size_t i = 0; i < DF_COUNT_OF(algorithms); i++) {
    const algorithm *a = &algorithms[i];
    if (a->operation != operation) continue;
    for (uint32_t n = 1; n <= most_ranks(operation, 17); n += n < 9 ? 1 : 4)
      for (uint32_t root = 0; root < (a->rooted ? n : 1); root += n < 9 ? 1 : 5)
        every_count(a, n, root, &random);
  }
}

DF_TEST(plans, all_reduce, 120) { every_size(DF_OP_ALL_REDUCE); }
DF_TEST(plans, reduce_to_every_root, 120) { every_size(DF_OP_REDUCE); }
DF_TEST(plans, broadcast_from_every_root, 120) { every_size(DF_OP_BROADCAST); }
DF_TEST(plans, all_gather, 120) { every_size(DF_OP_ALL_GATHER); }
DF_TEST(plans, reduce_scatter, 120) { every_size(DF_OP_REDUCE_SCATTER); }
DF_TEST(plans, all_to_all, 120) { every_size(DF_OP_ALL_TO_ALL); }
DF_TEST(plans, gather_to_every_root, 120) { every_size(DF_OP_GATHER); }
DF_TEST(plans, scatter_from_every_root, 120) { every_size(DF_OP_SCATTER); }
DF_TEST(plans, send_and_receive, 120) { every_size(DF_OP_SEND_RECV); }
DF_TEST(plans, barrier, 120) { every_size(DF_OP_BARRIER); }
DF_TEST(plans, scan, 120) { every_size(DF_OP_SCAN); }
DF_TEST(plans, exclusive_scan, 120) { every_size(DF_OP_EXCLUSIVE_SCAN); }

DF_TEST(plans, larger_groups, 120) {
  static const uint32_t sizes[] = {33, 31, 32, 64};
  df_random random = {77};
  for (size_t i = 0; i < (df_slowdown() > 1 ? 1 : DF_COUNT_OF(sizes)); i++)
    for (size_t k = 0; k < DF_COUNT_OF(algorithms); k++) {
      const uint32_t n = most_ranks(algorithms[k].operation, sizes[i]);
      uint32_t root = algorithms[k].rooted ? (uint32_t)df_random_below(&random, (int)n) : 0;
      for (uint32_t slots = 2; slots <= 4; slots *= 2) {
        group_options o = variation(&algorithms[k], n, root, 3 * sizes[i] + 1, slots, &random);
        execute(&o, df_random_next(&random), 2);
      }
    }
}

/* Scratch memory is cut for the largest chunk of any block: the last block's may be the largest. */
DF_TEST(plans, every_block_fits_its_scratch_memory, 60) {
  df_random random = {5};
  for (uint64_t count = 1; count < 600; count++) {
    group_options o = variation(&algorithms[1], 3, 0, count, 2, &random);
    o.type = dfcclInt32;
    o.limits = (df_shape_limits){.slot_bytes = 256, .slots = 2, .block_min = 64};
    o.limits.max_blocks = 1 + (uint32_t)(count % 5);
    execute(&o, count, 1);
  }
}

/* Sequence numbers are 60 bits long and wrap around. */
DF_TEST(plans, sequence_numbers_wrap_around, 60) {
  df_random random = {9};
  for (size_t k = 0; k < DF_COUNT_OF(algorithms); k++)
    for (uint32_t slots = 2; slots <= 4; slots *= 2) {
      const uint32_t n = most_ranks(algorithms[k].operation, 4);
      group_options o = variation(&algorithms[k], n, 0, 4 * 61 + 29, slots, &random);
      /* As many runs as stay below 2^60 messages, less one: the second run wraps around. One block,
       * because blocks may differ in loops. */
      group g;
      o.limits.max_blocks = 1;
      group_open(&g, &o, 1);
      uint64_t messages = 1; /* on the busiest link */
      for (uint32_t r = 0; r < o.n; r++)
        for (uint32_t i = 0; i < g.ranks[r].plan->n_links; i++)
          messages = DF_MAX(messages, g.ranks[r].plan->links[i].messages);
      uint64_t per_run = g.shape.parts[0].loops * messages;
      group_close(&g);
      o.first_run = (DF_SEQUENCE_MASK / per_run) - 1;
      execute(&o, k, 4);
    }
}

/* Never: a link of one slot. It is refused by the settings; this is why. */
DF_TEST(plans, one_slot_is_too_few_for_a_ring, 30) {
  group g;
  group_options o = {.operation = DF_OP_ALL_REDUCE, .algorithm = "ring", .n = 3, .count = 48};
  o.type = dfcclInt32;
  o.limits = (df_shape_limits){.slot_bytes = 64, .slots = 2, .block_min = 64, .max_blocks = 1};
  group_open(&g, &o, 1);
  for (uint32_t r = 0; r < o.n; r++)
    for (uint32_t i = 0; i < g.ranks[r].plan->n_links; i++) g.ranks[r].desc->links[i].slot_mask = 0;
  prepare(&g, 0);
  CHECK(!group_try_run(&g, 0), "it completed: the limit may be lowered");
  group_close(&g);
  group_open(&g, &o, 1);
  CHECK(g.shape.n_slots == DF_MIN_LINK_SLOTS, "%u slots", g.shape.n_slots);
  prepare(&g, 0);
  CHECK(group_try_run(&g, 0), "two slots are too few");
  check_results(&g, 0);
  group_close(&g);
}

/* ---- structure ---- */

DF_TEST(plans, links_number_their_messages_in_program_order_and_meet, 60) {
  for (size_t k = 0; k < DF_COUNT_OF(algorithms); k++)
    for (uint32_t n = 1; n <= most_ranks(algorithms[k].operation, 40); n++)
      for (uint32_t root = 0; root<(algorithms[k].rooted ? n : 1); root += n> 17 ? 13 : 1) {
        uint32_t *messages = group_allocate(2 * n * n * sizeof *messages); /* [sends][from][to] */
        for (uint32_t r = 0; r < n; r++) {
          df_plan_key key = {.operation = algorithms[k].operation,
                             .algorithm = df_algorithm_by_name(algorithms[k].name),
                             .split = 3,
                             .n = n,
                             .position = r,
                             .root = root};
          df_plan *plan = df_plan_make(&key);
          uint32_t *next = group_allocate((plan->n_links + 1) * sizeof *next);
          for (uint32_t i = 0; i < plan->n_primitives; i++) {
            const df_primitive *p = &plan->primitives[i];
            if (p->flags & DF_PRIM_RECV) {
              CHECK(p->recv_link < plan->n_links && !plan->links[p->recv_link].sends, "receives");
              CHECK(p->recv_ordinal == next[p->recv_link]++, "rank %u primitive %u", r, i);
            }
            if (p->flags & DF_PRIM_SEND) {
              CHECK(p->send_link < plan->n_links && plan->links[p->send_link].sends, "sends");
              CHECK(p->send_ordinal == next[p->send_link]++, "rank %u primitive %u", r, i);
            }
            CHECK(p->piece < plan->pieces, "rank %u primitive %u names a piece beyond %u", r, i,
                  plan->pieces);
          }
          for (uint32_t i = 0; i < plan->n_links; i++) {
            const df_plan_link *link = &plan->links[i];
            CHECK(link->messages == next[i], "link %u of rank %u", i, r);
            uint32_t from = link->sends ? r : link->peer, to = link->sends ? link->peer : r;
            messages[(link->sends * n + from) * n + to] += link->messages;
          }
          free(next);
          df_plan_free(plan);
        }
        for (uint32_t i = 0; i < n * n; i++)
          CHECK(messages[i] == messages[n * n + i], "%s of %u: %u to %u: %u sent, %u received",
                df_operation_name(algorithms[k].operation), n, i / n, i % n, messages[n * n + i],
                messages[i]);
        free(messages);
      }
}

/* With these plans messages may exceed their slots: nobody may need a slot for one. */
DF_TEST(plans, messages_of_plans_that_lend_all_come_from_buffers, 60) {
  uint32_t lend = 0;
  for (size_t k = 0; k < DF_COUNT_OF(algorithms); k++)
    for (uint32_t n = 2; n <= 20; n++) {
      uint32_t lending = 0;
      for (uint32_t r = 0; r < n; r++) {
        const df_plan_key key = {.operation = algorithms[k].operation,
                                 .algorithm = df_algorithm_by_name(algorithms[k].name),
                                 .split = 3,
                                 .n = n,
                                 .position = r};
        df_plan *plan = df_plan_make(&key);
        lending += plan->lends_all != 0;
        for (uint32_t i = 0; i < plan->n_primitives && plan->lends_all; i++) {
          const df_primitive *p = &plan->primitives[i];
          const uint8_t lent = df_prim_computes(p->flags) ? p->destination : p->source;
          if (p->flags & DF_PRIM_SEND)
            CHECK(lent == DF_BUFFER_INPUT || lent == DF_BUFFER_OUTPUT,
                  "%s of %u, rank %u: sends %u", algorithms[k].name, n, r, lent);
        }
        df_plan_free(plan);
      }
      CHECK(lending == 0 || lending == n, "%s of %u: members disagree", algorithms[k].name, n);
      CHECK(!lending || !algorithms[k].rooted, "%s: a rank may lack a buffer", algorithms[k].name);
      lend += lending;
    }
  CHECK(lend > 0, "no plan lends all");
}

/* A new algorithm must be in the list above, for each of its operations. */
DF_TEST(plans, every_algorithm_is_tested, 30) {
  for (int operation = 0; operation < DF_OP_COUNT; operation++)
    for (int number = 0; number < DF_ALGORITHMS; number++) {
      int listed = 0;
      for (size_t k = 0; k < DF_COUNT_OF(algorithms); k++)
        listed += (int)algorithms[k].operation == operation &&
                  df_algorithm_by_name(algorithms[k].name) == number;
      CHECK(listed == df_algorithm_has(number, (df_operation)operation), "%s of %s",
            df_algorithm_name(number), df_operation_name((df_operation)operation));
    }
}

/* ---- invariant 6 ---- */

static uint64_t bits_of_run(const group_options *options, uint64_t seed) {
  group g;
  group_open(&g, options, seed);
  prepare(&g, 0);
  group_run(&g, 0);
  uint64_t hash = 1469598103934665603u;
  for (uint32_t r = 0; r < g.o.n; r++)
    for (uint64_t i = 0; i < g.o.count * group_pieces(&g.o, 1) * g.element; i++)
      hash = (hash ^ g.ranks[r].output[i]) * 1099511628211u;
  if (g.o.operation == DF_OP_ALL_REDUCE)
    for (uint32_t r = 1; r < g.o.n; r++)
      CHECK(memcmp(g.ranks[r].output, g.ranks[0].output, g.o.count * g.element) == 0,
            "%s: rank %u's bits differ from rank 0's", g.o.algorithm, r);
  group_close(&g);
  return hash;
}

DF_TEST(plans, bits_do_not_depend_on_the_order_of_steps, 60) {
  df_random random = {21};
  for (size_t k = 0; k < DF_COUNT_OF(algorithms); k++)
    for (uint32_t n = 2; n <= most_ranks(algorithms[k].operation, 7); n++) {
      group_options o =
          variation(&algorithms[k], n, algorithms[k].rooted ? n - 1 : 0, 100 * n + 7, 2, &random);
      o.type = dfcclFloat32;
      o.op = dfcclSum;
      if (!df_operation_is_scan(o.operation) && df_random_chance(&random, 50)) o.op = dfcclAvg;
      o.in_place = 0;
      uint64_t bits = bits_of_run(&o, 0);
      for (uint64_t seed = 1; seed < 10; seed++)
        CHECK(bits_of_run(&o, seed) == bits, "%s %s of %u: other bits with seed %llu",
              df_operation_name(o.operation), o.algorithm, n, (unsigned long long)seed);
    }
}

DF_TEST(plans, a_missing_algorithm_is_explained_by_those_that_exist, 30) {
  char text[DF_ALGORITHM_SENTENCE_BYTES];
  for (int operation = -1; operation < DF_OP_ALL; operation++) {
    const char *name = operation < 0 ? NULL : df_operation_name((df_operation)operation);
    const size_t length = strlen(df_algorithm_explain("quick\n", operation, name, text));
    CHECK(length < sizeof text - 1, "operation %d: %zu characters", operation, length);
    CHECK(strstr(text, "unknown algorithm \"quick\\n\"; ") == text, "\"%s\"", text);
    for (int i = 0; i < DF_ALGORITHMS; i++) {
      char word[40];
      snprintf(word, sizeof word, " %s", df_algorithm_name(i));
      const char *at = strstr(text, word);
      while (at && at[strlen(word)] != ',' && at[strlen(word)] != '\0') at = strstr(at + 1, word);
      CHECK((at != NULL) == (operation < 0 || df_algorithm_has(i, (df_operation)operation)),
            "\"%s\" and %s", text, df_algorithm_name(i));
    }
  }
  df_algorithm_explain("ring", DF_OP_ALL_TO_ALL, "alltoall", text);
  CHECK(strstr(text, "alltoall has no algorithm \"ring\"; alltoall has pairwise, "), "\"%s\"",
        text);
}
