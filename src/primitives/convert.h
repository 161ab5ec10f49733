/*
 * Conversions between float32 and the narrow float types, in integer arithmetic and one float32
 * addition: no branches (compilers vectorise them), no hardware support needed, the same bits from
 * C11 and from CUDA C++.
 *
 * To a narrow type: rounded once, to nearest, ties to even; subnormals are kept; a value beyond the
 * largest finite one becomes infinity in float16 and bfloat16, the largest finite value (448,
 * 57344) in the float8 types, infinities included; a NaN becomes the type's canonical NaN. From a
 * narrow type: exact; a NaN becomes a NaN.
 *
 * The canonical NaN has, in every type, the sign clear and every other bit set: the bits that
 * NVIDIA GPUs produce, and the only NaN that E4M3 has besides its negative.
 *
 * The caller's rounding mode must be to nearest, as C and CUDA have it by default.
 */
#ifndef DF_PRIMITIVES_CONVERT_H
#define DF_PRIMITIVES_CONVERT_H

#include <string.h>

#include "base/attributes.h"

#define DF_FLOAT8_NAN 0x7fu
#define DF_FLOAT16_NAN 0x7fffu /* bfloat16 too */
#define DF_FLOAT32_NAN 0x7fffffffu
#define DF_FLOAT64_NAN 0x7fffffffffffffffu

/* Always inlined on the CPU too: a call in the middle of a loop keeps it from being vectorised. */
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

/* bits unless they are a NaN, which becomes the canonical one. */
DF_CONVERT uint32_t df_float32_canonical(uint32_t bits) {
  return (bits & 0x7fffffffu) > 0x7f800000u ? DF_FLOAT32_NAN : bits;
}

DF_CONVERT uint64_t df_float64_canonical(uint64_t bits) {
  return (bits & 0x7fffffffffffffffu) > 0x7ff0000000000000u ? DF_FLOAT64_NAN : bits;
}

/*
 * Rounds the magnitude (float32 bits without sign, no NaN) to a type of mantissa_bits whose
 * smallest normal number has the float32 exponent field lowest, after clamping it to limit (float32
 * bits of a power of two or of a number of that type), and returns its bits without sign.
 *
 * The addition does the rounding: beside an anchor 2^(23 - mantissa_bits) times as large as the
 * number's power of two, the last bit of a float32 weighs what the last bit of the narrow number
 * does. Below the smallest normal number the anchor no longer shrinks: the subnormals. What the
 * addition leaves above the anchor counts such last bits, the implicit one included, and so carries
 * into the exponent by itself.
 */
DF_CONVERT uint32_t df_round_magnitude(uint32_t magnitude, int mantissa_bits, int lowest,
                                       int32_t limit) {
  const int32_t bits = (int32_t)magnitude; /* signed, since SSE2 compares only signed integers */
  const int32_t clamped = bits < limit ? bits : limit;
  const int32_t field = clamped & 0x7f800000;
  const int32_t exponent = field > (lowest << 23) ? field : (lowest << 23);
  const int32_t anchor = exponent + ((23 - mantissa_bits) << 23);
  const float sum = df_float32_of_bits((uint32_t)clamped) + df_float32_of_bits((uint32_t)anchor);
  const int32_t count = (int32_t)df_bits_of_float32(sum) - anchor;
  return (uint32_t)(count + ((exponent - (lowest << 23)) >> (23 - mantissa_bits)));
}

DF_CONVERT uint16_t df_float16_from_float32(float value) {
  const uint32_t bits = df_bits_of_float32(value);
  const uint32_t magnitude = bits & 0x7fffffffu;
  const uint32_t rounded = df_round_magnitude(magnitude, 10, 113, 0x47800000); /* 65536: infinity */
  return (uint16_t)(magnitude > 0x7f800000u ? DF_FLOAT16_NAN : rounded | ((bits >> 16) & 0x8000u));
}

DF_CONVERT float df_float32_from_float16(uint16_t half) {
  const uint32_t magnitude = half & 0x7fffu;
  const uint32_t shifted = magnitude << 13;
  const uint32_t normal = shifted + (112u << 23);
  const uint32_t special = shifted + (224u << 23);
  const float subnormal =
      df_float32_of_bits(shifted + (113u << 23)) - df_float32_of_bits(113u << 23);
  const uint32_t finite = magnitude < 0x0400u ? df_bits_of_float32(subnormal) : normal;
  const uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
  return df_float32_of_bits((magnitude >= 0x7c00u ? special : finite) | sign);
}

DF_CONVERT uint16_t df_bfloat16_from_float32(float value) {
  const uint32_t bits = df_bits_of_float32(value);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  return (uint16_t)((bits & 0x7fffffffu) > 0x7f800000u ? DF_FLOAT16_NAN : rounded);
}

DF_CONVERT float df_float32_from_bfloat16(uint16_t brain) {
  return df_float32_of_bits((uint32_t)brain << 16);
}

DF_CONVERT uint8_t df_float8e4m3_from_float32(float value) {
  const uint32_t bits = df_bits_of_float32(value);
  const uint32_t magnitude = bits & 0x7fffffffu;
  const uint32_t rounded = df_round_magnitude(magnitude, 3, 121, 0x43e00000); /* 448 */
  return (uint8_t)(magnitude > 0x7f800000u ? DF_FLOAT8_NAN : rounded | ((bits >> 24) & 0x80u));
}

DF_CONVERT float df_float32_from_float8e4m3(uint8_t byte) {
  const uint32_t magnitude = byte & 0x7fu;
  const uint32_t shifted = magnitude << 20;
  const uint32_t normal = shifted + (120u << 23);
  const float subnormal =
      df_float32_of_bits(shifted + (121u << 23)) - df_float32_of_bits(121u << 23);
  const uint32_t finite = magnitude < 0x08u ? df_bits_of_float32(subnormal) : normal;
  const uint32_t sign = (uint32_t)(byte & 0x80u) << 24;
  return df_float32_of_bits((magnitude == 0x7fu ? DF_FLOAT32_NAN : finite) | sign);
}

DF_CONVERT uint8_t df_float8e5m2_from_float32(float value) {
  const uint32_t bits = df_bits_of_float32(value);
  const uint32_t magnitude = bits & 0x7fffffffu;
  const uint32_t rounded = df_round_magnitude(magnitude, 2, 113, 0x47600000); /* 57344 */
  return (uint8_t)(magnitude > 0x7f800000u ? DF_FLOAT8_NAN : rounded | ((bits >> 24) & 0x80u));
}

/* E5M2 is the upper byte of a float16. */
DF_CONVERT float df_float32_from_float8e5m2(uint8_t byte) {
  return df_float32_from_float16((uint16_t)(byte << 8));
}

#endif
