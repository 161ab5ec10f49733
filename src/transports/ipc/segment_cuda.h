/* Segments in a GPU's memory. Peers map them by an IPC handle in the control message. The host
 * never follows their addresses. */
#ifndef DF_TRANSPORTS_IPC_SEGMENT_CUDA_H
#define DF_TRANSPORTS_IPC_SEGMENT_CUDA_H

#include "transports/shm/segment.h"

/* Zeroed memory, with a handle if the device offers one. May wait for the device's kernels. */
dfcclResult_t df_segment_cuda_create(df_segment **segment, uint64_t id, size_t bytes, int device);
dfcclResult_t df_segment_cuda_map(df_segment **segment, uint64_t id, size_t bytes, int device,
                                  const uint8_t handle[DF_SEGMENT_HANDLE_BYTES]);

/* The device's primary context; each retain needs a release. */
dfcclResult_t df_cuda_retain_device(void **primary, int device);
void df_cuda_release_device(int device);

/* The calling thread uses the primary context until _leave, and then the context it had, or none.
 * Does not disturb captures of streams. Any thread. */
typedef struct df_cuda_visit {
  void *before;
  int mode;
} df_cuda_visit;
dfcclResult_t df_cuda_enter_device(df_cuda_visit *visit, void *primary);
void df_cuda_leave_device(const df_cuda_visit *visit);

/* A function of the driver, with the interface of version 11.7. NULL: there is none. */
void *df_cuda_entry_point(const char *name);

dfcclResult_t df_cuda_call_failed(int error, const char *what);

#endif
