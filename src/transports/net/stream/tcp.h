/*
 * TCP: sockets that nobody waits for, and one descriptor for all. Not thread-safe: its caller has a
 * lock, but for df_tcp_wait and df_tcp_wake.
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
  df_listener socket; /* a forked child closes its copy */
  int is_ready;       /* Something happened since the owner cleared this. */
  int hangs_up;       /* The end has come, behind what can be read; no further event tells of it. */
  int error;          /* 0: the other end closed it */
  uint64_t sent;      /* bytes that the system has taken */
  uint32_t writes;    /* since the latest look at what is under way */
  uint64_t rate;      /* bytes a second, as measured; 0: not known */
  uint32_t doubled;   /* how often it is doubted: it counts as 2^doubled times as much */
  uint64_t rate_ns;   /* when it was measured, or doubted, last */
  uint64_t sent_before; /* and what had been sent then */
  uint64_t mark;        /* bytes that had arrived ... */
  uint64_t mark_ns;     /* ... by then */
} df_tcp_stream;

typedef struct df_tcp_path {
  df_address to;
  uint32_t scope;  /* of a link-local address */
  df_address from; /* this host's; family 0: the system chooses */
} df_tcp_path;

typedef struct df_tcp {
  df_listener listener;    /* without doors: at the loopback address */
  df_listeners *listeners; /* the caller's, or NULL */
  int epoll_fd;            /* readable: a stream is ready, or somebody calls */
  int wake_fd;
  uint16_t port;
  int has_callers;
} df_tcp;

/* dfcclSystemError, dfcclOutOfMemory. */
dfcclResult_t df_tcp_open(df_tcp *tcp, df_listeners *listeners);
void df_tcp_close(df_tcp *tcp);
void df_tcp_close_in_child(const df_tcp *tcp); /* all but sockets */

/* The stream takes nothing until it stands. dfcclInProgress: all of
 * this host's ports are in use, for a moment; call again later. dfcclRemoteError: nobody listens
 * there, as far as is known at once; else the stream ends with ECONNREFUSED. */
dfcclResult_t df_tcp_connect(df_tcp *tcp, const df_tcp_path *way, df_tcp_stream **stream);
/* NULL: there is none. */
df_tcp_stream *df_tcp_accept(df_tcp *tcp);
void df_tcp_end(df_tcp *tcp, df_tcp_stream *stream);
/* Ends the stream, and returns its socket, which stays open (df_socket_close). */
int df_tcp_release(df_tcp *tcp, df_tcp_stream *stream);

/* The stream ends when the other end has been silent for so long. */
void df_tcp_set_silence(df_tcp_stream *stream, uint32_t ms);
/* The other end's system does not have all that was written. */
int df_tcp_has_unsent(const df_tcp_stream *stream);
/* Notes which streams are ready. */
void df_tcp_look(df_tcp *tcp);
/* df_tcp_wait also ends when the descriptor becomes readable. dfcclSystemError. */
dfcclResult_t df_tcp_watch(df_tcp *tcp, int fd);
/* One thread: until the network has news that no df_tcp_look has noted, or df_tcp_wake was called
 * since the last wait. timeout_ms -1: no limit. */
void df_tcp_wait(df_tcp *tcp, int timeout_ms);
void df_tcp_wake(df_tcp *tcp);
/* This end's. family 0: it is not known. */
df_address df_tcp_address(const df_tcp_stream *stream);
/* For sentences; this end first. */
void df_tcp_describe(const df_tcp_stream *stream, char text[DF_TCP_ENDS_BYTES]);

#endif
