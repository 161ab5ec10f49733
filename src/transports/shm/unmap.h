#ifndef DF_TRANSPORTS_SHM_UNMAP_H
#define DF_TRANSPORTS_SHM_UNMAP_H

#include "base/mutex.h"
#include "transports/shm/endpoint.h"

/* Closes the mapping when possible. may_be_read: by a failed run. */
void df_unmap(df_shm_endpoint *endpoint, uint32_t rank, uint64_t id,
              int may_be_read) DF_RANK_LOCKED;
void df_unmap_all(df_shm_endpoint *endpoint, uint32_t rank) DF_RANK_LOCKED; /* The same */
void df_unmap_due(df_shm_endpoint *endpoint);                               /* the service thread */
/* The peer has unmapped it; id 0: all of it. */
void df_unmapped(df_shm_endpoint *endpoint, uint32_t rank, uint64_t id) DF_RANK_LOCKED;
/* A dead peer maps nothing. */
void df_unmap_disconnected(df_shm_endpoint *endpoint) DF_RANK_LOCKED;
int df_is_mapped(const df_shm_endpoint *endpoint, const df_shared *shared) DF_RANK_LOCKED;
/* After BYE. 0: some process still maps our device's memory. */
int df_await_unmapped(df_shm_endpoint *endpoint);

#endif
