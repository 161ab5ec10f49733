/* A device of one or more blocks in plain memory, for tests of the daemon's parts in one thread. */
#ifndef DF_TESTS_UNIT_DEVICE_H
#define DF_TESTS_UNIT_DEVICE_H

#include <stdlib.h>
#include <string.h>

#include "daemon_kernel/daemon.h"
#include "support/harness.h"

enum { DEVICE_COLLECTIVES = 64, DEVICE_BLOCKS = 4, DEVICE_DEPTH = 64, DEVICE_CQ_SLOTS = 256 };

typedef struct device {
  df_device device;
  df_block blocks[DEVICE_BLOCKS];
  df_sq_slot sq_slots[DEVICE_DEPTH];
  df_cq_ring rings[DEVICE_BLOCKS];
  uint64_t words[DEVICE_BLOCKS][DEVICE_CQ_SLOTS];
  df_descriptor *descriptors[DEVICE_COLLECTIVES];
  df_descriptor storage[DEVICE_COLLECTIVES];
  df_run_words words_of[DEVICE_COLLECTIVES];
  df_run_counters counters[DEVICE_COLLECTIVES];
  df_part parts[DEVICE_COLLECTIVES][DEVICE_BLOCKS];
  uint64_t progress[DEVICE_COLLECTIVES][DEVICE_BLOCKS];
  uint32_t order[DEVICE_BLOCKS][DEVICE_COLLECTIVES], pending[DEVICE_BLOCKS][DEVICE_COLLECTIVES];
  df_cursor memory[DEVICE_BLOCKS][DEVICE_COLLECTIVES];
  df_context_slot slots[DEVICE_BLOCKS][4];
  df_lanes lanes[DEVICE_BLOCKS];
  df_move moves[DEVICE_BLOCKS];
} device;

static const uint32_t device_never;

/* Collectives without primitives: each run is complete after its first step. Free the result with
 * free. */
static inline device *device_make(uint32_t n_blocks, df_tunables tunables) {
  device *d = aligned_alloc(64, DF_ALIGN_UP(sizeof *d, (size_t)64));
  CHECK(d != NULL, "no memory");
  memset(d, 0, sizeof *d);
  d->device = (df_device){.descriptors = d->descriptors, .tunables = tunables};
  d->device.n_blocks = n_blocks;
  df_sq_init(&d->device.sq, d->sq_slots, DEVICE_DEPTH, n_blocks);
  d->device.cq = (df_cq){.variant = DF_CQ_PACKED, .n_rings = n_blocks, .rings = d->rings};
  d->device.cq.mask = DEVICE_CQ_SLOTS - 1;
  for (uint32_t b = 0; b < n_blocks; b++) {
    df_block *block = &d->blocks[b];
    d->rings[b].words = d->words[b];
    block->device = &d->device;
    block->index = b;
    block->tasks.order = d->order[b];
    block->tasks.pending = d->pending[b];
    df_context_cache_init(&block->cache, d->slots[b], 4, d->memory[b]);
    d->lanes[b] = (df_lanes){.move = &d->moves[b],
                             .mover = df_mover_cpu_best(),
                             .interrupt = &device_never,
                             .yield_polls = UINT32_MAX};
  }
  for (uint32_t c = 0; c < DEVICE_COLLECTIVES; c++) {
    d->descriptors[c] = &d->storage[c];
    d->storage[c].n_blocks = 1;
    d->storage[c].words = &d->words_of[c];
    d->storage[c].counters = &d->counters[c];
    d->storage[c].parts = d->parts[c];
    d->storage[c].progress = d->progress[c];
    d->storage[c].generation = 1;
  }
  return d;
}

static inline void device_prioritise(device *d, uint32_t collective, int32_t priority) {
  d->storage[collective].priority = priority;
  df_store_relaxed_u32(&d->device.by_priority, 1);
}

static inline void device_submit(device *d, uint32_t collective) {
  df_sqe sqe = {.collective = collective, .blocks = d->storage[collective].n_blocks};
  CHECK(df_sq_push_spmc(&d->device.sq, sqe), "the SQ is full");
}

static inline uint32_t device_pick(df_block *block) {
  const df_lanes lanes = {.move = NULL}; /* only the clock is used, if any */
  df_scheduler_pick(block, &lanes);
  return block->picked ? block->picked->collective : DF_NO_COLLECTIVE;
}

#endif
