#include "daemon_kernel/block_cuda.h"

extern "C" __global__ void __launch_bounds__(DF_CUDA_MAX_LANES, 1)
    df_daemon_cuda(const __grid_constant__ df_cuda_daemon daemon) {
  __shared__ df_cuda_shared shared;
  df_lanes lanes;
  lanes.index = threadIdx.x;
  lanes.count = blockDim.x;
  df_cuda_execute_block(&daemon, blockIdx.x, &shared, &lanes);
}

const void *df_cuda_daemon_kernel(void) { return (const void *)df_daemon_cuda; }
