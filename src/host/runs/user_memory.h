/* dfcclMemAlloc. */
#ifndef DF_HOST_RUNS_USER_MEMORY_H
#define DF_HOST_RUNS_USER_MEMORY_H

#include "host/state/context.h"

dfcclResult_t df_memory_alloc(dfcclContext_t context, void **ptr, size_t bytes);
dfcclResult_t df_memory_free(dfcclContext_t context, void *ptr);
uint32_t df_memory_mapping(dfcclContext_t context, const void *ptr); /* [lock] 0: not reachable */
void df_memory_free_unmapped(dfcclContext_t context); /* Frees what no peer maps any more. */
/* [lock] The collective fails: peers may still read what its runs in the daemon have lent. */
void df_memory_keep_lent(dfcclContext_t context, const df_coll *coll);
/* Frees all; keep: what peers have mapped stays until the process ends. */
void df_memory_release(dfcclContext_t context, int keep);

#endif
