/* Data types by arithmetic; see numbers.h. */
#include "support/numbers.h"

#include <math.h>
#include <string.h>

/* The rows of types.def; tests/unit/test_definitions.c compares them with literals. mantissa_bits
 * 0: an integer. largest: the encoding of a narrow float's largest finite number. */
static const struct {
  uint8_t bytes, exponent_bits, mantissa_bits;
  bool is_signed, saturates;
  uint16_t largest;
} types[DF_DATA_TYPES] = {
#define DF_TYPE(id, name, nccl, tool, bytes, exponent_bits, mantissa_bits, is_signed, largest,     \
                saturates)                                                                         \
  [dfccl##id] = {bytes, exponent_bits, mantissa_bits, is_signed, saturates, largest},
#include "primitives/elements/types.def"
};

dfcclRedOp_t df_operator_for(dfcclDataType_t type, dfcclRedOp_t op) {
  return df_type_has(type, op) ? op : (dfcclRedOp_t)(op - dfcclBand);
}

size_t df_type_bytes(dfcclDataType_t type) { return types[type].bytes; }
bool df_type_is_float(dfcclDataType_t type) { return types[type].mantissa_bits != 0; }
bool df_type_is_signed(dfcclDataType_t type) { return types[type].is_signed; }
bool df_type_has(dfcclDataType_t type, dfcclRedOp_t op) {
  return !df_operator_is_bitwise(op) || !df_type_is_float(type);
}

int64_t df_type_exact_integers(dfcclDataType_t type) {
  return (int64_t)1 << (types[type].mantissa_bits + 1);
}

double df_type_epsilon(dfcclDataType_t type) { return ldexp(1, -types[type].mantissa_bits); }

static uint64_t encode_small_float(dfcclDataType_t type, double value) {
  const int mantissa_bits = types[type].mantissa_bits, exponent_bits = types[type].exponent_bits;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const uint64_t sign = (uint64_t)(signbit(value) != 0) << (mantissa_bits + exponent_bits);
  const uint64_t all_exponent = ((1ull << exponent_bits) - 1) << mantissa_bits;
  if (isnan(value)) return sign | all_exponent | ((1ull << mantissa_bits) - 1);
  double magnitude = fabs(value);
  if (magnitude == 0) return sign;
  int exponent = isinf(magnitude) ? bias + 1 : ilogb(magnitude);
  if (exponent < 1 - bias) exponent = 1 - bias; /* subnormal: the unit stays the smallest one */
  const double unit = ldexp(1, exponent - mantissa_bits);
  const double rounded = isinf(magnitude) ? magnitude : nearbyint(magnitude / unit) * unit;
  if (rounded > df_float_decode(type, types[type].largest)) {
    if (!types[type].saturates) return sign | all_exponent;
    return sign | types[type].largest;
  }
  if (rounded < ldexp(1, 1 - bias)) /* subnormal, or zero */
    return sign | (uint64_t)(rounded / ldexp(1, 1 - bias - mantissa_bits));
  exponent = ilogb(rounded);
  const double fraction = rounded / ldexp(1, exponent) - 1;
  return sign | (uint64_t)(exponent + bias) << mantissa_bits |
         (uint64_t)ldexp(fraction, mantissa_bits);
}

/* The suites encode mostly small integers: their encodings are computed once, by the function
 * above. */
enum { TABLE_LIMIT = 4096 };
static uint16_t small_integers[DF_DATA_TYPES][2 * TABLE_LIMIT + 1];

__attribute__((constructor)) static void fill_tables(void) {
  for (int type = 0; type < DF_DATA_TYPES; type++)
    for (int n = -TABLE_LIMIT; types[type].largest && n <= TABLE_LIMIT; n++)
      small_integers[type][n + TABLE_LIMIT] =
          (uint16_t)encode_small_float((dfcclDataType_t)type, n);
}

uint64_t df_float_encode(dfcclDataType_t type, double value) {
  uint64_t bits = 0;
  if (type == dfcclFloat64) {
    memcpy(&bits, &value, sizeof value);
  } else if (type == dfcclFloat32) {
    float narrow = (float)value;
    memcpy(&bits, &narrow, sizeof narrow);
  } else if (value != 0 && fabs(value) <= TABLE_LIMIT && value == (double)(int)value) {
    bits = small_integers[type][(int)value + TABLE_LIMIT];
  } else {
    bits = encode_small_float(type, value);
  }
  return bits;
}

double df_float_decode(dfcclDataType_t type, uint64_t bits) {
  if (type == dfcclFloat64) {
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
  }
  if (type == dfcclFloat32) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return (double)value;
  }
  const int mantissa_bits = types[type].mantissa_bits, exponent_bits = types[type].exponent_bits;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const uint64_t mantissa = bits & ((1ull << mantissa_bits) - 1);
  const uint64_t field = (bits >> mantissa_bits) & ((1ull << exponent_bits) - 1);
  const double sign = (bits >> (mantissa_bits + exponent_bits)) & 1 ? -1 : 1;
  const bool all_ones = field == (1ull << exponent_bits) - 1;
  if (type == dfcclFloat8e4m3) {
    if (all_ones && mantissa == (1ull << mantissa_bits) - 1) return NAN;
  } else if (all_ones) {
    return mantissa == 0 ? sign * (double)INFINITY : NAN;
  }
  if (field == 0) return sign * ldexp((double)mantissa, 1 - bias - mantissa_bits);
  return sign * ldexp(1 + ldexp((double)mantissa, -mantissa_bits), (int)field - bias);
}

int64_t df_integer_wrap(dfcclDataType_t type, uint64_t value) {
  switch (type) {
  case dfcclInt8:
    return (int8_t)value;
  case dfcclUint8:
    return (uint8_t)value;
  case dfcclInt16:
    return (int16_t)value;
  case dfcclUint16:
    return (uint16_t)value;
  case dfcclInt32:
    return (int32_t)value;
  case dfcclUint32:
    return (uint32_t)value;
  default:
    return (int64_t)value;
  }
}

uint64_t df_element_load(dfcclDataType_t type, const void *buffer, size_t index) {
  uint64_t bits = 0;
  const size_t bytes = types[type].bytes;
  memcpy(&bits, (const char *)buffer + index * bytes, bytes);
  return bits;
}

void df_element_store(dfcclDataType_t type, void *buffer, size_t index, uint64_t bits) {
  const size_t bytes = types[type].bytes;
  memcpy((char *)buffer + index * bytes, &bits, bytes);
}

void df_elements_store(dfcclDataType_t type, void *buffer, size_t first, const uint64_t *bits,
                       size_t count) {
  const size_t bytes = types[type].bytes;
  char *out = (char *)buffer + first * bytes;
  switch (bytes) { /* a memcpy of constant size is one store */
  case 1:
    for (size_t i = 0; i < count; i++) memcpy(out + i, &bits[i], 1);
    break;
  case 2:
    for (size_t i = 0; i < count; i++) memcpy(out + 2 * i, &bits[i], 2);
    break;
  case 4:
    for (size_t i = 0; i < count; i++) memcpy(out + 4 * i, &bits[i], 4);
    break;
  default:
    memcpy(out, bits, 8 * count);
    break;
  }
}
