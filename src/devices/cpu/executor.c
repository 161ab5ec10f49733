#include "devices/cpu/executor.h"

#include <stdlib.h>
#include <string.h>

#include "base/thread.h"
#include "base/cpu.h"

/* Naps in sequence, without activity of a driver, before a thread sleeps until the idle bell
 * rings. */
enum { DF_QUIET_NAPS = 20, DF_THREAD_STACK_BYTES = 256 * 1024 };
/* Smallest number of polls between two yields. */
enum { DF_LEAST_YIELD_POLLS = 16 };
/* A poll of the network takes as long as this many polls of memory. */
enum { DF_CARRY_POLLS = 16 };
/* With this many queued runs, submitters borrow no turns. */
enum { DF_FIRST_TURNS_AHEAD = 16 };
/* Largest number of first turns in sequence while the queue has work: submitters have the owner
 * word in their cache, so other threads would hardly ever get the block. */
enum { DF_FIRST_TURNS_IN_A_ROW = 64 };

static int try_own(df_executor_block *eb) {
  return df_load_relaxed_u32(&eb->owner) == 0 && df_system_claim_u32(&eb->owner, 0, 1);
}

/* Publishes the state of the block to its next executor. */
static void disown(df_executor_block *eb) { df_publish_u32(&eb->owner, 0); }

/* start: a block that has left may start again. LEFT: no turn was executed. */
static df_turn progress_once(df_executor_block *eb, int start) {
  df_block *block = eb->block;
  if (!df_load_relaxed_u32(&block->running)) {
    if (!start || !df_lifecycle_has_reason(block)) return DF_TURN_LEFT;
    df_lifecycle_start(block);
    df_lanes_note_event(&eb->lanes, DF_EVENT_LAUNCHED, 0, 0, 0, block->tasks.length);
  }
  eb->first_turns = 0;
  df_turn turn = df_daemon_turn(block, &eb->lanes);
  eb->executor->host.between_turns(eb->executor->host.host);
  return turn;
}

/* Returns whether the block is stuck; valid after DF_TURN_WAITED. */
static int is_stuck(const df_block *block) { return block->swept >= block->tasks.length; }

static uint64_t take_waits_on(df_executor_block *eb) {
  uint64_t waits_on = eb->lanes.waits_on;
  eb->lanes.waits_on = 0;
  return waits_on;
}

/* [owner] */
static void progress_background(df_executor_block *eb) {
  df_executor *executor = eb->executor;
  while (!df_load_relaxed_u32(&executor->wanted)) {
    df_turn turn = progress_once(eb, 1);
    if (turn == DF_TURN_COMPLETED) executor->host.completed(executor->host.host);
    if (turn == DF_TURN_LEFT) return;
    if (turn != DF_TURN_WAITED)
      df_cores_progressed(&eb->cores);
    else if (is_stuck(eb->block))
      df_cores_give_way(&eb->cores, take_waits_on(eb));
  }
}

/* [owner] The last poll needs the block; the sleep does not. */
static void sleep_stuck(df_executor_block *eb) {
  df_executor *executor = eb->executor;
  const df_carrier *carrier = executor->host.carrier;
  if (carrier) carrier->carry(carrier->who, DF_CARRY_SLEEPS);
  uint32_t sequence = df_bell_prepare(executor->work_bell);
  int reason = df_lifecycle_has_reason(eb->block) || df_load_relaxed_u32(&executor->wanted) ||
               df_load_relaxed_u32(&executor->exit);
  disown(eb);
  if (reason)
    df_bell_cancel(executor->work_bell);
  else
    df_bell_sleep(executor->work_bell, sequence, DF_LONGEST_SLEEP_NS);
}

/* Sleeps until the bell rings if there is no driver and no outstanding run, otherwise for a nap. */
static void sleep_idle(df_executor_block *eb, uint32_t *quiet_naps, uint32_t *seen_activity,
                       int owned) {
  df_executor *executor = eb->executor;
  uint32_t activity = df_load_relaxed_u32(&executor->activity);
  *quiet_naps = activity == *seen_activity ? *quiet_naps + 1 : 0;
  *seen_activity = activity;
  int deep = *quiet_naps > DF_QUIET_NAPS && !executor->host.has_outstanding(executor->host.host);
  if (deep) df_system_add_u32(&executor->deep_sleepers, 1); /* must precede the fence of the bell */
  uint32_t sequence = df_bell_prepare(&executor->idle_bell);
  int reason = (owned && df_lifecycle_has_reason(eb->block)) ||
               df_load_relaxed_u32(&executor->exit) ||
               (deep && executor->host.has_outstanding(executor->host.host));
  if (owned) disown(eb);
  if (reason)
    df_bell_cancel(&executor->idle_bell);
  else
    df_bell_sleep(&executor->idle_bell, sequence, deep ? UINT64_MAX : executor->nap_ns);
  if (deep) df_system_sub_u32(&executor->deep_sleepers, 1);
}

static void *background(void *argument) {
  df_executor_block *eb = argument;
  df_executor *executor = eb->executor;
  uint32_t quiet_naps = 0, seen_activity = 0;
  while (!df_load_relaxed_u32(&executor->exit)) {
    int owned = !df_load_relaxed_u32(&executor->wanted) && try_own(eb);
    if (!owned) {
      sleep_idle(eb, &quiet_naps, &seen_activity, 0);
      continue;
    }
    if (df_load_relaxed_u32(&eb->block->running) || df_lifecycle_has_reason(eb->block)) {
      /* No waiter has come for this work. */
      if (df_load_relaxed_u32(&executor->expects_waiter))
        df_store_relaxed_u32(&executor->expects_waiter, 0);
      df_system_add_u32(&executor->activity, 1);
      progress_background(eb);
      executor->host.completed(executor->host.host);
    }
    /* The block has not left; another thread only requested it. df_lifecycle_has_reason does not
     * see the cached contexts of the block. */
    if (df_load_relaxed_u32(&executor->wanted) || df_load_relaxed_u32(&eb->block->running))
      disown(eb);
    else if (eb->block->tasks.length > 0)
      sleep_stuck(eb);
    else
      sleep_idle(eb, &quiet_naps, &seen_activity, 1);
  }
  return NULL;
}

static void stop_threads(df_executor *executor) {
  df_publish_u32(&executor->exit, 1);
  df_bell_wake(&executor->idle_bell);
  df_bell_wake(executor->work_bell);
  for (uint32_t b = 0; b < executor->n_threads; b++) pthread_join(executor->blocks[b].thread, NULL);
  executor->n_threads = 0;
}

dfcclResult_t df_executor_start(df_executor *executor, df_device *device, df_block *blocks,
                                const df_mover_cpu *mover, uint32_t yield_polls, uint64_t nap_ns,
                                df_bell *work_bell, df_device_host host, df_turn_log *turns) {
  memset(executor, 0, sizeof *executor);
  executor->device = device;
  executor->n_blocks = device->n_blocks;
  executor->host = host;
  executor->work_bell = work_bell;
  executor->nap_ns = nap_ns;
  size_t bytes = device->n_blocks * sizeof *executor->blocks;
  executor->blocks = aligned_alloc(DF_CACHE_LINE, bytes);
  if (executor->blocks == NULL)
    return df_fail(dfcclOutOfMemory, "no memory for %u executors", device->n_blocks);
  memset(executor->blocks, 0, bytes);
  for (uint32_t b = 0; b < device->n_blocks; b++) {
    df_executor_block *eb = &executor->blocks[b];
    eb->executor = executor;
    eb->block = &blocks[b];
    eb->lanes.move = &eb->move;
    eb->lanes.mover = mover;
    eb->lanes.yield_polls = DF_MAX(yield_polls, DF_LEAST_YIELD_POLLS);
    eb->lanes.interrupt = &executor->wanted;
    eb->lanes.turns = turns ? &turns[b] : NULL;
    eb->cores = (df_cores){.own = work_bell,
                           .patience = yield_polls,
                           .loss_ns = host.count_ranks ? DF_CORES_FIRST_LOSS_NS : 0,
                           .host = {host.host, host.count_ranks},
                           .carrier = host.carrier,
                           .carrier_patience = yield_polls / DF_CARRY_POLLS};
    eb->lanes.carrier = host.carrier;
    if (host.carrier) eb->cores.patience = 0;
  }
  int error = 0;
  while (executor->n_threads < device->n_blocks && error == 0) {
    df_executor_block *eb = &executor->blocks[executor->n_threads];
    error = df_thread_create(&eb->thread, DF_THREAD_STACK_BYTES, 0, background, eb);
    if (error == 0) executor->n_threads++;
  }
  if (error == 0) return dfcclSuccess;
  stop_threads(executor);
  free(executor->blocks);
  executor->blocks = NULL;
  return df_fail(dfcclOutOfMemory, "could not start the daemon's thread %u of %u: %s",
                 executor->n_threads, device->n_blocks, strerror(error));
}

void df_executor_stop(df_executor *executor) {
  if (executor->blocks == NULL) return;
  df_publish_u32(&executor->device->exit, 1);
  stop_threads(executor);
  for (uint32_t b = 0; b < executor->n_blocks; b++) {
    df_block *block = executor->blocks[b].block;
    if (df_load_relaxed_u32(&block->running)) df_lifecycle_leave(block);
  }
  free(executor->blocks);
  executor->blocks = NULL;
}

void df_executor_submitted(df_executor *executor, int urgent, int unlocked) {
  /* The fence is after the push and before the checks for sleepers. It pairs with the last check of
   * the sleepers (store buffering). */
  if (unlocked)
    df_wake_fence_unlocked();
  else
    df_wake_fence();
  if (DF_UNLIKELY(df_load_relaxed_u32(&executor->work_bell->sleepers) != 0))
    df_bell_wake(executor->work_bell);
  if (df_load_relaxed_u32(&executor->idle_bell.sleepers) == 0) return;
  /* Napping threads poll within nap_ns, and the waiter comes sooner. */
  if (!urgent && df_load_relaxed_u32(&executor->expects_waiter) &&
      !df_load_relaxed_u32(&executor->deep_sleepers))
    return;
  df_bell_wake(&executor->idle_bell);
}

/* [owner] The entries of the SQ and earlier runs of the collective come first. With priorities the
 * queue must be empty. After many first turns, the queue has its turn. */
static int takes_first_turn(const df_executor_block *eb, uint32_t collective) {
  const df_block *block = eb->block;
  if (!df_load_relaxed_u32(&block->running) ||
      df_sq_has_entry(&block->device->sq, block->read_index))
    return 0;
  return block->tasks.length == 0 ||
         (block->tasks.length < DF_FIRST_TURNS_AHEAD && block->tasks.pending[collective] == 0 &&
          eb->first_turns < DF_FIRST_TURNS_IN_A_ROW &&
          !df_load_relaxed_u32(&block->device->by_priority));
}

int df_executor_claim_first_turn(df_executor *executor, uint32_t collective) {
  df_executor_block *eb = &executor->blocks[0];
  const df_block *block = eb->block;
  if (!df_load_relaxed_u32(&block->running) ||
      df_load_relaxed_u32(&block->tasks.length) >= DF_FIRST_TURNS_AHEAD || !try_own(eb))
    return 0;
  if (takes_first_turn(eb, collective)) return 1;
  disown(eb);
  return 0;
}

static void take_bells(df_executor_block *eb, df_borrowed_turn *turn) {
  turn->n_bells = eb->lanes.n_noted;
  for (uint32_t i = 0; i < turn->n_bells; i++) turn->bells[i] = eb->lanes.noted[i];
  eb->lanes.n_noted = 0;
}

int df_executor_first_turn(df_executor *executor, df_borrowed_turn *turn) {
  df_executor_block *eb = &executor->blocks[0];
  eb->first_turns = eb->block->tasks.length > 0 ? eb->first_turns + 1 : 0;
  int done = df_daemon_borrowed_turn(eb->block, turn->collective, 1, &eb->lanes);
  take_bells(eb, turn);
  disown(eb);
  return done;
}

/* Records that a waiter will come, so that submissions need not wake background threads. */
static void expect_waiter(df_executor *executor) {
  if (!df_load_relaxed_u32(&executor->expects_waiter))
    df_store_relaxed_u32(&executor->expects_waiter, 1);
}

static void note_activity(df_executor *executor) {
  df_store_relaxed_u32(&executor->activity, df_load_relaxed_u32(&executor->activity) + 1);
}

/* [owner] The block is running. */
static int takes_last_turn(df_block *block, uint32_t *collective) {
  const df_device *device = block->device;
  if (block->tasks.length == 0 || df_load_relaxed_u32(&device->by_priority)) return 0;
  *collective = df_scheduler_next(block);
  return device->descriptors[*collective]->n_blocks == 1;
}

int df_executor_last_turn(df_executor *executor, df_borrowed_turn *turn) {
  df_executor_block *eb = &executor->blocks[0];
  df_block *block = eb->block;
  int done = 0;
  if (!try_own(eb)) return 0;
  expect_waiter(executor);
  if (df_load_relaxed_u32(&block->running)) {
    if (block->tasks.length == 0 && df_scheduler_fetch(block, &eb->lanes))
      executor->host.between_turns(executor->host.host);
    if (takes_last_turn(block, &turn->collective)) {
      eb->first_turns = 0;
      done = df_daemon_borrowed_turn(block, turn->collective, 0, &eb->lanes);
      if (done) {
        df_cores_progressed(&eb->cores);
        take_bells(eb, turn);
      } else {
        df_lanes_ring_bells(&eb->lanes);
      }
    }
    note_activity(executor);
  }
  disown(eb);
  return done;
}

/* Requests the block. The request is repeated in each turn, because a driver that ends clears the
 * request of all. */
static void want(df_executor *executor) {
  if (!df_load_relaxed_u32(&executor->wanted)) df_store_relaxed_u32(&executor->wanted, 1);
}

void df_progress_begin(df_progress_thread *progress, df_executor *executor) {
  progress->executor = executor;
  progress->held = 0;
  want(executor);
  expect_waiter(executor);
}

int df_progress_turn(df_progress_thread *progress, int start) {
  df_executor *executor = progress->executor;
  int happened = 0, stuck = 1;
  uint64_t waits_on = 0;
  want(executor);
  for (uint32_t b = 0; b < executor->n_blocks; b++) {
    df_executor_block *eb = &executor->blocks[b];
    if (!(progress->held >> b & 1)) {
      if (!try_own(eb)) continue;
      progress->held |= 1ull << b;
      /* The request of the driver itself must not interrupt it. */
      eb->lanes.interrupt = &executor->synchronizers;
    }
    df_turn turn = progress_once(eb, start);
    if (turn == DF_TURN_LEFT) continue;
    happened = 1;
    int is_idle = turn == DF_TURN_WAITED && is_stuck(eb->block);
    if (is_idle && df_load_relaxed_u32(&executor->synchronizers)) {
      df_daemon_leave(eb->block, &eb->lanes);
      continue;
    }
    if (!is_idle) stuck = 0;
    if (turn != DF_TURN_WAITED) df_cores_progressed(&eb->cores);
    waits_on |= turn == DF_TURN_WAITED ? take_waits_on(eb) : 0;
  }
  if (happened && stuck)
    df_cores_give_way(&executor->blocks[__builtin_ctzll(progress->held)].cores, waits_on);
  return happened;
}

int df_progress_has_reason(const df_progress_thread *progress) {
  for (uint32_t b = 0; b < progress->executor->n_blocks; b++)
    if ((progress->held >> b & 1) && df_lifecycle_has_reason(progress->executor->blocks[b].block))
      return 1;
  return 0;
}

void df_progress_release(df_progress_thread *progress) {
  df_executor *executor = progress->executor;
  for (uint32_t b = 0; progress->held; b++) {
    if (!(progress->held >> b & 1)) continue;
    progress->held &= ~(1ull << b);
    executor->blocks[b].lanes.interrupt = &executor->wanted;
    disown(&executor->blocks[b]);
  }
  df_store_relaxed_u32(&executor->wanted, 0);
}

void df_progress_end(df_progress_thread *progress) {
  df_progress_release(progress);
  note_activity(progress->executor);
}

static int all_have_left(const df_executor *executor, const uint64_t *quits) {
  for (uint32_t b = 0; b < executor->n_blocks; b++) {
    const df_block *block = executor->blocks[b].block;
    if (df_observe_u32(&block->running) && df_load_relaxed_u64(&block->stats.quits) == quits[b])
      return 0;
  }
  return 1;
}

void df_executor_synchronize(df_executor *executor) {
  uint64_t quits[DF_MAX_BLOCKS];
  df_progress_thread progress;
  for (uint32_t b = 0; b < executor->n_blocks; b++)
    quits[b] = df_load_relaxed_u64(&executor->blocks[b].block->stats.quits);
  df_system_add_u32(&executor->synchronizers, DF_INTERRUPT_LEAVES);
  df_progress_begin(&progress, executor);
  while (!all_have_left(executor, quits)) {
    int happened = df_progress_turn(&progress, 0);
    executor->host.completed(executor->host.host);
    if (!happened) df_cpu_yield();
  }
  df_progress_end(&progress);
  df_system_sub_u32(&executor->synchronizers, DF_INTERRUPT_LEAVES);
}
