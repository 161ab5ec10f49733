/*
 * The CUDA device: df_daemon_turn as a resident kernel, with a CUDA block for each df_block and a
 * thread for each lane. The memory of each part:
 *
 *   mapped host memory   SQ, CQ, df_device, images of blocks, run words, input words of stream
 *                        events, progress: the host and the kernel write concurrently, with plain
 *                        stores
 *   device memory        descriptors, counters, task queues, contexts, plans, links, rings, gate
 *   shared memory        copies of df_device and df_block, context slots: all data that a step
 *                        needs to decide
 */
#ifndef DF_DAEMON_KERNEL_DAEMON_CUDA_H
#define DF_DAEMON_KERNEL_DAEMON_CUDA_H

#include "daemon_kernel/launch_cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Its argument is a df_cuda_daemon. The grid may have fewer blocks than the device. */
const void *df_cuda_daemon_kernel(void);
/* The same with timers (primitives/timers.h). */
const void *df_cuda_timed_kernel(void);

/* Kernels for streams without memory operations. They have one thread. Arguments: the word's
 * address, and the value. The second waits until the word is not less than the value, modulo
 * 2^64. */
const void *df_cuda_write_kernel(void);
const void *df_cuda_wait_kernel(void);
/* A kernel of one thread. Arguments: a df_cuda_clock, and the numbers of the first and the last
 * question. */
const void *df_cuda_clock_kernel(void);

#ifdef __cplusplus
}
#endif
#endif
