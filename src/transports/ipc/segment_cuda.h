/* Segments in GPU memory. Peers map them by an IPC handle; the host never follows their
 * addresses. */
#ifndef DF_TRANSPORTS_IPC_SEGMENT_CUDA_H
#define DF_TRANSPORTS_IPC_SEGMENT_CUDA_H

#include "transports/shm/segment.h"

/* Makes a zeroed segment, with a handle if the device offers one. May wait for kernels. */
dfcclResult_t df_segment_cuda_create(df_segment **segment, uint64_t id, size_t bytes, int device);
dfcclResult_t df_segment_cuda_map(df_segment **segment, uint64_t id, size_t bytes, int device,
                                  const uint8_t handle[DF_SEGMENT_HANDLE_BYTES]);

/* Each retain needs a release. */
dfcclResult_t df_cuda_retain_device(void **primary, int device);
void df_cuda_release_device(int device);

/* Makes the thread use the primary context until df_cuda_leave_device restores the context that it
 * had, or none. Does not disturb captures of streams. Any thread. */
typedef struct df_cuda_visit {
  void *before;
  int mode;
} df_cuda_visit;
dfcclResult_t df_cuda_enter_device(df_cuda_visit *visit, void *primary);
void df_cuda_leave_device(const df_cuda_visit *visit);

/* Around a call that waits for the kernels of the device. Daemons that would stay for nothing but
 * later runs on streams leave meanwhile. Any thread. */
void df_cuda_begin_device_wait(void);
void df_cuda_end_device_wait(void);
int df_cuda_waits_for_device(void); /* a thread of the process is in such a call */

/* Returns a function of the driver with the interface of version 11.7; NULL: there is none. */
void *df_cuda_entry_point(const char *name);

dfcclResult_t df_cuda_call_failed(int error, const char *what);

#endif
