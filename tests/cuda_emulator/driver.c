/*
 * A libcuda.so.1 for the emulated runtime: the few entries of the driver that the tools
 * (bench/common/memory.c) and the tests (support/memory.c) fetch by name, with the types of the
 * toolkit's cuda.h. LD_LIBRARY_PATH leads them here.
 *
 * Plants, for those that must find them:
 *   CUDA_EMULATOR_SPOIL=N   the N-th cuMemcpy of the process has a wrong bit
 *   CUDA_EMULATOR_STALL=N   the N-th one never returns
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "emulator.h"

#define DRIVER_EXPORT __attribute__((visibility("default")))

static CUresult driver_result(cudaError_t error) {
  if (error == cudaSuccess) return CUDA_SUCCESS;
  cudaGetLastError(); /* the driver returns it in its result only */
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

DRIVER_EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
  return emulator_primary_retain(context, device);
}

DRIVER_EXPORT CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
  return emulator_primary_release(device);
}

DRIVER_EXPORT CUresult cuCtxGetCurrent(CUcontext *context) {
  return emulator_ctx_get_current(context);
}

DRIVER_EXPORT CUresult cuCtxSetCurrent(CUcontext context) {
  return emulator_ctx_set_current(context);
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

DRIVER_EXPORT CUresult cuMemFreeHost(void *pointer) { return driver_result(cudaFreeHost(pointer)); }

DRIVER_EXPORT CUresult cuMemHostRegister(void *memory, size_t bytes, unsigned int flags) {
  return driver_result(cudaHostRegister(memory, bytes, flags));
}

static unsigned long planted_at(const char *variable) {
  const char *number = getenv(variable);
  return number ? strtoul(number, NULL, 10) : 0;
}

DRIVER_EXPORT CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  static atomic_ulong copies;
  const unsigned long copy = atomic_fetch_add(&copies, 1) + 1;
  while (copy == planted_at("CUDA_EMULATOR_STALL")) pause();
  const cudaError_t error =
      cudaMemcpy((void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes, cudaMemcpyDefault);
  if (copy == planted_at("CUDA_EMULATOR_SPOIL") && bytes > 0) *(unsigned char *)(uintptr_t)to ^= 1;
  return driver_result(error);
}

DRIVER_EXPORT CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                                         CUstream stream) {
  return driver_result(cudaMemcpyAsync((void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes,
                                       cudaMemcpyDeviceToDevice, stream));
}

DRIVER_EXPORT CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t bytes,
                                         CUstream stream) {
  return driver_result(
      cudaMemcpyAsync((void *)(uintptr_t)to, from, bytes, cudaMemcpyHostToDevice, stream));
}

DRIVER_EXPORT CUresult cuMemcpyDtoHAsync(void *to, CUdeviceptr from, size_t bytes,
                                         CUstream stream) {
  return driver_result(
      cudaMemcpyAsync(to, (const void *)(uintptr_t)from, bytes, cudaMemcpyDeviceToHost, stream));
}

DRIVER_EXPORT CUresult cuCtxSynchronize(void) { return driver_result(cudaDeviceSynchronize()); }

DRIVER_EXPORT CUresult cuStreamSynchronize(CUstream stream) {
  return driver_result(cudaStreamSynchronize(stream));
}

DRIVER_EXPORT CUresult cuStreamCreate(CUstream *stream, unsigned int flags) {
  return driver_result(cudaStreamCreateWithFlags(stream, flags));
}

DRIVER_EXPORT CUresult cuStreamDestroy(CUstream stream) {
  return driver_result(cudaStreamDestroy(stream));
}

DRIVER_EXPORT CUresult cuEventCreate(CUevent *event, unsigned int flags) {
  return driver_result(cudaEventCreateWithFlags(event, flags));
}

DRIVER_EXPORT CUresult cuEventRecord(CUevent event, CUstream stream) {
  return driver_result(cudaEventRecord(event, stream));
}

DRIVER_EXPORT CUresult cuEventSynchronize(CUevent event) {
  return driver_result(cudaEventSynchronize(event));
}

/* By the name of every driver's; newer toolkits' cuda.h names another version. */
#undef cuEventElapsedTime
DRIVER_EXPORT CUresult cuEventElapsedTime(float *ms, CUevent begin, CUevent end);
DRIVER_EXPORT CUresult cuEventElapsedTime(float *ms, CUevent begin, CUevent end) {
  return driver_result(cudaEventElapsedTime(ms, begin, end));
}

DRIVER_EXPORT CUresult cuEventDestroy(CUevent event) {
  return driver_result(cudaEventDestroy(event));
}

/* Code that is loaded at run time is not executed: every kernel of a module does nothing. */
DRIVER_EXPORT CUresult cuModuleLoadData(CUmodule *module, const void *image) {
  *module = (CUmodule)(uintptr_t)image;
  return CUDA_SUCCESS;
}

DRIVER_EXPORT CUresult cuModuleUnload(CUmodule module) {
  (void)module;
  return CUDA_SUCCESS;
}

DRIVER_EXPORT CUresult cuModuleGetFunction(CUfunction *function, CUmodule module,
                                           const char *name) {
  (void)name;
  *function = (CUfunction)(void *)module;
  return CUDA_SUCCESS;
}

static void CUDART_CB do_nothing(void *argument) { (void)argument; }

DRIVER_EXPORT CUresult cuLaunchKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y,
                                      unsigned int grid_z, unsigned int block_x,
                                      unsigned int block_y, unsigned int block_z,
                                      unsigned int shared_bytes, CUstream stream, void **arguments,
                                      void **extra) {
  (void)function, (void)shared_bytes, (void)arguments, (void)extra;
  if (grid_x * grid_y * grid_z == 0 || block_x * block_y * block_z == 0)
    return CUDA_ERROR_INVALID_VALUE;
  return driver_result(cudaLaunchHostFunc(stream, do_nothing, NULL));
}

DRIVER_EXPORT CUresult cuMemsetD8(CUdeviceptr to, unsigned char value, size_t bytes) {
  return driver_result(cudaMemset((void *)(uintptr_t)to, value, bytes));
}
