/* This file is compiled once for each instruction set, by mover_cpu_<isa>.c. */
#ifndef DF_PRIMITIVES_MOVERS_MOVER_CPU_KERNELS_INC_H
#define DF_PRIMITIVES_MOVERS_MOVER_CPU_KERNELS_INC_H

#include <string.h>

#include "base/assert.h"
#include "base/attributes.h"
#include "primitives/elements/convert.h"
#include "primitives/elements/element.h"
#include "primitives/movers/mover_cpu.h"

#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(DF_MOVER_NEON)
#include <arm_neon.h>
#endif

/* Bytes of a register that line copies use; 0: no such copies. */
#if defined(__AVX512F__)
#define DF_MOVER_STREAM_BYTES 64
#elif defined(__AVX2__)
#define DF_MOVER_STREAM_BYTES 32
#elif defined(DF_MOVER_NEON)
#define DF_MOVER_STREAM_BYTES 16
#else
#define DF_MOVER_STREAM_BYTES 0
#endif

/* dst is equal to a source or overlaps none. Without this pragma compilers test for overlap, and
 * treat dst == a as an overlap. */
#if defined(__clang__)
#define DF_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define DF_INDEPENDENT _Pragma("GCC ivdep")
#endif

/* Applications access their buffers with their own types. */
typedef uint8_t __attribute__((may_alias)) DF_MAY_ALIAS_U8;
typedef uint16_t __attribute__((may_alias)) DF_MAY_ALIAS_U16;
typedef uint32_t __attribute__((may_alias)) DF_MAY_ALIAS_U32;
typedef uint64_t __attribute__((may_alias)) DF_MAY_ALIAS_U64;
typedef int8_t __attribute__((may_alias)) DF_MAY_ALIAS_I8;
typedef int16_t __attribute__((may_alias)) DF_MAY_ALIAS_I16;
typedef int32_t __attribute__((may_alias)) DF_MAY_ALIAS_I32;
typedef int64_t __attribute__((may_alias)) DF_MAY_ALIAS_I64;

#define DF_DEFINE_REDUCE(name, element, expression)                                                \
  static void name(void *dst, const void *a, const void *b, size_t count) {                        \
    element *d = dst;                                                                              \
    const element *p = a, *q = b;                                                                  \
    DF_INDEPENDENT                                                                                 \
    for (size_t i = 0; i < count; i++) {                                                           \
      const element x = p[i], y = q[i];                                                            \
      d[i] = (element)(expression);                                                                \
    }                                                                                              \
  }

#define DF_DEFINE_DIVISIONS(type, element, sum, quotient, prologue)                                \
  static void df_average_##type(void *dst, const void *a, const void *b, size_t count,             \
                                uint32_t divisor) {                                                \
    DF_ASSERT(divisor > 0);                                                                        \
    prologue;                                                                                      \
    element *d = dst;                                                                              \
    const element *p = a, *q = b;                                                                  \
    DF_INDEPENDENT                                                                                 \
    for (size_t i = 0; i < count; i++) {                                                           \
      const element x = p[i], y = q[i], s = (element)(sum);                                        \
      d[i] = (element)(quotient);                                                                  \
    }                                                                                              \
  }                                                                                                \
  static void df_divide_##type(void *dst, const void *a, size_t count, uint32_t divisor) {         \
    DF_ASSERT(divisor > 0);                                                                        \
    prologue;                                                                                      \
    element *d = dst;                                                                              \
    const element *p = a;                                                                          \
    DF_INDEPENDENT                                                                                 \
    for (size_t i = 0; i < count; i++) {                                                           \
      const element s = p[i];                                                                      \
      d[i] = (element)(quotient);                                                                  \
    }                                                                                              \
  }

/* ---- Integers. Sums and products are the same for signed and unsigned. */

DF_DEFINE_REDUCE(df_sum_int8, DF_MAY_ALIAS_U8, (unsigned)x + y)
DF_DEFINE_REDUCE(df_sum_int16, DF_MAY_ALIAS_U16, (unsigned)x + y)
DF_DEFINE_REDUCE(df_sum_int32, DF_MAY_ALIAS_U32, x + y)
DF_DEFINE_REDUCE(df_sum_int64, DF_MAY_ALIAS_U64, x + y)
DF_DEFINE_REDUCE(df_prod_int8, DF_MAY_ALIAS_U8, (unsigned)x *y)
DF_DEFINE_REDUCE(df_prod_int16, DF_MAY_ALIAS_U16, (unsigned)x *y)
DF_DEFINE_REDUCE(df_prod_int32, DF_MAY_ALIAS_U32, x *y)
DF_DEFINE_REDUCE(df_prod_int64, DF_MAY_ALIAS_U64, x *y)
#define df_sum_uint8 df_sum_int8
#define df_sum_uint16 df_sum_int16
#define df_sum_uint32 df_sum_int32
#define df_sum_uint64 df_sum_int64
#define df_prod_uint8 df_prod_int8
#define df_prod_uint16 df_prod_int16
#define df_prod_uint32 df_prod_int32
#define df_prod_uint64 df_prod_int64

#define DF_DEFINE_INTEGER_ORDER(type, element)                                                     \
  DF_DEFINE_REDUCE(df_max_##type, element, x > y ? x : y)                                          \
  DF_DEFINE_REDUCE(df_min_##type, element, x < y ? x : y)
DF_DEFINE_INTEGER_ORDER(int8, DF_MAY_ALIAS_I8)
DF_DEFINE_INTEGER_ORDER(uint8, DF_MAY_ALIAS_U8)
DF_DEFINE_INTEGER_ORDER(int16, DF_MAY_ALIAS_I16)
DF_DEFINE_INTEGER_ORDER(uint16, DF_MAY_ALIAS_U16)
DF_DEFINE_INTEGER_ORDER(int32, DF_MAY_ALIAS_I32)
DF_DEFINE_INTEGER_ORDER(uint32, DF_MAY_ALIAS_U32)
DF_DEFINE_INTEGER_ORDER(int64, DF_MAY_ALIAS_I64)
DF_DEFINE_INTEGER_ORDER(uint64, DF_MAY_ALIAS_U64)

#define DF_DEFINE_BITWISE(bits)                                                                    \
  DF_DEFINE_REDUCE(df_band_##bits, DF_MAY_ALIAS_U##bits, x &y)                                     \
  DF_DEFINE_REDUCE(df_bor_##bits, DF_MAY_ALIAS_U##bits, x | y)                                     \
  DF_DEFINE_REDUCE(df_bxor_##bits, DF_MAY_ALIAS_U##bits, x ^ y)
DF_DEFINE_BITWISE(8)
DF_DEFINE_BITWISE(16)
DF_DEFINE_BITWISE(32)
DF_DEFINE_BITWISE(64)

/* n / d = (n * m) >> 16 with m = 65536 / d + 1. For n, d <= 255 the excess is below 1/256; 1/d is
 * missing to the next integer. Beyond 255 every quotient is 0. */
static inline uint32_t df_reciprocal_8(uint32_t divisor) {
  return divisor > 255 ? 0 : 65536 / divisor + 1;
}
#define DF_QUOTIENT_U8(s) (((s)*reciprocal) >> 16)
#define DF_QUOTIENT_I8(s)                                                                          \
  ((s) < 0 ? -(int32_t)DF_QUOTIENT_U8((uint32_t) - (int32_t)(s))                                   \
           : (int32_t)DF_QUOTIENT_U8((uint32_t)(s)))
DF_DEFINE_DIVISIONS(uint8, DF_MAY_ALIAS_U8, (unsigned)x + y, DF_QUOTIENT_U8((uint32_t)s),
                    const uint32_t reciprocal = df_reciprocal_8(divisor))
DF_DEFINE_DIVISIONS(int8, DF_MAY_ALIAS_I8, (uint8_t)x + (uint8_t)y, DF_QUOTIENT_I8(s),
                    const uint32_t reciprocal = df_reciprocal_8(divisor))

/* In float32. The added half keeps the product 0.5/d away from integers; its error is below 2^16 *
 * 2^-22 / d. */
DF_DEFINE_DIVISIONS(uint16, DF_MAY_ALIAS_U16, (unsigned)x + y,
                    (int32_t)(((float)(int32_t)s + 0.5f) * reciprocal),
                    const float reciprocal = 1.0f / (float)divisor)
DF_DEFINE_DIVISIONS(int16, DF_MAY_ALIAS_I16, (uint16_t)x + (uint16_t)y,
                    (int32_t)(((float)s + (s < 0 ? -0.5f : 0.5f)) * reciprocal),
                    const float reciprocal = 1.0f / (float)divisor)

/* In float64. The added half keeps the product 0.5/d away from integers; its error is below 2^32 *
 * 2^-52 / d * 2. Divided by 2 or more, an unsigned number fits the vectors' conversion to int32. */
static inline uint32_t df_quotient_uint32(uint32_t s, double reciprocal, int one) {
  const double value = (double)(int32_t)(s ^ 0x80000000u) + 2147483648.5;
  const uint32_t quotient = (uint32_t)(int32_t)(value * reciprocal);
  return one ? s : quotient;
}
static inline int32_t df_quotient_int32(int32_t s, double reciprocal) {
  const double value = (double)s;
  return (int32_t)((value + (s < 0 ? -0.5 : 0.5)) * reciprocal);
}
DF_DEFINE_DIVISIONS(uint32, DF_MAY_ALIAS_U32, x + y, df_quotient_uint32(s, reciprocal, one),
                    const int one = divisor == 1;
                    const double reciprocal = 1.0 / (one ? 2.0 : (double)divisor))
DF_DEFINE_DIVISIONS(int32, DF_MAY_ALIAS_I32, (uint32_t)x + (uint32_t)y,
                    df_quotient_int32(s, reciprocal),
                    const double reciprocal = 1.0 / (double)divisor)

/* The upper half of n * m with m = (2^64 - 1) / d is n / d or one less: 2^64 - m * d is at most d,
 * and n times that / (d * 2^64) below 1. */
__extension__ typedef unsigned __int128 df_uint128;
static inline uint64_t df_quotient_uint64(uint64_t s, uint64_t divisor, uint64_t reciprocal) {
  const uint64_t low = (uint64_t)(((df_uint128)s * reciprocal) >> 64);
  return low + (s - low * divisor >= divisor);
}
static inline uint64_t df_quotient_int64(uint64_t s, uint64_t divisor, uint64_t reciprocal) {
  const uint64_t sign = 0 - (s >> 63);
  return (df_quotient_uint64((s ^ sign) - sign, divisor, reciprocal) ^ sign) - sign;
}
DF_DEFINE_DIVISIONS(uint64, DF_MAY_ALIAS_U64, x + y, df_quotient_uint64(s, divisor, reciprocal),
                    const uint64_t reciprocal = UINT64_MAX / divisor)
DF_DEFINE_DIVISIONS(int64, DF_MAY_ALIAS_U64, x + y, df_quotient_int64(s, divisor, reciprocal),
                    const uint64_t reciprocal = UINT64_MAX / divisor)

/* ---- float32 and float64, as bits. */

#define DF_SINGLE(bits) df_float32_of_bits(bits)
#define DF_SINGLE_BITS(value) df_float32_canonical(df_bits_of_float32(value))
DF_DEFINE_REDUCE(df_sum_float32, DF_MAY_ALIAS_U32, DF_SINGLE_BITS(DF_SINGLE(x) + DF_SINGLE(y)))
DF_DEFINE_REDUCE(df_prod_float32, DF_MAY_ALIAS_U32, DF_SINGLE_BITS(DF_SINGLE(x) * DF_SINGLE(y)))
DF_DEFINE_DIVISIONS(float32, DF_MAY_ALIAS_U32, df_bits_of_float32(DF_SINGLE(x) + DF_SINGLE(y)),
                    DF_SINGLE_BITS(DF_SINGLE(s) / by), const float by = (float)divisor)

#define DF_DOUBLE(bits) df_float64_of_bits(bits)
#define DF_DOUBLE_BITS(value) df_float64_canonical(df_bits_of_float64(value))
DF_DEFINE_REDUCE(df_sum_float64, DF_MAY_ALIAS_U64, DF_DOUBLE_BITS(DF_DOUBLE(x) + DF_DOUBLE(y)))
DF_DEFINE_REDUCE(df_prod_float64, DF_MAY_ALIAS_U64, DF_DOUBLE_BITS(DF_DOUBLE(x) * DF_DOUBLE(y)))
DF_DEFINE_DIVISIONS(float64, DF_MAY_ALIAS_U64, df_bits_of_float64(DF_DOUBLE(x) + DF_DOUBLE(y)),
                    DF_DOUBLE_BITS(DF_DOUBLE(s) / by), const double by = (double)divisor)

/* ---- All floats. */

#define DF_DEFINE_FLOAT_ORDER_LOOPS(type, element)                                                 \
  DF_DEFINE_REDUCE(df_max_##type, element, df_larger_##type(x, y))                                 \
  DF_DEFINE_REDUCE(df_min_##type, element, df_smaller_##type(x, y))
DF_DEFINE_FLOAT_ORDER_LOOPS(float16, DF_MAY_ALIAS_U16)
DF_DEFINE_FLOAT_ORDER_LOOPS(float32, DF_MAY_ALIAS_U32)
DF_DEFINE_FLOAT_ORDER_LOOPS(float64, DF_MAY_ALIAS_U64)
DF_DEFINE_FLOAT_ORDER_LOOPS(bfloat16, DF_MAY_ALIAS_U16)
DF_DEFINE_FLOAT_ORDER_LOOPS(float8e4m3, DF_MAY_ALIAS_U8)
DF_DEFINE_FLOAT_ORDER_LOOPS(float8e5m2, DF_MAY_ALIAS_U8)

#include "primitives/movers/mover_cpu_copy.inc.h"

#include "primitives/movers/mover_cpu_narrow.inc.h"

#define DF_MOVER_INTEGERS(X)                                                                       \
  X(Int8, int8, 8)                                                                                 \
  X(Uint8, uint8, 8)                                                                               \
  X(Int16, int16, 16)                                                                              \
  X(Uint16, uint16, 16)                                                                            \
  X(Int32, int32, 32)                                                                              \
  X(Uint32, uint32, 32)                                                                            \
  X(Int64, int64, 64)                                                                              \
  X(Uint64, uint64, 64)
#define DF_MOVER_FLOATS(X)                                                                         \
  X(Float16, float16, 16)                                                                          \
  X(Float32, float32, 32)                                                                          \
  X(Float64, float64, 64)                                                                          \
  X(Bfloat16, bfloat16, 16)                                                                        \
  X(Float8e4m3, float8e4m3, 8)                                                                     \
  X(Float8e5m2, float8e5m2, 8)
#define DF_MOVER_TYPES(X) DF_MOVER_INTEGERS(X) DF_MOVER_FLOATS(X)

#define DF_DEFINE_STREAMS(Type, type, bits)                                                        \
  DF_DEFINE_STREAM(type, sum, bits / 8)                                                            \
  DF_DEFINE_STREAM(type, prod, bits / 8)                                                           \
  DF_DEFINE_STREAM(type, max, bits / 8)                                                            \
  DF_DEFINE_STREAM(type, min, bits / 8)
DF_MOVER_TYPES(DF_DEFINE_STREAMS)
#define DF_DEFINE_BITWISE_STREAMS(bits)                                                            \
  DF_DEFINE_STREAM(bits, band, bits / 8)                                                           \
  DF_DEFINE_STREAM(bits, bor, bits / 8)                                                            \
  DF_DEFINE_STREAM(bits, bxor, bits / 8)
DF_DEFINE_BITWISE_STREAMS(8)
DF_DEFINE_BITWISE_STREAMS(16)
DF_DEFINE_BITWISE_STREAMS(32)
DF_DEFINE_BITWISE_STREAMS(64)

#define DF_REDUCE_FLOATS(Type, type, bits)                                                         \
  [dfccl##Type] = {df_sum_##type, df_prod_##type, df_max_##type, df_min_##type},
#define DF_REDUCE_INTEGERS(Type, type, bits)                                                       \
  [dfccl##Type] = {df_sum_##type, df_prod_##type, df_max_##type, df_min_##type,                    \
                   NULL,          df_band_##bits, df_bor_##bits, df_bxor_##bits},
#define DF_STREAM_FLOATS(Type, type, bits)                                                         \
  [dfccl##Type] = {DF_STREAM_OF(type, sum), DF_STREAM_OF(type, prod), DF_STREAM_OF(type, max),     \
                   DF_STREAM_OF(type, min)},
#define DF_STREAM_INTEGERS(Type, type, bits)                                                       \
  [dfccl##Type] = {DF_STREAM_OF(type, sum),                                                        \
                   DF_STREAM_OF(type, prod),                                                       \
                   DF_STREAM_OF(type, max),                                                        \
                   DF_STREAM_OF(type, min),                                                        \
                   NULL,                                                                           \
                   DF_STREAM_OF(bits, band),                                                       \
                   DF_STREAM_OF(bits, bor),                                                        \
                   DF_STREAM_OF(bits, bxor)},
#define DF_AVERAGE_ENTRY(Type, type, bytes) [dfccl##Type] = df_average_##type,
#define DF_DIVIDE_ENTRY(Type, type, bytes) [dfccl##Type] = df_divide_##type,

#define DF_MOVER_TABLE(isa)                                                                        \
  {                                                                                                \
                                                                                                   \
    .name = isa,                                                                                   \
    .reduce = {DF_MOVER_INTEGERS(DF_REDUCE_INTEGERS) DF_MOVER_FLOATS(DF_REDUCE_FLOATS)},           \
    .reduce_average = {DF_MOVER_TYPES(DF_AVERAGE_ENTRY)},                                          \
    .divide = {DF_MOVER_TYPES(DF_DIVIDE_ENTRY)},                                                   \
    .reduce_stream = {DF_MOVER_INTEGERS(DF_STREAM_INTEGERS) DF_MOVER_FLOATS(DF_STREAM_FLOATS)},    \
    .copy = df_copy, .copy_stream = df_copy_stream                                                 \
  }

#endif
