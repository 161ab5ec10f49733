/* Slots that several peers read. [lock]: the caller holds context->lock. */
#ifndef DF_TRANSPORTS_SHM_COMMON_SLOTS_H
#define DF_TRANSPORTS_SHM_COMMON_SLOTS_H

#include "host/context.h"

void df_common_reserve(dfcclContext_t context, df_coll *coll); /* [lock] when its links stand */
void df_common_mapped(dfcclContext_t context, uint32_t peer, uint64_t segment,
                      uint64_t address);                    /* [lock] */
void df_common_give(dfcclContext_t context, df_coll *coll); /* [lock] */
df_segment *df_common_dissolve(dfcclContext_t context);

#endif
