/* All variants give the same bits. Integers wrap; division truncates. Narrow floats are computed in
 * float32 and rounded once; nothing is flushed or contracted. Pointers need the element's alignment
 * only; dst is a source or overlaps none. The floating-point environment must be C's default. */
#ifndef DF_PRIMITIVES_MOVERS_MOVER_CPU_H
#define DF_PRIMITIVES_MOVERS_MOVER_CPU_H

#include "base/attributes.h"
#include "primitives/elements/types.h"

typedef void (*df_reduce_fn)(void *dst, const void *a, const void *b, size_t count);

/* (a[i] + b[i]) / divisor; narrow floats are rounded at the end only. divisor >= 1. */
typedef void (*df_reduce_average_fn)(void *dst, const void *a, const void *b, size_t count,
                                     uint32_t divisor);

typedef void (*df_divide_fn)(void *dst, const void *src, size_t count, uint32_t divisor);

typedef struct df_mover_cpu {
  const char *name; /* "plain", "avx2", "avx512", "neon" */
  /* NULL: Avg, and what df_type_has_operator denies. */
  df_reduce_fn reduce[DF_DATA_TYPES][DF_REDUCE_OPERATORS];
  df_reduce_average_fn reduce_average[DF_DATA_TYPES];
  df_divide_fn divide[DF_DATA_TYPES];
  /* Past the caches, as copy_stream; dst is no source. "plain": reduce. */
  df_reduce_fn reduce_stream[DF_DATA_TYPES][DF_REDUCE_OPERATORS];
  /* dst == src does nothing. */
  void (*copy)(void *dst, const void *src, size_t bytes);
  /* Past the caches. Ends with the fence that makes dst visible before the caller's next store.
   * "plain": copy. */
  void (*copy_stream)(void *dst, const void *src, size_t bytes);
} df_mover_cpu;

/* Never NULL. */
const df_mover_cpu *df_mover_cpu_best(void);

/* NULL: unknown, not compiled, or the processor lacks it. */
const df_mover_cpu *df_mover_cpu_by_name(const char *name);

/* NULL: not compiled. */
extern const df_mover_cpu *const df_mover_cpu_plain;
extern const df_mover_cpu *const df_mover_cpu_avx2;
extern const df_mover_cpu *const df_mover_cpu_avx512;
extern const df_mover_cpu *const df_mover_cpu_neon;

#endif
