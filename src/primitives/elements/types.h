#ifndef DF_PRIMITIVES_ELEMENTS_TYPES_H
#define DF_PRIMITIVES_ELEMENTS_TYPES_H

#include "base/attributes.h"
#include "dfccl.h"

enum {
  DF_DATA_TYPES = 14,          /* of dfcclDataType_t */
  DF_REDUCE_OPERATORS = 8,     /* of dfcclRedOp_t; Avg is Sum, then a division */
  DF_OPERATOR_USER = 8,        /* in a descriptor: of primitives/user_operator.h */
  DF_FIRST_USER_OPERATOR = 256 /* in dfcclRedOp_t: the first of them */
};

/* 0: no data type. */
DF_CORE size_t df_type_size(dfcclDataType_t type) {
  switch (type) {
  case dfcclInt8:
  case dfcclUint8:
  case dfcclFloat8e4m3:
  case dfcclFloat8e5m2:
    return 1;
  case dfcclFloat16:
  case dfcclBfloat16:
  case dfcclInt16:
  case dfcclUint16:
    return 2;
  case dfcclInt32:
  case dfcclUint32:
  case dfcclFloat32:
    return 4;
  case dfcclInt64:
  case dfcclUint64:
  case dfcclFloat64:
    return 8;
  }
  return 0;
}

DF_CORE int df_type_is_integer(dfcclDataType_t type) {
  return type <= dfcclUint64 || type == dfcclInt16 || type == dfcclUint16;
}

DF_CORE int df_type_has_operator(dfcclDataType_t type, dfcclRedOp_t op) {
  return op < dfcclBand || df_type_is_integer(type);
}

#endif
