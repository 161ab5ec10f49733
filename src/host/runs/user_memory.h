/* Memory of dfcclMemAlloc. */
#ifndef DF_HOST_RUNS_USER_MEMORY_H
#define DF_HOST_RUNS_USER_MEMORY_H

#include "base/mutex.h"
#include "host/state/context.h"

dfcclResult_t df_memory_alloc(dfcclContext_t context, void **ptr, size_t bytes);
dfcclResult_t df_memory_free(dfcclContext_t context, void *ptr);
/* Index of the mapping that contains ptr; 0: peers cannot reach it. */
uint32_t df_memory_mapping(dfcclContext_t context, const void *ptr) DF_RANK_LOCKED;
/* Frees the retired memory that no peer has mapped any more. */
void df_memory_free_unmapped(dfcclContext_t context);
/* Marks memory of a failed collective: peers may still read the buffers that its runs in the daemon
 * have lent. */
void df_memory_keep_lent(dfcclContext_t context, const df_coll *coll) DF_RANK_LOCKED;
/* Frees all memory; keep: memory that peers have mapped stays until the process ends. */
void df_memory_release(dfcclContext_t context, int keep) DF_RANK_LOCKED;

#endif
