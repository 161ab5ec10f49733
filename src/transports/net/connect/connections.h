/*
 * Connections with each peer that this rank has links with: one for small messages and one for bulk
 * (pump.h), both for both directions, and a spare one for bulk on each further rail. The first two
 * are called on another rail if theirs does not answer; the job does not depend on spare
 * connections. When the first bulk connection moves to another rail, the spare connection of that
 * rail takes the first rail.
 *
 * The rank that receives an offer calls. If both ranks call, the call of the lower rank counts. A
 * caller is a pending connection until it has proven its identity; if there are too many, the
 * oldest is dropped. A lost connection is called again for up to resume_ns. With a network backend,
 * the backend carries the bytes of the connection, and the TCP stream beside it is used to set it
 * up (net_backend.h).
 *
 * No function waits. Not thread-safe: the endpoint has a lock.
 */
#ifndef DF_TRANSPORTS_NET_CONNECT_CONNECTIONS_H
#define DF_TRANSPORTS_NET_CONNECT_CONNECTIONS_H

#include "transports/transport.h"
#include "transports/net/stream/net_backend.h"
#include "transports/net/connect/connection_state.h"
#include "transports/net/connect/paths.h"
#include "transports/net/security/protection.h"
#include "transports/net/stream/tcp.h"
#include "transports/net/pump/pump.h"

enum { DF_CONNECTION_ENDS_BYTES = DF_TCP_ENDS_BYTES + DF_NET_BACKEND_ENDS_BYTES };

typedef struct df_connection {
  df_tcp_stream *stream;          /* NULL: not called yet, or lost */
  df_net_backend_stream *carried; /* carries the bytes; NULL: `stream` carries them */
  df_stream *frames;              /* the stream of frames on top of one of them, when connected */
  df_connection_handshake handshake; /* used until the connection is established */
  df_connection_state state;
  int was_called; /* 1: the other end called and made the stream */
  int has_received;
  int calls;        /* this end calls, and calls again after a loss */
  uint64_t call_ns; /* time of the next call, at the earliest */
  uint64_t due_ns;  /* time at which an attempt is given up */
  uint64_t
      rest_due_ns;  /* time at which the rest of a record must have arrived; 0: none is missing */
  uint64_t lost_ns; /* time since which it is wanted; 0: connected, or not wanted */
  uint32_t vain_tries;
  int lacks_port; /* the latest call found no free port on this host */
  uint32_t calls_made,
      call_received;          /* number of calls made, and number of the latest call received */
  uint32_t vain_looks;        /* reads since the last one that returned something */
  uint64_t received_ns;       /* time of that read */
  uint64_t bytes_before;      /* bytes received before the latest read */
  uint32_t n_connected;       /* how often it was established */
  uint64_t connected_ns;      /* time at which it was established last */
  uint32_t path, called_path; /* the path that it had last, and the path of the present call */
  char ends[DF_CONNECTION_ENDS_BYTES];
  char why[DF_PUMP_REASON_BYTES]; /* reason of the latest loss */
} df_connection;

typedef struct df_net_peer {
  uint32_t rank;
  df_pump *pump;
  df_connection ports[DF_PUMP_PORTS_MOST];
  int can_call;     /* an offer has brought address and key */
  uint32_t n_paths; /* number of rails */
  df_tcp_path paths[DF_NET_PATHS_MOST];
  unsigned char key[DF_KEY_BYTES];
  int is_lost, was_reported; /* 1: the peer is lost for good; 1: the loss was reported */
  int is_gone;               /* the peer has left, according to control */
  char why[DF_PUMP_REASON_BYTES + DF_CONNECTION_ENDS_BYTES + 128];
} df_net_peer;

typedef struct df_connections {
  df_tcp tcp;
  df_net_backend *net_backend; /* NULL: TCP alone */
  uint32_t rank, n_ranks;
  unsigned char secret[DF_KEY_BYTES]; /* the key of each peer derives from it */
  df_protection protection;
  struct df_control_reconnect
      *control_reconnect; /* new connections of control channels; NULL: there are no channels */
  uint64_t resume_ns;
  uint64_t lend_min;             /* as in df_pump */
  const df_message_watch *watch; /* likewise */
  uint32_t silence_ms;           /* 0: the limit of the system */
  df_net_peer **peers;           /* [n_ranks] NULL: there is no link with the rank yet */
  df_net_peer **active;          /* [n_active] */
  uint32_t n_active;
  struct df_pending_accept *pending; /* the latest first */
  uint32_t n_pending;
  uint32_t looks;
  int is_quiesced; /* df_connections_quiesce was called */
  /* Set here, cleared by the owner. */
  int has_lost;
  int left_work; /* work is due, at once or later, though no event will report it */
} df_connections;

/* net_backend: as named by DFCCL_NET; NULL: TCP alone. Fails with dfcclOutOfMemory,
 * dfcclSystemError, and the failures of opening the backend. */
dfcclResult_t df_connections_open(df_connections *all, uint32_t rank, uint32_t n_ranks,
                                  df_listeners *listeners, const char *net_backend);
void df_connections_close(df_connections *all);

/* Returns the record of a peer, which is made at its first link. Fails with dfcclOutOfMemory. */
dfcclResult_t df_connections_connect(df_connections *all, uint32_t rank, df_net_peer **peer);
/* Makes the port and those before it, if they do not exist. Fails with dfcclOutOfMemory. */
dfcclResult_t df_connections_need(df_net_peer *peer, uint32_t port);
/* Makes the ports of large messages. Fails with dfcclOutOfMemory. */
dfcclResult_t df_connections_need_bulk(df_net_peer *peer);
/* An offer has brought the addresses at which the peer listens. A call that is not answered for
 * silence_ms (0: for ever), or for 2 s if there are other rails, is given up and made again, for up
 * to resume_ns. */
void df_connections_call(df_connections *all, df_net_peer *peer, const df_tcp_path *paths,
                         uint32_t n_paths, const unsigned char key[DF_KEY_BYTES]);

/* Sends what blocks have published. Returns 1 when something was sent. */
int df_connections_send(df_connections *all);
/* Sends and receives a bounded amount. spins: the caller will call again at once. Returns 0 if
 * there was nothing to do. */
int df_connections_carry(df_connections *all, int spins);
/* Time until work is due that no event will report: a call, the end of a call, callers that could
 * not be accepted. UINT64_MAX: nothing is due. */
uint64_t df_connections_patience_ns(const df_connections *all, uint64_t now_ns);

/* Returns 1 if df_connections_patience_ns is not UINT64_MAX. */
int df_connections_are_broken(const df_connections *all);

/* Returns 1 if something still waits that the peers have room for. */
int df_connections_have_pending(const df_connections *all);
/* Announces to all peers that this rank leaves. */
void df_connections_leave(df_connections *all);

/* Sends nothing more to any peer. A peer that lacks something sees its connection end too early. */
void df_connections_quiesce(df_connections *all);

/* Fills the statistics of a port of a peer. Returns 0 if there is no such port. */
int df_connections_traffic(const df_connections *all, uint32_t rank, uint32_t port,
                           df_traffic *traffic);

/* The rank has left. Its lost connections are not made again, however long resume_ns is. */
void df_connections_peer_left(df_connections *all, uint32_t rank);
/* Returns 1 and one lost peer; each is returned once. 0: there are no more. */
int df_connections_take_lost(df_connections *all, uint32_t *peer, char *why, size_t bytes);

#endif
