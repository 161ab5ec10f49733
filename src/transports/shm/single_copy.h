/* Which peers may read this process by calls, and which processes this rank may read
 * (primitives/foreign_memory.h). */
#ifndef DF_TRANSPORTS_SHM_SINGLE_COPY_H
#define DF_TRANSPORTS_SHM_SINGLE_COPY_H

#include "base/mutex.h"
#include "primitives/foreign_memory.h"
#include "transports/shm/endpoint.h"

/* Returns 1 if this rank can read the memory of the peer's process. The first call for a peer tries
 * it; the peer's mapped ranges exist. */
int df_single_copy_may_read(df_shm_endpoint *endpoint, uint32_t rank) DF_RANK_LOCKED;
/* The peer has offered to read by calls, so the links may lend so. ways: [n_blocks], opened. */
void df_single_copy_lend(const df_shm_endpoint *endpoint, const df_route *route,
                         df_ways *ways) DF_RANK_LOCKED;

typedef struct df_single_copy_counts {
  uint32_t readable, refused; /* peers whose memory this rank can read by calls, and cannot */
  uint64_t reads, failures;   /* moves that were made by calls, and those that failed */
} df_single_copy_counts;
df_single_copy_counts df_single_copy_count(const df_shm_endpoint *endpoint) DF_RANK_LOCKED;

#endif
