/*
 * The watch on CUDA. The leader reads the clock after each poll without success, and the host's
 * words from time to time, also within a turn. It publishes the result with the next decision, so
 * that all lanes receive it behind the same barrier.
 */
#ifndef DF_DAEMON_KERNEL_WATCH_CUDA_H
#define DF_DAEMON_KERNEL_WATCH_CUDA_H

#include "daemon_kernel/shared_cuda.h"

/* ---- As in watch.h. All lanes call these functions, except df_watch_idle. */

DF_CORE void df_watch_begin_turn(df_block *block, df_lanes *lanes) {
  if (!df_lanes_leads(lanes)) return;
  lanes->move->stop = df_cuda_ends_turn(&df_cuda_shared_of(block)->watch) ? DF_STOP_LEAVE : 0;
  df_lanes_forget_prepared(lanes);
}

/* *polls belongs to the leader, in nanoseconds. The other lanes receive the result with the next
 * decision. */
DF_CORE int df_watch_ends_turn(df_block *block, df_lanes *lanes, uint32_t *polls, uint32_t limit) {
  if (lanes->stop && !(df_lanes_leads(lanes) && df_lanes_miss_input(lanes))) return 1;
  if (!df_lanes_leads(lanes)) return 0;
  df_cuda_shared *shared = df_cuda_shared_of(block);
  df_cuda_watch *watch = &shared->watch;
  const uint32_t elapsed = df_cuda_read_clock(watch);
  *polls += DF_MIN(elapsed, UINT32_MAX - *polls);
  if (lanes->stop) return 1; /* the time must count, or nothing would ever be fetched */
  if (++watch->steps >= DF_CUDA_LOOK_STEPS || watch->now >= watch->look_at)
    df_cuda_look(shared, lanes);
  if (df_cuda_ends_turn(watch))
    lanes->move->stop = DF_STOP_LEAVE;
  else if (*polls >= limit)
    lanes->move->stop = DF_STOP_LIMIT;
  return 0;
}

DF_CORE int df_watch_sets_aside(const df_lanes *lanes, uint32_t polls, uint32_t limit) {
  (void)polls;
  (void)limit;
  return !(lanes->stop & DF_STOP_LEAVE);
}

DF_CORE int df_watch_interrupts(df_block *block, df_lanes *lanes) {
  if (df_lanes_leads(lanes)) {
    df_cuda_shared *shared = df_cuda_shared_of(block);
    df_cuda_watch *watch = &shared->watch;
    watch->fresh = 1;
    if (++watch->steps >= DF_CUDA_LOOK_STEPS) df_cuda_look(shared, lanes);
    /* a success renews the threshold */
    lanes->move->stop = df_cuda_ends_turn(watch) ? DF_STOP_LEAVE : 0;
  }
  return lanes->stop & DF_STOP_LEAVE;
}

/* Called by the leader. */
DF_CORE int df_watch_stays(df_block *block) { return df_cuda_stays(df_cuda_shared_of(block)) != 0; }

DF_CORE uint32_t df_watch_idle(df_block *block) {
  return df_cuda_read_clock(&df_cuda_shared_of(block)->watch);
}

#endif
