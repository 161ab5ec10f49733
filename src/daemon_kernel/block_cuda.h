/*
 * What one CUDA block does from its launch to its end: df_daemon_turn around shared memory, and
 * parking. CUDA C++; functions of host and device, so that a test can execute lanes as threads.
 */
#ifndef DF_DAEMON_KERNEL_BLOCK_CUDA_H
#define DF_DAEMON_KERNEL_BLOCK_CUDA_H

#include "daemon_kernel/daemon.h"
#include "daemon_kernel/daemon_cuda.h"

/* What one block keeps in shared memory. */
typedef struct df_cuda_shared {
  df_context_slot slots[DF_MAX_CONTEXT_SLOTS];
  df_device device;
  df_block block;
  df_move move;
  uint32_t stays; /* the leader's decision after parking */
  uint32_t saved; /* the image shows what the block has done */
} df_cuda_shared;

/* The design's limit for 1,000 collectives; the number of collectives does not matter here. */
static_assert(sizeof(df_cuda_shared) <= 13 * 1024, "a block's shared memory");
static_assert(offsetof(df_block, read_index) % sizeof(uint64_t) == 0 &&
                  sizeof(df_block) % sizeof(uint64_t) == 0,
              "a block's image is written by words");

/* ---- The functions below are the leader's. */

/* For whoever looks at the image, and for the next launch: all but the words before read_index,
 * which the host and df_cuda_enter and df_cuda_park look after. Posted writes: nothing waits for
 * them. */
DF_CORE void df_cuda_save_block(df_block *image, df_block *block) {
  enum { FIRST = offsetof(df_block, read_index) / sizeof(uint64_t) };
  block->picked = NULL; /* chosen anew in each turn; a slot's address means nothing to others */
  uint64_t *to = (uint64_t *)image;
  const uint64_t *from = (const uint64_t *)block;
  for (uint32_t i = FIRST; i < sizeof *block / sizeof *from; i++)
    df_store_relaxed_u64(&to[i], from[i]);
}

/* The words that the host writes while blocks run. */
DF_CORE void df_cuda_look_at_host(df_device *copy, const df_device *device) {
  copy->by_priority = df_load_relaxed_u32(&device->by_priority);
  copy->exit = df_load_relaxed_u32(&device->exit);
}

/* All but what is the producer's of the SQ and the consumer's of the CQ, who may be at work. */
DF_CORE void df_cuda_copy_device(df_device *copy, const df_device *device) {
  copy->sq.slots = device->sq.slots;
  copy->sq.mask = device->sq.mask;
  copy->sq.n_readers = device->sq.n_readers;
  copy->cq.variant = device->cq.variant;
  copy->cq.n_rings = device->cq.n_rings;
  copy->cq.mask = device->cq.mask;
  copy->cq.rings = device->cq.rings;
  copy->descriptors = device->descriptors;
  copy->tunables = device->tunables;
  copy->n_blocks = device->n_blocks;
  df_cuda_look_at_host(copy, device);
}

DF_CORE void df_cuda_enter(const df_cuda_daemon *daemon, uint32_t index, df_cuda_shared *shared) {
  df_block *image = &daemon->blocks[index];
  DF_ASSERT(index < daemon->device->n_blocks);
  df_cuda_copy_device(&shared->device, daemon->device);
  shared->block = *image;
  df_block *block = &shared->block;
  DF_ASSERT(block->index == index);
  DF_ASSERT(block->cache.mask < DF_MAX_CONTEXT_SLOTS);
  block->device = &shared->device;
  block->running = 0;
  df_context_cache_attach(&block->cache, shared->slots, block->cache.mask + 1);
  df_lifecycle_start(block);
  df_publish_u32(&image->running, 1);
  shared->saved = 0;
}

DF_CORE void df_cuda_between_turns(const df_cuda_daemon *daemon, uint32_t index,
                                   df_cuda_shared *shared, df_turn turn) {
  df_cuda_look_at_host(&shared->device, daemon->device);
  if (turn != DF_TURN_WAITED) {
    shared->saved = 0;
    return;
  }
  if (!shared->saved) df_cuda_save_block(&daemon->blocks[index], &shared->block);
  shared->saved = 1;
  if (shared->block.tasks.length == 0) df_pause();
}

/* The block has left its turns. Returns 1 when it is back, 0 when all blocks have parked: the
 * launch is over. */
DF_CORE uint32_t df_cuda_park(const df_cuda_daemon *daemon, uint32_t index,
                              df_cuda_shared *shared) {
  df_block *block = &shared->block, *image = &daemon->blocks[index];
  df_cuda_save_block(image, block);
  uint32_t parked = df_device_add_u32(daemon->parked, 1) + 1;
  while (parked != daemon->all_parked) {
    /* Taking the place back fails when another block has parked or gone back meanwhile: look again,
     * since it may have been the last. */
    if (!df_lifecycle_has_reason(block)) {
      df_pause();
    } else if (df_device_claim_u32(daemon->parked, parked, parked - 1)) {
      df_lifecycle_start(block);
      return 1;
    }
    parked = df_load_relaxed_u32(daemon->parked);
  }
  /* Everything that this block did, its image included, precedes "it has left". */
  df_publish_u32(&image->running, 0);
  return 0;
}

/* ---- All lanes, with the index of their block and one df_cuda_shared, which need not be
 * initialised. */
DF_CORE void df_cuda_execute_block(const df_cuda_daemon *daemon, uint32_t index,
                                   df_cuda_shared *shared, df_lanes *lanes) {
  lanes->move = &shared->move;
  if (df_lanes_leads(lanes)) df_cuda_enter(daemon, index, shared);
  df_lanes_sync(lanes);
  do {
    df_turn turn;
    while ((turn = df_daemon_turn(&shared->block, lanes)) != DF_TURN_LEFT)
      if (df_lanes_leads(lanes)) df_cuda_between_turns(daemon, index, shared, turn);
    if (df_lanes_leads(lanes)) shared->stays = df_cuda_park(daemon, index, shared);
    df_lanes_sync(lanes);
  } while (shared->stays);
}

#endif
