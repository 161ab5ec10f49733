/* The kernels as the emulator executes them. */
#include "torn_lines.cu"

CUDA_EMULATOR_KERNEL(df_torn_writer, 1024);
CUDA_EMULATOR_KERNEL(df_torn_reader, 1024);
