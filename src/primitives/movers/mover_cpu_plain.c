/* The reference variant, compiled for the compiler's baseline. */
#include "primitives/movers/mover_cpu_kernels.inc.h"

static const df_mover_cpu table = DF_MOVER_TABLE("plain");
const df_mover_cpu *const df_mover_cpu_plain = &table;
