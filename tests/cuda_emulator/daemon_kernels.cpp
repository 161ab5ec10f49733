/* The library's kernels, compiled as the emulator executes them: in place of what nvcc makes. */
#include "daemon_kernel/daemon_cuda.cu"

CUDA_EMULATOR_KERNEL(df_daemon_cuda, DF_CUDA_MAX_LANES);
CUDA_EMULATOR_KERNEL(df_daemon_timed_cuda, DF_CUDA_MAX_LANES);
CUDA_EMULATOR_KERNEL(df_clock_cuda, 1024);
CUDA_EMULATOR_KERNEL(df_write_cuda, 1024);
CUDA_EMULATOR_KERNEL(df_wait_cuda, 1024);
