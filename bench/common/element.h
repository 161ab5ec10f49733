/* Sizes, encodings and the tools' names of the library's data types and reduction operators. */
#ifndef DF_BENCH_COMMON_ELEMENT_H
#define DF_BENCH_COMMON_ELEMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dfccl.h"

typedef struct {
  const char *name;  /* as nccl-tests spells it */
  size_t bytes;      /* bytes of one element */
  bool is_float;     /* false: an integer */
  bool is_signed;    /* integers: signed */
  int exponent_bits; /* floats: bits of the exponent */
  int mantissa_bits; /* floats: bits of the mantissa, without the hidden one */
  uint32_t max_bits; /* 16- and 8-bit floats: the encoding of the largest finite number */
  /* 16- and 8-bit floats: larger values become the largest finite number; false: infinity. */
  bool saturates;
} df_tool_type;

/* The description of a type; never NULL for the library's types. */
const df_tool_type *df_tool_type_of(dfcclDataType_t type);

/* "float" and the other names of nccl-tests, or the name in dfccl.h without its prefix in lower
 * case ("float32"). Return false for any other text. */
bool df_tool_type_parse(const char *text, dfcclDataType_t *type);
bool df_tool_operator_parse(const char *text, dfcclRedOp_t *op);

/* The encoding of value in a floating-point type: rounded to nearest, ties to even, once. */
uint64_t df_tool_float_bits(dfcclDataType_t type, double value);

/* Stores the low bytes of bits as element number index of array. */
void df_tool_element_store(dfcclDataType_t type, void *array, size_t index, uint64_t bits);

#endif
