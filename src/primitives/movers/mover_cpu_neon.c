/* Every 64-bit Arm Linux has NEON, so no compiler options are needed. */
#if defined(__aarch64__) && defined(__ARM_NEON)
#define DF_MOVER_NEON 1
#include "primitives/movers/mover_cpu_kernels.inc.h"

static const df_mover_cpu table = DF_MOVER_TABLE("neon");
const df_mover_cpu *const df_mover_cpu_neon = &table;
#else
#include "primitives/movers/mover_cpu.h"

const df_mover_cpu *const df_mover_cpu_neon = NULL;
#endif
