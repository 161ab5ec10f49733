/*
 * Transport: one way by which the messages of a link reach another rank. A table of functions for
 * each way, and an endpoint for each context that uses it. Set-up goes through the table. The step
 * does not: it writes and reads rings in memory, whoever carries their contents.
 *
 * A pair of ranks uses the transport of the least cost, and the links of one collective may use
 * several. To set up one link, for all blocks of a collective:
 *
 *   receiver   accept    reserves the rings, fills the receiving ends, returns an offer
 *              ...       the host sends the offer to the sender, in a message
 *   sender     connect   takes the offer, fills the sending ends
 *   both       release   when neither block uses its end any more
 *
 * Two kinds of transport exist. In the first, stores arrive by themselves: both ends point into one
 * ring, which both ranks have mapped (shm, ipc). In the second, each rank has a ring in its own
 * memory, and a pump in each process plays the far neighbour of it: it sees what the block has
 * committed, carries it, and gives the slot back (wire).
 *
 * Locks. [lock]: the caller holds the context's lock. Where a function says that it may wait, it
 * lets the lock go meanwhile, and the caller looks again at all that it knew. Nothing else waits.
 * pump and is_due are called without the lock, by any thread.
 *
 * Errors. Functions that return dfcclResult_t record a sentence (df_fail). After a failure nothing
 * is left that has to be released.
 */
#ifndef DF_TRANSPORTS_TRANSPORT_H
#define DF_TRANSPORTS_TRANSPORT_H

#include <pthread.h>

#include "control/post.h"
#include "plans/plan.h"
#include "primitives/link.h"

struct df_segment;                                /* transports/shm/segment.h */
typedef struct df_shared_memory df_shared_memory; /* transports/shm/shared_memory.h */

typedef struct df_transport df_transport;

/* What a rank tells all others at start, so that each pair finds its transport. */
typedef struct df_transport_card {
  uint64_t host;       /* the same number: ranks of one host, which can share memory */
  uint32_t backend;    /* dfcclBackend_t: whose memory the rings are in */
  uint32_t wants_wire; /* 1: the rank shares no memory with other processes (DFCCL_NET=tcp) */
} df_transport_card;

/* Where a sender finds the rings that a receiver has reserved. Opaque to all but the transport. It
 * comes from another process: connect checks it. */
typedef struct df_offer {
  uint8_t bytes[DF_OFFER_BYTES];
} df_offer;

/* How a rank likes the rings of one link. */
typedef struct df_ring {
  uint32_t stride;       /* bytes from slot to slot */
  uint32_t n_slots;      /* a power of two, at most DF_MAX_LINK_SLOTS */
  uint16_t release_mask; /* as in df_link */
  uint16_t far_ns;       /* the sender's, as in df_link */
} df_ring;

/* One link of a collective, seen from this rank. */
typedef struct df_route {
  uint32_t peer; /* rank in the context */
  uint32_t n_blocks;
  df_link *ends;     /* to be filled: block b's end is ends[b * end_step] */
  uint32_t end_step; /* ends of one block */

  df_ring ring;       /* the receiver's of all rings; with a pump, also the sender's of its own */
  uint32_t slots_min; /* the least slots that both have agreed on */
  uint8_t payload_offset;

  /* What the messages are. Only a pump has to know. */
  const df_plan *plan;
  uint32_t which;       /* plan->links[which]: messages in a loop, and the direction */
  const df_part *parts; /* [n_blocks] */
  uint8_t element_bytes;
} df_route;

/* How long set-up may hold the lock. Rings get their pages when they are first written, which takes
 * far longer than all else. */
typedef struct df_patience {
  int may_wait;        /* the lock may be let go */
  uint32_t pages_left; /* else: pages that may be written; lessened by those that were */
} df_patience;

/* Rings that were accepted or connected. Each transport has a struct of its own for it. */
typedef struct df_ticket df_ticket;

/* Who opens an endpoint. All of it stays as it is until the endpoint is closed. */
typedef struct df_endpoint_owner {
  void *owner; /* first argument of the functions */
  uint32_t rank, n_ranks;
  pthread_mutex_t *lock;          /* the context's */
  const uint8_t *serves;          /* [n_ranks] 1: this transport joins the pair */
  df_bell *bell;                  /* the rank's work bell: wakes its blocks. NULL: shm makes it */
  df_control *control;            /* messages, the service thread, and which ranks are local */
  const df_shared_memory *memory; /* rings that both ranks map lie in such memory */

  /* The service thread shall look at what is due. Any thread. */
  void (*wake)(void *owner);
  /* [lock] 1: no run of a collective with that member is in the daemon. */
  int (*is_quiet)(void *owner, uint32_t peer);
  /* [lock] 1: runs have failed, and blocks of peers may still read what they were lent. */
  int (*is_broken)(void *owner);
  /* [lock] Nothing goes on without what has just failed. The service thread. */
  void (*failed)(void *owner, dfcclResult_t status, const char *sentence);
  /* unshare may return 1 now for memory that peers had mapped, and the device may be waited for.
   * The service thread. */
  void (*unmapped)(void *owner);
} df_endpoint_owner;

/* What every endpoint begins with. */
typedef struct df_endpoint {
  const df_transport *transport;
  df_endpoint_owner owner;
  int fd; /* readable when the pump is due because of the network; -1: there is no pump */
} df_endpoint;

struct df_transport {
  const char *name;

  /* What it costs to send by this transport, for ranks with these cards; 0: it cannot. */
  uint32_t (*cost)(const df_transport_card *mine, const df_transport_card *theirs);

  /* An endpoint, which is given back by close. Control messages may be sent from now on.
   * dfcclOutOfMemory, dfcclSystemError, dfcclUnhandledCudaError. */
  dfcclResult_t (*open)(df_endpoint **endpoint, const df_endpoint_owner *owner);
  /* When no other thread uses it any more. Rings that were not released go with it. keep: what
   * peers may have mapped stays until the process ends. */
  void (*close)(df_endpoint *endpoint, int keep);

  /* [lock] Offers memory of this rank to all peers that the endpoint serves, so that messages may
   * lend it in place of copying it. When a peer can read it, writes to reach[peer] what is to be
   * added to an address for that peer; until then the entry stays as it is (DF_OUT_OF_REACH). With
   * a pump the memory is read in this process: 0, at once. The segment and reach stay the caller's.
   */
  void (*share)(df_endpoint *endpoint, struct df_segment *segment, uint64_t *reach);
  /* [lock] The memory will go. No run lends it any more. may_be_read: runs that failed have lent
   * it, and a peer may not have noticed. Returns 1 when the segment may be destroyed and reach
   * freed, 0 when a peer has it mapped: call again later. */
  int (*unshare)(df_endpoint *endpoint, struct df_segment *segment, int may_be_read);

  /* [lock] Reserves rings in which this rank receives, clears what a block looks at first, fills
   * the receiving ends, and writes the offer for the sender. The peer writes to the rings until it
   * has said that it does not: until release they are nobody else's. dfcclInProgress: it would take
   * longer than patience allows, and nothing was done; call again when it may wait. Else
   * dfcclOutOfMemory, dfcclSystemError, dfcclUnhandledCudaError. */
  dfcclResult_t (*accept)(df_endpoint *endpoint, const df_route *route, df_patience *patience,
                          df_offer *offer, df_ticket **ticket);
  /* [lock] Takes the peer's offer and fills the sending ends. *ticket: NULL if nothing is held.
   * dfcclInProgress as accept. dfcclRemoteError: the offer makes no sense. Else as accept. */
  dfcclResult_t (*connect)(df_endpoint *endpoint, const df_route *route, df_patience *patience,
                           const df_offer *offer, df_ticket **ticket);
  /* [lock] Neither this rank's block nor the peer's uses the rings any more. NULL: does nothing. */
  void (*release)(df_endpoint *endpoint, df_ticket *ticket);

  /* Carries what there is to carry, a bounded amount, and never waits. One thread at a time does
   * it: for others it does nothing. Returns 1 when something was done: a further call may do more.
   * NULL: stores arrive by themselves. */
  int (*pump)(df_endpoint *endpoint);
  /* Would pump do something, as far as blocks and the latest call tell? NULL as pump. */
  int (*is_due)(df_endpoint *endpoint);
  /* A connection has ended that was not told of yet: *peer, and why (part of a sentence, of at most
   * `bytes` bytes). Returns 0: there is none. NULL: control's connection tells. The service thread.
   */
  int (*take_lost)(df_endpoint *endpoint, uint32_t *peer, char *why, size_t bytes);
};

#endif
