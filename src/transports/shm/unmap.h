#ifndef DF_TRANSPORTS_SHM_UNMAP_H
#define DF_TRANSPORTS_SHM_UNMAP_H

#include "base/mutex.h"
#include "transports/shm/endpoint.h"

/* Closes the mapping as soon as possible. may_be_read: a failed run may still read it. */
void df_unmap(df_shm_endpoint *endpoint, uint32_t rank, uint64_t id,
              int may_be_read) DF_RANK_LOCKED;
void df_unmap_all(df_shm_endpoint *endpoint,
                  uint32_t rank) DF_RANK_LOCKED; /* The same for all mappings of a rank. */
void df_unmap_due(df_shm_endpoint *endpoint);    /* called by the service thread */
/* The peer has unmapped a segment; id 0: all of them. */
void df_unmapped(df_shm_endpoint *endpoint, uint32_t rank, uint64_t id) DF_RANK_LOCKED;
/* Removes the mappings of dead peers, which have none any more. */
void df_unmap_disconnected(df_shm_endpoint *endpoint) DF_RANK_LOCKED;
int df_is_mapped(const df_shm_endpoint *endpoint, const df_shared *shared) DF_RANK_LOCKED;
/* Called after BYE. Returns 0 if a process still maps memory of the device of this rank. */
int df_await_unmapped(df_shm_endpoint *endpoint);

#endif
