/* The answers of dfcclGetMemory and dfcclGetCollectiveMemory. */
#ifndef DF_HOST_API_MEMORY_USE_H
#define DF_HOST_API_MEMORY_USE_H

#include "host/state/context.h"

void df_get_memory(dfcclContext_t context, dfcclMemory_t *memory);
dfcclResult_t df_get_collective_memory(dfcclContext_t context, dfcclCollId_t id,
                                       dfcclMemory_t *memory);

#endif
