/*
 * Arithmetic of data types. Rounding to 16- and 8-bit floats follows from the definition of the
 * format (exponent and mantissa bits), independently of the library's conversions.
 */
#ifndef DF_TESTS_SUPPORT_NUMBERS_H
#define DF_TESTS_SUPPORT_NUMBERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dfccl.h"
#include "primitives/elements/types.h"

size_t df_type_bytes(dfcclDataType_t type);
bool df_type_is_float(dfcclDataType_t type);
bool df_type_is_signed(dfcclDataType_t type);
/* Bitwise operators exist for integers only. */
bool df_type_has(dfcclDataType_t type, dfcclRedOp_t op);
/* op, or another operator that the type has. */
dfcclRedOp_t df_operator_for(dfcclDataType_t type, dfcclRedOp_t op);

/* The largest n such that every integer from -n to n is exact in the float type. */
int64_t df_type_exact_integers(dfcclDataType_t type);
/* Distance from 1 to the next number of the float type. */
double df_type_epsilon(dfcclDataType_t type);

/* The bit pattern (in the low bytes) of value, rounded to nearest, ties to even, in the float type;
 * 8-bit types saturate. */
uint64_t df_float_encode(dfcclDataType_t type, double value);
double df_float_decode(dfcclDataType_t type, uint64_t bits);

/* An integer reduced to the type's width, with the sign of the type. */
int64_t df_integer_wrap(dfcclDataType_t type, uint64_t value);

/* Reads and writes element index of a buffer as a bit pattern. */
uint64_t df_element_load(dfcclDataType_t type, const void *buffer, size_t index);
void df_element_store(dfcclDataType_t type, void *buffer, size_t index, uint64_t bits);
/* Writes count bit patterns to elements first, first + 1, ... of a buffer. */
void df_elements_store(dfcclDataType_t type, void *buffer, size_t first, const uint64_t *bits,
                       size_t count);

#endif
