/*
 * TCP streams: non-blocking sockets, and one epoll descriptor for all of them. Not thread-safe: the
 * caller has a lock, except for df_tcp_wait and df_tcp_wake.
 */
#ifndef DF_TRANSPORTS_NET_STREAM_TCP_H
#define DF_TRANSPORTS_NET_STREAM_TCP_H

#include "base/result.h"
#include "bootstrap/net/listeners.h"
#include "bootstrap/net/fork_guard.h"
#include "transports/net/stream/stream.h"

enum { DF_TCP_ENDS_BYTES = 2 * DF_ADDRESS_TEXT + 4 };

typedef struct df_tcp_stream {
  df_stream stream;
  df_listener socket; /* a forked child closes its copy of the socket */
  int is_ready;       /* an event has occurred since the owner cleared this */
  /* the stream has ended behind the bytes that can be read; no further event will report it */
  int hangs_up;
  int error;            /* an errno value; 0: the other end closed it */
  uint64_t sent;        /* bytes that the system has accepted */
  uint32_t writes;      /* writes since the latest measurement */
  uint64_t rate;        /* measured bytes per second; 0: unknown */
  uint32_t doubled;     /* the rate counts as 2^doubled times the measured one */
  uint64_t rate_ns;     /* time at which the rate was measured, or doubled, last */
  uint64_t sent_before; /* value of `sent` at that time */
  uint64_t mark;        /* bytes that had arrived at the remote end ... */
  uint64_t mark_ns;     /* ... at this time */
} df_tcp_stream;

typedef struct df_tcp_path {
  df_address to;
  uint32_t scope;  /* interface of a link-local address */
  df_address from; /* address of this host; family 0: the system chooses */
} df_tcp_path;

typedef struct df_tcp {
  df_listener listener;    /* used without `listeners`: at the loopback address */
  df_listeners *listeners; /* belong to the caller; or NULL */
  int epoll_fd;            /* readable: a stream is ready, or a caller waits */
  int wake_fd;
  uint16_t port;
  int has_callers;
} df_tcp;

/* dfcclSystemError, dfcclOutOfMemory. */
dfcclResult_t df_tcp_open(df_tcp *tcp, df_listeners *listeners);
void df_tcp_close(df_tcp *tcp);
void df_tcp_close_in_child(const df_tcp *tcp); /* all descriptors except sockets */

/* The stream accepts nothing until it is connected. dfcclInProgress: all ports of this host are in
 * use at the moment; call again later. dfcclRemoteError: the address refuses connections, as far as
 * that is known at once; otherwise the stream ends with ECONNREFUSED. */
dfcclResult_t df_tcp_connect(df_tcp *tcp, const df_tcp_path *way, df_tcp_stream **stream);
/* Returns NULL if no caller waits. */
df_tcp_stream *df_tcp_accept(df_tcp *tcp);
void df_tcp_end(df_tcp *tcp, df_tcp_stream *stream);
/* Ends the stream and returns its socket, which stays open (df_socket_close). */
int df_tcp_release(df_tcp *tcp, df_tcp_stream *stream);

/* Sets the time after which a silence of the other end ends the stream. */
void df_tcp_set_silence(df_tcp_stream *stream, uint32_t ms);
/* Returns 1 if the system of the other end has not received everything that was written. */
int df_tcp_has_unsent(const df_tcp_stream *stream);
/* Finds the streams that are ready. */
void df_tcp_look(df_tcp *tcp);
/* Makes df_tcp_wait also end when the descriptor becomes readable. Fails with dfcclSystemError. */
dfcclResult_t df_tcp_watch(df_tcp *tcp, int fd);
/* Waits until a network event occurs that no df_tcp_look has found, or df_tcp_wake was called since
 * the last wait. Called by one thread. timeout_ms -1: no limit. */
void df_tcp_wait(df_tcp *tcp, int timeout_ms);
void df_tcp_wake(df_tcp *tcp);
/* Returns the address of this end; family 0: unknown. */
df_address df_tcp_address(const df_tcp_stream *stream);
/* Writes both addresses for sentences, this end first. */
void df_tcp_describe(const df_tcp_stream *stream, char text[DF_TCP_ENDS_BYTES]);

#endif
