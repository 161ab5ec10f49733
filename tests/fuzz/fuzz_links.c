/*
 * The words that a peer process can write into memory that it shares with a rank: commit words,
 * payloads, addresses of lent buffers, credits, hold words, the bell. Whatever their values are,
 * the rank's steps stay within its buffers, its rings and the peer's lent memory; each step
 * returns; and a cancelled run ends unless a buffer of this process is being read.
 *
 * All memory is allocated to its exact size, and the plan, the shape and the step function are the
 * library's. The input selects a collective; then it selects in turn the rank's actions and the
 * peers' stores: mostly valid messages, so that the run progresses, with arbitrary words in
 * between.
 */
#include <stdlib.h>
#include <string.h>

#include "input.h"
#include "plans/plan.h"
#include "primitives/step.h"
#include "primitives/elements/types.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { RANKS_MAX = 5, LENT_BYTES = 2 * DF_PAGE, TURNS_MAX = 4000, COUNT_MAX = 1500 };

static uint64_t next_word(input *in) {
  uint64_t word = 0;
  for (int i = 0; i < 8; i++) word = word << 8 | next_byte(in);
  return word;
}

typedef struct victim {
  df_plan *plan;
  df_shape shape;
  df_descriptor desc;
  df_run_words *words;
  df_mapped_ranges *mapped_ranges;
  df_bell *bell;
  uint8_t **rings; /* [links], for all blocks */
  df_ways *ways;   /* [blocks][links], used by sending ends; NULL: nothing is measured */
  uint32_t *ways_read;
  uint8_t *send, *recv, *lent;
  df_cursor cursors[DF_MAX_BLOCKS];
  df_lanes lanes;
  df_move move;
} victim;

static const uint32_t never;

static void *allocate(size_t bytes) {
  void *memory = aligned_alloc(64, DF_ALIGN_UP(bytes + (bytes == 0), (size_t)64));
  DF_ASSERT(memory != NULL);
  memset(memory, 0, DF_ALIGN_UP(bytes + (bytes == 0), (size_t)64));
  return memory;
}

static int make_plan(victim *v, input *in) {
  df_operation operation = (df_operation)(next_byte(in) % DF_OP_COUNT);
  int algorithm = next_byte(in) % DF_ALGORITHMS;
  uint32_t n = 2 + next_byte(in) % (RANKS_MAX - 1);
  if (!df_algorithm_has(algorithm, operation)) return 0;
  df_plan_key key = {.operation = operation,
                     .algorithm = algorithm,
                     .n = n,
                     .position = next_byte(in) % n,
                     .root = next_byte(in) % n,
                     .split = 2};
  return (v->plan = df_plan_make(&key)) != NULL;
}

static size_t buffer_bytes(const victim *v, uint64_t count) {
  return (size_t)(count * v->plan->key.n * v->desc.element_bytes); /* in the larger buffer */
}

static void make_ways(victim *v) {
  const size_t ends = (size_t)v->shape.n_blocks * v->plan->n_links;
  v->ways = allocate(ends * sizeof *v->ways);
  v->ways_read = allocate(ends * DF_WAYS * sizeof *v->ways_read);
  for (size_t end = 0; end < ends; end++) {
    df_link *link = &v->desc.links[end];
    df_ways_open(&v->ways[end], (df_ways_terms){.one_way = end % 2}, v->shape.n_slots, NULL);
    if (link->sends)
      link->ways = &v->ways[end];
    else
      link->ways_read = &v->ways_read[end * DF_WAYS];
  }
}

static void make_links(victim *v) {
  uint64_t ring = df_link_ring_bytes(v->shape.stride, v->shape.n_slots);
  uint32_t n_links = v->plan->n_links;
  v->rings = allocate(n_links * sizeof *v->rings);
  v->desc.links = allocate(v->shape.n_blocks * n_links * sizeof(df_link));
  for (uint32_t which = 0; which < n_links; which++) {
    v->rings[which] = allocate(ring * v->shape.n_blocks);
    for (uint32_t b = 0; b < v->shape.n_blocks; b++)
      v->desc.links[b * n_links + which] =
          (df_link){.slots = v->rings[which] + b * ring,
                    .credit = (uint64_t *)(v->rings[which] + b * ring +
                                           (uint64_t)v->shape.stride * v->shape.n_slots),
                    .peer_bell = v->bell,
                    .stride = v->shape.stride,
                    .slot_mask = v->shape.n_slots - 1,
                    .messages = v->plan->links[which].messages,
                    .peer = v->plan->links[which].peer,
                    .payload_offset = (uint16_t)v->shape.payload_offset,
                    .sends = v->plan->links[which].sends,
                    .mapped_ranges = v->mapped_ranges};
  }
}

static void make_victim(victim *v, input *in) {
  static const uint8_t types[] = {dfcclInt8, dfcclFloat16, dfcclFloat32, dfcclInt64};
  uint64_t count = 1 + (next_byte(in) << 8 | next_byte(in)) % COUNT_MAX;
  uint8_t form = 0;
  df_shape_limits limits = {.max_blocks = 1 + next_byte(in) % 3,
                            .block_min = 64,
                            .slot_bytes = 64u << next_byte(in) % 4,
                            .slots = 2u << next_byte(in) % 3,
                            .flagged_max = (form = next_byte(in)) % 2 ? 1024 : 0};
  limits.slot_bytes <<= form >> 6; /* long messages are measured */
  limits.packed_max = form % 4 == 3 ? 0 : DF_PACKED_MAX;
  df_descriptor *d = &v->desc;
  d->type = types[next_byte(in) % DF_COUNT_OF(types)];
  d->element_bytes = (uint8_t)df_type_size((dfcclDataType_t)d->type);
  df_shape_make(&v->shape, v->plan, count, d->element_bytes, &limits);
  v->words = allocate(sizeof *v->words);
  v->mapped_ranges = allocate(sizeof *v->mapped_ranges);
  v->bell = allocate(sizeof *v->bell);
  v->lent = aligned_alloc(DF_PAGE, LENT_BYTES);
  DF_ASSERT(v->lent != NULL && df_mapped_ranges_open(v->mapped_ranges, v->lent, LENT_BYTES));
  memset(v->lent, 1, LENT_BYTES);
  d->primitives = v->plan->primitives;
  d->n_primitives = (uint16_t)v->plan->n_primitives;
  d->n_links = (uint16_t)v->plan->n_links;
  d->pieces = (uint16_t)v->plan->pieces;
  d->geometry = (uint8_t)v->plan->geometry;
  d->n_blocks = (uint8_t)v->shape.n_blocks;
  d->parts = v->shape.parts;
  d->words = v->words;
  d->count = count;
  d->direct_min = UINT64_MAX;
  d->scratch_bytes = v->shape.scratch_bytes;
  d->scratch = allocate(v->shape.n_blocks * v->shape.scratch_bytes);
  d->divisor = (uint16_t)v->plan->key.n;
  d->op = next_byte(in) % 4;
  v->send = allocate(buffer_bytes(v, count));
  v->recv = allocate(buffer_bytes(v, count));
  for (int run = 0; run < DF_RUNS_AHEAD; run++)
    v->words->runs[run] = (df_run_arguments){.send = v->send, .recv = v->recv};
  for (uint32_t b = 0; b < d->n_blocks; b++) v->cursors[b].run = next_byte(in) % 3;
  v->lanes = (df_lanes){
      .move = &v->move, .mover = df_mover_cpu_best(), .interrupt = &never, .yield_polls = 1};
  make_links(v);
  if (form & 32) make_ways(v);
  if (count % 2 && df_prepared_is_kept(d))
    df_prepared_keep(d, allocate(d->n_primitives * sizeof *d->prepared));
}

static void free_victim(victim *v) {
  for (uint32_t i = 0; v->rings && i < v->plan->n_links; i++) free(v->rings[i]);
  free(v->rings);
  free(v->ways);
  free(v->ways_read);
  free((void *)(uintptr_t)v->desc.prepared);
  free(v->desc.links);
  free(v->desc.scratch);
  free(v->words);
  free(v->mapped_ranges);
  free(v->bell);
  free(v->lent);
  free(v->send);
  free(v->recv);
  df_plan_free(v->plan);
}

/* ---- the peers ---- */

/* The block's next input as a correct peer would give it: a message or a credit. tag: of the
 * message; ways that do not exist are among the tags. */
static void oblige(victim *v, uint32_t block, uint64_t lend_at, uint64_t tag) {
  const df_cursor *c = &v->cursors[block];
  const df_part *part = &v->desc.parts[block];
  if (c->primitive >= v->desc.n_primitives) return;
  const df_primitive *prim = &v->desc.primitives[c->primitive];
  df_link *links = v->desc.links + (uint64_t)block * v->desc.n_links;
  if (prim->flags & DF_PRIM_RECV) {
    df_link *link = &links[prim->recv_link];
    uint64_t sequence = df_sequence(c, part->loops, link, prim->recv_ordinal);
    uint64_t *slot = (uint64_t *)df_link_slot(link, sequence);
    if (lend_at) slot[1] = lend_at;
    slot[0] = sequence << DF_COMMIT_BITS | tag | (lend_at != 0);
    link->credit[1] = 0;
  }
  if (prim->flags & DF_PRIM_SEND) {
    df_link *link = &links[prim->send_link];
    *link->credit = (df_sequence(c, part->loops, link, prim->send_ordinal) - 1) & DF_SEQUENCE_MASK;
  }
}

static uint64_t address_of(victim *v, input *in) {
  uint64_t base = (uint64_t)(uintptr_t)v->lent;
  switch (next_byte(in) % 4) {
  case 0:
    return base + LENT_BYTES - next_byte(in); /* the message may end beyond the lent memory */
  case 1:
    return base - next_byte(in);
  case 2:
    return next_word(in);
  default:
    return base;
  }
}

static void scribble(victim *v, input *in) {
  uint32_t which = next_byte(in) % v->desc.n_links;
  uint64_t words = df_link_ring_bytes(v->shape.stride, v->shape.n_slots) * v->desc.n_blocks / 8;
  uint64_t at = (uint64_t)(next_byte(in) << 8 | next_byte(in)) % words;
  uint64_t *ring = (uint64_t *)v->rings[which];
  uint8_t how = next_byte(in) % 4;
  uint64_t word = how == 0 ? next_word(in) : how == 1 ? next_byte(in) : UINT64_MAX - next_byte(in);
  ring[at] = how == 3 ? address_of(v, in) : word;
}

static void be_peer(victim *v, input *in, uint32_t block) {
  uint8_t what = next_byte(in);
  const uint64_t tag = (uint64_t)(what >> 5) << 1;
  if (what % 8 < 4)
    oblige(v, block, 0, tag);
  else if (what % 8 == 4)
    oblige(v, block, address_of(v, in), tag);
  else if (what % 8 < 7)
    scribble(v, in);
  else
    *(uint64_t *)v->bell = next_word(in);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  input in = {data, size};
  victim *v = allocate(sizeof *v);
  if (!make_plan(v, &in)) {
    free(v);
    return 0;
  }
  make_victim(v, &in);
  for (int turn = 0; turn < TURNS_MAX && in.size > 0 && v->desc.n_links > 0; turn++) {
    uint32_t block = next_byte(&in) % v->desc.n_blocks;
    df_cursor *cursor = &v->cursors[block];
    int runnable = df_coll_is_runnable(&v->desc, block, cursor);
    df_step_result result = df_coll_step(&v->desc, block, cursor, &v->lanes);
    DF_ASSERT(result != DF_STEP_CANCELLED);
    /* Otherwise a daemon would sleep although the step can progress. */
    if (!runnable) DF_ASSERT(result == DF_STEP_BLOCKED);
    if (result == DF_STEP_DONE) {
      cursor->run++;
      cursor->phase = DF_PHASE_BEGIN;
    }
    if (result == DF_STEP_BLOCKED) be_peer(v, &in, block);
  }
  v->words->cancel = dfcclAborted;
  for (uint32_t b = 0; b < v->desc.n_blocks; b++)
    DF_ASSERT(df_coll_step(&v->desc, b, &v->cursors[b], &v->lanes) == DF_STEP_CANCELLED);
  free_victim(v);
  free(v);
  return 0;
}
