/* Memory that ranks of one host map, for shm (the host's) and ipc (a GPU's). [lock]: the caller
 * holds the context's lock, which protects all of this. */
#ifndef DF_TRANSPORTS_SHM_ENDPOINT_H
#define DF_TRANSPORTS_SHM_ENDPOINT_H

#include "primitives/mapped_ranges.h"
#include "transports/shm/segment.h"
#include "transports/shm/shared_memory.h"
#include "transports/transport.h"

typedef struct df_shm_peer {
  df_bell *bell;
  df_segment *segments;
  df_mapped_ranges
      *mapped_ranges; /* over segments to lend from; NULL: see df_shm_have_mapped_ranges */
  uint64_t *told;     /* ids of our ring segments that it knows */
  uint32_t n_told;
  int maps;    /* it may map memory of our device */
  int closing; /* our mappings of its device must go */
} df_shm_peer;

/* Peers may have mappings of it. */
typedef struct df_shared {
  struct df_shared *next;
  const df_segment *segment;
  uint64_t *mapping;  /* [n_ranks] the caller's */
  int is_unshared;    /* peers have been told that it goes */
  uint8_t *is_mapped; /* [n_ranks] 1: the peer may map the device's memory */
} df_shared;

typedef struct df_shm_endpoint {
  df_endpoint base;
  df_shared_memory memory;
  df_segment *home;   /* holds the work bell */
  df_shm_peer *peers; /* [n_ranks] */
  df_arena arena;
  df_arena commons;
  struct df_common_segment *common_segments;
  struct df_common *common_users;
  df_shared *shared;
  uint64_t next_segment_id; /* The next segment that is not for rings. */
  int unmaps_due;           /* The service thread has mappings to close or memory to free. */
} df_shm_endpoint;

typedef struct df_shm_offer {
  uint64_t segment; /* its number; within a process its address */
  uint64_t offset;
  uint32_t n_slots;
  uint16_t release_mask; /* the receiver's: both ends must agree */
  uint16_t reserved;
  uint8_t unused[40];
} df_shm_offer;
DF_STATIC_ASSERT(sizeof(df_shm_offer) == DF_OFFER_BYTES, "an offer holds it");

extern const df_transport df_transport_shm;

dfcclResult_t df_shm_open(df_endpoint **endpoint, const df_endpoint_owner *owner);
void df_shm_close(df_endpoint *endpoint, int keep);
/* [lock] Every peer must have the home before it hears of anything else. */
void df_shm_tell_home(df_shm_endpoint *endpoint);
/* [lock] NULL: the peer has not said where its bell is. */
df_bell *df_shm_bell(df_shm_endpoint *endpoint, uint32_t rank);
/* [lock] 1: it is a device's, and the peer will map it. */
int df_shm_offer_segment(df_shm_endpoint *endpoint, uint32_t rank, const df_segment *segment,
                         uint64_t use);

/* [lock] Makes them, 32 KB, when a link receives from the peer or when it lends. Nothing needs any of a
 * local peer, or if a device follows addresses. 0: no memory. */
int df_shm_have_mapped_ranges(df_shm_endpoint *endpoint, uint32_t rank);

dfcclResult_t df_shm_accept(df_endpoint *endpoint, const df_route *route, df_patience *patience,
                            df_offer *offer, df_link_handle **handle);
dfcclResult_t df_shm_connect(df_endpoint *endpoint, const df_route *route, df_patience *patience,
                             const df_offer *offer, df_link_handle **handle);
void df_shm_release(df_endpoint *endpoint, df_link_handle *handle);

void df_shm_share(df_endpoint *endpoint, df_segment *segment, uint64_t *mapping);
int df_shm_unshare(df_endpoint *endpoint, df_segment *segment, int may_be_read);
/* [lock] address: the peer's. */
void df_shm_mapped(df_shm_endpoint *endpoint, uint32_t peer, uint64_t segment, uint64_t address);
void df_shm_subscribe(df_shm_endpoint *endpoint);

#endif
