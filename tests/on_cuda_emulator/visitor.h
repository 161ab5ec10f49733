/* Functions for the emulator's tests with streams and kernels. */
#ifndef DF_TESTS_EMULATED_VISITOR_H
#define DF_TESTS_EMULATED_VISITOR_H

#include <string.h>

#include "calls.h"
#include "test_kernels.h"

static inline void *mapped(size_t bytes) {
  void *p = NULL;
  CUDA(cudaHostAlloc(&p, bytes, cudaHostAllocMapped));
  memset(p, 0, bytes);
  return p;
}

static inline cudaStream_t new_stream(void) {
  cudaStream_t stream;
  CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return stream;
}

static inline cudaError_t launch(const void *kernel, uint32_t blocks, uint32_t threads,
                                 void **arguments, cudaStream_t stream) {
  const dim3 b = {blocks, 1, 1}, t = {threads, 1, 1};
  return cudaLaunchKernel(kernel, b, t, arguments, 0, stream);
}

static inline uint32_t look(const uint32_t *word) {
  return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}
static inline void set(uint32_t *word, uint32_t value) {
  __atomic_store_n(word, value, __ATOMIC_RELEASE);
}

/* A grid that stays on the device until the test releases it. */
typedef struct visitor {
  uint32_t *here, *go;
} visitor;

/* Allocated before anything stays on the device, because an allocation waits for the device. */
static inline visitor new_visitor(void) {
  return (visitor){mapped(sizeof(uint32_t)), mapped(sizeof(uint32_t))};
}

static inline void invite(visitor v, uint32_t blocks, cudaStream_t stream) {
  void *arguments[] = {&v.here, &v.go};
  CUDA(launch(test_stay, blocks, 32, arguments, stream));
}

static inline void note(cudaStream_t stream, uint32_t *log, uint32_t *next, uint32_t name) {
  void *arguments[] = {&log, &next, &name};
  CUDA(launch(test_note, 1, 1, arguments, stream));
}

#endif
