/*
 * The scheduler. Each device decides alone. All devices follow the same rule and therefore converge
 * on the same collective (Pan et al., EuroSys 2025, section 4.3).
 */
#ifndef DF_DAEMON_KERNEL_SCHEDULER_H
#define DF_DAEMON_KERNEL_SCHEDULER_H

#include "daemon_kernel/block.h"
#include "primitives/lanes.h"

/* In FIFO order a collective is appended. By priority, a larger priority comes first, and among
 * equals the newer collective. */
DF_CORE uint32_t df_scheduler_place_of(const df_block *block, uint32_t collective) {
  int32_t priority = block->device->descriptors[collective]->priority;
  /* by_priority may be a copy that is updated a turn late. */
  if (priority == 0 && !df_load_relaxed_u32(&block->device->by_priority))
    return block->tasks.length;
  uint32_t place = 0;
  while (place < block->tasks.length &&
         block->device->descriptors[block->tasks.order[place]]->priority > priority)
    place++;
  return place;
}

DF_CORE void df_scheduler_note_new(df_block *block) {
  block->quiet_polls = block->blocked_polls = 0;
  block->swept = 0;
  df_count(&block->stats.sqes_fetched, 1);
}

DF_CORE void df_scheduler_enqueue(df_block *block, uint32_t collective) {
  if (block->tasks.pending[collective]++ > 0) return; /* an earlier run has already an entry */
  uint32_t place = df_scheduler_place_of(block, collective);
  df_task_queue_insert(&block->tasks, place, collective);
  if (place < block->place) block->place = place;
}

/* Records an event for the timers. The collective may have left the queue. */
DF_CORE void df_scheduler_note_event(const df_block *block, df_event_kind kind, uint32_t collective,
                                     const df_lanes *lanes) {
  if (!df_lanes_are_timed(lanes)) return;
  df_lanes_note_event(lanes, kind, collective, block->device->descriptors[collective]->generation,
                      block->tasks.pending[collective], block->tasks.length);
}

/* CPU: records what happens to the context in the slot, whose collective may be deregistered. */
DF_CORE void df_scheduler_log_context(const df_block *block, df_event_kind kind,
                                      const df_context_slot *slot, uint32_t generation,
                                      const df_lanes *lanes) {
  if (df_lanes_log_turns(lanes))
    df_lanes_note_event(lanes, kind, slot->collective, generation,
                        block->tasks.pending[slot->collective], block->tasks.length);
}

DF_CORE void df_scheduler_flush(df_block *block, const df_lanes *lanes) {
  df_context_cache *cache = &block->cache;
  for (uint32_t i = 0; i <= cache->mask && df_lanes_log_turns(lanes); i++)
    if (cache->slots[i].dirty)
      df_scheduler_log_context(block, DF_EVENT_SAVED, &cache->slots[i],
                               cache->slots[i].cursor.generation, lanes);
  df_context_flush(cache);
}

/* Returns 0 if the SQ is empty. */
DF_CORE int df_scheduler_fetch(df_block *block, const df_lanes *lanes) {
  df_sqe sqe;
  if (!df_sq_fetch_spmc(&block->device->sq, &block->read_index, &sqe)) return 0;
  block->quiet_polls = block->blocked_polls = 0;
  if (block->index >= sqe.blocks) return 1; /* not for this block */
  df_scheduler_note_new(block);
  df_scheduler_enqueue(block, sqe.collective);
  df_scheduler_note_event(block, DF_EVENT_FETCHED, sqe.collective, lanes);
  return 1;
}

/* In FIFO order the block fetches when it is idle, when it has been blocked for some time, and
 * before it leaves. By priority it always fetches. */
DF_CORE void df_scheduler_fetch_if_due(df_block *block, const df_lanes *lanes) {
  const df_tunables *tunables = &block->device->tunables;
  if (df_load_relaxed_u32(&block->device->by_priority))
    while (df_scheduler_fetch(block, lanes)) continue;
  else if (block->blocked_polls >= tunables->fetch_polls ||
           block->quiet_polls >= tunables->quit_polls)
    df_scheduler_fetch(block, lanes);
  while (block->tasks.length == 0 && df_scheduler_fetch(block, lanes)) continue;
}

/* Stickiness: the first collective of the queue spins longest. */
DF_CORE uint32_t df_scheduler_spin_limit(const df_tunables *tunables, uint32_t place) {
  uint32_t limit = place < 32 ? tunables->spin_front >> place : 0;
  return DF_MAX(limit, tunables->spin_min);
}

/* limit: the threshold of the place. A later place thus stays below an earlier one, however often
 * it succeeds. */
DF_CORE uint32_t df_scheduler_boosted(const df_tunables *tunables, uint32_t limit) {
  return (uint32_t)DF_MIN((uint64_t)limit * tunables->spin_boost, (uint64_t)UINT32_MAX);
}

/* By priority, one of DF_FAIR_PICKS picks is out of turn. Otherwise collectives that are always
 * submitted anew would starve others. */
enum { DF_FAIR_PICKS = 64 };

/* The picks out of turn follow the order of the collectives' numbers. Each entry is thus picked
 * once in DF_FAIR_PICKS * entries picks, whichever entries join and leave the queue. */
DF_CORE uint32_t df_scheduler_fair_place(df_block *block) {
  uint32_t best = 0, least = UINT32_MAX;
  for (uint32_t place = 0; place < block->tasks.length; place++) {
    uint32_t distance = block->tasks.order[place] - block->fair_next;
    if (distance < least) {
      least = distance;
      best = place;
    }
  }
  block->fair_next = block->tasks.order[best] + 1;
  return best;
}

/* As df_context_load, with timers. */
DF_CORE df_context_slot *df_scheduler_load(df_block *block, uint32_t collective,
                                           const df_lanes *lanes) {
  df_context_cache *cache = &block->cache;
  df_context_slot *slot = df_context_slot_of(cache, collective);
  if (slot->collective == collective) return slot;
  uint32_t saves = slot->dirty;
  if (saves) df_scheduler_log_context(block, DF_EVENT_SAVED, slot, slot->cursor.generation, lanes);
  df_lanes_start_timer(lanes);
  df_context_save(cache, slot);
  df_lanes_note_time(lanes, DF_TIMED_SAVE, saves);
  df_lanes_start_timer(lanes);
  df_context_fill(cache, slot, collective);
  df_lanes_note_time(lanes, DF_TIMED_LOAD, 1);
  df_scheduler_log_context(block, DF_EVENT_LOADED, slot,
                           block->device->descriptors[collective]->generation, lanes);
  return slot;
}

DF_CORE void df_scheduler_choose(df_block *block, uint32_t collective, const df_lanes *lanes) {
  const df_descriptor *desc = block->device->descriptors[collective];
  df_context_slot *slot = df_scheduler_load(block, collective, lanes);
  if (slot->cursor.generation != desc->generation) { /* the index has been registered again */
    slot->cursor.run = 0;
    slot->cursor.phase = DF_PHASE_BEGIN;
    slot->cursor.generation = desc->generation;
  }
  block->picked = slot;
}

/* The task queue must not be empty. */
DF_CORE uint32_t df_scheduler_next(df_block *block) {
  if (block->place >= block->tasks.length) block->place = 0;
  return block->tasks.order[block->place];
}

/* Sets block->picked. NULL: the task queue is empty. */
DF_CORE void df_scheduler_pick(df_block *block, const df_lanes *lanes) {
  uint64_t read = block->read_index;
  df_lanes_start_timer(lanes);
  df_scheduler_fetch_if_due(block, lanes);
  df_lanes_note_time(lanes, DF_TIMED_FETCH, block->read_index - read);
  block->picked = NULL;
  if (block->tasks.length == 0) return;
  uint32_t collective = df_scheduler_next(block);
  if (df_load_relaxed_u32(&block->device->by_priority) && ++block->picks >= DF_FAIR_PICKS) {
    block->picks = 0;
    block->place = df_scheduler_fair_place(block);
    collective = block->tasks.order[block->place];
  }
  df_scheduler_choose(block, collective, lanes);
  block->spin_limit = df_scheduler_spin_limit(&block->device->tunables, block->place);
}

DF_CORE void df_scheduler_set_aside(df_block *block) {
  block->place++;
  block->swept++;
}

/* If another run of the collective is pending, the collective stays in the queue, in FIFO order
 * behind the others. */
DF_CORE void df_scheduler_retire(df_block *block) {
  uint32_t collective = block->picked->collective;
  DF_ASSERT(block->tasks.order[block->place] == collective);
  DF_ASSERT(block->tasks.pending[collective] > 0);
  block->swept = 0;
  uint32_t pending = --block->tasks.pending[collective];
  if (pending > 0 && df_load_relaxed_u32(&block->device->by_priority)) return;
  df_task_queue_remove(&block->tasks, block->place);
  if (pending > 0) df_task_queue_insert(&block->tasks, block->tasks.length, collective);
}

#endif
