/* The public functions that register collectives, and those of user-defined operators. See dfccl.h.
 */
#include "host/api/api.h"
#include "host/runs/collective_failure.h"
#include "host/registration/user_operators.h"
#include "host/registration/register.h"
#include "host/switching/online_tuner.h"
#include "host/api/api_counts.h"

static dfcclResult_t register_checked(dfcclContext_t ctx, const df_registration *registration) {
  DF_CHECK_CONTEXT(ctx);
  const dfcclResult_t result = df_register(ctx, registration);
  if (result == dfcclSuccess) df_tuner_consider(ctx, registration->id, registration->options);
  return df_remember(ctx, result);
}

/* The families of plans/operations.def whose registrations have one signature each. */
#define DEFINE_REGISTER(constant, name, parameters, ...)                                           \
  dfcclResult_t dfcclRegister##name(dfcclContext_t ctx, dfcclCollId_t coll, size_t count,          \
                                    dfcclDataType_t type,                                          \
                                    parameters const dfcclCollOptions_t *options) {                \
    return register_checked(ctx, &(df_registration){.operation = DF_OP_##constant,                 \
                                                    .id = coll,                                    \
                                                    .count = count,                                \
                                                    .type = type,                                  \
                                                    .options = options,                            \
                                                    __VA_ARGS__});                                 \
  }
#define COMMA ,
#define DF_API_REDUCTION(id, name) DEFINE_REGISTER(id, name, dfcclRedOp_t op COMMA, .op = op)
#define DF_API_ROOTED_REDUCTION(id, name)                                                          \
  DEFINE_REGISTER(id, name, dfcclRedOp_t op COMMA int root COMMA, .op = op, .root = root)
#define DF_API_ROOTED(id, name) DEFINE_REGISTER(id, name, int root COMMA, .root = root)
#define DF_API_MOVE(id, name) DEFINE_REGISTER(id, name, , .root = 0)
/* These functions have bodies of their own below. */
#define DF_API_PAIR(id, name)
#define DF_API_BARRIER(id, name)
#define DF_API_SCAN(id, name)
#define DF_API_EXCLUSIVE_SCAN(id, name)
#define DF_OPERATION(id, name, word, family, ...) family(id, name)
#include "plans/operations.def"

dfcclResult_t dfcclRegisterAllToAllDynamic(dfcclContext_t ctx, dfcclCollId_t id,
                                           size_t maxCountPerPeer, dfcclDataType_t type,
                                           const dfcclCollOptions_t *options) {
  return register_checked(ctx, &(df_registration){.operation = DF_OP_ALL_TO_ALL_DYNAMIC,
                                                  .id = id,
                                                  .count = maxCountPerPeer,
                                                  .type = type,
                                                  .options = options});
}

dfcclResult_t dfcclRegisterSendRecv(dfcclContext_t ctx, dfcclCollId_t id, size_t count,
                                    dfcclDataType_t type, int from, int to,
                                    const dfcclCollOptions_t *options) {
  return register_checked(ctx, &(df_registration){.operation = DF_OP_SEND_RECV,
                                                  .id = id,
                                                  .count = count,
                                                  .type = type,
                                                  .root = from,
                                                  .options = options,
                                                  .to = to});
}

dfcclResult_t dfcclRegisterBarrier(dfcclContext_t ctx, dfcclCollId_t id,
                                   const dfcclCollOptions_t *options) {
  return register_checked(ctx, &(df_registration){.operation = DF_OP_BARRIER,
                                                  .id = id,
                                                  .count = 1,
                                                  .type = dfcclUint8,
                                                  .options = options});
}

dfcclResult_t dfcclRegisterScan(dfcclContext_t ctx, dfcclCollId_t id, size_t count,
                                dfcclDataType_t type, dfcclRedOp_t op, int exclusive,
                                const dfcclCollOptions_t *options) {
  DF_CHECK_CONTEXT(ctx);
  if (exclusive != 0 && exclusive != 1)
    return df_remember(
        ctx, df_fail(dfcclInvalidArgument, "exclusive is %d; it must be 0 or 1", exclusive));
  const df_operation operation = exclusive ? DF_OP_EXCLUSIVE_SCAN : DF_OP_SCAN;
  return register_checked(ctx, &(df_registration){.operation = operation,
                                                  .id = id,
                                                  .count = count,
                                                  .type = type,
                                                  .op = op,
                                                  .options = options});
}

static dfcclResult_t register_vector(dfcclContext_t ctx, const df_registration *registration,
                                     const df_vector *vector) {
  DF_CHECK_CONTEXT(ctx);
  return df_remember(ctx, df_register_vector(ctx, registration, vector));
}

dfcclResult_t dfcclRegisterAllGatherV(dfcclContext_t ctx, dfcclCollId_t id, const size_t *counts,
                                      const size_t *displs, dfcclDataType_t type,
                                      const dfcclCollOptions_t *options) {
  return register_vector(
      ctx,
      &(df_registration){
          .operation = DF_OP_ALL_GATHER_V, .id = id, .type = type, .options = options},
      &(df_vector){.recv_counts = counts, .recv_displs = displs});
}

dfcclResult_t dfcclRegisterReduceScatterV(dfcclContext_t ctx, dfcclCollId_t id,
                                          const size_t *counts, dfcclDataType_t type,
                                          dfcclRedOp_t op, const dfcclCollOptions_t *options) {
  return register_vector(ctx,
                         &(df_registration){.operation = DF_OP_REDUCE_SCATTER_V,
                                            .id = id,
                                            .type = type,
                                            .op = op,
                                            .options = options},
                         &(df_vector){.send_counts = counts});
}

dfcclResult_t dfcclRegisterGatherV(dfcclContext_t ctx, dfcclCollId_t id, size_t count,
                                   const size_t *counts, const size_t *displs, dfcclDataType_t type,
                                   int root, const dfcclCollOptions_t *options) {
  return register_vector(
      ctx,
      &(df_registration){
          .operation = DF_OP_GATHER_V, .id = id, .type = type, .root = root, .options = options},
      &(df_vector){.recv_counts = counts, .recv_displs = displs, .count = count});
}

dfcclResult_t dfcclRegisterScatterV(dfcclContext_t ctx, dfcclCollId_t id, const size_t *counts,
                                    const size_t *displs, size_t count, dfcclDataType_t type,
                                    int root, const dfcclCollOptions_t *options) {
  return register_vector(
      ctx,
      &(df_registration){
          .operation = DF_OP_SCATTER_V, .id = id, .type = type, .root = root, .options = options},
      &(df_vector){.send_counts = counts, .send_displs = displs, .count = count});
}

dfcclResult_t dfcclRegisterAllToAllV(dfcclContext_t ctx, dfcclCollId_t id, const size_t *sendCounts,
                                     const size_t *sendDispls, const size_t *recvCounts,
                                     const size_t *recvDispls, dfcclDataType_t type,
                                     const dfcclCollOptions_t *options) {
  return register_vector(
      ctx,
      &(df_registration){
          .operation = DF_OP_ALL_TO_ALL_V, .id = id, .type = type, .options = options},
      &(df_vector){.send_counts = sendCounts,
                   .send_displs = sendDispls,
                   .recv_counts = recvCounts,
                   .recv_displs = recvDispls});
}

dfcclResult_t dfcclRegisterNeighbours(dfcclContext_t ctx, dfcclCollId_t id, int nSends,
                                      const int *sendTo, const size_t *sendCounts, int nRecvs,
                                      const int *recvFrom, const size_t *recvCounts,
                                      dfcclDataType_t type, const dfcclCollOptions_t *options) {
  return register_vector(
      ctx,
      &(df_registration){.operation = DF_OP_NEIGHBOURS, .id = id, .type = type, .options = options},
      &(df_vector){.send_counts = sendCounts,
                   .recv_counts = recvCounts,
                   .send_to = sendTo,
                   .recv_from = recvFrom,
                   .n_sends = nSends,
                   .n_receives = nRecvs});
}

dfcclResult_t dfcclRedOpCreate(dfcclContext_t ctx, dfcclRedOp_t *op, dfcclRedOpFunction_t fn,
                               void *arg, int commutative) {
  DF_CHECK_CONTEXT(ctx);
  return df_remember(ctx, df_user_operator_create(ctx, op, fn, arg, commutative));
}

dfcclResult_t dfcclRedOpCreatePreMulSum(dfcclContext_t ctx, dfcclRedOp_t *op, const void *scalar,
                                        dfcclDataType_t type, int scalarOnDevice) {
  DF_CHECK_CONTEXT(ctx);
  return df_remember(ctx, df_user_operator_create_scaled(ctx, op, scalar, type, scalarOnDevice));
}

dfcclResult_t dfcclRedOpDestroy(dfcclContext_t ctx, dfcclRedOp_t op) {
  DF_CHECK_CONTEXT(ctx);
  if ((int)op >= DF_FIRST_USER_OPERATOR &&
      df_user_operator_destroy((uint32_t)op - DF_FIRST_USER_OPERATOR))
    return dfcclSuccess;
  return df_remember(ctx, df_fail(dfcclInvalidArgument,
                                  "reduction operator %d was not made by dfcclRedOpCreate*, or was "
                                  "destroyed",
                                  (int)op));
}

dfcclResult_t dfcclDeregister(dfcclContext_t ctx, dfcclCollId_t id) {
  DF_CHECK_CONTEXT(ctx);
  return df_remember(ctx, df_deregister(ctx, id));
}
