/*
 * The CUDA device: df_daemon_turn as a resident kernel, a CUDA block for each df_block, a thread
 * for each lane. What the host lays out for it, and how the blocks leave together.
 *
 *   mapped page-locked   SQ and CQ, df_device, the blocks' images, run words, tickets, progress:
 *   host memory          host and kernel write while the other runs, with plain stores
 *   device memory        descriptors, counters, task queues, saved contexts, plans, links and their
 *                        rings, the relay's queue, the gate
 *   shared memory, for   df_device's copy, df_block, the context slots, the step's decision: a step
 *   a launch             decides without touching anything else of the daemon's own
 */
#ifndef DF_DAEMON_KERNEL_DAEMON_CUDA_H
#define DF_DAEMON_KERNEL_DAEMON_CUDA_H

#include "daemon_kernel/block.h"
#include "primitives/timers.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Most threads of a block; any multiple of 32 may be launched. */
enum { DF_CUDA_MAX_LANES = 512 };

/*
 * Blocks leave the device together: a block that has left its turns parks, and goes back to work if
 * it has a reason to, until no block is active. If it left alone, its collectives would wait for
 * the busy blocks.
 *
 * Nothing waits for a block that has not started: it may not get a multiprocessor before other
 * kernels end. It then finds that its launch is ending, makes one turn and leaves too. In device
 * memory, zeroed before the first launch.
 */
typedef struct df_cuda_gate {
  uint32_t active; /* blocks that have started and are neither parked nor gone */
  uint32_t left;   /* the latest launch of which a block has gone */
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
  /* Copied when the kernel starts. The host's words are looked at between turns. */
  const df_device *device;
  /* Images: read when the kernel starts, written when a block begins to wait (without running) and
   * when the kernel ends (running last). The host sets running before the launch. cache.mask + 1 is
   * a power of two, at most DF_MAX_CONTEXT_SLOTS; cache.slots is not used. */
  df_block *blocks;
  df_cuda_gate *gate;
  df_cuda_relay *relay; /* NULL: every block polls the SQ itself */
  uint32_t launch;      /* number of this launch, from 1 */
  df_time_log *times;   /* [n_blocks] mapped; the timed kernel's */
} df_cuda_daemon;

/* For cudaFuncGetAttributes and cudaLaunchKernelExC; the one argument is a df_cuda_daemon. The grid
 * may have fewer blocks than the device. */
const void *df_cuda_daemon_kernel(void);
/* The same, with timers (primitives/timers.h). */
const void *df_cuda_timed_kernel(void);

/* For streams that cannot write and wait for words themselves. One thread; arguments: the word's
 * address, the value. wait: until the word is not less than the value, modulo 2^64. */
const void *df_cuda_write_kernel(void);
const void *df_cuda_wait_kernel(void);
/* Answers questions for the device's time. One thread; arguments: a df_cuda_clock, the first and
 * the last question's number. */
const void *df_cuda_clock_kernel(void);

#ifdef __cplusplus
}
#endif
#endif
