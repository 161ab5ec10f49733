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

#include "daemon_kernel/launch_cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

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
