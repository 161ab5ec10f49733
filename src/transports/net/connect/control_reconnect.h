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

typedef struct df_line_call {
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
  uint32_t calls_made, call_heard; /* numbers */
} df_line_call;

typedef struct df_lines {
  df_tcp *tcp;
  const df_endpoint_owner *owner;
  const df_far_rank *far; /* [n_ranks] */
  uint32_t n_wanted;
  int has_new_due;
  df_line_call **calls; /* [n_ranks] NULL: there is no line to it */
  uint32_t n_lines;
  df_line_call all[]; /* [n_lines] */
} df_lines;

/* *lines: NULL: the owner has no ranks of other hosts, or nothing resumes. dfcclOutOfMemory. */
dfcclResult_t df_lines_open(df_lines **lines, df_tcp *tcp, const df_endpoint_owner *owner);
/* Also of NULL. */
void df_lines_close(df_lines *lines);

/* How long the peer's host may be silent until a line to it is called anew: less than silence_ms if
 * there may be another way. 0: the system's. */
uint32_t df_lines_silence_ms(const df_endpoint_owner *owner, uint32_t peer);

/* peer: one with a line. */
void df_lines_want(df_lines *lines, uint32_t peer, df_reconnect_request request);
uint64_t df_lines_refused_ns(const df_lines *lines, uint32_t peer);
/* Calls what is due, and hears who has been called. 1: df_lines_patience_ns has changed. */
int df_lines_carry(df_lines *lines);
/* As df_connections_patience_ns. */
uint64_t df_lines_patience_ns(const df_lines *lines, uint64_t now_ns);
/* The peer has called, and has proven itself. Takes the stream. */
void df_lines_take(df_lines *lines, df_tcp_stream *stream, df_connection_handshake *handshake);

#endif
