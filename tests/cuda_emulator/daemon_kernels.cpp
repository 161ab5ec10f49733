/* The library's kernels, compiled for the emulator instead of by nvcc. */
#include "daemon_kernel/daemon_cuda.cu"

CUDA_EMULATOR_KERNEL(df_daemon_cuda, DF_CUDA_MAX_LANES);
CUDA_EMULATOR_KERNEL(df_daemon_timed_cuda, DF_CUDA_MAX_LANES);
CUDA_EMULATOR_KERNEL(df_clock_cuda, 1024);
CUDA_EMULATOR_KERNEL(df_write_cuda, 1024);
CUDA_EMULATOR_KERNEL(df_wait_cuda, 1024);
