/* Checked calls of CUDA: after an error the test fails with the call and the result. */
#ifndef DF_TESTS_EMULATED_CALLS_H
#define DF_TESTS_EMULATED_CALLS_H

#include <cuda_runtime_api.h>

#include "cuda_emulator.h"
#include "support/harness.h"

#define CUDA(call)                                                                                 \
  do {                                                                                             \
    const cudaError_t error_ = (call);                                                             \
    CHECK(error_ == cudaSuccess, "%s: %s", #call, cudaGetErrorString(error_));                     \
  } while (0)
#define REFUSED(call, expected)                                                                    \
  do {                                                                                             \
    const cudaError_t error_ = (call);                                                             \
    CHECK(error_ == (expected), "%s: %s", #call, cudaGetErrorString(error_));                      \
  } while (0)

/* Memory in use on the devices, and page-locked memory, of this process. */
static inline void nothing_is_left(void) {
  cuda_emulator_counts counts;
  cuda_emulator_count(&counts);
  CHECK(counts.device_allocations == 0 && counts.host_allocations == 0 && counts.streams == 0,
        "left: %llu and %llu allocations, %llu streams",
        (unsigned long long)counts.device_allocations, (unsigned long long)counts.host_allocations,
        (unsigned long long)counts.streams);
}

#endif
