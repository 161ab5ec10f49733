/*
 * Connections with each peer that this rank has links with: one for small messages and one for bulk
 * (pump.h), for both directions, and a spare one for bulk on each further rail. The first two are
 * called on another rail if theirs does not answer; without spare ones all goes on. The first one for
 * bulk leaves its rail to a spare one then. Whoever takes an offer calls; if both call, the lower
 * rank's call counts. A caller is a guest until it has proven who it is; of too many guests the oldest
 * goes. A connection that is lost is called again, for resume_ns. With a fabric the connection's bytes
 * go through it, and the TCP stream is its line (net_backend.h). Nothing waits. Not thread-safe: the
 * endpoint has a lock.
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
  df_tcp_stream *stream;             /* NULL: not called yet, or lost */
  df_net_backend_stream *carried;    /* has the bytes; NULL: stream has them */
  df_stream *frames;                 /* upon one of them, when the connection stands */
  df_connection_handshake handshake; /* until the connection stands */
  df_connection_state state;
  int was_called; /* the other end has made the stream */
  int has_received;
  int calls;        /* this end calls, and calls again */
  uint64_t call_ns; /* not before */
  uint64_t due_ns;  /* a call that does not stand by then is given up */
  uint64_t lost_ns; /* since when it is wanted; 0: it stands, or none is */
  uint32_t vain_tries;
  int lacks_port;                     /* the latest call found none of this host's free */
  uint32_t calls_made, call_received; /* numbers */
  uint32_t vain_looks;                /* since it brought something */
  uint64_t received_ns;               /* when it did */
  uint64_t bytes_before;              /* had come, before the latest look */
  uint32_t n_connected;               /* how often */
  uint64_t connected_ns;              /* since when */
  uint32_t path, called_path;         /* by which it stood last; by which it is called */
  char ends[DF_CONNECTION_ENDS_BYTES];
  char why[DF_PUMP_REASON_BYTES]; /* it was lost last */
} df_connection;

typedef struct df_net_peer {
  uint32_t rank;
  df_pump *pump;
  df_connection ports[DF_PUMP_PORTS_MOST];
  int can_call;     /* an offer has told address and key */
  uint32_t n_paths; /* rails */
  df_tcp_path paths[DF_NET_PATHS_MOST];
  unsigned char key[DF_KEY_BYTES];
  int is_lost, was_reported; /* final */
  int is_gone;               /* as control says */
  char why[DF_PUMP_REASON_BYTES + DF_CONNECTION_ENDS_BYTES + 128];
} df_net_peer;

typedef struct df_connections {
  df_tcp tcp;
  df_net_backend *net_backend; /* NULL: TCP alone */
  uint32_t rank, n_ranks;
  unsigned char secret[DF_KEY_BYTES]; /* makes each peer's key */
  df_protection protection;
  struct df_control_reconnect *control_reconnect; /* of control; NULL: there are none */
  uint64_t resume_ns;
  uint64_t lend_min;             /* as in df_pump */
  const df_message_watch *watch; /* likewise */
  uint32_t silence_ms;           /* 0: the system's */
  df_net_peer **peers;           /* [n_ranks] NULL: no link yet */
  df_net_peer **active;          /* [n_active] */
  uint32_t n_active;
  struct df_pending_accept *pending; /* latest first */
  uint32_t n_pending;
  uint32_t looks;
  int is_quiesced; /* df_connections_quiesce */
  /* Since the owner cleared them. */
  int has_lost;
  int left_work; /* something is due later, or at once, though nothing happens */
} df_connections;

/* fabric: as DFCCL_NET names it; NULL: TCP alone. dfcclOutOfMemory, dfcclSystemError, and what the
 * fabric's open fails with. */
dfcclResult_t df_connections_open(df_connections *all, uint32_t rank, uint32_t n_ranks,
                                  df_listeners *listeners, const char *net_backend);
void df_connections_close(df_connections *all);

/* The peer's, made at its first link. dfcclOutOfMemory. */
dfcclResult_t df_connections_connect(df_connections *all, uint32_t rank, df_net_peer **peer);
/* The port is made, and those before it. dfcclOutOfMemory. */
dfcclResult_t df_connections_need(df_net_peer *peer, uint32_t port);
/* A link needs the ports of large messages. dfcclOutOfMemory. */
dfcclResult_t df_connections_need_bulk(df_net_peer *peer);
/* An offer says where the peer listens. A call that is not answered for silence_ms (0: for ever), or
 * for 2 s if there are other rails, is given up, and made anew for resume_ns. */
void df_connections_call(df_connections *all, df_net_peer *peer, const df_tcp_path *paths,
                         uint32_t n_paths, const unsigned char key[DF_KEY_BYTES]);

/* What blocks have published. Returns 1 when something was taken. */
int df_connections_send(df_connections *all);
/* Both ways, a bounded amount. spins: the caller looks again at once. 0: nothing to do. */
int df_connections_carry(df_connections *all, int spins);
/* Until something is due though nothing happens: a call, the end of one, callers that could not be
 * accepted. UINT64_MAX: nothing. */
uint64_t df_connections_patience_ns(const df_connections *all, uint64_t now_ns);

/* df_connections_patience_ns is not UINT64_MAX. */
int df_connections_are_broken(const df_connections *all);

/* Something that the peers have room for still waits. */
int df_connections_have_pending(const df_connections *all);
/* Tells all peers that this rank leaves. */
void df_connections_leave(df_connections *all);

/* Nothing more is sent to anybody. Whoever lacks something sees a connection end too early. */
void df_connections_quiesce(df_connections *all);

/* Of the peer's port; 0: there is none. */
int df_connections_traffic(const df_connections *all, uint32_t rank, uint32_t port,
                           df_traffic *traffic);

/* The rank has left. What is lost of it will not be made anew, however long resume_ns is. */
void df_connections_peer_left(df_connections *all, uint32_t rank);
/* Each once. 0: none. */
int df_connections_take_lost(df_connections *all, uint32_t *peer, char *why, size_t bytes);

#endif
