/*
 * A group of ranks in one thread. The plans of all ranks are executed by the library's step
 * function over links in plain memory, in an order that a seed decides. Between two steps every
 * context is copied out of its slot and back, as a preemption does. Every message is checked: it is
 * sent once and received once, with the same length on both sides.
 */
#ifndef DF_TESTS_UNIT_GROUP_H
#define DF_TESTS_UNIT_GROUP_H

#include <stdlib.h>
#include <string.h>

#include "plans/plan.h"
#include "primitives/step.h"
#include "primitives/elements/types.h"
#include "support/harness.h"

typedef struct group_options {
  df_operation operation;
  const char *algorithm;
  uint32_t n, root;
  uint32_t split; /* for two-level algorithms; 0: 2 */
  uint64_t count;
  dfcclDataType_t type;
  dfcclRedOp_t op;
  df_shape_limits limits;
  int lends;       /* every message that may lend its buffer does */
  uint32_t common; /* common slots of each block, which every run uses; 0: none */
  int in_place;
  df_cuts cuts;
  int ahead; /* slots are released a quarter of the ring at a time, unless buffers are lent */
  uint64_t first_run; /* first run number, which decides the first sequence numbers */
} group_options;

/* One direction of a pair of ranks: the rings of all blocks, and the messages in flight in each. */
typedef struct group_traffic {
  uint64_t sent, received;
  uint64_t sequence[DF_MAX_LINK_SLOTS], count[DF_MAX_LINK_SLOTS];
} group_traffic;

typedef struct group_pipe {
  uint8_t *rings;
  group_traffic *traffic; /* [blocks] */
} group_pipe;

typedef struct group_rank {
  df_plan *plan;
  df_descriptor *desc;
  df_cursor *saved; /* [blocks] */
  int *done;        /* [blocks] the current run is complete there */
  df_lanes lanes;
  df_move move;
  df_bell bell;
  uint64_t *mapping;       /* the common slots, which all ranks read in place */
  uint8_t *input, *output; /* allocations; a run's arguments may point into them */
  const void *send;
  void *recv;
} group_rank;

typedef struct group {
  group_options o;
  df_shape shape;
  uint32_t element;
  group_rank *ranks;
  group_pipe *pipes; /* [from][to] */
  df_random random;
  uint64_t steps, messages;
} group;

static const uint32_t group_never;
enum { GROUP_GUARD_BYTES = 4096, GROUP_GUARD = 0xee };

static inline void *group_allocate(size_t bytes) {
  void *memory = aligned_alloc(64, DF_ALIGN_UP(bytes + 1, (size_t)64));
  CHECK(memory != NULL, "no memory");
  memset(memory, 0, DF_ALIGN_UP(bytes + 1, (size_t)64));
  return memory;
}

static inline uint64_t group_pieces(const group_options *o, int output) {
  return df_operation_is_wide(o->operation, output) ? o->n : 1;
}

static inline void group_link(group *g, uint32_t rank, uint32_t which) {
  group_rank *me = &g->ranks[rank];
  const df_plan_link *planned = &me->plan->links[which];
  uint32_t from = planned->sends ? rank : planned->peer, to = planned->sends ? planned->peer : rank;
  CHECK(planned->peer < g->o.n && planned->peer != rank, "rank %u has a link to %u", rank,
        planned->peer);
  group_pipe *pipe = &g->pipes[from * g->o.n + to];
  uint64_t ring_bytes = df_link_ring_bytes(g->shape.stride, g->shape.n_slots);
  if (pipe->rings == NULL) {
    pipe->rings = group_allocate(ring_bytes * g->shape.n_blocks);
    pipe->traffic = group_allocate(g->shape.n_blocks * sizeof *pipe->traffic);
  }
  for (uint32_t b = 0; b < g->shape.n_blocks; b++) {
    uint8_t *ring = pipe->rings + b * ring_bytes;
    uint64_t *credit = (uint64_t *)(ring + (uint64_t)g->shape.stride * g->shape.n_slots);
    uint64_t before = g->o.first_run * g->shape.parts[b].loops * planned->messages;
    *credit = before & DF_SEQUENCE_MASK;
    for (uint64_t k = 0; k < g->shape.n_slots && before > k;
         k++) /* the state that earlier runs left */
      *(uint64_t *)(ring + ((before - k) & (g->shape.n_slots - 1)) * g->shape.stride) = (before - k)
                                                                                        << 1;
    me->desc->links[b * me->plan->n_links + which] =
        (df_link){.slots = ring,
                  .credit = credit,
                  .peer_bell = &g->ranks[planned->peer].bell,
                  .credit_seen = before & DF_SEQUENCE_MASK,
                  .stride = g->shape.stride,
                  .slot_mask = g->shape.n_slots - 1,
                  .messages = planned->messages,
                  .peer = planned->peer,
                  .payload_offset = (uint8_t)g->shape.payload_offset,
                  .same_process = 1,
                  .sends = (uint8_t)planned->sends,
                  .release_mask = g->o.ahead && !g->o.lends && !g->o.common && g->shape.n_slots >= 8
                                      ? (uint16_t)(g->shape.n_slots / 4 - 1)
                                      : 0};
  }
}

static inline void group_describe(group *g, uint32_t rank) {
  group_rank *me = &g->ranks[rank];
  const df_plan *plan = me->plan;
  uint32_t blocks = g->shape.n_blocks;
  df_descriptor *d = me->desc = group_allocate(sizeof *d);
  d->primitives = plan->primitives;
  d->links = group_allocate(blocks * plan->n_links * sizeof(df_link));
  if (g->shape.scratch_bytes) {
    d->scratch = group_allocate(blocks * g->shape.scratch_bytes + GROUP_GUARD_BYTES);
    memset(d->scratch + blocks * g->shape.scratch_bytes, GROUP_GUARD, GROUP_GUARD_BYTES);
  }
  d->parts = g->shape.parts;
  d->words = group_allocate(sizeof *d->words);
  if (g->o.common) {
    uint64_t slots = (uint64_t)blocks * g->o.common * g->shape.stride;
    uint8_t *common = group_allocate(slots + GROUP_GUARD_BYTES);
    memset(common + slots, GROUP_GUARD, GROUP_GUARD_BYTES);
    d->words->common = (uint64_t)(uintptr_t)common;
    d->words->common_mask = g->o.common - 1;
    d->words->common_mapping = me->mapping = group_allocate(g->o.n * sizeof *me->mapping);
  }
  d->counters = group_allocate(sizeof *d->counters);
  d->progress = group_allocate(blocks * sizeof *d->progress);
  d->count = g->o.count;
  d->direct_min = g->o.lends || g->o.common ? 1 : UINT64_MAX;
  d->scratch_bytes = g->shape.scratch_bytes;
  d->n_primitives = (uint16_t)plan->n_primitives;
  d->n_links = (uint16_t)plan->n_links;
  d->pieces = (uint16_t)plan->pieces;
  d->n_blocks = (uint8_t)blocks;
  d->divisor = (uint16_t)g->o.n;
  d->geometry = (uint8_t)plan->geometry;
  d->type = (uint8_t)g->o.type;
  d->op = (uint8_t)(g->o.op == dfcclAvg ? dfcclSum : g->o.op);
  d->element_bytes = (uint8_t)g->element;
  d->lends = DF_LENDS_STREAMED | (plan->direct_in_place ? DF_LENDS_IN_PLACE : 0);
  d->generation = 1;
  me->saved = group_allocate(blocks * sizeof *me->saved);
  me->done = group_allocate(blocks * sizeof *me->done);
  for (uint32_t b = 0; b < blocks; b++)
    me->saved[b] = (df_cursor){.run = g->o.first_run, .generation = 1};
  me->lanes = (df_lanes){
      .move = &me->move, .mover = df_mover_cpu_best(), .interrupt = &group_never, .yield_polls = 1};
  me->input = group_allocate(g->o.count * group_pieces(&g->o, 0) * g->element);
  me->output = group_allocate(g->o.count * group_pieces(&g->o, 1) * g->element);
}

/* Opens the group; close it with group_close. */
static inline void group_open(group *g, const group_options *options, uint64_t seed) {
  memset(g, 0, sizeof *g);
  g->o = *options;
  g->random.state = seed;
  g->element = (uint32_t)df_type_size(options->type);
  g->ranks = group_allocate(options->n * sizeof *g->ranks);
  g->pipes = group_allocate((size_t)options->n * options->n * sizeof *g->pipes);
  int algorithm = df_algorithm_by_name(options->algorithm);
  CHECK(algorithm >= 0 && df_algorithm_has(algorithm, options->operation), "%s has no %s",
        df_operation_name(options->operation), options->algorithm);
  for (uint32_t r = 0; r < options->n; r++) {
    df_plan_key key = {.operation = options->operation,
                       .algorithm = algorithm,
                       .n = options->n,
                       .position = r,
                       .root = options->root,
                       .cuts = options->cuts,
                       .split = options->split ? options->split : 2,
                       .average = options->op == dfcclAvg &&
                                  df_operation_reduces(options->operation) && options->n > 1};
    g->ranks[r].plan = df_plan_make(&key);
    CHECK(g->ranks[r].plan != NULL, "no plan for rank %u of %u", r, options->n);
    df_shape shape;
    df_shape_make(&shape, g->ranks[r].plan, options->count, g->element, &options->limits);
    if (r == 0) g->shape = shape;
    CHECK(shape.n_blocks == g->shape.n_blocks && shape.stride == g->shape.stride &&
              shape.n_slots == g->shape.n_slots &&
              memcmp(shape.parts, g->shape.parts, sizeof shape.parts) == 0,
          "rank %u cuts the buffer in another way than rank 0", r);
    CHECK(shape.n_slots >= 1 && (shape.n_slots & (shape.n_slots - 1)) == 0 &&
              shape.n_slots <= DF_MAX_LINK_SLOTS,
          "%u slots", shape.n_slots);
  }
  for (uint32_t r = 0; r < options->n; r++) group_describe(g, r);
  for (uint32_t r = 0; r < options->n; r++)
    for (uint32_t i = 0; i < g->ranks[r].plan->n_links; i++) group_link(g, r, i);
  for (uint32_t r = 0; r < options->n; r++) { /* some ranks keep records, others do not */
    df_descriptor *d = g->ranks[r].desc;
    if (!df_prepared_is_kept(d) || df_random_chance(&g->random, 50)) continue;
    df_prepared_keep(d, group_allocate(d->n_primitives * sizeof *d->prepared));
  }
}

static inline void group_close(group *g) {
  for (uint32_t r = 0; r < g->o.n; r++) {
    group_rank *me = &g->ranks[r];
    df_plan_free(me->plan);
    free((void *)(uintptr_t)me->desc->prepared);
    free(me->desc->links);
    free(me->desc->scratch);
    free(me->desc->progress);
    free((void *)(uintptr_t)me->desc->words->common);
    free(me->mapping);
    free(me->desc->words);
    free(me->desc->counters);
    free(me->desc);
    free(me->saved);
    free(me->done);
    free(me->input);
    free(me->output);
  }
  for (uint32_t i = 0; i < g->o.n * g->o.n; i++) {
    free(g->pipes[i].rings);
    free(g->pipes[i].traffic);
  }
  free(g->pipes);
  free(g->ranks);
}

static inline group_traffic *group_traffic_of(group *g, uint32_t from, uint32_t to, uint32_t b) {
  return &g->pipes[from * g->o.n + to].traffic[b];
}

/* Records the step's move, from which all counts follow. */
static inline void group_book(group *g, uint32_t rank, uint32_t block) {
  const df_move *move = &g->ranks[rank].move;
  if (move->send_link && move->announces) {
    group_traffic *t = group_traffic_of(g, rank, move->send_link->peer, block);
    CHECK(t->sent - t->received < g->shape.n_slots, "rank %u overruns rank %u", rank,
          move->send_link->peer);
    CHECK(t->sent == 0 || t->sequence[(t->sent - 1) % DF_MAX_LINK_SLOTS] < move->send_sequence,
          "rank %u sends sequence number %llu to rank %u a second time", rank,
          (unsigned long long)move->send_sequence, move->send_link->peer);
    t->sequence[t->sent % DF_MAX_LINK_SLOTS] = move->send_sequence;
    t->count[t->sent % DF_MAX_LINK_SLOTS] = move->count;
    t->sent++;
    g->messages++;
  }
  if (move->recv_link && move->announces) {
    group_traffic *t = group_traffic_of(g, move->recv_link->peer, rank, block);
    uint64_t at = t->received % DF_MAX_LINK_SLOTS;
    CHECK(t->received < t->sent, "rank %u received what rank %u has not sent", rank,
          move->recv_link->peer);
    CHECK(t->sequence[at] == move->recv_sequence, "rank %u: sequence number %llu, sent %llu", rank,
          (unsigned long long)move->recv_sequence, (unsigned long long)t->sequence[at]);
    CHECK(t->count[at] == move->count, "rank %u receives %llu elements, sent were %llu", rank,
          (unsigned long long)move->count, (unsigned long long)t->count[at]);
    t->received++;
  }
}

/* One attempt at one step of one block; returns the step function's result. */
static inline df_step_result group_step(group *g, uint32_t rank, uint32_t block) {
  group_rank *me = &g->ranks[rank];
  df_cursor slot = me->saved[block]; /* the context is loaded ... */
  uint32_t phase = slot.phase;
  df_step_result result = df_coll_step(me->desc, block, &slot, &me->lanes);
  me->saved[block] = slot; /* ... and saved */
  g->steps++;
  if (result == DF_STEP_BLOCKED || result == DF_STEP_CANCELLED) return result;
  if (phase != DF_PHASE_DRAIN && me->desc->parts[block].loops > 0) group_book(g, rank, block);
  if (result == DF_STEP_DONE) { /* the daemon does the same then */
    me->saved[block].run++;
    me->saved[block].phase = DF_PHASE_BEGIN;
    me->done[block] = 1;
  }
  return result;
}

/* Executes one run on all ranks, with the buffers in send and recv. Returns 0 if it is stuck: no
 * block can step. */
static inline int group_try_run(group *g, uint64_t run) {
  uint32_t blocks = g->shape.n_blocks, total = g->o.n * blocks, left = total, blocked = 0;
  uint32_t streak = df_random_chance(&g->random, 50) ? 1 : 1000000; /* steps in a row */
  for (uint32_t r = 0; r < g->o.n; r++) {
    group_rank *me = &g->ranks[r];
    me->desc->words->runs[run % DF_RUNS_AHEAD] =
        (df_run_arguments){.send = me->send, .recv = me->recv};
    memset(me->done, 0, blocks * sizeof *me->done);
  }
  while (left > 0) {
    /* Usually a random block; at intervals all blocks in turn, so that a deadlock is detected as
     * one. */
    int sweep = blocked > 8 * total;
    uint32_t tries = sweep ? total : 1;
    int moved = 0;
    for (uint32_t i = 0; i < tries; i++) {
      uint32_t pick = sweep ? i : (uint32_t)df_random_below(&g->random, (int)total);
      uint32_t r = pick / blocks, b = pick % blocks;
      for (uint32_t k = 0; k < streak && !g->ranks[r].done[b]; k++) {
        if (group_step(g, r, b) == DF_STEP_BLOCKED) break;
        moved = 1;
      }
      if (g->ranks[r].done[b] == 1) {
        g->ranks[r].done[b] = 2;
        left--;
      }
    }
    if (sweep && !moved) return 0;
    blocked = moved ? 0 : blocked + tries;
  }
  for (uint32_t r = 0; r < g->o.n; r++)
    for (uint32_t i = 0; g->ranks[r].desc->scratch && i < GROUP_GUARD_BYTES; i++)
      CHECK(g->ranks[r].desc->scratch[blocks * g->shape.scratch_bytes + i] == GROUP_GUARD,
            "rank %u writes %u bytes behind its scratch memory", r, i + 1);
  for (uint32_t r = 0; r < g->o.n; r++) {
    const uint8_t *common = (const uint8_t *)(uintptr_t)g->ranks[r].desc->words->common;
    for (uint64_t i = 0; common && i < GROUP_GUARD_BYTES; i++)
      CHECK(common[(uint64_t)blocks * g->o.common * g->shape.stride + i] == GROUP_GUARD,
            "rank %u writes behind its common slots", r);
  }
  for (uint32_t i = 0; i < g->o.n * g->o.n; i++)
    for (uint32_t b = 0; g->pipes[i].traffic && b < blocks; b++)
      CHECK(g->pipes[i].traffic[b].sent == g->pipes[i].traffic[b].received,
            "%u to %u: %llu sent, %llu received", i / g->o.n, i % g->o.n,
            (unsigned long long)g->pipes[i].traffic[b].sent,
            (unsigned long long)g->pipes[i].traffic[b].received);
  return 1;
}

static inline void group_run(group *g, uint64_t run) {
  if (group_try_run(g, run)) return;
  for (uint32_t r = 0; r < g->o.n; r++)
    for (uint32_t b = 0; b < g->shape.n_blocks; b++) {
      const df_cursor *c = &g->ranks[r].saved[b];
      CHECK(g->ranks[r].done[b], "deadlock: rank %u block %u: loop %u, primitive %u, phase %u", r,
            b, c->loop, c->primitive, c->phase);
    }
}

#endif
