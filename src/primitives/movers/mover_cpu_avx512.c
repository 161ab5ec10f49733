/* This code runs only if the processor has all of these instruction sets. */
#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__) && defined(__AVX512DQ__)
#include "primitives/movers/mover_cpu_kernels.inc.h"

static const df_mover_cpu table = DF_MOVER_TABLE("avx512");
const df_mover_cpu *const df_mover_cpu_avx512 = &table;
#else
#include "primitives/movers/mover_cpu.h"

const df_mover_cpu *const df_mover_cpu_avx512 = NULL;
#endif
