/*
 * New connections for control's lines (control/reconnect.h). Who called when the job formed calls
 * again, since that way is known to be open: the peer's other addresses in turn, too, since a rail
 * may have been cut. Only who refuses where the mesh has found the peer says that it is dead. The
 * other end's calls are not taken: they only show whether anybody still listens there. Not
 * thread-safe: the endpoint has a lock.
 */
#ifndef DF_TRANSPORTS_NET_CONNECT_CONTROL_RECONNECT_H
#define DF_TRANSPORTS_NET_CONNECT_CONTROL_RECONNECT_H

#include "transports/transport.h"
#include "transports/net/security/connection_handshake.h"
#include "transports/net/stream/tcp.h"

typedef struct df_reconnect_call {
  uint32_t peer;
  df_tcp_stream *stream; /* NULL: no call is under way */
  df_connection_handshake handshake;
  int is_wanted;
  uint64_t call_ns;    /* not before */
  uint64_t due_ns;     /* a call that does not stand by then is given up */
  uint64_t refused_ns; /* since when nobody listens there; 0: somebody does, or it is not known */
  int is_taken;        /* somebody answers: what proves it follows */
  int is_known;        /* the latest call goes, or the line is, where the mesh has found the peer */
  uint32_t vain_tries;
  uint32_t calls_made, call_received; /* numbers */
} df_reconnect_call;

typedef struct df_control_reconnect {
  df_tcp *tcp;
  const df_endpoint_owner *owner;
  const df_remote_rank *remote; /* [n_ranks] */
  uint32_t n_wanted;
  int has_new_due;
  df_reconnect_call **calls; /* [n_ranks] NULL: there is no line to it */
  uint32_t n_calls;
  df_reconnect_call all[]; /* [n_calls] */
} df_control_reconnect;

/* *all: NULL: the owner has no ranks of other hosts, or nothing resumes. dfcclOutOfMemory. */
dfcclResult_t df_control_reconnect_open(df_control_reconnect **all, df_tcp *tcp,
                                        const df_endpoint_owner *owner);
/* Also of NULL. */
void df_control_reconnect_close(df_control_reconnect *all);

/* How long the peer's host may be silent until a line to it is called anew: less than silence_ms if
 * there may be another way. 0: the system's. */
uint32_t df_control_reconnect_silence_ms(const df_endpoint_owner *owner, uint32_t peer);

/* peer: one with a line. */
void df_control_reconnect_want(df_control_reconnect *all, uint32_t peer,
                               df_reconnect_request request);
uint64_t df_control_reconnect_refused_ns(const df_control_reconnect *all, uint32_t peer);
/* Calls what is due, and hears who has been called. 1: df_control_reconnect_patience_ns has changed. */
int df_control_reconnect_carry(df_control_reconnect *all);
/* As df_connections_patience_ns. */
uint64_t df_control_reconnect_patience_ns(const df_control_reconnect *all, uint64_t now_ns);
/* The peer has called, and has proven itself. Takes the stream. */
void df_control_reconnect_take(df_control_reconnect *all, df_tcp_stream *stream,
                               df_connection_handshake *handshake);

#endif
