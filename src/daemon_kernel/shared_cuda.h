/*
 * A CUDA block's shared memory, and its leader's watch: the clock, and the words of the host and of
 * the other blocks.
 */
#ifndef DF_DAEMON_KERNEL_SHARED_CUDA_H
#define DF_DAEMON_KERNEL_SHARED_CUDA_H

#include "daemon_kernel/launch_cuda.h"
#include "primitives/lanes.h"

/* Looks at the host's words cross the bus: at least so many turns or steps lie between them, or so
 * many ns of polling. */
enum { DF_CUDA_LOOK_TURNS = 16, DF_CUDA_LOOK_STEPS = 64, DF_CUDA_LOOK_NS = 20000 };

typedef struct df_cuda_watch {
  uint64_t now;     /* the latest reading */
  uint64_t ends_at; /* the launch's life */
  uint64_t look_at;
  uint32_t steps;  /* since the latest look */
  uint32_t fresh;  /* time counts from the next reading on */
  uint32_t ending; /* the launch is over for this block */
} df_cuda_watch;

typedef struct df_cuda_shared {
  df_context_slot slots[DF_MAX_CONTEXT_SLOTS];
  df_device device;
  df_block block;
  df_move move;
  df_sq host_queue; /* with a relay: the host's */
  df_cuda_daemon daemon;
  df_cuda_watch watch;
  uint32_t works;
  uint32_t stays;
  uint32_t saved; /* the image is up to date */
  uint32_t turns_to_look;
} df_cuda_shared;

/* Whatever the number of collectives. */
DF_STATIC_ASSERT(sizeof(df_cuda_shared) <= 13 * 1024, "a block's shared memory");

DF_CORE df_cuda_shared *df_cuda_shared_of(df_block *block) {
  return (df_cuda_shared *)(void *)((uint8_t *)block - offsetof(df_cuda_shared, block));
}

/* ---- Leader only */

/* ns since the reading before. */
DF_CORE uint32_t df_cuda_read_clock(df_cuda_watch *watch) {
  const uint64_t before = watch->now, now = df_device_ns();
  watch->now = now;
  const uint64_t elapsed = watch->fresh || now < before ? 0 : now - before;
  watch->fresh = 0;
  return (uint32_t)DF_MIN(elapsed, (uint64_t)UINT32_MAX / 2);
}

/* All loads before the first store: one crossing of the bus. */
DF_CORE void df_cuda_look_at_host(df_cuda_shared *shared) {
  df_device *copy = &shared->device;
  const df_device *host = shared->daemon.device;
  const uint32_t by_priority = df_load_relaxed_u32(&host->by_priority),
                 exit = df_load_relaxed_u32(&host->exit),
                 failures = df_load_relaxed_u32(&host->failures),
                 recalled = df_load_relaxed_u32(&host->recalled);
  copy->by_priority = by_priority;
  copy->exit = exit;
  copy->failures = failures;
  copy->recalled = recalled;
  shared->move.attends = failures;
  shared->turns_to_look = DF_CUDA_LOOK_TURNS;
}

/* Block 0 with a relay. */
DF_CORE void df_cuda_relay_entries(df_cuda_shared *shared, const df_lanes *lanes) {
  df_cuda_relay *relay = shared->daemon.relay;
  if (relay == NULL || shared->block.index != 0) return;
  df_lanes_start_timer(lanes);
  while (df_sq_pass_spsc(&shared->host_queue, &shared->device.sq)) {
    df_lanes_note_time(lanes, DF_TIMED_PASS, 1);
    df_lanes_start_timer(lanes);
  }
  relay->queue.ticket = shared->device.sq.ticket; /* for the next launch */
}

/* Looks at everything outside of this block. */
DF_CORE void df_cuda_look(df_cuda_shared *shared, const df_lanes *lanes) {
  df_cuda_watch *watch = &shared->watch;
  const df_cuda_daemon *daemon = &shared->daemon;
  df_cuda_look_at_host(shared);
  df_cuda_relay_entries(shared, lanes);
  const uint64_t now = df_device_ns();
  watch->steps = 0;
  watch->look_at = now + DF_CUDA_LOOK_NS;
  watch->ending = shared->device.recalled == daemon->launch || now >= watch->ends_at ||
                  df_load_relaxed_u32(&daemon->gate->left) == daemon->launch;
}

#endif
