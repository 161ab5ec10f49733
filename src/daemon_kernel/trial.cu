/* The build compiles this file to test whether the toolkit accepts the features that daemon_cuda.cu
 * needs. */
#include <cuda/atomic>
#include <cuda_fp16.h>

extern "C" __global__ void trial(unsigned *word) {
  cuda::atomic_ref<unsigned, cuda::thread_scope_system>(*word).store(1, cuda::memory_order_release);
}
