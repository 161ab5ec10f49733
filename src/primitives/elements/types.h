#ifndef DF_PRIMITIVES_ELEMENTS_TYPES_H
#define DF_PRIMITIVES_ELEMENTS_TYPES_H

#include "base/attributes.h"
#include "dfccl.h"

enum {
#define DF_TYPE(id, ...) DF_TYPE_##id,
#include "primitives/elements/types.def"
  DF_DATA_TYPES /* number of values of dfcclDataType_t */
};
enum {
#define DF_REDUCTION(id, ...) DF_REDUCTION_##id,
#include "primitives/elements/types.def"
  DF_REDUCE_OPERATORS,                    /* number of operators of dfcclRedOp_t; Avg is computed as
                                             a Sum and a division */
  DF_OPERATOR_USER = DF_REDUCE_OPERATORS, /* in a descriptor: a user-defined operator
                                             (primitives/user_operator.h) */
  DF_FIRST_USER_OPERATOR = 256            /* in dfcclRedOp_t: the first user-defined operator */
};

#define DF_TYPE(id, ...)                                                                           \
  DF_STATIC_ASSERT((int)dfccl##id == (int)DF_TYPE_##id, "the order of dfccl.h");
#include "primitives/elements/types.def"
#define DF_REDUCTION(id, ...)                                                                      \
  DF_STATIC_ASSERT((int)dfccl##id == (int)DF_REDUCTION_##id, "the order of dfccl.h");
#include "primitives/elements/types.def"

/* 0: invalid data type. */
DF_CORE size_t df_type_size(dfcclDataType_t type) {
  switch (type) {
#define DF_TYPE(id, name, nccl, tool, bytes, ...)                                                  \
  case dfccl##id:                                                                                  \
    return bytes;
#include "primitives/elements/types.def"
  }
  return 0;
}

DF_CORE int df_type_is_integer(dfcclDataType_t type) {
  switch (type) {
#define DF_TYPE(id, name, nccl, tool, bytes, exponent_bits, ...)                                   \
  case dfccl##id:                                                                                  \
    return (exponent_bits) == 0;
#include "primitives/elements/types.def"
  }
  return 0;
}

DF_CORE int df_operator_is_bitwise(dfcclRedOp_t op) {
  switch ((int)op) {
#define DF_REDUCTION(id, name, is_bitwise)                                                         \
  case dfccl##id:                                                                                  \
    return is_bitwise;
#include "primitives/elements/types.def"
  }
  return 0;
}

DF_CORE const char *df_type_name(dfcclDataType_t type) {
  switch (type) {
#define DF_TYPE(id, name, ...)                                                                     \
  case dfccl##id:                                                                                  \
    return name;
#include "primitives/elements/types.def"
  }
  return "unknown";
}

DF_CORE const char *df_redop_name(dfcclRedOp_t op) {
  switch ((int)op) {
#define DF_REDUCTION(id, name, is_bitwise)                                                         \
  case dfccl##id:                                                                                  \
    return name;
#include "primitives/elements/types.def"
  }
  return "unknown";
}

DF_CORE int df_type_has_operator(dfcclDataType_t type, dfcclRedOp_t op) {
  return !df_operator_is_bitwise(op) || df_type_is_integer(type);
}

#endif
