/*
 * The daemon: Algorithm 1 of Pan et al. (EuroSys 2025) for one block. One turn fetches what is due,
 * picks a collective, and steps it until it completes or its spin threshold runs out. The CPU
 * device calls turns from threads that come and go; the CUDA device loops over them in a resident
 * kernel.
 */
#ifndef DF_DAEMON_KERNEL_DAEMON_H
#define DF_DAEMON_KERNEL_DAEMON_H

#include "daemon_kernel/block.h"
#include "daemon_kernel/lifecycle.h"
#include "daemon_kernel/scheduler.h"
#include "primitives/step.h"

typedef enum {
  DF_TURN_WORKED,    /* some primitive was executed */
  DF_TURN_COMPLETED, /* a run completed on this block: a CQE may have been written */
  DF_TURN_WAITED,    /* nothing could progress */
  DF_TURN_LEFT       /* the block has quit: its executor must start it again */
} df_turn;

/* Steps the picked collective until it completes, is cancelled, must be set aside
 * (DF_STEP_BLOCKED), or somebody else wants to drive, who goes on with it (DF_STEP_PROGRESSED). */
DF_CORE df_step_result df_daemon_execute(df_block *block, const df_descriptor *desc,
                                         df_lanes *lanes, int *progressed) {
  const df_tunables *tunables = &block->device->tunables;
  df_context_slot *slot = block->picked;
  uint32_t polls = 0, limit = block->spin_limit;
  /* Taking up a run is progress, although its first primitive may be stuck: what is saved when the
   * block leaves must tell a stuck run from one that has not been tried, or nobody could sleep. */
  if (df_lanes_leads(lanes) && slot->cursor.phase == DF_PHASE_BEGIN) slot->dirty = 1;
  for (;;) {
    df_step_result result = df_coll_step(desc, block->index, &slot->cursor, lanes);
    if (result == DF_STEP_BLOCKED) {
      if (++polls >= limit || df_lanes_interrupted(lanes)) {
        if (df_lanes_leads(lanes)) {
          block->blocked_polls += polls;
          block->quiet_polls += polls;
          df_lanes_note_stuck(lanes);
        }
        return polls >= limit || df_lanes_told_to_leave(lanes) ? DF_STEP_BLOCKED
                                                               : DF_STEP_PROGRESSED;
      }
      df_lanes_pause(lanes, polls);
      continue;
    }
    if (result == DF_STEP_CANCELLED) return result;
    *progressed = 1;
    if (df_lanes_leads(lanes)) {
      /* plant: progress */ slot->dirty = 1;
      block->quiet_polls = block->blocked_polls = 0;
      block->swept = 0;
      df_count(&block->stats.primitives, 1);
      if (lanes->move->send_link && lanes->move->announces)
        df_count(&block->stats.bytes_sent, lanes->move->count * desc->element_bytes);
    }
    if (result == DF_STEP_DONE) return result;
    if (tunables->preempt_every) return DF_STEP_BLOCKED;
    if (df_lanes_interrupted(lanes)) return DF_STEP_PROGRESSED;
    polls = 0;
    limit = df_scheduler_boosted(tunables, limit);
  }
}

/* Leader: the picked collective's next run is the one to take up. */
DF_CORE void df_daemon_end_run(df_block *block, df_descriptor *desc) {
  df_cursor *cursor = &block->picked->cursor;
  cursor->run++;
  cursor->phase = DF_PHASE_BEGIN;
  block->picked->dirty = 1;
  df_store_relaxed_u64(&desc->progress[block->index], df_cursor_progress(cursor));
}

/* Leader: this block is through with the picked collective's run; the last block to be so writes
 * the CQE. */
DF_CORE void df_daemon_complete(df_block *block, uint32_t collective, df_descriptor *desc,
                                uint32_t status, const df_lanes *lanes) {
  uint32_t slot = (uint32_t)(block->picked->cursor.run % DF_RUNS_AHEAD);
  if (status != 0) df_store_relaxed_u32(&desc->counters->blocks_gave_up[slot], status);
  df_daemon_end_run(block, desc);
  df_scheduler_retire(block);
  uint32_t n_blocks = desc->n_blocks;
  if (n_blocks > 1) {
    /* Each block's results, and its status, are released to the last one, which releases all to the
     * host. From here on the descriptor is the last block's alone: once it has written the CQE, the
     * application may deregister the collective. */
    uint32_t before = df_device_add_u32(&desc->counters->blocks_done[slot], 1);
    DF_ASSERT(before < n_blocks);
    if (before + 1 < n_blocks) return;
    df_store_relaxed_u32(&desc->counters->blocks_done[slot],
                         0); /* before the CQE: the host may reuse the slot from then on */
    status = df_load_relaxed_u32(&desc->counters->blocks_gave_up[slot]);
  }
  df_store_relaxed_u32(&desc->counters->blocks_gave_up[slot], 0);
  df_cqe cqe = {collective, status, slot};
  df_count(&block->stats.cqes_written, 1); /* before: who has seen the CQE finds it counted */
  df_lanes_start_timer(lanes);
  df_cq_push_mpsc(&block->device->cq, block->index, cqe);
  df_lanes_note_time(lanes, DF_TIMED_CQE, 1);
}

/* Leader: what becomes of the picked collective after df_daemon_execute. */
DF_CORE void df_daemon_conclude(df_block *block, uint32_t collective, df_descriptor *desc,
                                df_step_result result, const df_lanes *lanes) {
  if (result == DF_STEP_PROGRESSED) {
    df_store_relaxed_u64(&desc->progress[block->index], df_cursor_progress(&block->picked->cursor));
  } else if (result == DF_STEP_BLOCKED) { /* preempted */
    df_count(&block->stats.preemptions, 1);
    df_store_relaxed_u64(&desc->progress[block->index], df_cursor_progress(&block->picked->cursor));
    df_scheduler_set_aside(block);
    if (block->device->tunables.preempt_every) df_context_flush(&block->cache);
  } else {
    df_daemon_complete(block, collective, desc,
                       result == DF_STEP_CANCELLED ? df_observe_u32(&desc->words->cancel) : 0,
                       lanes);
  }
}

#if !defined(__CUDACC__)
/*
 * The first turn of a run that was not submitted by an SQE: its submitter executes the block, whose
 * SQ is empty and whose task queue does not have the collective, which has this one block. Nothing
 * is waited for: what cannot go on now goes into the task queue. So messages leave when runs are
 * submitted, and of several collectives it does not matter which one peers begin with. Whose turn
 * it is among those in the task queue stays as it was. Returns 1 when the run is done; no CQE tells
 * of it. The bells of peers are still to be rung.
 */
static inline int df_daemon_first_turn(df_block *block, uint32_t collective, df_lanes *lanes) {
  df_descriptor *desc = block->device->descriptors[collective];
  int progressed = 0;
  DF_ASSERT(block->tasks.pending[collective] == 0);
  DF_ASSERT(desc->n_blocks == 1);
  df_scheduler_note_new(block);
  df_scheduler_choose(block, collective, lanes);
  block->spin_limit = 0; /* nothing is polled, whatever has succeeded before */
  if (df_daemon_execute(block, desc, lanes, &progressed) == DF_STEP_DONE) {
    df_daemon_end_run(block, desc);
    df_count(&block->stats.cqes_written, 1); /* as if */
    return 1;
  }
  df_store_relaxed_u64(&desc->progress[block->index], df_cursor_progress(&block->picked->cursor));
  df_scheduler_enqueue(block, collective);
  if (block->device->tunables.preempt_every) {
    df_count(&block->stats.preemptions, 1);
    df_context_flush(&block->cache);
  }
  return 0;
}

/*
 * The last turn of a run, by a waiter: it executes the block, and the collective, which has no
 * other block, is the one that df_scheduler_next tells. A turn like any other, but if the run is
 * done no CQE tells of it, and the bells of peers are still to be rung. Returns 1 then.
 */
static inline int df_daemon_last_turn(df_block *block, uint32_t collective, df_lanes *lanes) {
  df_descriptor *desc = block->device->descriptors[collective];
  int progressed = 0;
  DF_ASSERT(block->tasks.order[block->place] == collective);
  DF_ASSERT(desc->n_blocks == 1);
  df_scheduler_choose(block, collective, lanes);
  block->spin_limit = df_scheduler_spin_limit(&block->device->tunables, block->place);
  df_step_result result = df_daemon_execute(block, desc, lanes, &progressed);
  if (result == DF_STEP_DONE) {
    df_daemon_end_run(block, desc);
    df_scheduler_retire(block);
    df_count(&block->stats.cqes_written, 1); /* as if */
    return 1;
  }
  df_daemon_conclude(block, collective, desc, result, lanes);
  df_lanes_ring_bells(lanes);
  return 0;
}
#endif

/* All lanes; so is every turn's result. The leader decides between the first and the second barrier
 * of a pair of them, in words that it does not touch again before all lanes have met once more. */
DF_CORE df_turn df_daemon_turn(df_block *block, df_lanes *lanes) {
  if (df_lanes_leads(lanes)) df_scheduler_pick(block, lanes);
  df_lanes_sync(lanes);
  df_turn turn = DF_TURN_WAITED;
  if (block->picked) {
    uint32_t collective = block->picked->collective;
    df_descriptor *desc = block->device->descriptors[collective];
    int progressed = 0;
    df_step_result result = df_daemon_execute(block, desc, lanes, &progressed);
    int ended = result == DF_STEP_DONE || result == DF_STEP_CANCELLED;
    turn = ended ? DF_TURN_COMPLETED : progressed ? DF_TURN_WORKED : DF_TURN_WAITED;
    if (df_lanes_leads(lanes)) {
      df_daemon_conclude(block, collective, desc, result, lanes);
      df_lanes_ring_bells(lanes);
    }
  } else if (df_lanes_leads(lanes)) {
    block->quiet_polls++;
  }
  if (df_lanes_leads(lanes)) {
    block->leaves = df_lifecycle_should_leave(block); /* once: another lane might see otherwise */
    if (block->leaves) df_lifecycle_leave(block);
  }
  df_lanes_sync(lanes);
  return block->leaves ? DF_TURN_LEFT : turn;
}

#endif
