#ifndef DF_TRANSPORTS_SHM_COMMON_SLOTS_H
#define DF_TRANSPORTS_SHM_COMMON_SLOTS_H

#include "base/mutex.h"
#include "transports/shm/endpoint.h"

/* The common slots of one collective; the record of the collective on the host embeds it. */
typedef struct df_common {
  struct df_common *next;
  df_range range;
  df_run_words *words;
  uint32_t *readers; /* [n_readers] ranks in other processes, one entry for each message */
  uint32_t n_readers;
} df_common;

/* Returns the number of messages for ranks in other processes. ranks: of the group. */
uint32_t df_common_count_readers(const df_shm_endpoint *endpoint, const df_plan *plan,
                                 const uint32_t *ranks);
/* Reserves common slots when the links are connected. depth: slots of each block, a power of two.
 * If there is no memory, messages use the slots of the links. */
void df_common_reserve(df_shm_endpoint *endpoint, df_common *common, const df_plan *plan,
                       const uint32_t *ranks, uint64_t bytes, uint32_t depth,
                       df_run_words *words) DF_RANK_LOCKED;
/* A peer has mapped a segment at `address` in its process. */
void df_common_mapped(df_shm_endpoint *endpoint, uint32_t peer, uint64_t segment,
                      uint64_t address) DF_RANK_LOCKED;
/* Another process has the number of the peer, and has mapped nothing. No run uses common slots that
 * the former one read. */
void df_common_replaced(df_shm_endpoint *endpoint, uint32_t peer) DF_RANK_LOCKED;
void df_common_give(df_shm_endpoint *endpoint, df_common *common) DF_RANK_LOCKED;
/* The record was copied to another place, which has no common slots of its own. */
void df_common_moved(df_shm_endpoint *endpoint, const df_common *from,
                     df_common *to) DF_RANK_LOCKED;
df_segment *df_common_dissolve(df_shm_endpoint *endpoint);

#endif
