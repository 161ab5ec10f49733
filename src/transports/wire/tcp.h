/*
 * TCP on the loopback address: streams over sockets that are never waited for, and one descriptor
 * that says when any of them is ready. Not thread-safe: its caller has a lock.
 */
#ifndef DF_TRANSPORTS_WIRE_TCP_H
#define DF_TRANSPORTS_WIRE_TCP_H

#include "base/result.h"
#include "bootstrap/process.h"
#include "transports/wire/stream.h"

enum { DF_TCP_ENDS_BYTES = 64 };

typedef struct df_tcp_stream {
  df_stream stream;
  df_listener socket; /* a forked child closes its copy */
  int is_ready;       /* something has happened since the owner cleared it */
  int error;          /* that ended it; 0: the other end closed it */
} df_tcp_stream;

typedef struct df_tcp {
  df_listener listener;
  int epoll_fd; /* readable when a stream is ready, or somebody calls */
  uint16_t port;
  int has_callers;
} df_tcp;

/* dfcclSystemError, dfcclOutOfMemory. */
dfcclResult_t df_tcp_open(df_tcp *tcp);
void df_tcp_close(df_tcp *tcp);

/* Calls that port. The stream may be written to at once, and takes nothing until it stands. */
dfcclResult_t df_tcp_connect(df_tcp *tcp, uint16_t port, df_tcp_stream **stream);
/* The next caller; NULL: there is none. */
df_tcp_stream *df_tcp_accept(df_tcp *tcp);
void df_tcp_end(df_tcp *tcp, df_tcp_stream *stream);

/* Marks the streams to which something has happened. */
void df_tcp_look(df_tcp *tcp);
/* Both ends' addresses, this one first, for sentences. */
void df_tcp_describe(const df_tcp_stream *stream, char text[DF_TCP_ENDS_BYTES]);

#endif
