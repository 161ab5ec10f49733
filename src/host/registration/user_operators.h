/* Operators that the application makes: primitives/user_operator.h. */
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

/* Kinds of operators that members compare; others are their own kind. */
typedef enum {
  DF_KIND_USER_OPERATOR = 256,
  DF_KIND_USER_OPERATOR_ORDERED,
  DF_KIND_SCALED
} df_user_operator_kind;
/* Of one that is in use. */
df_user_operator_kind df_user_operator_kind_of(const df_user_operator *own);

/* Is the operator fit for this registration? Sets *ordered if it does not commute. */
dfcclResult_t df_user_operator_check(dfcclContext_t context, const df_registration *registration,
                                     int *ordered);
#endif
