#include "support/kinds.h"

dfcclResult_t df_register_kind(dfcclContext_t ctx, dfcclCollId_t id, const df_collective *coll,
                               const dfcclCollOptions_t *options) {
  switch (coll->kind) {
#define CALL(ID, NAME, ...)                                                                        \
  case DF_##ID:                                                                                    \
    return dfcclRegister##NAME(ctx, id, __VA_ARGS__);
#define DF_API_REDUCTION(ID, NAME) CALL(ID, NAME, coll->count, coll->type, coll->op, options)
#define DF_API_ROOTED_REDUCTION(ID, NAME)                                                          \
  CALL(ID, NAME, coll->count, coll->type, coll->op, coll->root, options)
#define DF_API_ROOTED(ID, NAME) CALL(ID, NAME, coll->count, coll->type, coll->root, options)
#define DF_API_MOVE(ID, NAME) CALL(ID, NAME, coll->count, coll->type, options)
#define DF_API_PAIR(ID, NAME) CALL(ID, NAME, coll->count, coll->type, 0, coll->members - 1, options)
#define DF_API_BARRIER(ID, NAME) CALL(ID, NAME, options)
#define DF_API_SCAN(ID, NAME) CALL(ID, Scan, coll->count, coll->type, coll->op, 0, options)
#define DF_API_EXCLUSIVE_SCAN(ID, NAME)                                                            \
  CALL(ID, Scan, coll->count, coll->type, coll->op, 1, options)
#define DF_OPERATION(ID, NAME, word, family, ...) family(ID, NAME)
#include "plans/operations.def"
#undef CALL
#undef DF_API_REDUCTION
#undef DF_API_ROOTED_REDUCTION
#undef DF_API_ROOTED
#undef DF_API_MOVE
#undef DF_API_PAIR
#undef DF_API_BARRIER
#undef DF_API_SCAN
#undef DF_API_EXCLUSIVE_SCAN
  default:
    return dfcclInvalidArgument;
  }
}

dfcclResult_t df_run_kind(dfcclContext_t ctx, dfcclCollId_t id, df_kind kind, const void *send,
                          void *recv, dfcclCallback_t callback, void *arg) {
  switch (kind) {
#define RUN(ID, NAME)                                                                              \
  case DF_##ID:                                                                                    \
    return dfcclRun##NAME(ctx, id, send, recv, callback, arg);
#define DF_API_REDUCTION RUN
#define DF_API_ROOTED_REDUCTION RUN
#define DF_API_ROOTED RUN
#define DF_API_MOVE RUN
#define DF_API_PAIR RUN
#define DF_API_SCAN RUN
#define DF_API_EXCLUSIVE_SCAN(ID, NAME) RUN(ID, Scan)
#define DF_API_BARRIER(ID, NAME)                                                                   \
  case DF_##ID:                                                                                    \
    return dfcclRun##NAME(ctx, id, callback, arg);
#define DF_OPERATION(ID, NAME, word, family, ...) family(ID, NAME)
#include "plans/operations.def"
  default:
    return dfcclInvalidArgument;
  }
}
