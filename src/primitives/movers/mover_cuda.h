/* The rules of mover_cpu.h for one element, bit for bit. The host can compile this file too, so
 * that checks need no GPU. */
#ifndef DF_PRIMITIVES_MOVERS_MOVER_CUDA_H
#define DF_PRIMITIVES_MOVERS_MOVER_CUDA_H

#include <cuda_fp16.h>

#include "primitives/elements/convert.h"
#include "primitives/elements/element.h"
#include "primitives/elements/types.h"

#define DF_METHOD __host__ __device__ __forceinline__

/* ---- Floats: bits outside, `wide` inside. */

DF_CORE float df_cuda_widen_float16(uint16_t bits) { return __half2float(__ushort_as_half(bits)); }
DF_CORE uint16_t df_cuda_round_float16(float value) {
  const uint16_t rounded = __half_as_ushort(__float2half_rn(value));
  return (df_bits_of_float32(value) & 0x7fffffffu) > 0x7f800000u ? (uint16_t)DF_FLOAT16_NAN
                                                                 : rounded;
}
/* E5M2 is the upper byte of a float16. */
DF_CORE float df_cuda_widen_float8e5m2(uint8_t bits) {
  return df_cuda_widen_float16((uint16_t)(bits << 8));
}
DF_CORE uint32_t df_cuda_round_float32(float value) {
  return df_float32_canonical(df_bits_of_float32(value));
}
DF_CORE uint64_t df_cuda_round_float64(double value) {
  return df_float64_canonical(df_bits_of_float64(value));
}

#define DF_CUDA_FLOAT_TYPE(type, bits_type, wide, widen, round)                                    \
  struct df_cuda_##type {                                                                          \
    typedef bits_type element;                                                                     \
    typedef wide divisor_type;                                                                     \
    static DF_METHOD wide divisor_of(uint32_t divisor) { return (wide)divisor; }                   \
    static DF_METHOD bits_type sum(bits_type x, bits_type y) {                                     \
      return round(widen(x) + widen(y));                                                           \
    }                                                                                              \
    static DF_METHOD bits_type prod(bits_type x, bits_type y) {                                    \
      return round(widen(x) * widen(y));                                                           \
    }                                                                                              \
    static DF_METHOD bits_type larger(bits_type x, bits_type y) { return df_larger_##type(x, y); } \
    static DF_METHOD bits_type smaller(bits_type x, bits_type y) {                                 \
      return df_smaller_##type(x, y);                                                              \
    }                                                                                              \
    static DF_METHOD bits_type average(bits_type x, bits_type y, wide by) {                        \
      return round((widen(x) + widen(y)) / by);                                                    \
    }                                                                                              \
    static DF_METHOD bits_type quotient(bits_type x, wide by) { return round(widen(x) / by); }     \
  };

DF_CUDA_FLOAT_TYPE(float16, uint16_t, float, df_cuda_widen_float16, df_cuda_round_float16)
DF_CUDA_FLOAT_TYPE(bfloat16, uint16_t, float, df_float32_from_bfloat16, df_bfloat16_from_float32)
DF_CUDA_FLOAT_TYPE(float8e4m3, uint8_t, float, df_float32_from_float8e4m3,
                   df_float8e4m3_from_float32)
DF_CUDA_FLOAT_TYPE(float8e5m2, uint8_t, float, df_cuda_widen_float8e5m2, df_float8e5m2_from_float32)
DF_CUDA_FLOAT_TYPE(float32, uint32_t, float, df_float32_of_bits, df_cuda_round_float32)
DF_CUDA_FLOAT_TYPE(float64, uint64_t, double, df_float64_of_bits, df_cuda_round_float64)

/* ---- Integers: magnitudes are unsigned, so that wrapping is defined. */

template <class Integer, class Magnitude> struct df_cuda_integer {
  typedef Integer element;
  typedef Magnitude divisor_type;
  static DF_METHOD Magnitude divisor_of(uint32_t divisor) { return divisor; }
  static DF_METHOD Integer sum(Integer x, Integer y) {
    return (Integer)((Magnitude)x + (Magnitude)y);
  }
  static DF_METHOD Integer prod(Integer x, Integer y) {
    return (Integer)((Magnitude)x * (Magnitude)y);
  }
  static DF_METHOD Integer larger(Integer x, Integer y) { return x > y ? x : y; }
  static DF_METHOD Integer smaller(Integer x, Integer y) { return x < y ? x : y; }
  static DF_METHOD Integer quotient(Integer x, Magnitude by) {
    const bool negative = x < (Integer)1 && x != (Integer)0;
    const Magnitude whole = (negative ? 0 - (Magnitude)x : (Magnitude)x) / by;
    return (Integer)(negative ? 0 - whole : whole);
  }
  static DF_METHOD Integer average(Integer x, Integer y, Magnitude by) {
    return quotient(sum(x, y), by);
  }
};
typedef df_cuda_integer<int8_t, uint32_t> df_cuda_int8;
typedef df_cuda_integer<uint8_t, uint32_t> df_cuda_uint8;
typedef df_cuda_integer<int16_t, uint32_t> df_cuda_int16;
typedef df_cuda_integer<uint16_t, uint32_t> df_cuda_uint16;
typedef df_cuda_integer<int32_t, uint32_t> df_cuda_int32;
typedef df_cuda_integer<uint32_t, uint32_t> df_cuda_uint32;
typedef df_cuda_integer<int64_t, uint64_t> df_cuda_int64;
typedef df_cuda_integer<uint64_t, uint64_t> df_cuda_uint64;

/* in_flight: number of vectors that a lane loads before it uses the first; 1 if arithmetic is
 * slower than memory. */
#define DF_CUDA_OPERATION(name, n_sources, vectors, member, expression)                            \
  template <class Type> struct df_cuda_##name {                                                    \
    typedef typename Type::element element;                                                        \
    enum { sources = n_sources, in_flight = vectors };                                             \
    member;                                                                                        \
    DF_METHOD element operator()(element x, element y) const {                                     \
      (void)y;                                                                                     \
      return expression;                                                                           \
    }                                                                                              \
  };
#define DF_CUDA_IN_FLIGHT (sizeof(element) == 1 ? 1 : 4)

DF_CUDA_OPERATION(copy, 1, 8, , x)
DF_CUDA_OPERATION(sum, 2, DF_CUDA_IN_FLIGHT, , Type::sum(x, y))
DF_CUDA_OPERATION(prod, 2, DF_CUDA_IN_FLIGHT, , Type::prod(x, y))
DF_CUDA_OPERATION(larger, 2, DF_CUDA_IN_FLIGHT, , Type::larger(x, y))
DF_CUDA_OPERATION(smaller, 2, DF_CUDA_IN_FLIGHT, , Type::smaller(x, y))
DF_CUDA_OPERATION(band, 2, DF_CUDA_IN_FLIGHT, , (element)(x &y))
DF_CUDA_OPERATION(bor, 2, DF_CUDA_IN_FLIGHT, , (element)(x | y))
DF_CUDA_OPERATION(bxor, 2, DF_CUDA_IN_FLIGHT, , (element)(x ^ y))
DF_CUDA_OPERATION(average, 2, 1, typename Type::divisor_type by, Type::average(x, y, by))
DF_CUDA_OPERATION(quotient, 1, 1, typename Type::divisor_type by, Type::quotient(x, by))

#endif
