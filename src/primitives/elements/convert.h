/* Conversions of narrow floats, without branches: compilers vectorise them. To narrow: one
 * rounding, to nearest even, as the rounding mode must be. Overflow and infinities become infinity
 * (16 bits) or the largest finite value (8 bits). NaNs become canonical, as on NVIDIA GPUs: sign
 * clear, other bits set. */
#ifndef DF_PRIMITIVES_ELEMENTS_CONVERT_H
#define DF_PRIMITIVES_ELEMENTS_CONVERT_H

#include <string.h>

#include "base/attributes.h"

#define DF_FLOAT8_NAN 0x7fu
#define DF_FLOAT16_NAN 0x7fffu /* bfloat16 too */
#define DF_FLOAT32_NAN 0x7fffffffu
#define DF_FLOAT64_NAN 0x7fffffffffffffffu

/* A call would keep a loop from being vectorised. */
#if defined(__CUDACC__)
#define DF_CONVERT DF_CORE
#else
#define DF_CONVERT DF_CORE __attribute__((always_inline))
#endif

DF_CONVERT uint32_t df_bits_of_float32(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

DF_CONVERT float df_float32_of_bits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

DF_CONVERT uint64_t df_bits_of_float64(double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

DF_CONVERT double df_float64_of_bits(uint64_t bits) {
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

DF_CONVERT uint32_t df_float32_canonical(uint32_t bits) {
  return (bits & 0x7fffffffu) > 0x7f800000u ? DF_FLOAT32_NAN : bits;
}

DF_CONVERT uint64_t df_float64_canonical(uint64_t bits) {
  return (bits & 0x7fffffffffffffffu) > 0x7ff0000000000000u ? DF_FLOAT64_NAN : bits;
}

/* Rounds a magnitude (no sign, no NaN) to mantissa_bits. lowest: exponent field of the smallest
 * normal number. The addition rounds: beside the anchor, a float32's last bit weighs what the
 * narrow one's does. The anchor stops at `lowest`: subnormals. The implicit bit carries into the
 * exponent. */
DF_CONVERT uint32_t df_round_magnitude(uint32_t magnitude, int mantissa_bits, int lowest,
                                       int32_t limit) {
  const int32_t bits = (int32_t)magnitude; /* SSE2 compares only signed integers */
  const int32_t clamped = bits < limit ? bits : limit;
  const int32_t field = clamped & 0x7f800000;
  const int32_t exponent = field > (lowest << 23) ? field : (lowest << 23);
  const int32_t anchor = exponent + ((23 - mantissa_bits) << 23);
  const float sum = df_float32_of_bits((uint32_t)clamped) + df_float32_of_bits((uint32_t)anchor);
  const uint32_t rounded = df_bits_of_float32(sum);
  return (rounded & 0x007fffffu) + (rounded >> (23 - mantissa_bits)) -
         ((uint32_t)(lowest + 23 - mantissa_bits) << mantissa_bits);
}

/* Widens a shifted, finite magnitude. offset: difference of the biases. The wrong reading, normal
 * or subnormal, is too large. */
DF_CONVERT uint32_t df_widen_magnitude(uint32_t shifted, int offset) {
  const float implicit = df_float32_of_bits((uint32_t)(offset + 1) << 23);
  const float sum = df_float32_of_bits(shifted + ((uint32_t)(offset + 1) << 23));
  const int32_t subnormal = (int32_t)df_bits_of_float32(sum - implicit);
  const int32_t normal = (int32_t)(shifted + ((uint32_t)offset << 23));
  return (uint32_t)(subnormal < normal ? subnormal : normal);
}

/* On 32-bit words, so that vector lanes keep their size: read at the word's top, written at its
 * bottom. "number": no NaN. */

/* E5M2 too: it is the upper byte of a float16, and the lower byte must be zero. */
DF_CONVERT float df_widen_float16_top(uint32_t word) {
  const uint32_t shifted = (word & 0x7fffffffu) >> 3;
  const uint32_t finite = df_widen_magnitude(shifted, 112);
  const uint32_t special = shifted + (224u << 23);
  const uint32_t magnitude = (int32_t)shifted >= (31 << 23) ? special : finite;
  return df_float32_of_bits(magnitude | (word & 0x80000000u));
}

DF_CONVERT float df_widen_float8e4m3_top_number(uint32_t word) {
  const uint32_t shifted = (word & 0x7f000000u) >> 4;
  return df_float32_of_bits(df_widen_magnitude(shifted, 120) | (word & 0x80000000u));
}

DF_CONVERT uint32_t df_round_to_float16(float value) {
  const uint32_t bits = df_bits_of_float32(value);
  const uint32_t magnitude = bits & 0x7fffffffu;
  const uint32_t rounded = df_round_magnitude(magnitude, 10, 113, 0x47800000); /* 65536: infinity */
  const uint32_t number = rounded | ((bits >> 16) & 0x8000u);
  return (int32_t)magnitude > 0x7f800000 ? DF_FLOAT16_NAN : number;
}

DF_CONVERT uint32_t df_round_to_bfloat16(float value) {
  const uint32_t bits = df_bits_of_float32(value);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  return (int32_t)(bits & 0x7fffffffu) > 0x7f800000 ? DF_FLOAT16_NAN : rounded;
}

DF_CONVERT uint32_t df_round_number_to_float8e4m3(float value) {
  const uint32_t bits = df_bits_of_float32(value);
  const uint32_t rounded = df_round_magnitude(bits & 0x7fffffffu, 3, 121, 0x43e00000); /* 448 */
  return rounded | ((bits >> 24) & 0x80u);
}

DF_CONVERT uint32_t df_round_to_float8e5m2(float value) {
  const uint32_t bits = df_bits_of_float32(value);
  const uint32_t magnitude = bits & 0x7fffffffu;
  const uint32_t rounded = df_round_magnitude(magnitude, 2, 113, 0x47600000); /* 57344 */
  const uint32_t number = rounded | ((bits >> 24) & 0x80u);
  return (int32_t)magnitude > 0x7f800000 ? DF_FLOAT8_NAN : number;
}

DF_CONVERT uint16_t df_float16_from_float32(float value) {
  return (uint16_t)df_round_to_float16(value);
}

DF_CONVERT float df_float32_from_float16(uint16_t half) {
  return df_widen_float16_top((uint32_t)half << 16);
}

DF_CONVERT uint16_t df_bfloat16_from_float32(float value) {
  return (uint16_t)df_round_to_bfloat16(value);
}

DF_CONVERT float df_float32_from_bfloat16(uint16_t brain) {
  return df_float32_of_bits((uint32_t)brain << 16);
}

DF_CONVERT uint8_t df_float8e4m3_from_float32(float value) {
  const uint32_t number = df_round_number_to_float8e4m3(value);
  const uint32_t magnitude = df_bits_of_float32(value) & 0x7fffffffu;
  return (uint8_t)(magnitude > 0x7f800000u ? DF_FLOAT8_NAN : number);
}

DF_CONVERT float df_float32_from_float8e4m3(uint8_t byte) {
  const float number = df_widen_float8e4m3_top_number((uint32_t)byte << 24);
  return (byte & 0x7fu) == DF_FLOAT8_NAN ? df_float32_of_bits(DF_FLOAT32_NAN) : number;
}

DF_CONVERT uint8_t df_float8e5m2_from_float32(float value) {
  return (uint8_t)df_round_to_float8e5m2(value);
}

DF_CONVERT float df_float32_from_float8e5m2(uint8_t byte) {
  return df_widen_float16_top((uint32_t)byte << 24);
}

#endif
