/* Memory that ranks of one host map: host memory (shm) and GPU memory (ipc). The lock of the rank
 * protects all of it. */
#ifndef DF_TRANSPORTS_SHM_ENDPOINT_H
#define DF_TRANSPORTS_SHM_ENDPOINT_H

#include "base/mutex.h"
#include "primitives/mapped_ranges.h"
#include "transports/shm/segment.h"
#include "transports/shm/shared_memory.h"
#include "transports/transport.h"

typedef struct df_shm_peer {
  df_bell *bell;
  df_segment *segments;
  df_mapped_ranges *
      /* mapped ranges of segments to lend from; NULL: see df_shm_have_mapped_ranges */
      mapped_ranges;
  uint64_t *announced; /* ids of the ring segments that were announced to the peer */
  uint32_t n_announced;
  /* [2 * DF_RING_KINDS] of the latest links to the peer; the second half: of those that lend by
   * calls; or NULL */
  df_ways_memory *ways;
  int maps;      /* the peer may have mapped memory of the device of this rank */
  int closing;   /* the mappings of memory of its device must be closed */
  int is_probed; /* this rank has tried to read the memory of its process */
} df_shm_peer;

/* Memory of a process whose rank belongs to another process now. Links of collectives that have not
 * run since still point to it. */
typedef struct df_shm_former {
  struct df_shm_former *next;
  df_shm_peer peer;
  uint64_t since_ns; /* when its rank was taken over */
} df_shm_former;

/* Memory that peers may have mapped. */
typedef struct df_shared {
  struct df_shared *next;
  const df_segment *segment;
  uint64_t *mapping;  /* [n_ranks] belongs to the caller */
  int is_unshared;    /* peers were requested to unmap it */
  uint8_t *is_mapped; /* [n_ranks] 1: the peer may have mapped the memory of the device */
} df_shared;

typedef struct df_shm_endpoint {
  df_endpoint base;
  df_shared_memory memory;
  df_segment *home;   /* df_home: holds the work bell */
  uint64_t number;    /* a random number, which peers read to identify this process */
  df_shm_peer *peers; /* [n_ranks] */
  df_shm_former *formers;
  df_arena arena;
  df_arena commons;
  struct df_common_segment *common_segments;
  struct df_common *common_users;
  df_shared *shared;
  uint64_t ways_bytes;      /* memory of the ways of all links */
  uint64_t next_segment_id; /* id of the next segment that is not for rings */
  int unmaps_due;           /* the service thread has mappings to close or memory to free */
} df_shm_endpoint;

typedef struct df_shm_offer {
  uint64_t segment; /* its number; within a process its address */
  uint64_t offset;
  uint32_t n_slots;
  uint16_t release_mask;   /* release mask of the receiver; both ends must agree */
  uint16_t reads_by_calls; /* 1: the receiver can read the memory of the sender's process */
  uint8_t unused[40];
} df_shm_offer;
DF_STATIC_ASSERT(sizeof(df_shm_offer) == DF_OFFER_BYTES, "an offer holds it");

extern const df_transport df_transport_shm;

dfcclResult_t df_shm_open(df_endpoint **endpoint, const df_endpoint_owner *owner);
void df_shm_close(df_endpoint *endpoint, int keep);
/* This rank leaves: peers may still read what it gives back from now on. */
void df_shm_leave(df_shm_endpoint *endpoint);
/* Announces the home segment. Every peer must have it before any other message. */
void df_shm_announce_home(df_shm_endpoint *endpoint) DF_RANK_LOCKED;
/* The process of the rank has ended, and another one takes its number: keeps the memory of the
 * former process, and announces this rank's memory to the new one. 0: no memory. */
int df_shm_replace_peer(df_shm_endpoint *endpoint, uint32_t rank) DF_RANK_LOCKED;
/* No link points to memory of former processes any more: frees it, if other threads cannot use it
 * either. */
void df_shm_free_formers(df_shm_endpoint *endpoint) DF_RANK_LOCKED;
/* Returns NULL if the peer has not announced its bell yet. */
df_bell *df_shm_bell(df_shm_endpoint *endpoint, uint32_t rank) DF_RANK_LOCKED;
/* Returns 1 if it is the memory of a device, and the peer will map it. */
int df_shm_offer_segment(df_shm_endpoint *endpoint, uint32_t rank, const df_segment *segment,
                         uint64_t use) DF_RANK_LOCKED;

/* Makes the mapped ranges of a peer (32 KB) when a link receives from the peer or when the peer
 * lends. They are not needed for a local peer, or if a device follows addresses. Returns 0 if there
 * is no memory. */
int df_shm_have_mapped_ranges(df_shm_endpoint *endpoint, uint32_t rank) DF_RANK_LOCKED;

dfcclResult_t df_shm_accept(df_endpoint *endpoint, const df_route *route, df_patience *patience,
                            df_offer *offer, df_link_handle **handle) DF_RANK_LOCKED;
dfcclResult_t df_shm_connect(df_endpoint *endpoint, const df_route *route, df_patience *patience,
                             const df_offer *offer, df_link_handle **handle);
void df_shm_release(df_endpoint *endpoint, df_link_handle *handle);
void df_shm_add_memory(df_endpoint *endpoint, const df_link_handle *handle, df_ring_memory *memory);
void df_shm_add_all_memory(df_endpoint *endpoint, df_ring_memory *memory);

/* Offers all shared memory to the rank, which has not mapped any. */
void df_shm_share_again(df_shm_endpoint *endpoint, uint32_t rank) DF_RANK_LOCKED;
void df_shm_share(df_endpoint *endpoint, df_segment *segment, uint64_t *mapping) DF_RANK_LOCKED;
int df_shm_unshare(df_endpoint *endpoint, df_segment *segment, int may_be_read) DF_RANK_LOCKED;
/* A peer has mapped a segment at `address` in its process. */
void df_shm_mapped(df_shm_endpoint *endpoint, uint32_t peer, uint64_t segment,
                   uint64_t address) DF_RANK_LOCKED;
void df_shm_subscribe(df_shm_endpoint *endpoint);

#endif
