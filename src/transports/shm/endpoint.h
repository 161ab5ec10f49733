/* Memory that ranks of one host map, for the transports shm (of the host) and ipc (of a GPU).
 * [lock]: the caller holds the context's lock, which protects all of this. */
#ifndef DF_TRANSPORTS_SHM_ENDPOINT_H
#define DF_TRANSPORTS_SHM_ENDPOINT_H

#include "primitives/windows.h"
#include "transports/shm/shared_memory.h"
#include "transports/shm/segment.h"
#include "transports/transport.h"

/* Memory of one peer, as this rank sees it. */
typedef struct df_shm_peer {
  df_bell *bell;        /* once known */
  df_segment *segments; /* mapped here */
  df_windows *windows;  /* over segments it may lend from; NULL: a local peer */
  uint64_t *told;       /* ids of our segments of rings that it knows */
  uint32_t n_told;
  int maps;    /* it may have memory of our device mapped */
  int closing; /* our mappings of its device's memory must go; service thread */
} df_shm_peer;

/* Memory of which peers may have mappings. */
typedef struct df_shared {
  struct df_shared *next;
  const df_segment *segment;
  uint64_t *reach;    /* [n_ranks] the caller's */
  int is_unshared;    /* peers have been told that it goes */
  uint8_t *is_mapped; /* [n_ranks] 1: the peer may have the device's memory mapped */
} df_shared;

typedef struct df_shm_endpoint {
  df_endpoint base;
  df_shared_memory memory;
  df_segment *home;   /* holds the work bell */
  df_shm_peer *peers; /* [n_ranks] */
  df_arena arena;     /* rings; and what a device puts there */
  df_arena commons;   /* common slots */
  struct df_common_segment *common_segments;
  struct df_common *common_users; /* that have a range of them */
  df_shared *shared;
  uint64_t next_segment_id; /* of memory that is not for rings */
  int unmaps_due;           /* the service thread's: close mappings, or give memory back */
} df_shm_endpoint;

/* How a sender finds rings of this transport. */
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

/* endpoint.c */
dfcclResult_t df_shm_open(df_endpoint **endpoint, const df_endpoint_owner *owner);
void df_shm_close(df_endpoint *endpoint, int keep);
/* [lock] Every peer must have the home before it hears of anything else. */
void df_shm_tell_home(df_shm_endpoint *endpoint);
/* [lock] NULL: the peer has not said where its bell is. */
df_bell *df_shm_bell(df_shm_endpoint *endpoint, uint32_t rank);
/* [lock] 1: it is a device's, and the peer will map it. */
int df_shm_offer_segment(df_shm_endpoint *endpoint, uint32_t rank, const df_segment *segment,
                         uint64_t use);

/* rings.c */
dfcclResult_t df_shm_accept(df_endpoint *endpoint, const df_route *route, df_patience *patience,
                            df_offer *offer, df_ticket **ticket);
dfcclResult_t df_shm_connect(df_endpoint *endpoint, const df_route *route, df_patience *patience,
                             const df_offer *offer, df_ticket **ticket);
void df_shm_release(df_endpoint *endpoint, df_ticket *ticket);

/* sharing.c */
void df_shm_share(df_endpoint *endpoint, df_segment *segment, uint64_t *reach);
int df_shm_unshare(df_endpoint *endpoint, df_segment *segment, int may_be_read);
/* [lock] The peer sees that segment at that address. */
void df_shm_mapped(df_shm_endpoint *endpoint, uint32_t peer, uint64_t segment, uint64_t address);
void df_shm_subscribe(df_shm_endpoint *endpoint);

#endif
