/*
 * The daemon: Algorithm 1 of Pan et al. (EuroSys 2025) for one block. A turn fetches what is due,
 * picks a collective, and steps it until it completes or its spin threshold runs out.
 */
#ifndef DF_DAEMON_KERNEL_DAEMON_H
#define DF_DAEMON_KERNEL_DAEMON_H

#include "daemon_kernel/block.h"
#include "daemon_kernel/lifecycle.h"
#include "daemon_kernel/scheduler.h"
#include "daemon_kernel/watch.h"
#include "primitives/step.h"

typedef enum {
  DF_TURN_WORKED,
  DF_TURN_COMPLETED, /* there may be a new CQE */
  DF_TURN_WAITED,
  DF_TURN_LEFT /* the block has left and has to be started again */
} df_turn;

/* Called by the leader after a step that has executed a primitive. */
DF_CORE void df_daemon_note_step(df_block *block, df_context_slot *slot, const df_descriptor *desc,
                                 const df_lanes *lanes) {
  slot->dirty = 1;
  block->quiet_polls = block->blocked_polls = 0;
  block->swept = 0;
  df_count(&block->stats.primitives, 1);
  if (lanes->move->send_link && lanes->move->announces & DF_MESSAGE_GOES)
    df_count(&block->stats.bytes_sent, lanes->move->count * desc->element_bytes);
}

/* Returns DF_STEP_BLOCKED if the collective must be set aside, and DF_STEP_PROGRESSED if another
 * thread wants to become the driver. */
DF_CORE df_step_result df_daemon_execute(df_block *block, const df_descriptor *desc,
                                         df_lanes *lanes, int *progressed) {
  const df_tunables *tunables = &block->device->tunables;
  df_context_slot *slot = block->picked;
  uint32_t polls = 0, limit = block->spin_limit;
  df_watch_begin_turn(block, lanes);
  df_lanes_begin_turn(lanes);
  /* The start of a run is progress, even if its first primitive is blocked. Otherwise the saved
   * context would look untried, and the daemon could never sleep. */
  if (df_lanes_leads(lanes) && slot->cursor.phase == DF_PHASE_BEGIN) {
    slot->dirty = 1;
    if (df_lanes_are_timed(lanes) && df_step_may_begin(desc, &slot->cursor))
      df_scheduler_note_event(block, DF_EVENT_BEGUN, slot->collective, lanes);
  }
  for (;;) {
    df_step_result result = df_coll_step(desc, block->index, &slot->cursor, lanes);
    if (result == DF_STEP_BLOCKED) {
      df_lanes_log_wait(lanes);
      if (df_watch_ends_turn(block, lanes, &polls, limit)) {
        if (df_lanes_leads(lanes)) {
          block->blocked_polls += polls;
          block->quiet_polls += polls;
          df_lanes_note_stuck(lanes);
        }
        return df_watch_sets_aside(lanes, polls, limit) ? DF_STEP_BLOCKED : DF_STEP_PROGRESSED;
      }
      df_lanes_pause(lanes, polls);
      continue;
    }
    if (result == DF_STEP_CANCELLED) return result;
    df_lanes_log_step(lanes);
    *progressed = 1;
    if (df_lanes_leads(lanes)) df_daemon_note_step(block, slot, desc, lanes);
    if (result == DF_STEP_DONE) return result;
    if (tunables->preempt_every) return DF_STEP_BLOCKED;
    if (df_watch_interrupts(block, lanes)) return DF_STEP_PROGRESSED;
    polls = 0;
    limit = df_scheduler_boosted(tunables, block->spin_limit);
  }
}

/* Called by the leader. Dumps read the stored value. */
DF_CORE void df_daemon_show_progress(const df_block *block, df_descriptor *desc) {
  df_store_relaxed_u64(&desc->progress[block->index], df_cursor_progress(&block->picked->cursor));
}

/* Called by the leader. Continues with the collective's next run. */
DF_CORE void df_daemon_end_run(df_block *block, df_descriptor *desc) {
  df_cursor *cursor = &block->picked->cursor;
  cursor->run++;
  cursor->phase = DF_PHASE_BEGIN;
  block->picked->dirty = 1;
  df_daemon_show_progress(block, desc);
}

/* Called by the leader. The last block that finishes the run writes the CQE. */
DF_CORE void df_daemon_complete(df_block *block, uint32_t collective, df_descriptor *desc,
                                uint32_t status, const df_lanes *lanes) {
  uint32_t slot = (uint32_t)(block->picked->cursor.run % DF_RUNS_AHEAD);
  if (status != 0) df_store_relaxed_u32(&desc->counters->blocks_gave_up[slot], status);
  df_daemon_end_run(block, desc);
  df_scheduler_retire(block);
  uint32_t n_blocks = desc->n_blocks;
  if (n_blocks > 1) {
    /* Each block releases its results to the last block, which releases all results to the host.
     * Only the last block may access the descriptor from here on, because the application may
     * deregister the collective after the CQE. */
    uint32_t before = df_device_add_u32(&desc->counters->blocks_done[slot], 1);
    DF_ASSERT(before < n_blocks);
    if (before + 1 < n_blocks) return;
    df_store_relaxed_u32(&desc->counters->blocks_done[slot],
                         0); /* before the CQE, because the host may then reuse the slot */
    status = df_load_relaxed_u32(&desc->counters->blocks_gave_up[slot]);
  }
  df_store_relaxed_u32(&desc->counters->blocks_gave_up[slot], 0);
  df_cqe cqe = {collective, status, slot};
  df_count(&block->stats.cqes_written, 1); /* before the CQE, so that a thread that sees the CQE
                                              finds it counted */
  df_lanes_start_timer(lanes);
#if defined(__CUDACC__)
  df_cq_push_kept(&block->device->cq, block->index, &block->cq_end, cqe);
#else
  df_cq_push_mpsc(&block->device->cq, block->index, cqe);
#endif
  df_lanes_note_time(lanes, DF_TIMED_CQE, 1);
}

/* The status of a run that this block gives up. If runs are only taken back, one that has its data
 * here counts as complete; the host allows for members that may not have theirs. */
DF_CORE uint32_t df_daemon_status(const df_block *block, const df_descriptor *desc) {
  const uint32_t status = df_observe_u32(&desc->words->cancel);
  return status == DF_CANCEL_RECALLED &&
                 df_step_has_data(desc, block->index, &block->picked->cursor)
             ? 0
             : status;
}

/* CPU: another thread becomes the driver, and the collective keeps its turn. */
DF_CORE void df_daemon_log_kept(const df_block *block, uint32_t collective, const df_lanes *lanes) {
  if (df_lanes_log_turns(lanes)) df_scheduler_note_event(block, DF_EVENT_KEPT, collective, lanes);
}

/* Called by the leader after df_daemon_execute. */
DF_CORE void df_daemon_conclude(df_block *block, uint32_t collective, df_descriptor *desc,
                                df_step_result result, const df_lanes *lanes) {
  if (result == DF_STEP_PROGRESSED) {
    df_daemon_show_progress(block, desc);
    df_daemon_log_kept(block, collective, lanes);
  } else if (result == DF_STEP_BLOCKED && df_lanes_miss_input(lanes)) {
    df_scheduler_set_aside(block); /* not counted as a preemption, since the run has not begun */
  } else if (result == DF_STEP_BLOCKED) {
    df_count(&block->stats.preemptions, 1);
    df_daemon_show_progress(block, desc);
    df_scheduler_set_aside(block);
    df_scheduler_note_event(block, DF_EVENT_SET_ASIDE, collective, lanes);
    if (block->device->tunables.preempt_every) df_scheduler_flush(block, lanes);
  } else {
    df_scheduler_note_event(block, DF_EVENT_DONE, collective, lanes);
    df_daemon_complete(block, collective, desc,
                       result == DF_STEP_CANCELLED ? df_daemon_status(block, desc) : 0, lanes);
  }
}

#if !defined(__CUDACC__)
/* is_new 1: the queue does not contain the run yet, and it counts nevertheless. */
static inline void df_daemon_log_borrowed(const df_block *block, df_event_kind kind,
                                          uint32_t collective, int is_new, const df_lanes *lanes) {
  if (df_lanes_log_turns(lanes))
    df_lanes_note_event(lanes, kind, collective, block->device->descriptors[collective]->generation,
                        block->tasks.pending[collective] + (uint32_t)is_new,
                        block->tasks.length + (uint32_t)is_new);
}

/*
 * A borrowed turn: a thread that is not the driver executes one turn of a collective, which has one
 * block. Returns 1 if the run has completed successfully; this result replaces the CQE. The caller
 * rings the bells.
 *
 * is_new 1: the run's SQE has not been pushed, and the task queue does not contain the collective.
 * A run that cannot proceed is put into the queue, which keeps its own turn. Nothing is polled.
 * is_new 0: the collective is that of df_scheduler_next.
 */
static inline int df_daemon_borrowed_turn(df_block *block, uint32_t collective, int is_new,
                                          df_lanes *lanes) {
  const df_tunables *tunables = &block->device->tunables;
  df_descriptor *desc = block->device->descriptors[collective];
  int progressed = 0;
  DF_ASSERT(is_new ? block->tasks.pending[collective] == 0
                   : block->tasks.order[block->place] == collective);
  DF_ASSERT(desc->n_blocks == 1);
  if (is_new) {
    df_scheduler_note_new(block);
    df_daemon_log_borrowed(block, DF_EVENT_FETCHED, collective, 1, lanes);
  }
  df_scheduler_choose(block, collective, lanes);
  block->spin_limit = is_new ? 0 : df_scheduler_spin_limit(tunables, block->place);
  df_step_result result = df_daemon_execute(block, desc, lanes, &progressed);
  if (result == DF_STEP_DONE) {
    df_daemon_log_borrowed(block, DF_EVENT_DONE, collective, is_new, lanes);
    df_daemon_end_run(block, desc);
    if (!is_new) df_scheduler_retire(block);
    df_count(&block->stats.cqes_written, 1);
    return 1;
  }
  if (!is_new) {
    df_daemon_conclude(block, collective, desc, result, lanes);
    return 0;
  }
  df_daemon_show_progress(block, desc);
  df_scheduler_enqueue(block, collective);
  if (tunables->preempt_every) {
    df_count(&block->stats.preemptions, 1);
    df_scheduler_note_event(block, DF_EVENT_SET_ASIDE, collective, lanes);
    df_scheduler_flush(block, lanes);
  } else {
    df_daemon_log_kept(block, collective, lanes);
  }
  return 0;
}
#endif

/* Called by the leader. */
DF_CORE void df_daemon_leave(df_block *block, const df_lanes *lanes) {
  if (df_lanes_log_turns(lanes)) {
    df_scheduler_flush(block, lanes);
    if (!df_load_relaxed_u32(&block->device->exit)) /* as df_lifecycle_leave counts */
      df_lanes_note_event(lanes, DF_EVENT_LEFT, 0, 0, 0, block->tasks.length);
  }
  df_lifecycle_leave(block);
}

/* Called by all lanes. The leader decides between the two barriers of a pair. It changes the words
 * of the decision only after all lanes have met again. */
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
    block->quiet_polls += df_watch_idle(block);
  }
  if (df_lanes_leads(lanes)) {
    /* decided once, because another lane might see another value */
    block->leaves = df_lifecycle_should_leave(block) && !df_watch_stays(block);
    if (block->leaves) df_daemon_leave(block, lanes);
  }
  df_lanes_sync(lanes);
  return block->leaves ? DF_TURN_LEFT : turn;
}

#endif
