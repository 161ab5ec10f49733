/*
 * The CUDA device: df_daemon_turn as a resident kernel, a CUDA block for each df_block, a thread
 * for each lane. What the host lays out for it, and how the blocks leave together.
 *
 * Memory, by who touches it:
 *
 *   - mapped page-locked host memory: SQ and CQ, df_device, the blocks' images, run words, tickets,
 *     progress (host and kernel write to it while the other runs, with plain stores)
 *
 *   - device memory: descriptors, counters, task queues' arrays, saved contexts, plans, links and
 *     their rings, the relay's queue, the gate
 *
 *   - shared memory, for a launch: df_device's copy, df_block, the context slots, the step's
 *     decision: a step decides without touching anything else of the daemon's own
 */
#ifndef DF_DAEMON_KERNEL_DAEMON_CUDA_H
#define DF_DAEMON_KERNEL_DAEMON_CUDA_H

#include "daemon_kernel/block.h"
#include "primitives/timers.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Threads of a block at most; any multiple of 32 up to it may be launched. */
enum { DF_CUDA_MAX_LANES = 512 };

/*
 * Blocks leave the device together: one that has left its turns parks, and goes back to work when
 * it has a reason to, until none is active. Otherwise a block that left while others stay busy
 * would have its collectives wait for all of theirs.
 *
 * Nothing here waits for a block that has not started, for which there may be no multiprocessor
 * until other kernels end: it finds that its launch is ending, makes one turn and leaves too.
 * In device memory, zeroed before the first launch.
 */
typedef struct df_cuda_gate {
  uint32_t active; /* blocks that have started and are neither parked nor gone */
  uint32_t left;   /* number of the latest launch of which a block has gone */
} df_cuda_gate;

/* One block polls the SQ across the bus and passes entries on through device memory. */
typedef struct df_cuda_relay {
  df_sq queue; /* slots in device memory, zeroed; as many as the SQ has */
} df_cuda_relay;

/* Mapped: the host asks for the k-th time, and sees the k-th answer. */
typedef struct df_cuda_clock {
  uint64_t asked, answered, ns;
} df_cuda_clock;

/* The kernel's argument. */
typedef struct df_cuda_daemon {
  /* Copied when the kernel starts; the words that the host writes are looked at between turns. */
  const df_device *device;
  /* Images: read when the kernel starts. Written back, running last, when it ends, and without
   * running whenever a block has begun to wait. The host sets running before the launch. cache.mask
   * + 1, a power of two, is at most DF_MAX_CONTEXT_SLOTS; cache.slots is not used. */
  df_block *blocks;
  df_cuda_gate *gate;
  df_cuda_relay *relay; /* NULL: every block polls the SQ itself */
  uint32_t launch;      /* number of this launch, from 1 */
  df_time_log *times;   /* [n_blocks] mapped; the timed kernel's */
} df_cuda_daemon;

/* The kernel's handle, for cudaFuncGetAttributes and cudaLaunchKernelExC with one argument, a
 * df_cuda_daemon. The grid may be smaller than device->n_blocks: the blocks that work need. */
const void *df_cuda_daemon_kernel(void);
/* The same, with timers (primitives/timers.h). */
const void *df_cuda_timed_kernel(void);

/* Where streams cannot write and wait for words themselves. One thread each; arguments: the word's
 * address, the value. wait: until the word is not less than the value, modulo 2^64. */
const void *df_cuda_write_kernel(void);
const void *df_cuda_wait_kernel(void);
/* Answers questions for the device's time. One thread; arguments: a df_cuda_clock, the numbers of
 * the first question and of the last. */
const void *df_cuda_clock_kernel(void);

#ifdef __cplusplus
}
#endif
#endif
