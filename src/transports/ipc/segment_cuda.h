/*
 * Segments in a GPU's memory: the owner's, which peer processes map by an IPC handle that travels
 * in the control message in place of a file descriptor. The host never follows their addresses.
 */
#ifndef DF_TRANSPORTS_IPC_SEGMENT_CUDA_H
#define DF_TRANSPORTS_IPC_SEGMENT_CUDA_H

#include "transports/shm/segment.h"

/* Zeroed memory of at least `bytes` on that device, with a handle where the device offers it. Waits
 * for the device's kernels, perhaps. */
dfcclResult_t df_segment_cuda_create(df_segment **segment, uint64_t id, size_t bytes, int device);
dfcclResult_t df_segment_cuda_map(df_segment **segment, uint64_t id, size_t bytes, int device,
                                  const uint8_t handle[DF_SEGMENT_HANDLE_BYTES]);

/* The device's primary context, which exists until it is released as often as it was retained. */
dfcclResult_t df_cuda_retain_device(void **primary, int device);
void df_cuda_release_device(int device);

/* The calling thread uses that primary context until _leave, which gives it back the context that
 * it had, or none: no context is made that the application would not have. Any thread: captures of
 * streams elsewhere are not disturbed. */
typedef struct df_cuda_visit {
  void *before;
  int mode;
} df_cuda_visit;
dfcclResult_t df_cuda_enter_device(df_cuda_visit *visit, void *primary);
void df_cuda_leave_device(const df_cuda_visit *visit);

/* A function of the driver, with the interface of version 11.7. NULL: it has none of that name. */
void *df_cuda_entry_point(const char *name);

/* Records a sentence about a failing CUDA call. */
dfcclResult_t df_cuda_call_failed(int error, const char *what);

#endif
