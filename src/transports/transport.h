/* A way by which the messages of a link reach another rank; each pair uses the transport with the
 * lowest cost. The receiver accepts, the host sends the offer, and the sender connects; both
 * release. Either both ranks map one ring (shm, ipc), or a pump carries messages between two rings
 * (net). A function that may wait unlocks the lock of the rank meanwhile. Failures record a
 * sentence (df_fail), and leave nothing to release. */
#ifndef DF_TRANSPORTS_TRANSPORT_H
#define DF_TRANSPORTS_TRANSPORT_H

#include <pthread.h>

#include "base/mutex.h"
#include "bootstrap/net/security.h"
#include "control/messenger.h"
#include "plans/operation.h"
#include "plans/plan.h"
#include "primitives/link.h"
#include "primitives/ways.h"
#include "transports/watch.h"

struct df_segment;
typedef struct df_shared_memory df_shared_memory;

typedef struct df_transport df_transport;
typedef struct df_network_ops df_network_ops;

typedef struct df_transport_info {
  uint64_t host;       /* equal: these ranks can share memory */
  uint32_t backend;    /* dfcclBackend_t: the kind of memory that rings are in */
  uint32_t wants_wire; /* 1: does not share memory with other processes (DFCCL_NET=tcp) */
  /* hash of the kind of network backend; 0: TCP alone. The same for all ranks that the net
   * transport joins */
  uint32_t net_backend;
  uint32_t security; /* df_security */
  uint32_t has_aes;  /* its processor has AES instructions */
} df_transport_info;

/* Describes the rings of a receiver; opaque. It comes from another process, so connect checks
 * it. */
typedef struct df_offer {
  uint8_t bytes[DF_OFFER_BYTES];
} df_offer;

/* The kind of a collective's rings: its operation, and the power of two of its bytes. */
enum { DF_RING_SIZES = 40, DF_RING_KINDS = DF_OP_ALL * DF_RING_SIZES };

typedef struct df_ring {
  uint32_t stride;       /* bytes from slot to slot */
  uint32_t n_slots;      /* a power of two, at most DF_MAX_LINK_SLOTS */
  uint16_t release_mask; /* as in df_link */
  uint8_t has_ways;      /* 1: the sender chooses the ways of messages */
  df_ways_terms ways;    /* the sender's */
  uint64_t call_min; /* ordinary memory is lent by calls from so many bytes on; UINT64_MAX: never */
  /* Below DF_RING_KINDS: the links of a kind to a peer begin with the ways of earlier ones. */
  uint16_t kind;
  uint16_t reason; /* DF_REASON_RINGS_* (tuning/reasons.h): the reason for the number of slots */
} df_ring;

typedef struct df_route {
  uint32_t peer;
  uint32_t n_blocks;
  df_link *ends; /* the end of block b is ends[b * end_step] */
  uint32_t end_step;

  df_ring ring;       /* the receiver's ring */
  uint32_t slots_min; /* the minimum that both ends have agreed on */
  uint8_t payload_offset;
  uint8_t fills_rings; /* deep rings get all of their pages now, because many runs will come */

  /* For watches only: generation << 32 | index of the collective in the device. */
  uint64_t collective;

  /* For pumps only: the contents of the messages. */
  const df_plan *plan;
  uint32_t which;
  const df_part *parts; /* [n_blocks] */
  uint8_t element_bytes;
  uint8_t varying;   /* df_varies; the first messages of a run carry its count */
  uint64_t lend_min; /* this rank lends no shorter messages of the collective */
  uint64_t
      peers_lend_min; /* no peer does; may be less, at the price of a credit for each message */
} df_route;

/* How long set-up may hold the lock of the rank. The first writes to the pages of a ring take most
 * of the time. */
typedef struct df_patience {
  int may_wait;        /* the lock may be released */
  uint32_t pages_left; /* if not: number of pages that may still be written */
} df_patience;

typedef struct df_link_handle df_link_handle;

/* Bytes of memory that rings have, and of address space that is reserved for them. */
typedef struct df_ring_memory {
  uint64_t used, reserved;
} df_ring_memory;

/* Nothing of it changes until close. */
typedef struct df_endpoint_owner {
  void *owner;
  uint32_t rank, n_ranks;
  df_rank_mutex *lock;
  const uint8_t *serves; /* [n_ranks] 1: this transport joins the pair */
  df_bell *bell;         /* wakes the blocks of the rank; NULL: shm makes it */
  df_control *control;
  const df_remote_rank *remote; /* [n_ranks]; NULL: all ranks are on this host */
  df_listeners *listeners; /* where ranks of other hosts call; NULL: all ranks are on this host */
  const df_shared_memory *memory; /* for rings that both ranks map */
  df_security security;           /* level of the connections; the same for all ranks */
  int all_have_aes;               /* the processors of all ranks have AES instructions */
  const df_tls_files *tls;        /* if security is DF_SECURITY_TLS */
  uint32_t
      silence_ms;     /* silence of the network that counts as a loss; 0: the limit of the system */
  uint32_t resume_ms; /* how long a lost connection may be made again */
  uint64_t lend_min;  /* messages of at least this size may be lent to a connection */
  const char *interfaces;        /* DFCCL_NET_INTERFACES; "": the default */
  uint32_t rails;                /* number of rails to a rank of another host, at most */
  const df_message_watch *watch; /* notified of messages that the network carries; NULL: none */
  const char *net_backend; /* network backend in addition to TCP, as named by DFCCL_NET; or NULL */

  /* Makes the service thread check for work that is due. Any thread. */
  void (*wake)(void *owner);
  /* The caller holds the lock. Returns 1 if the daemon has no run with that member. */
  int (*is_quiet)(void *owner, uint32_t peer);
  /* The caller holds the lock. Returns 1 if the blocks of peers may still read lent memory after
   * failed runs. */
  int (*is_broken)(void *owner);
  /* The caller holds the lock. Reports a failure after which the context cannot continue. Called by
   * the service thread. */
  void (*failed)(void *owner, dfcclResult_t status, const char *sentence);
  /* unshare may now return 1. May wait for the device. Called by the service thread. */
  void (*unmapped)(void *owner);
  /* A thread that carried messages falls asleep, while runs wait for peers. Any thread. */
  void (*sleeps)(void *owner);
  /* As df_resume_arrived. Any thread. */
  int (*channel_reconnected)(void *owner, uint32_t peer, int fd,
                             const unsigned char key[DF_KEY_BYTES]);
} df_endpoint_owner;

typedef struct df_endpoint {
  const df_transport *transport;
  df_endpoint_owner owner;
  const df_carrier *carrier;     /* called by threads that drive blocks; NULL: there is no pump */
  const df_network_ops *network; /* NULL: the transport has no connections */
  df_reconnector reconnector;    /* for control; reconnector.want is NULL if there is none */
} df_endpoint;

enum { DF_TRAFFIC_ENDS_BYTES = 320 };

/* Statistics of a connection since it was made first. */
typedef struct df_traffic {
  uint64_t frames_sent, bytes_sent, frames_received, bytes_received;
  uint64_t received_ns; /* time of the latest receipt; 0: nothing has been received */
  uint32_t resumes;     /* how often it was lost and established again */
  int is_connected;
  const char *state; /* the name of its state, a constant */
  char ends[DF_TRAFFIC_ENDS_BYTES];
} df_traffic;

struct df_transport {
  const char *name;

  /* Returns the cost; 0: the transport cannot join ranks with this peer info. */
  uint32_t (*cost)(const df_transport_info *mine, const df_transport_info *theirs);

  /* Control messages may be sent from now on. */
  dfcclResult_t (*open)(df_endpoint **endpoint, const df_endpoint_owner *owner);
  /* No other thread uses the endpoint any more. Releases all rings. keep: memory that peers may
   * have mapped stays until the process ends. */
  void (*close)(df_endpoint *endpoint, int keep);

  /* The caller holds the lock. Offers memory to all peers, so that messages may lend it. When a
   * peer can read it, mapping[peer] becomes the difference to add to an address; until then it is
   * DF_NOT_MAPPED. With a pump it is 0 at once. The segment and the mapping stay with the
   * caller. */
  void (*share)(df_endpoint *endpoint, struct df_segment *segment, uint64_t *mapping);
  /* The caller holds the lock. No run lends the memory any more. may_be_read: failed runs have lent
   * it. Returns 1: the caller destroys the segment and the mapping; 0: a peer has mapped it, so the
   * caller calls again later. */
  int (*unshare)(df_endpoint *endpoint, struct df_segment *segment, int may_be_read);

  /* The caller holds the lock. Clears the rings, fills the receiving ends, and writes the offer.
   * The peer may write until release. dfcclInProgress: patience did not suffice, and nothing was
   * done; call again when it may wait. */
  dfcclResult_t (*accept)(df_endpoint *endpoint, const df_route *route, df_patience *patience,
                          df_offer *offer, df_link_handle **handle);
  /* The caller holds the lock. Fills the sending ends. *handle is NULL if nothing is held.
   * dfcclRemoteError: the offer is malformed. Other failures as accept. */
  dfcclResult_t (*connect)(df_endpoint *endpoint, const df_route *route, df_patience *patience,
                           const df_offer *offer, df_link_handle **handle);
  /* The caller holds the lock. The blocks of both ranks have stopped using the rings, or this rank
   * leaves. handle may be NULL. */
  void (*release)(df_endpoint *endpoint, df_link_handle *handle);
  /* The caller holds the lock. Adds the memory that this rank has for the rings of a handle, which
   * may be NULL. */
  void (*add_memory)(df_endpoint *endpoint, const df_link_handle *handle, df_ring_memory *memory);
  /* The caller holds the lock. Adds that of all rings. */
  void (*add_all_memory)(df_endpoint *endpoint, df_ring_memory *memory);
};

/* Functions that only a transport with connections between processes has, in addition to
 * df_transport. */
struct df_network_ops {
  /* This rank leaves. Waits at most patience_ns and silence_ms, until the messages that blocks have
   * published have reached the peers. */
  void (*flush)(df_endpoint *endpoint, uint64_t patience_ns);
  /* After flush, and before rings are released: a peer for which the time did not suffice, or that
   * this rank has given up, must not receive the new contents of the rings as data. */
  void (*quiesce)(df_endpoint *endpoint);
  /* The caller holds the lock. The peer has left in order: a connection to it that is lost is not
   * made again. */
  void (*peer_left)(df_endpoint *endpoint, uint32_t peer);
  /* In a forked child: closes the descriptors that the child inherited, and frees nothing. */
  void (*close_in_child)(df_endpoint *endpoint);
  /* Reports each ended connection once, with the reason. 0: none has ended. The service thread. */
  int (*take_lost)(df_endpoint *endpoint, uint32_t *peer, char *why, size_t bytes);
  /* The caller holds the lock. Returns 0 if the pair has fewer connections than `which`. */
  int (*traffic)(df_endpoint *endpoint, uint32_t peer, uint32_t which, df_traffic *traffic);
};

#endif
