/* User-defined operators; see primitives/user_operator.h. */
#ifndef DF_HOST_REGISTRATION_USER_OPERATORS_H
#define DF_HOST_REGISTRATION_USER_OPERATORS_H

#include "host/state/registry.h"
#include "primitives/user_operator.h"

dfcclResult_t df_user_operator_create(dfcclContext_t context, dfcclRedOp_t *op,
                                      dfcclRedOpFunction_t function, void *argument,
                                      int commutative);
dfcclResult_t df_user_operator_create_scaled(dfcclContext_t context, dfcclRedOp_t *op,
                                             const void *scalar, dfcclDataType_t type,
                                             int on_device);

/* Kinds of user-defined operators, which members compare. A predefined operator is its own kind. */
typedef enum {
  DF_KIND_USER_OPERATOR = 256,
  DF_KIND_USER_OPERATOR_ORDERED,
  DF_KIND_SCALED
} df_user_operator_kind;
/* The operator must be in use. */
df_user_operator_kind df_user_operator_kind_of(const df_user_operator *own);

/* Checks whether this registration can use the operator. Sets *ordered if it does not commute. */
dfcclResult_t df_user_operator_check(dfcclContext_t context, const df_registration *registration,
                                     int *ordered);
#endif
