/* The speed of the GPU itself, measured in the same run as the library, for comparison. */
#ifndef DF_BENCH_DFCCL_BENCH_REFERENCE_CUDA_H
#define DF_BENCH_DFCCL_BENCH_REFERENCE_CUDA_H

#include <stdbool.h>
#include <stddef.h>

/* By the thread that has opened the device (df_tool_memory_open). false: the driver refused. */

/* An empty kernel: from its launch to the return of an event's synchronisation, count times. */
bool df_bench_time_launches(double *durations_ns, int count);
/* A copy from device memory to device memory of the same GPU: the median of a few. */
bool df_bench_time_copy(size_t bytes, double *gbps);

#endif
