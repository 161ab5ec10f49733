/*
 * Promises of src/primitives/elements/convert.h and types.h:
 *   - Every narrow float converts to the float32 of the same value, and back to the same bits.
 *   - Every float32 converts to the nearest narrow float, ties to even, subnormals included; beyond
 *     the largest finite value to infinity (16 bits) or to that value (8 bits).
 *   - Every NaN converts to a NaN; to a narrow type, to the canonical one.
 * The expectation comes from the formats' definitions (support/numbers.h), and for float16 from the
 * compiler's own type too, where it has one.
 */
#include "primitives/elements/convert.h"

#include <math.h>

#include "primitives/elements/types.h"
#include "support/harness.h"
#include "support/numbers.h"

typedef struct {
  dfcclDataType_t type;
  uint32_t patterns, nan;
  float (*widen)(uint32_t bits);
  uint32_t (*narrow)(float value);
} format;

static float widen_float16(uint32_t bits) { return df_float32_from_float16((uint16_t)bits); }
static float widen_bfloat16(uint32_t bits) { return df_float32_from_bfloat16((uint16_t)bits); }
static float widen_e4m3(uint32_t bits) { return df_float32_from_float8e4m3((uint8_t)bits); }
static float widen_e5m2(uint32_t bits) { return df_float32_from_float8e5m2((uint8_t)bits); }
static uint32_t narrow_float16(float value) { return df_float16_from_float32(value); }
static uint32_t narrow_bfloat16(float value) { return df_bfloat16_from_float32(value); }
static uint32_t narrow_e4m3(float value) { return df_float8e4m3_from_float32(value); }
static uint32_t narrow_e5m2(float value) { return df_float8e5m2_from_float32(value); }

static const format formats[] = {
    {dfcclFloat16, 65536, 0x7fff, widen_float16, narrow_float16},
    {dfcclBfloat16, 65536, 0x7fff, widen_bfloat16, narrow_bfloat16},
    {dfcclFloat8e4m3, 256, 0x7f, widen_e4m3, narrow_e4m3},
    {dfcclFloat8e5m2, 256, 0x7f, widen_e5m2, narrow_e5m2},
};

static void check_narrow(const format *f, float value) {
  const uint32_t got = f->narrow(value);
  const uint32_t expected =
      isnan(value) ? f->nan : (uint32_t)df_float_encode(f->type, (double)value);
  CHECK(got == expected, "%s from %a (0x%08x): 0x%x, expected 0x%x", df_type_name(f->type),
        (double)value, df_bits_of_float32(value), got, expected);
}

DF_TEST(convert, every_narrow_value_widens_to_itself_and_comes_back, 60) {
  for (size_t k = 0; k < DF_COUNT_OF(formats); k++) {
    const format *f = &formats[k];
    for (uint32_t bits = 0; bits < f->patterns; bits++) {
      const float got = f->widen(bits);
      const float expected = (float)df_float_decode(f->type, bits);
      CHECK(isnan(expected) ? isnan(got) : df_bits_of_float32(got) == df_bits_of_float32(expected),
            "%s 0x%x widens to %a, expected %a", df_type_name(f->type), bits, (double)got,
            (double)expected);
      uint32_t back = isnan(expected) ? f->nan : bits;
      if (isinf(expected) && f->type == dfcclFloat8e5m2) back = bits - 1; /* saturates */
      CHECK(f->narrow(got) == back, "%s 0x%x comes back as 0x%x", df_type_name(f->type), bits,
            f->narrow(got));
    }
  }
}

/* Rounding changes at the value half-way between two neighbours: there, and one float32 to each
 * side. */
DF_TEST(convert, ties_go_to_even_and_their_neighbours_to_the_nearest, 60) {
  for (size_t k = 0; k < DF_COUNT_OF(formats); k++) {
    const format *f = &formats[k];
    for (uint32_t bits = 0; bits + 1 < f->patterns / 2; bits++) {
      const double low = df_float_decode(f->type, bits), high = df_float_decode(f->type, bits + 1);
      if (!isfinite(low) || !isfinite(high)) continue;
      const float tie = (float)((low + high) / 2);
      const float around[] = {tie, nextafterf(tie, 0), nextafterf(tie, INFINITY)};
      for (size_t i = 0; i < DF_COUNT_OF(around); i++) {
        check_narrow(f, around[i]);
        check_narrow(f, -around[i]);
      }
    }
  }
}

DF_TEST(convert, limits_saturate_or_become_infinite, 60) {
  static const float limits[] = {0,
                                 -0.0f,
                                 448,
                                 464,
                                 465,
                                 480,
                                 57344,
                                 61440,
                                 61441,
                                 65504,
                                 65519.99f,
                                 65520,
                                 65536,
                                 1e30f,
                                 0x1.fffffep127f,
                                 INFINITY,
                                 0x1p-149f,
                                 0x1p-126f,
                                 0x1p-24f,
                                 0x1p-25f,
                                 0x1.8p-25f,
                                 0x1p-10f,
                                 0x1.8p-10f,
                                 0x1p-17f,
                                 0x1.fep127f,
                                 0x1.fefffep127f,
                                 0x1.ffp127f,
                                 NAN};
  for (size_t k = 0; k < DF_COUNT_OF(formats); k++)
    for (size_t i = 0; i < DF_COUNT_OF(limits); i++) {
      check_narrow(&formats[k], limits[i]);
      check_narrow(&formats[k], -limits[i]);
    }
  CHECK(df_float8e4m3_from_float32(INFINITY) == 0x7e, "448 is 0x7e");
  CHECK(df_float8e5m2_from_float32(-INFINITY) == 0xfb, "-57344 is 0xfb");
  CHECK(df_float16_from_float32(65520) == 0x7c00, "65520 rounds to infinity");
}

/* An odd stride visits every exponent and ever different mantissas. */
DF_TEST(convert, float32_of_every_kind_round_to_the_nearest, 120) {
  const uint32_t stride = (uint32_t)(2003 * df_slowdown()) | 1;
  for (size_t k = 0; k < DF_COUNT_OF(formats); k++) {
    uint32_t bits = 0;
    do check_narrow(&formats[k], df_float32_of_bits(bits));
    while ((bits += stride) >= stride);
  }
}

#if defined(__FLT16_MANT_DIG__) && defined(__SSE2__)
__extension__ typedef _Float16 compiler_float16;

DF_TEST(convert, float16_agrees_with_the_compilers_own_type, 120) {
  const uint32_t stride = (uint32_t)(499 * df_slowdown()) | 1;
  uint32_t bits = 0;
  do {
    const float value = df_float32_of_bits(bits);
    const compiler_float16 half = (compiler_float16)value;
    uint16_t expected;
    memcpy(&expected, &half, sizeof expected);
    if (isnan(value)) expected = DF_FLOAT16_NAN;
    CHECK(df_float16_from_float32(value) == expected, "%a: 0x%04x, expected 0x%04x", (double)value,
          df_float16_from_float32(value), expected);
  } while ((bits += stride) >= stride);
}
#endif

DF_TEST(types, sizes_are_those_of_the_c_types, 10) {
  for (int type = 0; type < DF_DATA_TYPES; type++)
    CHECK(df_type_size((dfcclDataType_t)type) == df_type_bytes((dfcclDataType_t)type), "type %d",
          type);
  CHECK(df_type_size((dfcclDataType_t)DF_DATA_TYPES) == 0, "14 is no data type");
  CHECK(df_type_size((dfcclDataType_t)-1) == 0, "-1 is no data type");
}
