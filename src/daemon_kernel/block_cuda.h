/*
 * The execution of one CUDA block from launch to end. It is also compiled for the host, where a
 * test executes lanes as threads.
 */
#ifndef DF_DAEMON_KERNEL_BLOCK_CUDA_H
#define DF_DAEMON_KERNEL_BLOCK_CUDA_H

#include "daemon_kernel/daemon.h"
#include "daemon_kernel/shared_cuda.h"

static_assert(offsetof(df_block, read_index) % sizeof(uint64_t) == 0 &&
                  sizeof(df_block) % sizeof(uint64_t) == 0,
              "a block's image is written by words");

/* ---- Called by the leader only */

/* The writes are posted, and nothing waits for them. The words before read_index are not written:
 * they belong to the host, df_cuda_enter and df_cuda_park. */
DF_CORE void df_cuda_save_block(df_block *image, df_block *block) {
  enum { FIRST = offsetof(df_block, read_index) / sizeof(uint64_t) };
  block->picked = NULL; /* the address of a slot is invalid outside of this block */
  uint64_t *to = (uint64_t *)image;
  const uint64_t *from = (const uint64_t *)block;
  for (uint32_t i = FIRST; i < sizeof *block / sizeof *from; i++)
    df_store_relaxed_u64(&to[i], from[i]);
}

/* Records the ranks to which something was sent since the last call. Called before the image is
 * saved. */
DF_CORE void df_cuda_notify(df_cuda_shared *shared) {
  df_block *block = &shared->block;
  if (shared->move.notified == 0) return;
  const uint64_t entry = ++block->n_notifications;
  block->notified[entry % DF_NOTIFIED_WORDS] = df_notified_encode(entry, shared->move.notified);
  shared->move.notified = 0;
}

/* Copies the device's words, except those of the SQ's producer and the CQ's consumer, which may be
 * in use. */
DF_CORE void df_cuda_copy_device(df_cuda_shared *shared) {
  df_device *copy = &shared->device;
  const df_cuda_daemon *daemon = &shared->daemon;
  const df_device *device = daemon->device;
  df_sq_slot *sq_slots = device->sq.slots;
  df_sq_record *records = device->sq.records;
  const uint32_t sq_mask = device->sq.mask, n_rings = device->cq.n_rings;
  const uint32_t lap_shift = device->sq.lap_shift;
  const df_cq_variant variant = device->cq.variant;
  const uint64_t cq_mask = device->cq.mask;
  df_cq_ring *rings = device->cq.rings;
  uint64_t *sequence = device->cq.sequence;
  df_descriptor **descriptors = device->descriptors;
  const df_tunables tunables = device->tunables;
  const uint32_t n_blocks = device->n_blocks;
  copy->sq.slots = sq_slots;
  copy->sq.mask = sq_mask;
  copy->sq.records = records;
  copy->sq.lap_shift = lap_shift;
  copy->cq.variant = variant;
  copy->cq.n_rings = n_rings;
  copy->cq.mask = cq_mask;
  copy->cq.rings = rings;
  copy->cq.sequence = sequence;
  copy->descriptors = descriptors;
  copy->tunables = tunables;
  copy->n_blocks = n_blocks;
  if (daemon->relay) {
    shared->host_queue = copy->sq;
    copy->sq.slots = daemon->relay->queue.slots;
    copy->sq.mask = daemon->relay->queue.mask;
  }
  copy->sq.is_near = daemon->relay != NULL;
  df_cq_open_end(&copy->cq, shared->block.index, &shared->block.cq_end);
  const df_cuda_host_seen seen = df_cuda_load_host_words(shared, 1);
  df_cuda_take_host_words(shared, &seen, 1);
}

/* Called after df_cuda_load_block. */
DF_CORE void df_cuda_enter(const df_cuda_daemon *argument, uint32_t index, df_cuda_shared *shared,
                           const df_lanes *lanes) {
  shared->daemon = *argument;
  const df_cuda_daemon *daemon = &shared->daemon;
  df_block *image = &daemon->blocks[index];
  df_lanes_open_times(lanes, daemon->times, index);
  DF_ASSERT(index < daemon->device->n_blocks);
  df_device_add_u32(&daemon->gate->active, 1);
  df_block *block = &shared->block;
  DF_ASSERT(block->index == index);
  df_cuda_copy_device(shared);
  if (df_cuda_relays(shared))
    shared->freed = shared->device.sq.sequence = daemon->relay->queue.sequence;
  df_cuda_watch *watch = &shared->watch;
  shared->move.notified = 0;
  const uint32_t life = shared->device.tunables.life;
  watch->now = df_device_ns();
  watch->ends_at = life ? watch->now + life : UINT64_MAX;
  watch->shown = 0;
  watch->vain = 0;
  watch->errands = daemon->errand ? df_load_relaxed_u32(&daemon->errand->done) : 0;
  watch->errand_due = 0;
  block->running = 0;
  df_cuda_look(shared, lanes);
  DF_ASSERT(block->cache.mask < DF_MAX_CONTEXT_SLOTS);
  block->device = &shared->device;
  df_context_cache_attach(&block->cache, shared->slots, block->cache.mask + 1);
  df_lifecycle_start(block);
  watch->fresh = 1;
  df_publish_u32(&image->running, 1);
  df_cuda_show_pulse(shared, watch->now);
  shared->saved = 0;
}

/* Returns 0 if the block has left. */
DF_CORE uint32_t df_cuda_between_turns(df_cuda_shared *shared, df_turn turn,
                                       const df_lanes *lanes) {
  df_block *block = &shared->block;
  const int in_vain =
      turn == DF_TURN_WAITED && (block->picked == NULL || df_lanes_miss_input(lanes));
  df_cuda_doze(shared, in_vain);
  if (turn == DF_TURN_WAITED || --shared->turns_to_look == 0) df_cuda_look(shared, lanes);
  if (shared->watch.ending) {
    df_lifecycle_leave(block);
    return 0;
  }
  if (turn != DF_TURN_WAITED) {
    shared->saved = 0;
    return 1;
  }
  if (!shared->saved) {
    df_cuda_notify(shared);
    df_cuda_save_block(&shared->daemon.blocks[block->index], block);
    df_lanes_publish_times(lanes);
  }
  shared->saved = 1;
  return 1;
}

/* Returns 0 if the launch has ended for this block. */
DF_CORE uint32_t df_cuda_park(df_cuda_shared *shared, const df_lanes *lanes) {
  const df_cuda_daemon *daemon = &shared->daemon;
  df_block *block = &shared->block, *image = &daemon->blocks[block->index];
  df_cuda_gate *gate = daemon->gate;
  df_cuda_notify(shared);
  df_cuda_save_block(image, block);
  uint32_t active = df_device_add_u32(&gate->active, UINT32_MAX) - 1;
  while (active != 0 && !shared->watch.ending) {
    /* The claim fails if another block has parked or returned. Then this block may be the last one.
     * */
    if (!df_lifecycle_has_reason(block) && !df_cuda_stays(shared) && !shared->watch.errand_due) {
      df_cuda_look(shared, lanes);
      df_pause();
    } else if (df_device_claim_u32(&gate->active, active, active + 1)) {
      df_lifecycle_start(block);
      shared->watch.fresh = 1;
      return 1;
    }
    active = df_load_relaxed_u32(&gate->active);
  }
  if (df_cuda_relays(shared)) df_cuda_free_entries(shared);
  df_lanes_publish_times(lanes);
  df_store_relaxed_u32(&gate->left, daemon->launch);
  /* All work of this block, and its image, precede the store that shows that it has left. */
  df_publish_u32(&image->running, 0);
  return 0;
}

/* ---- Called by all lanes. *shared need not be initialised. */

/* All lanes load at the same time, in one crossing of the bus. */
DF_CORE void df_cuda_load_block(const df_cuda_daemon *daemon, uint32_t index,
                                df_cuda_shared *shared, const df_lanes *lanes) {
  const uint64_t *from = (const uint64_t *)&daemon->blocks[index];
  uint64_t *to = (uint64_t *)&shared->block;
  for (uint32_t i = df_lanes_index(lanes); i < sizeof shared->block / sizeof *to;
       i += df_lanes_count(lanes))
    to[i] = df_load_relaxed_u64(&from[i]);
}

DF_CORE void df_cuda_execute_block(const df_cuda_daemon *daemon, uint32_t index,
                                   df_cuda_shared *shared, df_lanes *lanes) {
  df_lanes_begin(lanes, &shared->move);
  df_cuda_load_block(daemon, index, shared, lanes);
  df_lanes_sync(lanes);
  if (df_lanes_leads(lanes)) df_cuda_enter(daemon, index, shared, lanes);
  df_lanes_sync(lanes);
  do {
    do {
      df_turn turn = df_daemon_turn(&shared->block, lanes);
      if (df_lanes_leads(lanes)) {
        shared->works = turn != DF_TURN_LEFT && df_cuda_between_turns(shared, turn, lanes);
        shared->transfers = shared->works && shared->watch.errand_due;
      }
      df_lanes_sync(lanes); /* the next turn's barriers precede the next decision */
      if (shared->transfers) df_cuda_run_errand(shared, lanes);
    } while (shared->works);
    if (df_lanes_leads(lanes)) shared->stays = df_cuda_park(shared, lanes);
    df_lanes_sync(lanes);
  } while (shared->stays);
}

#endif
