/*
 * Segments in a GPU's memory: the owner's, which peer processes map by an IPC handle that travels
 * in the control message in place of a file descriptor. The host never follows their addresses.
 */
#ifndef DF_TRANSPORTS_SEGMENT_CUDA_H
#define DF_TRANSPORTS_SEGMENT_CUDA_H

#include "transports/segment.h"

/* Zeroed memory of at least `bytes` on that device, with a handle where the device offers it. Waits
 * for the device's kernels, perhaps. */
dfcclResult_t df_segment_cuda_create(df_segment **segment, uint64_t id, size_t bytes, int device);
dfcclResult_t df_segment_cuda_map(df_segment **segment, uint64_t id, size_t bytes, int device,
                                  const uint8_t handle[DF_SEGMENT_HANDLE_BYTES]);

/* The calling thread uses this device until _leave, which takes it back to the one before. Any
 * thread: captures of streams elsewhere are not disturbed. */
typedef struct df_cuda_visit {
  int before, mode;
} df_cuda_visit;
dfcclResult_t df_cuda_enter_device(df_cuda_visit *visit, int device);
void df_cuda_leave_device(const df_cuda_visit *visit);

/* Records a sentence about a failing CUDA call. */
dfcclResult_t df_cuda_call_failed(int error, const char *what);

#endif
