/* Mappings of device memory that must go. [lock]: the caller holds context->lock. */
#ifndef DF_TRANSPORTS_IPC_UNMAP_H
#define DF_TRANSPORTS_IPC_UNMAP_H

#include "host/context.h"

/* [lock] When it can be done. may_be_read: by a run that failed. */
void df_unmap(dfcclContext_t context, uint32_t rank, uint64_t id, int may_be_read);
void df_unmap_all(dfcclContext_t context, uint32_t rank); /* [lock] the same */
void df_unmap_due(dfcclContext_t context);                /* the service thread */
void df_unmapped(dfcclContext_t context, uint32_t rank,
                 uint64_t id); /* [lock] the peer has unmapped it */
int df_is_mapped(dfcclContext_t context, const df_user_memory *memory); /* [lock] */
/* After BYE: until no process has our device's memory mapped. 0: some still have. */
int df_await_unmapped(dfcclContext_t context);

#endif
