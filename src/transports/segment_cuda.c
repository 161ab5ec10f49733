#include "transports/segment_cuda.h"

#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"

DF_STATIC_ASSERT(sizeof(cudaIpcMemHandle_t) == DF_SEGMENT_HANDLE_BYTES, "a handle fits a segment");

/* Whole pages of the device: a handle shows its importer everything that shares a page. */
#define DF_CUDA_PAGE ((size_t)2 << 20)

dfcclResult_t df_cuda_call_failed(int error, const char *what) {
  cudaError_t code = (cudaError_t)error;
  cudaGetLastError(); /* what is not sticky is told once */
  return df_fail(code == cudaErrorMemoryAllocation ? dfcclOutOfMemory : dfcclUnhandledCudaError,
                 "%s failed: %s (%s)", what, cudaGetErrorString(code), cudaGetErrorName(code));
}

dfcclResult_t df_cuda_enter_device(df_cuda_visit *visit, int device) {
  enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  visit->before = device;
  cudaError_t error = cudaGetDevice(&visit->before);
  if (error == cudaSuccess && visit->before != device) error = cudaSetDevice(device);
  if (error != cudaSuccess) return df_cuda_call_failed(error, "choosing the CUDA device");
  error = cudaThreadExchangeStreamCaptureMode(&mode);
  visit->mode = (int)mode;
  if (error == cudaSuccess) return dfcclSuccess;
  if (visit->before != device) cudaSetDevice(visit->before);
  return df_cuda_call_failed(error, "cudaThreadExchangeStreamCaptureMode");
}

void df_cuda_leave_device(const df_cuda_visit *visit) {
  enum cudaStreamCaptureMode mode = (enum cudaStreamCaptureMode)visit->mode;
  cudaThreadExchangeStreamCaptureMode(&mode);
  cudaSetDevice(visit->before);
}

static void destroy(df_segment *segment) {
  df_cuda_visit visit;
  if (df_cuda_enter_device(&visit, segment->device) != dfcclSuccess) return; /* it is lost */
  if (segment->is_mapping)
    cudaIpcCloseMemHandle(segment->base);
  else
    cudaFree(segment->base);
  cudaGetLastError();
  df_cuda_leave_device(&visit);
}

static df_segment *make_record(uint64_t id, size_t bytes, int device) {
  df_segment *segment = calloc(1, sizeof *segment);
  if (segment == NULL) {
    df_fail(dfcclOutOfMemory, "no memory for a segment's record");
    return NULL;
  }
  segment->id = id;
  segment->bytes = bytes;
  segment->fd = -1;
  segment->device = device;
  segment->destroy = destroy;
  return segment;
}

/* On a stream of its own: the legacy stream would wait for the application's streams, which may
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

/* On the current device. Nothing is left allocated after a failure. */
static dfcclResult_t allocate(df_segment *segment) {
  void *base = NULL;
  cudaError_t error = cudaMalloc(&base, segment->bytes);
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
    cudaGetLastError(); /* ranks of one process do not need it; others are told when they do */
  }
  return dfcclSuccess;
}

dfcclResult_t df_segment_cuda_create(df_segment **out, uint64_t id, size_t bytes, int device) {
  df_cuda_visit visit;
  if (bytes > SIZE_MAX / 2)
    return df_fail(dfcclOutOfMemory, "%zu bytes of the GPU's memory are too many", bytes);
  df_segment *segment =
      make_record(id, DF_ALIGN_UP(DF_MAX(bytes, (size_t)1), DF_CUDA_PAGE), device);
  if (segment == NULL) return dfcclOutOfMemory;
  dfcclResult_t result = df_cuda_enter_device(&visit, device);
  if (result == dfcclSuccess) {
    result = allocate(segment);
    df_cuda_leave_device(&visit);
  }
  if (result != dfcclSuccess) {
    free(segment);
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
  df_segment *segment = make_record(id, bytes, device);
  if (segment == NULL) return dfcclOutOfMemory;
  segment->is_mapping = 1;
  dfcclResult_t result = df_cuda_enter_device(&visit, device);
  if (result == dfcclSuccess) {
    void *base = NULL;
    cudaError_t error = cudaIpcOpenMemHandle(&base, theirs, cudaIpcMemLazyEnablePeerAccess);
    if (error != cudaSuccess)
      result = df_cuda_call_failed(error, "mapping a peer's memory of the GPU");
    segment->base = base;
    df_cuda_leave_device(&visit);
  }
  if (result != dfcclSuccess) {
    free(segment);
    return result;
  }
  *out = segment;
  return dfcclSuccess;
}
