#include "daemon_kernel/block_cuda.h"
#include "daemon_kernel/daemon_cuda.h"

extern "C" __global__ void __launch_bounds__(DF_CUDA_MAX_LANES, 1)
    df_daemon_cuda(const __grid_constant__ df_cuda_daemon daemon) {
  __shared__ df_cuda_shared shared;
  df_lanes lanes;
  lanes.index = threadIdx.x;
  lanes.count = blockDim.x;
  lanes.timers = NULL;
  df_cuda_execute_block(&daemon, blockIdx.x, &shared, &lanes);
}

extern "C" __global__ void __launch_bounds__(DF_CUDA_MAX_LANES, 1)
    df_daemon_timed_cuda(const __grid_constant__ df_cuda_daemon daemon) {
  __shared__ df_cuda_shared shared;
  __shared__ df_timers timers;
  df_lanes lanes;
  lanes.index = threadIdx.x;
  lanes.count = blockDim.x;
  lanes.timers = &timers;
  df_cuda_execute_block(&daemon, blockIdx.x, &shared, &lanes);
}

extern "C" __global__ void df_write_cuda(uint64_t *word, uint64_t value) {
  df_publish_u64(word, value); /* the stream's earlier work precedes the store */
}

extern "C" __global__ void df_wait_cuda(const uint64_t *word, uint64_t value) {
  while ((int64_t)(df_observe_u64(word) - value) < 0) df_pause();
}

extern "C" __global__ void df_clock_cuda(df_cuda_clock *clock, uint64_t first, uint64_t last) {
  for (uint64_t k = first; k <= last; k++) {
    while (df_observe_u64(&clock->asked) < k) df_pause();
    df_store_relaxed_u64(&clock->ns, df_device_ns());
    df_publish_u64(&clock->answered, k);
  }
}

const void *df_cuda_daemon_kernel(void) { return (const void *)df_daemon_cuda; }
const void *df_cuda_timed_kernel(void) { return (const void *)df_daemon_timed_cuda; }
const void *df_cuda_clock_kernel(void) { return (const void *)df_clock_cuda; }
const void *df_cuda_write_kernel(void) { return (const void *)df_write_cuda; }
const void *df_cuda_wait_kernel(void) { return (const void *)df_wait_cuda; }
