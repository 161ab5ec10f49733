/* Max and Min on the bits of floats. A number wins against a NaN; -0 is below +0; an infinity of
 * E5M2 becomes the largest finite value. As signed integers, floats are in order unless both are
 * negative; then the order is reversed. */
#ifndef DF_PRIMITIVES_ELEMENTS_ELEMENT_H
#define DF_PRIMITIVES_ELEMENTS_ELEMENT_H

#include "primitives/elements/convert.h"

/* infinity: magnitudes above it are NaNs */
#define DF_DEFINE_FLOAT_ORDER(type, bits, infinity)                                                \
  DF_CONVERT uint##bits##_t df_order_##type(uint##bits##_t a, uint##bits##_t b, int larger) {      \
    const uint##bits##_t mask = (uint##bits##_t)(((uint##bits##_t)1 << (bits - 1)) - 1);           \
    const uint##bits##_t x = (uint##bits##_t)(a & mask) > (infinity) ? b : a;                      \
    const uint##bits##_t y = (uint##bits##_t)(b & mask) > (infinity) ? a : b;                      \
    const int##bits##_t p = (int##bits##_t)x, q = (int##bits##_t)y;                                \
    const int##bits##_t high = p > q ? p : q, low = p > q ? q : p;                                 \
    const int##bits##_t positive = larger ? high : low, negative = larger ? low : high;            \
    const int##bits##_t both = (int##bits##_t)(x & y);                                             \
    const uint##bits##_t number = (uint##bits##_t)(both < 0 ? negative : positive);                \
    return (uint##bits##_t)(number & mask) > (infinity) ? mask : number;                           \
  }                                                                                                \
  DF_CONVERT uint##bits##_t df_larger_##type(uint##bits##_t a, uint##bits##_t b) {                 \
    return df_order_##type(a, b, 1);                                                               \
  }                                                                                                \
  DF_CONVERT uint##bits##_t df_smaller_##type(uint##bits##_t a, uint##bits##_t b) {                \
    return df_order_##type(a, b, 0);                                                               \
  }

DF_DEFINE_FLOAT_ORDER(float8e4m3, 8, 0x7eu)
DF_DEFINE_FLOAT_ORDER(float8e5m2_or_infinity, 8, 0x7cu)
DF_DEFINE_FLOAT_ORDER(float16, 16, 0x7c00u)
DF_DEFINE_FLOAT_ORDER(bfloat16, 16, 0x7f80u)
DF_DEFINE_FLOAT_ORDER(float32, 32, 0x7f800000u)
DF_DEFINE_FLOAT_ORDER(float64, 64, 0x7ff0000000000000u)

DF_CONVERT uint8_t df_larger_float8e5m2(uint8_t a, uint8_t b) {
  const uint8_t number = df_larger_float8e5m2_or_infinity(a, b);
  return (uint8_t)((number & 0x7fu) == 0x7cu ? number - 1 : number);
}

DF_CONVERT uint8_t df_smaller_float8e5m2(uint8_t a, uint8_t b) {
  const uint8_t number = df_smaller_float8e5m2_or_infinity(a, b);
  return (uint8_t)((number & 0x7fu) == 0x7cu ? number - 1 : number);
}

#endif
