/*
 * Lifecycle of one block. A block leaves if for some time no SQE arrives and nothing progresses. It
 * is started again when an SQE or a peer's message arrives, or while CQEs are missing.
 */
#ifndef DF_DAEMON_KERNEL_LIFECYCLE_H
#define DF_DAEMON_KERNEL_LIFECYCLE_H

#include "daemon_kernel/block.h"
#include "primitives/step.h"

DF_CORE void df_lifecycle_start(df_block *block) {
  DF_ASSERT(!block->running);
  block->quiet_polls = block->blocked_polls = 0;
  block->swept = 0;
  df_count(&block->stats.starts, 1);
  df_publish_u32(&block->running, 1);
}

DF_CORE void df_lifecycle_leave(df_block *block) {
  df_context_flush(&block->cache);
  if (!df_load_relaxed_u32(&block->device->exit)) df_count(&block->stats.quits, 1);
  /* All work of this block precedes the store that shows that it has left, which a device
   * synchronisation observes. */
  df_publish_u32(&block->running, 0);
}

/* Returns 1 if every entry has been tried, and there is no SQE whose run peers may need. */
DF_CORE int df_lifecycle_may_leave(const df_block *block) {
  return block->swept >= block->tasks.length &&
         !df_sq_has_entry(&block->device->sq, block->read_index);
}

DF_CORE int df_lifecycle_should_leave(const df_block *block) {
  if (df_load_relaxed_u32(&block->device->exit) && block->tasks.length == 0) return 1;
  return block->quiet_polls >= block->device->tunables.quit_polls && df_lifecycle_may_leave(block);
}

/* Returns 1 if a block that has left has a reason to run again. */
DF_CORE int df_lifecycle_has_reason(const df_block *block) {
  if (df_sq_has_entry(&block->device->sq, block->read_index)) return 1;
  for (uint32_t place = 0; place < block->tasks.length; place++) {
    uint32_t collective = block->tasks.order[place];
    const df_descriptor *desc = block->device->descriptors[collective];
    const df_cursor *cursor = &block->cache.memory[collective];
    if (cursor->generation != desc->generation || df_coll_is_runnable(desc, block->index, cursor))
      return 1;
  }
  return 0;
}

#endif
