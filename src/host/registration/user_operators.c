#include "host/registration/user_operators.h"

#include <stdlib.h>
#include <string.h>

static dfcclResult_t check_device(dfcclContext_t context) {
  if (context->device.kind->has_user_operators) return dfcclSuccess;
  return df_fail(dfcclInvalidUsage,
                 "rank %u uses the %s device, which has no user-defined operators", context->rank,
                 context->device.kind->name);
}

static df_user_operator *make_own(void) {
  df_user_operator *own = aligned_alloc(DF_CACHE_LINE, sizeof *own);
  if (own) memset(own, 0, sizeof *own);
  return own;
}

static dfcclResult_t enter_operator(df_user_operator *own, dfcclRedOp_t *op) {
  uint32_t number = 0;
  if (!df_user_operator_enter(own, &number)) {
    free(own);
    return df_fail(dfcclInvalidUsage,
                   "%d operators are in use in this process; no more are possible",
                   DF_MAX_USER_OPERATORS);
  }
  *op = (dfcclRedOp_t)(DF_FIRST_USER_OPERATOR + number);
  return dfcclSuccess;
}

dfcclResult_t df_user_operator_create(dfcclContext_t context, dfcclRedOp_t *op,
                                      dfcclRedOpFunction_t function, void *argument,
                                      int commutative) {
  if (op == NULL || function == NULL)
    return df_fail(dfcclInvalidArgument, "%s is NULL", op ? "fn" : "op");
  dfcclResult_t result = check_device(context);
  if (result != dfcclSuccess) return result;
  df_user_operator *own = make_own();
  if (own == NULL) return df_fail(dfcclOutOfMemory, "no memory for an operator");
  own->function = function;
  own->argument = argument;
  own->commutative = commutative != 0;
  return enter_operator(own, op);
}

dfcclResult_t df_user_operator_create_scaled(dfcclContext_t context, dfcclRedOp_t *op,
                                             const void *scalar, dfcclDataType_t type,
                                             int on_device) {
  const size_t element = df_type_size(type);
  if (op == NULL || scalar == NULL)
    return df_fail(dfcclInvalidArgument, "%s is NULL", op ? "scalar" : "op");
  if (element == 0)
    return df_fail(dfcclInvalidArgument, "invalid data type %d (valid: 0 to %d)", (int)type,
                   DF_DATA_TYPES - 1);
  if (on_device != 0)
    return df_fail(dfcclInvalidArgument, "scalarOnDevice is %d; the scalar must be in host memory",
                   on_device);
  dfcclResult_t result = check_device(context);
  if (result != dfcclSuccess) return result;
  df_user_operator *own = make_own();
  if (own == NULL) return df_fail(dfcclOutOfMemory, "no memory for an operator");
  own->commutative = 1;
  own->type = type;
  for (size_t at = 0; at < sizeof own->scalars; at += element)
    memcpy(own->scalars + at, scalar, element);
  return enter_operator(own, op);
}

df_user_operator_kind df_user_operator_kind_of(const df_user_operator *own) {
  if (own->function == NULL) return DF_KIND_SCALED;
  return own->commutative ? DF_KIND_USER_OPERATOR : DF_KIND_USER_OPERATOR_ORDERED;
}

dfcclResult_t df_user_operator_check(dfcclContext_t context, const df_registration *r,
                                     int *ordered) {
  const uint32_t number = (uint32_t)r->op - DF_FIRST_USER_OPERATOR;
  const df_user_operator *own =
      r->keeps_operator ? df_user_operator_share(number) : df_user_operator_use(number);
  *ordered = 0;
  if (own == NULL)
    return df_fail(dfcclInvalidArgument,
                   "invalid reduction operator %d: it was never created, or was destroyed",
                   (int)r->op);
  dfcclResult_t result = check_device(context);
  *ordered = !own->commutative;
  if (result == dfcclSuccess && own->function == NULL && own->type != r->type)
    result = df_fail(dfcclInvalidArgument,
                     "the operator's scalar has data type %d, but the collective has data type %d",
                     (int)own->type, (int)r->type);
  if (result == dfcclSuccess && *ordered && df_operation_has_piece_table(r->operation))
    result = df_fail(dfcclInvalidArgument,
                     "the operator does not commute, and %s does not keep the group's order",
                     df_operation_name(r->operation));
  df_user_operator_unuse(number);
  return result;
}
