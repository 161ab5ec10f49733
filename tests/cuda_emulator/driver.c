/*
 * A libcuda.so.1 for the emulated runtime: the few entries of the driver that the tools
 * (bench/common/memory.c) and the tests (support/memory.c) fetch by name, with the types of the
 * toolkit's cuda.h. LD_LIBRARY_PATH leads them here.
 */
#include <cuda.h>
#include <cuda_runtime_api.h>

#define DRIVER_EXPORT __attribute__((visibility("default")))

static CUresult driver_result(cudaError_t error) {
  if (error == cudaSuccess) return CUDA_SUCCESS;
  cudaGetLastError(); /* the driver tells it in its result only */
  return error == cudaErrorMemoryAllocation ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_UNKNOWN;
}

DRIVER_EXPORT CUresult cuInit(unsigned int flags) {
  int count = 0;
  (void)flags;
  return driver_result(cudaGetDeviceCount(&count));
}

DRIVER_EXPORT CUresult cuDeviceGetCount(int *count) {
  return driver_result(cudaGetDeviceCount(count));
}

DRIVER_EXPORT CUresult cuDeviceGet(CUdevice *device, int ordinal) {
  *device = ordinal;
  return CUDA_SUCCESS;
}

/* A context is its device. */
DRIVER_EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
  *context = (CUcontext)((uintptr_t)device + 1);
  return CUDA_SUCCESS;
}

DRIVER_EXPORT CUresult cuCtxSetCurrent(CUcontext context) {
  return driver_result(cudaSetDevice((int)((uintptr_t)context - 1)));
}

DRIVER_EXPORT CUresult cuMemAlloc(CUdeviceptr *pointer, size_t bytes) {
  void *memory = NULL;
  CUresult result = driver_result(cudaMalloc(&memory, bytes));
  *pointer = (CUdeviceptr)(uintptr_t)memory;
  return result;
}

DRIVER_EXPORT CUresult cuMemFree(CUdeviceptr pointer) {
  return driver_result(cudaFree((void *)(uintptr_t)pointer));
}

DRIVER_EXPORT CUresult cuMemHostAlloc(void **pointer, size_t bytes, unsigned int flags) {
  return driver_result(cudaHostAlloc(pointer, bytes, flags));
}

DRIVER_EXPORT CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return driver_result(
      cudaMemcpy((void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes, cudaMemcpyDefault));
}

DRIVER_EXPORT CUresult cuMemsetD8(CUdeviceptr to, unsigned char value, size_t bytes) {
  return driver_result(cudaMemset((void *)(uintptr_t)to, value, bytes));
}
