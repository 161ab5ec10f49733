/* <cuda_fp16.h> for device code that the emulator executes: conversions, as the hardware rounds. */
#ifndef CUDA_EMULATOR_FP16_H
#define CUDA_EMULATOR_FP16_H

#include <stdint.h>
#include <string.h>

struct __half {
  uint16_t bits;
};

static inline __half __ushort_as_half(unsigned short bits) { return __half{bits}; }
static inline unsigned short __half_as_ushort(__half half) { return half.bits; }

/* By the definition of the format, independent of the library's conversions. */
static inline float __half2float(__half half) {
  const int exponent = half.bits >> 10 & 31, mantissa = half.bits & 1023;
  float magnitude;
  if (exponent == 31)
    magnitude = mantissa ? __builtin_nanf("") : __builtin_inff();
  else if (exponent == 0)
    magnitude = __builtin_ldexpf((float)mantissa, -24);
  else
    magnitude = __builtin_ldexpf((float)(1024 + mantissa), exponent - 25);
  return half.bits & 0x8000 ? -magnitude : magnitude;
}

static inline __half __float2half_rn(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  const uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
  const float magnitude = __builtin_fabsf(value);
  if (value != value) return __half{0x7fff};
  if (magnitude >= 65520.0f) return __half{(uint16_t)(sign | 0x7c00)};
  int exponent = -24;
  if (magnitude > 0) __builtin_frexpf(magnitude, &exponent); /* magnitude < 2^exponent */
  const int last_bit = exponent - 11 < -24 ? -24 : exponent - 11;
  const float counted = __builtin_rintf(__builtin_ldexpf(magnitude, -last_bit)); /* ties to even */
  /* Counts of the last bit: subnormal below 1024; a count of 2048 carries into the exponent. */
  const uint32_t field = (uint32_t)(last_bit + 24);
  return __half{(uint16_t)(sign | ((field << 10) + (uint32_t)counted))};
}

#endif
