/* Movers: loops over elements. All variants give the same bits. Integers wrap around; division
 * truncates. Narrow floats are computed in float32 and rounded once; subnormals are not flushed,
 * and operations are not contracted. Pointers need only the alignment of the element. dst may be
 * equal to a source, but must not overlap one otherwise. The floating-point environment must be C's
 * default. */
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
  /* NULL for Avg and for operators that df_type_has_operator excludes. */
  df_reduce_fn reduce[DF_DATA_TYPES][DF_REDUCE_OPERATORS];
  df_reduce_average_fn reduce_average[DF_DATA_TYPES];
  df_divide_fn divide[DF_DATA_TYPES];
  /* Stores past the caches, as copy_stream does; dst must not be a source. In "plain" it is reduce.
   * */
  df_reduce_fn reduce_stream[DF_DATA_TYPES][DF_REDUCE_OPERATORS];
  /* If dst == src, nothing is done. */
  void (*copy)(void *dst, const void *src, size_t bytes);
  /* Stores past the caches. It ends with the fence that makes dst visible before the caller's next
   * store. In "plain" it is copy. */
  void (*copy_stream)(void *dst, const void *src, size_t bytes);
} df_mover_cpu;

/* Never NULL. */
const df_mover_cpu *df_mover_cpu_best(void);

/* NULL: the name is unknown, the variant was not compiled, or the processor cannot execute it. */
const df_mover_cpu *df_mover_cpu_by_name(const char *name);

/* NULL: the variant was not compiled. */
extern const df_mover_cpu *const df_mover_cpu_plain;
extern const df_mover_cpu *const df_mover_cpu_avx2;
extern const df_mover_cpu *const df_mover_cpu_avx512;
extern const df_mover_cpu *const df_mover_cpu_neon;

#endif
