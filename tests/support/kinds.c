#include "support/kinds.h"

dfcclResult_t df_register_kind(dfcclContext_t ctx, dfcclCollId_t id, const df_collective *coll,
                               const dfcclCollOptions_t *options) {
  switch (coll->kind) {
  case DF_ALL_REDUCE:
    return dfcclRegisterAllReduce(ctx, id, coll->count, coll->type, coll->op, options);
  case DF_REDUCE:
    return dfcclRegisterReduce(ctx, id, coll->count, coll->type, coll->op, coll->root, options);
  case DF_BROADCAST:
    return dfcclRegisterBroadcast(ctx, id, coll->count, coll->type, coll->root, options);
  case DF_ALL_GATHER:
    return dfcclRegisterAllGather(ctx, id, coll->count, coll->type, options);
  case DF_REDUCE_SCATTER:
    return dfcclRegisterReduceScatter(ctx, id, coll->count, coll->type, coll->op, options);
  case DF_GATHER:
    return dfcclRegisterGather(ctx, id, coll->count, coll->type, coll->root, options);
  case DF_SCATTER:
    return dfcclRegisterScatter(ctx, id, coll->count, coll->type, coll->root, options);
  case DF_BARRIER:
    return dfcclRegisterBarrier(ctx, id, options);
  case DF_SCAN:
  case DF_EXCLUSIVE_SCAN:
    return dfcclRegisterScan(ctx, id, coll->count, coll->type, coll->op,
                             coll->kind == DF_EXCLUSIVE_SCAN, options);
  case DF_SEND_RECV:
    return dfcclRegisterSendRecv(ctx, id, coll->count, coll->type, 0, coll->members - 1, options);
  default:
    return dfcclRegisterAllToAll(ctx, id, coll->count, coll->type, options);
  }
}

dfcclResult_t df_run_kind(dfcclContext_t ctx, dfcclCollId_t id, df_kind kind, const void *send,
                          void *recv, dfcclCallback_t callback, void *arg) {
  switch (kind) {
  case DF_ALL_REDUCE:
    return dfcclRunAllReduce(ctx, id, send, recv, callback, arg);
  case DF_REDUCE:
    return dfcclRunReduce(ctx, id, send, recv, callback, arg);
  case DF_BROADCAST:
    return dfcclRunBroadcast(ctx, id, send, recv, callback, arg);
  case DF_ALL_GATHER:
    return dfcclRunAllGather(ctx, id, send, recv, callback, arg);
  case DF_REDUCE_SCATTER:
    return dfcclRunReduceScatter(ctx, id, send, recv, callback, arg);
  case DF_GATHER:
    return dfcclRunGather(ctx, id, send, recv, callback, arg);
  case DF_SCATTER:
    return dfcclRunScatter(ctx, id, send, recv, callback, arg);
  case DF_BARRIER:
    return dfcclRunBarrier(ctx, id, callback, arg);
  case DF_SCAN:
  case DF_EXCLUSIVE_SCAN:
    return dfcclRunScan(ctx, id, send, recv, callback, arg);
  case DF_SEND_RECV:
    return dfcclRunSendRecv(ctx, id, send, recv, callback, arg);
  default:
    return dfcclRunAllToAll(ctx, id, send, recv, callback, arg);
  }
}
