/*
 * The CUDA device: df_daemon_turn as a resident kernel, a CUDA block for each df_block, a thread
 * for each lane. What the host lays out for it, and how the blocks leave together.
 *
 * Memory, by who touches it:
 *   mapped page-locked host memory   the SQ and CQ, df_device, the blocks' images, descriptors (the
 *                                    host writes them while the kernel runs, with plain stores)
 *   device memory                    task queues' arrays, saved contexts, plans, links, parking
 * word shared memory, for a launch      df_device's copy, df_block, the context slots, the step's
 *                                    decision: a step decides without touching anything else of the
 *                                    daemon's own
 */
#ifndef DF_DAEMON_KERNEL_DAEMON_CUDA_H
#define DF_DAEMON_KERNEL_DAEMON_CUDA_H

#include "daemon_kernel/block.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Threads of a block at most; any multiple of 32 up to it may be launched. */
enum { DF_CUDA_MAX_LANES = 512 };

/* The kernel's argument. */
typedef struct df_cuda_daemon {
  /* Copied when the kernel starts; by_priority and exit are looked at again before every turn. */
  const df_device *device;
  /* [n_blocks] images: read when the kernel starts. Written back, running last, when it ends, and
   * without running whenever a block has begun to wait. cache.mask + 1, a power of two, is at most
   * DF_MAX_CONTEXT_SLOTS; cache.slots is not used. */
  df_block *blocks;
  /*
   * Blocks leave the device together: one that has left its turns parks, and goes back to work when
   * it has a reason to, until all are parked. Otherwise a block that left while others stay busy
   * would have its collectives wait for all of theirs.
   *
   * *parked counts the parked blocks of all launches, so that no launch has to reset it: 0 before
   * the first one. all_parked: its value when the launch ends, launch number (from 1) * n_blocks
   * modulo 2^32. All blocks must be resident at one time.
   */
  uint32_t *parked;
  uint32_t all_parked;
} df_cuda_daemon;

/* The kernel's handle, for cudaFuncGetAttributes and cudaLaunchKernelExC with one argument, a
 * df_cuda_daemon. */
const void *df_cuda_daemon_kernel(void);

#ifdef __cplusplus
}
#endif
#endif
