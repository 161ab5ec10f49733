/*
 * New connections for control channels (control/reconnect.h). The rank that called when the job
 * formed calls again, because that direction is known to be open. It also tries the other addresses
 * of the peer in turn, because a rail may have been cut. Only a refusal at the address where the
 * mesh has found the peer shows that the peer is dead. The calls of the other end are not accepted:
 * they only show whether the address still accepts connections. Not thread-safe: the endpoint has a
 * lock.
 */
#ifndef DF_TRANSPORTS_NET_CONNECT_CONTROL_RECONNECT_H
#define DF_TRANSPORTS_NET_CONNECT_CONTROL_RECONNECT_H

#include "transports/transport.h"
#include "transports/net/security/connection_handshake.h"
#include "transports/net/stream/tcp.h"

typedef struct df_reconnect_call {
  uint32_t peer;
  df_tcp_stream *stream; /* NULL: no call is in progress */
  df_connection_handshake handshake;
  int is_wanted;
  uint64_t call_ns; /* time of the next call, at the earliest */
  uint64_t due_ns;  /* time at which the present call is given up */
  /* time since which the address refuses connections; 0: it accepts them, or no result is
   * known */
  uint64_t refused_ns;
  int is_taken; /* the connection was accepted; the proof of identity follows */
  /* the latest call, or the connection, uses the address where the mesh has found the peer */
  int is_known;
  uint32_t vain_tries;
  uint32_t calls_made,
      call_received; /* number of calls made, and number of the latest call received */
} df_reconnect_call;

typedef struct df_control_reconnect {
  df_tcp *tcp;
  const df_endpoint_owner *owner;
  const df_remote_rank *remote; /* [n_ranks] */
  uint32_t n_wanted;
  int has_new_due;
  df_reconnect_call **calls; /* [n_ranks] NULL: there is no channel to the rank */
  uint32_t n_calls;
  df_reconnect_call all[]; /* [n_calls] */
} df_control_reconnect;

/* *all is NULL if the owner has no ranks on other hosts, or if nothing resumes. Fails with
 * dfcclOutOfMemory. */
dfcclResult_t df_control_reconnect_open(df_control_reconnect **all, df_tcp *tcp,
                                        const df_endpoint_owner *owner);
/* all may be NULL. */
void df_control_reconnect_close(df_control_reconnect *all);

/* How long the peer's host may be silent until its channel gets a new connection: less than
 * silence_ms if there may be another path. 0: the limit of the system. */
uint32_t df_control_reconnect_silence_ms(const df_endpoint_owner *owner, uint32_t peer);

/* peer: a rank with a channel. */
void df_control_reconnect_want(df_control_reconnect *all, uint32_t peer,
                               df_reconnect_request request);
uint64_t df_control_reconnect_refused_ns(const df_control_reconnect *all, uint32_t peer);
/* Makes the calls that are due, and continues those in progress. Returns 1 if
 * df_control_reconnect_patience_ns has changed. */
int df_control_reconnect_carry(df_control_reconnect *all);
/* As df_connections_patience_ns. */
uint64_t df_control_reconnect_patience_ns(const df_control_reconnect *all, uint64_t now_ns);
/* The peer has called and has proven its identity. Takes ownership of the stream. */
void df_control_reconnect_take(df_control_reconnect *all, df_tcp_stream *stream,
                               df_connection_handshake *handshake);

#endif
