#include "common/element.h"

#include <math.h>
#include <string.h>
#include <strings.h>

#include "primitives/elements/types.h"

static const df_tool_type types[] = {
#define DF_TYPE(id, name, nccl, tool, bytes, exponent_bits, mantissa_bits, is_signed, largest,     \
                saturates)                                                                         \
  [dfccl##id] = {tool,    bytes,    (exponent_bits) != 0, is_signed, exponent_bits, mantissa_bits, \
                 largest, saturates},
#include "primitives/elements/types.def"
};

const df_tool_type *df_tool_type_of(dfcclDataType_t type) { return &types[type]; }

bool df_tool_type_parse(const char *text, dfcclDataType_t *type) {
  for (int i = 0; i < DF_DATA_TYPES; i++)
    if (strcasecmp(text, types[i].name) == 0 ||
        strcasecmp(text, df_type_name((dfcclDataType_t)i)) == 0) {
      *type = (dfcclDataType_t)i;
      return true;
    }
  return false;
}

bool df_tool_operator_parse(const char *text, dfcclRedOp_t *op) {
  for (int i = 0; i < DF_REDUCE_OPERATORS; i++)
    if (strcasecmp(text, df_redop_name((dfcclRedOp_t)i)) == 0) {
      *op = (dfcclRedOp_t)i;
      return true;
    }
  return false;
}

/* 16- and 8-bit floats have one shape: sign, exponent, mantissa. */
static uint64_t small_float_bits(const df_tool_type *type, double value) {
  int width = 1 + type->exponent_bits + type->mantissa_bits;
  uint64_t sign = (uint64_t)(signbit(value) != 0) << (width - 1);
  int bias = (1 << (type->exponent_bits - 1)) - 1;
  double magnitude = fabs(value);
  uint64_t bits = 0;
  if (isnan(value)) return sign | ((UINT64_C(1) << (width - 1)) - 1);
  if (isinf(value)) {
    bits = UINT64_MAX;
  } else if (magnitude > 0) {
    int exponent = 0;
    frexp(magnitude, &exponent);
    exponent -= 1;                                /* magnitude = 1.xxx * 2^exponent */
    if (exponent < 1 - bias) exponent = 1 - bias; /* subnormal: no hidden bit */
    double steps = nearbyint(ldexp(magnitude, type->mantissa_bits - exponent));
    /* The hidden bit, and a carry out of the mantissa, add themselves to the exponent field. */
    if (exponent + bias >= 1 << type->exponent_bits)
      bits = UINT64_MAX;
    else
      bits = ((uint64_t)(exponent + bias - 1) << type->mantissa_bits) + (uint64_t)steps;
  }
  if (bits > type->max_bits) bits = type->max_bits + (type->saturates ? 0u : 1u);
  return sign | bits;
}

uint64_t df_tool_float_bits(dfcclDataType_t type, double value) {
  uint64_t bits = 0;
  if (type == dfcclFloat64) {
    memcpy(&bits, &value, sizeof value);
  } else if (type == dfcclFloat32) {
    float rounded = (float)value;
    uint32_t narrow = 0;
    memcpy(&narrow, &rounded, sizeof rounded);
    bits = narrow;
  } else {
    bits = small_float_bits(&types[type], value);
  }
  return bits;
}

void df_tool_element_store(dfcclDataType_t type, void *array, size_t index, uint64_t bits) {
  size_t bytes = types[type].bytes;
  /* Little-endian: the low bytes of a number come first. */
  memcpy((char *)array + index * bytes, &bits, bytes);
}
