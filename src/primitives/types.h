#ifndef DF_PRIMITIVES_TYPES_H
#define DF_PRIMITIVES_TYPES_H

#include "base/attributes.h"
#include "dfccl.h"

enum {
  DF_DATA_TYPES = 12,     /* of dfcclDataType_t */
  DF_REDUCE_OPERATORS = 4 /* Avg is Sum, then a division */
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

#endif
