/* Buffers on the device that a tool measures: host memory for the CPU device, device memory for
 * CUDA. The CUDA driver is opened at run time, so that the tools are built without the Toolkit. */
#ifndef DF_BENCH_COMMON_MEMORY_H
#define DF_BENCH_COMMON_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

#include "dfccl.h"

/* Returns NULL, or a sentence that says why there is no device. *device: the ordinal of the CUDA
 * device for the request, which is modulo the number of devices; 0 for a negative request and for
 * the CPU. Any thread. */
const char *df_tool_memory_choose(dfcclBackend_t backend, int requested, int *device);

/* Makes the calling thread use the memory of the device that df_tool_memory_choose returns. The
 * backend is the same in all calls of a process. Any thread; must be called by every thread that
 * uses the functions below. */
const char *df_tool_memory_open(dfcclBackend_t backend, int requested, int *device);

/* Whether the CPU may read and write the buffers directly. */
bool df_tool_memory_is_host(void);

/* A buffer of at least one byte, aligned to a page; NULL if there is no memory. The caller
 * gives it back. Pages of host memory are touched, so that a measurement does not meet them. */
void *df_tool_memory_alloc(size_t bytes);
void df_tool_memory_free(void *buffer, size_t bytes);

/* Copy between a buffer (or dfcclMemAlloc memory) and plain host memory; false: the device
 * refused. Block until done. */
bool df_tool_memory_put(void *buffer, const void *host, size_t bytes);
bool df_tool_memory_get(void *host, const void *buffer, size_t bytes);
bool df_tool_memory_zero(void *buffer, size_t bytes);

#endif
