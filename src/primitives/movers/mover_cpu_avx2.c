/* This code runs only if the processor has both instruction sets. */
#if defined(__AVX2__) && defined(__F16C__)
#include "primitives/movers/mover_cpu_kernels.inc.h"

static const df_mover_cpu table = DF_MOVER_TABLE("avx2");
const df_mover_cpu *const df_mover_cpu_avx2 = &table;
#else
#include "primitives/movers/mover_cpu.h"

const df_mover_cpu *const df_mover_cpu_avx2 = NULL;
#endif
