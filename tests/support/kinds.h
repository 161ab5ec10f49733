/* The public functions, by kind of collective. The names differ from the library's own, so that
 * tests of its parts can use them too. */
#ifndef DF_TESTS_SUPPORT_KINDS_H
#define DF_TESTS_SUPPORT_KINDS_H

#include "dfccl.h"
#include "support/reference.h"

dfcclResult_t df_register_kind(dfcclContext_t ctx, dfcclCollId_t id, const df_collective *coll,
                               const dfcclCollOptions_t *options);
dfcclResult_t df_run_kind(dfcclContext_t ctx, dfcclCollId_t id, df_kind kind, const void *send,
                          void *recv, dfcclCallback_t callback, void *arg);

#endif
