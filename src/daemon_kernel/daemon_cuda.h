/*
 * The CUDA device: df_daemon_turn as a resident kernel, a CUDA block for each df_block, a thread
 * for each lane. What lies where:
 *
 *   mapped host memory   SQ, CQ, df_device, images of blocks, run words, tickets, progress: host
 *                        and kernel write concurrently, with plain stores
 *   device memory        descriptors, counters, task queues, contexts, plans, links, rings, gate
 *   shared memory        copies of df_device and df_block, context slots: all that a step needs to
 *                        decide
 */
#ifndef DF_DAEMON_KERNEL_DAEMON_CUDA_H
#define DF_DAEMON_KERNEL_DAEMON_CUDA_H

#include "daemon_kernel/block.h"
#include "primitives/timers.h"

#ifdef __cplusplus
extern "C" {
#endif

/* At launch any multiple of 32. */
enum { DF_CUDA_MAX_LANES = 512 };

/*
 * Blocks leave together: if one left alone, its collectives would wait for the busy blocks. A block
 * that has left its turns parks, and goes back if it has a reason, until no block is active.
 *
 * Nothing waits for a block that has not started: other kernels may be in its place. In device
 * memory, zeroed before the first launch.
 */
typedef struct df_cuda_gate {
  uint32_t active; /* started, and neither parked nor gone */
  uint32_t left;   /* latest launch that a block has left */
} df_cuda_gate;

/* One block polls the SQ across the bus for all. */
typedef struct df_cuda_relay {
  df_sq queue; /* in device memory, zeroed; as long as the SQ */
} df_cuda_relay;

/* Mapped. The host asks for the k-th time, and sees the k-th answer. */
typedef struct df_cuda_clock {
  uint64_t asked, answered, ns;
} df_cuda_clock;

typedef struct df_cuda_daemon {
  /* Copied at the start. */
  const df_device *device;
  /* Images: read at the start; written when a block begins to wait (without running), and at the
   * end (running last). The host sets running before the launch. cache.mask + 1 is a power of
   * two, at most DF_MAX_CONTEXT_SLOTS. */
  df_block *blocks;
  df_cuda_gate *gate;
  df_cuda_relay *relay; /* NULL: all poll the SQ */
  uint32_t launch;      /* from 1 */
  df_time_log *times;   /* [n_blocks] mapped */
} df_cuda_daemon;

/* Argument: a df_cuda_daemon. The grid may have fewer blocks than the device. */
const void *df_cuda_daemon_kernel(void);
/* With timers (primitives/timers.h). */
const void *df_cuda_timed_kernel(void);

/* For streams without memory operations. One thread. Arguments: the word's address, the value.
 * wait: until the word is not less, modulo 2^64. */
const void *df_cuda_write_kernel(void);
const void *df_cuda_wait_kernel(void);
/* One thread. Arguments: a df_cuda_clock, the first and the last question's number. */
const void *df_cuda_clock_kernel(void);

#ifdef __cplusplus
}
#endif
#endif
