#include "transports/ipc/segment_cuda.h"

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/mutex.h"

DF_STATIC_ASSERT(sizeof(cudaIpcMemHandle_t) == DF_SEGMENT_HANDLE_BYTES, "a handle fits a segment");

/* Segments consist of whole pages of 2 MB, because a handle gives its importer access to everything
 * that shares a page. */
#define DF_CUDA_PAGE ((size_t)2 << 20)

dfcclResult_t df_cuda_call_failed(int error, const char *what) {
  cudaError_t code = (cudaError_t)error;
  cudaGetLastError(); /* clears the error */
  return df_fail(code == cudaErrorMemoryAllocation ? dfcclOutOfMemory : dfcclUnhandledCudaError,
                 "%s failed: %s (%s)", what, cudaGetErrorString(code), cudaGetErrorName(code));
}

/* Functions of the driver; set when a context is first retained, before any use. */
static struct {
  CUresult (*get_current)(CUcontext *context);
  CUresult (*set_current)(CUcontext context);
  CUresult (*retain)(CUcontext *context, CUdevice device);
  CUresult (*release)(CUdevice device);
} driver;
static df_mutex driver_lock = DF_MUTEX_INITIALIZER;
static int driver_found;

void *df_cuda_entry_point(const char *name) {
  void *entry = NULL;
  enum cudaDriverEntryPointQueryResult found;
  cudaError_t error =
      cudaGetDriverEntryPointByVersion(name, &entry, 11070, cudaEnableDefault, &found);
  if (error == cudaSuccess && found == cudaDriverEntryPointSuccess) return entry;
  cudaGetLastError();
  return NULL;
}

static dfcclResult_t find_driver(void) {
  const struct {
    const char *name;
    void *at;
  } entries[] = {{"cuCtxGetCurrent", &driver.get_current},
                 {"cuCtxSetCurrent", &driver.set_current},
                 {"cuDevicePrimaryCtxRetain", &driver.retain},
                 {"cuDevicePrimaryCtxRelease", &driver.release}};
  for (size_t i = 0; i < DF_COUNT_OF(entries); i++) {
    void *entry = df_cuda_entry_point(entries[i].name);
    if (entry == NULL)
      return df_fail(dfcclUnhandledCudaError, "the CUDA driver has no %s", entries[i].name);
    memcpy(entries[i].at, &entry, sizeof entry);
  }
  driver_found = 1;
  return dfcclSuccess;
}

static dfcclResult_t driver_failed(CUresult error, const char *what) {
  return df_fail(error == CUDA_ERROR_OUT_OF_MEMORY ? dfcclOutOfMemory : dfcclUnhandledCudaError,
                 "%s failed: %s (error %d of the CUDA driver)", what,
                 cudaGetErrorString((cudaError_t)error), (int)error);
}

dfcclResult_t df_cuda_retain_device(void **primary, int device) {
  CUcontext context = NULL;
  df_lock(&driver_lock);
  dfcclResult_t result = driver_found ? dfcclSuccess : find_driver();
  df_unlock(&driver_lock);
  if (result != dfcclSuccess) return result;
  CUresult error = driver.retain(&context, device);
  if (error != CUDA_SUCCESS) return driver_failed(error, "retaining the context of a CUDA device");
  *primary = context;
  return dfcclSuccess;
}

void df_cuda_release_device(int device) { driver.release(device); }

dfcclResult_t df_cuda_enter_device(df_cuda_visit *visit, void *primary) {
  enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  CUcontext before = NULL;
  CUresult refused = driver.get_current(&before);
  if (refused == CUDA_SUCCESS && before != primary) refused = driver.set_current(primary);
  if (refused != CUDA_SUCCESS) return driver_failed(refused, "choosing the CUDA device");
  visit->before = before;
  cudaError_t error = cudaThreadExchangeStreamCaptureMode(&mode);
  visit->mode = (int)mode;
  if (error == cudaSuccess) return dfcclSuccess;
  driver.set_current(before);
  return df_cuda_call_failed(error, "cudaThreadExchangeStreamCaptureMode");
}

void df_cuda_leave_device(const df_cuda_visit *visit) {
  enum cudaStreamCaptureMode mode = (enum cudaStreamCaptureMode)visit->mode;
  cudaThreadExchangeStreamCaptureMode(&mode);
  driver.set_current(visit->before);
}

static uint32_t device_waits; /* number of calls that wait for a device */

void df_cuda_begin_device_wait(void) { df_system_add_u32(&device_waits, 1); }
void df_cuda_end_device_wait(void) { df_system_sub_u32(&device_waits, 1); }
int df_cuda_waits_for_device(void) { return df_load_relaxed_u32(&device_waits) != 0; }

static void destroy(df_segment *segment) {
  df_cuda_visit visit;
  if (df_cuda_enter_device(&visit, segment->primary) == dfcclSuccess) {
    df_cuda_begin_device_wait();
    if (segment->is_mapping)
      cudaIpcCloseMemHandle(segment->base);
    else
      cudaFree(segment->base);
    df_cuda_end_device_wait();
    cudaGetLastError();
    df_cuda_leave_device(&visit);
  }
  df_cuda_release_device(segment->device);
}

static dfcclResult_t make_record(df_segment **out, uint64_t id, size_t bytes, int device) {
  df_segment *segment = calloc(1, sizeof *segment);
  if (segment == NULL) return df_fail(dfcclOutOfMemory, "no memory for a segment's record");
  segment->id = id;
  segment->bytes = bytes;
  segment->fd = -1;
  segment->device = device;
  segment->destroy = destroy;
  dfcclResult_t result = df_cuda_retain_device(&segment->primary, device);
  if (result == dfcclSuccess)
    *out = segment;
  else
    free(segment);
  return result;
}

static void free_record(df_segment *segment) {
  df_cuda_release_device(segment->device);
  free(segment);
}

/* Uses a stream of its own: the legacy stream waits for the streams of the application, which may
 * wait for collectives that wait for this memory. */
static cudaError_t clear(void *base, size_t bytes) {
  cudaStream_t stream;
  cudaError_t error = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  if (error != cudaSuccess) return error;
  error = cudaMemsetAsync(base, 0, bytes, stream);
  if (error == cudaSuccess) error = cudaStreamSynchronize(stream);
  cudaStreamDestroy(stream);
  return error;
}

static dfcclResult_t allocate(df_segment *segment) {
  void *base = NULL;
  df_cuda_begin_device_wait();
  cudaError_t error = cudaMalloc(&base, segment->bytes);
  df_cuda_end_device_wait();
  if (error != cudaSuccess) return df_cuda_call_failed(error, "allocating memory of the GPU");
  error = clear(base, segment->bytes);
  if (error != cudaSuccess) {
    cudaFree(base);
    return df_cuda_call_failed(error, "clearing memory of the GPU");
  }
  segment->base = base;
  cudaIpcMemHandle_t handle;
  if (cudaIpcGetMemHandle(&handle, base) == cudaSuccess) {
    memcpy(segment->handle, &handle, sizeof handle);
    segment->has_handle = 1;
  } else {
    cudaGetLastError(); /* ranks of one process need no handle */
  }
  return dfcclSuccess;
}

dfcclResult_t df_segment_cuda_create(df_segment **out, uint64_t id, size_t bytes, int device) {
  df_cuda_visit visit;
  if (bytes > SIZE_MAX / 2)
    return df_fail(dfcclOutOfMemory, "%zu bytes of the GPU's memory are too many", bytes);
  df_segment *segment = NULL;
  size_t pages = DF_ALIGN_UP(DF_MAX(bytes, (size_t)1), DF_CUDA_PAGE);
  dfcclResult_t result = make_record(&segment, id, pages, device);
  if (result != dfcclSuccess) return result;
  result = df_cuda_enter_device(&visit, segment->primary);
  if (result == dfcclSuccess) {
    result = allocate(segment);
    df_cuda_leave_device(&visit);
  }
  if (result != dfcclSuccess) {
    free_record(segment);
    return result;
  }
  *out = segment;
  return dfcclSuccess;
}

dfcclResult_t df_segment_cuda_map(df_segment **out, uint64_t id, size_t bytes, int device,
                                  const uint8_t handle[DF_SEGMENT_HANDLE_BYTES]) {
  df_cuda_visit visit;
  cudaIpcMemHandle_t theirs;
  memcpy(&theirs, handle, sizeof theirs);
  df_segment *segment = NULL;
  dfcclResult_t result = make_record(&segment, id, bytes, device);
  if (result != dfcclSuccess) return result;
  segment->is_mapping = 1;
  result = df_cuda_enter_device(&visit, segment->primary);
  if (result == dfcclSuccess) {
    void *base = NULL;
    df_cuda_begin_device_wait();
    cudaError_t error = cudaIpcOpenMemHandle(&base, theirs, cudaIpcMemLazyEnablePeerAccess);
    df_cuda_end_device_wait();
    if (error != cudaSuccess)
      result = df_cuda_call_failed(error, "mapping a peer's memory of the GPU");
    segment->base = base;
    df_cuda_leave_device(&visit);
  }
  if (result != dfcclSuccess) {
    free_record(segment);
    return result;
  }
  *out = segment;
  return dfcclSuccess;
}
