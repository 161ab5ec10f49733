/*
 * The CPU's data movers: copy, reduce, average and divide, for every data type, in one variant for
 * each instruction set. All variants give the same bits (tests/unit/test_mover_cpu.c):
 *
 * - Integers wrap around. Their division truncates toward zero.
 *   - float32 and float64 are computed as they are, the narrow floats in float32 and rounded once
 *     (convert.h). Nothing is flushed to zero or contracted. Max and Min: element.h.
 *
 * Pointers need the element's alignment only; count may be 0; dst may be equal to a source, but not
 * overlap one otherwise. Functions have no state, never fail or block. The floating-point
 * environment must be C's default.
 */
#ifndef DF_PRIMITIVES_MOVER_CPU_H
#define DF_PRIMITIVES_MOVER_CPU_H

#include "base/attributes.h"
#include "primitives/types.h"

/* dst[i] = a[i] op b[i] for count elements. */
typedef void (*df_reduce_fn)(void *dst, const void *a, const void *b, size_t count);

/* dst[i] = (a[i] + b[i]) / divisor, the last step of dfcclAvg. Floats: sum and quotient in float32
 * (float64 for float64), one rounding. Integers: the wrapped sum, then the division. divisor is at
 * least 1. */
typedef void (*df_reduce_average_fn)(void *dst, const void *a, const void *b, size_t count,
                                     uint32_t divisor);

/* dst[i] = src[i] / divisor, by the same rules. */
typedef void (*df_divide_fn)(void *dst, const void *src, size_t count, uint32_t divisor);

typedef struct df_mover_cpu {
  const char *name; /* "plain", "avx2", "avx512", "neon" */
  /* by dfcclDataType_t and dfcclRedOp_t */
  df_reduce_fn reduce[DF_DATA_TYPES][DF_REDUCE_OPERATORS];
  df_reduce_average_fn reduce_average[DF_DATA_TYPES];
  df_divide_fn divide[DF_DATA_TYPES];
  /* The same results, with dst written past the caches and fenced as by copy_stream. For dst that
   * is neither a nor b, nor read soon. "plain": the functions of reduce. */
  df_reduce_fn reduce_stream[DF_DATA_TYPES][DF_REDUCE_OPERATORS];
  /* Bytes; dst == src does nothing. Up to 64 bytes without a call. */
  void (*copy)(void *dst, const void *src, size_t bytes);
  /* The same past the caches (non-temporal stores). Ends with the store fence that makes dst
   * visible before the caller's next store. "plain": copy. */
  void (*copy_stream)(void *dst, const void *src, size_t bytes);
} df_mover_cpu;

/* The fastest variant that this processor and its operating system support; never NULL. */
const df_mover_cpu *df_mover_cpu_best(void);

/* The variant of that name. NULL: there is none, it was not compiled, or the processor lacks it. */
const df_mover_cpu *df_mover_cpu_by_name(const char *name);

/* For mover_cpu.c only. NULL: the compiler did not have the instruction set's options. */
extern const df_mover_cpu *const df_mover_cpu_plain;
extern const df_mover_cpu *const df_mover_cpu_avx2;
extern const df_mover_cpu *const df_mover_cpu_avx512;
extern const df_mover_cpu *const df_mover_cpu_neon;

#endif
