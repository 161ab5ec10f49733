/* One way by which a link's messages reach another rank; each pair uses the way of the least cost.
 * The receiver accepts, the host sends the offer, and the sender connects; both release. Both ranks
 * map one ring (shm, ipc), or a pump carries messages between two rings (wire).
 * A function that may wait unlocks the lock of the rank meanwhile.
 * Failures record a sentence (df_fail), and leave nothing to release. */
#ifndef DF_TRANSPORTS_TRANSPORT_H
#define DF_TRANSPORTS_TRANSPORT_H

#include <pthread.h>

#include "base/mutex.h"
#include "bootstrap/net/security.h"
#include "control/messenger.h"
#include "plans/plan.h"
#include "primitives/link.h"
#include "transports/watch.h"

struct df_segment;
typedef struct df_shared_memory df_shared_memory;

typedef struct df_transport df_transport;
typedef struct df_network_ops df_network_ops;

typedef struct df_transport_info {
  uint64_t host;       /* equal: these ranks can share memory */
  uint32_t backend;    /* dfcclBackend_t: whose memory rings are in */
  uint32_t wants_wire; /* 1: shares no memory with other processes (DFCCL_NET=tcp) */
  uint32_t
      net_backend;   /* a hash of its kind; 0: TCP alone. The same for all ranks that wires join */
  uint32_t security; /* df_security */
  uint32_t has_aes;  /* its processor */
} df_transport_info;

/* A receiver's rings; opaque. It comes from another process: connect checks it. */
typedef struct df_offer {
  uint8_t bytes[DF_OFFER_BYTES];
} df_offer;

typedef struct df_ring {
  uint32_t stride;       /* bytes from slot to slot */
  uint32_t n_slots;      /* a power of two, at most DF_MAX_LINK_SLOTS */
  uint16_t release_mask; /* as in df_link */
  uint16_t far_ns;       /* the sender's, as in df_link */
  uint16_t reason;       /* DF_REASON_RINGS_* (tuning/reasons.h): why so many slots */
} df_ring;

typedef struct df_route {
  uint32_t peer;
  uint32_t n_blocks;
  df_link *ends; /* block b's end is ends[b * end_step] */
  uint32_t end_step;

  df_ring ring;       /* the receiver's */
  uint32_t slots_min; /* the least that both have agreed on */
  uint8_t payload_offset;

  /* For pumps only: what the messages are. */
  const df_plan *plan;
  uint32_t which;
  const df_part *parts; /* [n_blocks] */
  uint8_t element_bytes;
  uint8_t varying; /* df_varies; first messages bring their run's count */
} df_route;

/* How long set-up may hold the lock. First writes to a ring's pages take longest. */
typedef struct df_patience {
  int may_wait;        /* the lock may be let go */
  uint32_t pages_left; /* else: pages that may still be written */
} df_patience;

typedef struct df_link_handle df_link_handle;

/* All of it stays as it is until close. */
typedef struct df_endpoint_owner {
  void *owner;
  uint32_t rank, n_ranks;
  df_rank_mutex *lock;
  const uint8_t *serves; /* [n_ranks] 1: this transport joins the pair */
  df_bell *bell;         /* wakes the rank's blocks. NULL: shm makes it */
  df_control *control;
  const df_remote_rank *remote;   /* [n_ranks]; NULL: all ranks are of this host */
  df_listeners *listeners;        /* where ranks of other hosts call; NULL: as far */
  const df_shared_memory *memory; /* for rings that both ranks map */
  df_security security;           /* of connections; all ranks have the same */
  int all_have_aes;               /* every rank's processor */
  const df_tls_files *tls;        /* if security is DF_SECURITY_TLS */
  uint32_t silence_ms;            /* of a network that means a loss; 0: the system's */
  uint32_t resume_ms;             /* how long a lost connection is waited for */
  uint64_t lend_min;              /* messages from so many bytes may be lent to a connection */
  const char *interfaces;         /* DFCCL_NET_INTERFACES; "": the default */
  uint32_t rails;                 /* to a rank of another host, at most */
  const df_message_watch *watch;  /* hears of messages that the network carries; NULL: nobody */
  const char *net_backend; /* what carries a wire beside TCP, as DFCCL_NET names it; or NULL */

  /* Makes the service thread look at what is due. Any thread. */
  void (*wake)(void *owner);
  /* The caller holds the lock. 1: the daemon has no run with that member. */
  int (*is_quiet)(void *owner, uint32_t peer);
  /* The caller holds the lock. 1: after failed runs, peers' blocks may still read lent memory. */
  int (*is_broken)(void *owner);
  /* The caller holds the lock. Nothing goes on without what has failed. The service thread. */
  void (*failed)(void *owner, dfcclResult_t status, const char *sentence);
  /* unshare may now return 1. May wait for the device. The service thread. */
  void (*unmapped)(void *owner);
  /* Who carried falls asleep, while runs wait for peers. Any thread. */
  void (*sleeps)(void *owner);
  /* As df_resume_arrived. Any thread. */
  int (*channel_reconnected)(void *owner, uint32_t peer, int fd,
                             const unsigned char key[DF_KEY_BYTES]);
} df_endpoint_owner;

typedef struct df_endpoint {
  const df_transport *transport;
  df_endpoint_owner owner;
  const df_carrier *carrier;     /* who drives blocks calls it; NULL: no pump */
  const df_network_ops *network; /* NULL: the transport has no connections */
  df_reconnector reconnector;    /* for control; reconnector.want is NULL: there is none */
} df_endpoint;

enum { DF_TRAFFIC_ENDS_BYTES = 320 };

/* What has gone through a connection so far. */
typedef struct df_traffic {
  uint64_t frames_sent, bytes_sent, frames_received, bytes_received;
  uint64_t received_ns; /* when something came last; 0: nothing has */
  uint32_t resumes;     /* how often it was lost, and stands again */
  int is_connected;
  char ends[DF_TRAFFIC_ENDS_BYTES];
} df_traffic;

struct df_transport {
  const char *name;

  /* 0: it cannot join ranks with these cards. */
  uint32_t (*cost)(const df_transport_info *mine, const df_transport_info *theirs);

  /* Control messages may be sent from now on. */
  dfcclResult_t (*open)(df_endpoint **endpoint, const df_endpoint_owner *owner);
  /* No other thread uses the endpoint any more. Releases all rings. keep: what peers may have
   * mapped stays until the process ends. */
  void (*close)(df_endpoint *endpoint, int keep);

  /* The caller holds the lock. Offers memory to all peers, so that messages may lend it. When a
   * peer can read it, reach[peer] becomes the difference to add to an address; until then it is
   * DF_NOT_MAPPED. With a pump it is 0 at once. segment and reach stay the caller's. */
  void (*share)(df_endpoint *endpoint, struct df_segment *segment, uint64_t *mapping);
  /* The caller holds the lock. No run lends the memory any more. may_be_read: failed runs have lent
   * it. 1: destroy segment and reach; 0: a peer has mapped it: call again later. */
  int (*unshare)(df_endpoint *endpoint, struct df_segment *segment, int may_be_read);

  /* The caller holds the lock. Clears rings, fills the receiving ends, and writes the offer. The
   * peer may write until release. dfcclInProgress: patience is too short, and nothing was done;
   * call again when it may wait. */
  dfcclResult_t (*accept)(df_endpoint *endpoint, const df_route *route, df_patience *patience,
                          df_offer *offer, df_link_handle **handle);
  /* The caller holds the lock. Fills the sending ends. *handle: NULL if nothing is held.
   * dfcclRemoteError: the offer makes no sense. Else as accept. */
  dfcclResult_t (*connect)(df_endpoint *endpoint, const df_route *route, df_patience *patience,
                           const df_offer *offer, df_link_handle **handle);
  /* The caller holds the lock. Neither rank's block uses the rings any more. handle may be NULL. */
  void (*release)(df_endpoint *endpoint, df_link_handle *handle);
};

/* What only a transport with connections between processes offers, beside df_transport. */
struct df_network_ops {
  /* This rank leaves. Waits, for at most patience_ns and silence_ms, until the messages that blocks
   * have published have gone to the peers. */
  void (*flush)(df_endpoint *endpoint, uint64_t patience_ns);
  /* After flush, and before rings are released: a peer for which the time did not suffice, or that
   * this rank has given up, must not take the rings' new contents for data. */
  void (*quiesce)(df_endpoint *endpoint);
  /* The caller holds the lock. The peer has left in order: a connection to it that is lost will not come back. */
  void (*peer_left)(df_endpoint *endpoint, uint32_t peer);
  /* In a forked child: closes the descriptors that the child inherited, and frees nothing. */
  void (*close_in_child)(df_endpoint *endpoint);
  /* Reports each ended connection once, with the reason. 0: none has ended. The service thread. */
  int (*take_lost)(df_endpoint *endpoint, uint32_t *peer, char *why, size_t bytes);
  /* The caller holds the lock. 0: the pair has fewer connections than that. */
  int (*traffic)(df_endpoint *endpoint, uint32_t peer, uint32_t which, df_traffic *traffic);
};

#endif
