/* The watch decides how long a turn polls without success, and whether another thread wants the
 * turn to end. On the CPU it counts polls and reads a word that a thread writes that wants to
 * become the driver. */
#ifndef DF_DAEMON_KERNEL_WATCH_H
#define DF_DAEMON_KERNEL_WATCH_H

#if defined(__CUDACC__)
#include "daemon_kernel/watch_cuda.h"
#else

#include "daemon_kernel/block.h"
#include "primitives/lanes.h"

DF_CORE void df_watch_begin_turn(df_block *block, df_lanes *lanes) {
  (void)block;
  (void)lanes;
}

/* Called after each poll without success. */
DF_CORE int df_watch_ends_turn(df_block *block, df_lanes *lanes, uint32_t *polls, uint32_t limit) {
  (void)block;
  return ++*polls >= limit || df_lanes_interrupted(lanes);
}

/* Returns 1 if a turn that ends sets the collective aside; otherwise the collective keeps its turn.
 * */
DF_CORE int df_watch_sets_aside(const df_lanes *lanes, uint32_t polls, uint32_t limit) {
  return polls >= limit || df_lanes_must_leave(lanes);
}

/* Called after each success. */
DF_CORE int df_watch_interrupts(df_block *block, df_lanes *lanes) {
  (void)block;
  return df_lanes_interrupted(lanes);
}

DF_CORE int df_watch_stays(df_block *block) {
  (void)block;
  return 0;
}

/* The duration of a turn without a collective, in the unit of the thresholds. */
DF_CORE uint32_t df_watch_idle(df_block *block) {
  (void)block;
  return 1;
}

#endif
#endif
