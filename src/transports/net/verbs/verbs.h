/*
 * Streams over reliable connections (RC) of RDMA verbs. Each end has a ring in registered memory,
 * to which the device of the other end writes by RDMA write with immediate data. The immediate data
 * contains the number of bytes, and the number of cells of the other ring that are free again. A
 * write begins at a cell. It needs credit for its cells and for the receive that its immediate data
 * consumes, so the queue of the other end always has a receive.
 *
 * The bytes of a sender stay in a copy of the remote ring until the credit for them has arrived.
 * Therefore nothing that was given to a stream is read after write has returned, and no completion
 * of a send is waited for.
 *
 * Not thread-safe: the caller has a lock.
 */
#ifndef DF_TRANSPORTS_NET_VERBS_VERBS_H
#define DF_TRANSPORTS_NET_VERBS_VERBS_H

#include "bootstrap/net/address.h"
#include "transports/net/stream/net_backend.h"

extern const df_net_backend_ops df_net_backend_verbs;

enum { DF_VERBS_REASON_BYTES = 160 };

typedef struct df_verbs df_verbs;
typedef struct df_verbs_stream df_verbs_stream;

/* The description of an end that is sent to the other end. It comes from another process, so
 * df_verbs_stream_join checks it. */
typedef struct df_verbs_end {
  uint8_t gid[16];
  uint64_t ring; /* address of the ring, for the remote device */
  uint32_t key;
  uint32_t ring_bytes;
  uint32_t receives; /* number of receives posted; they are posted again when consumed */
  uint32_t number;   /* number of the queue pair */
  uint32_t sequence; /* number of its first packet */
  uint16_t lid;      /* 0: the GID is the address */
  uint8_t mtu;       /* enum ibv_mtu */
  uint8_t link_layer;
} df_verbs_end;

/* A message over the TCP stream: the description of the end, and later the confirmation that it
 * accepts packets. */
typedef struct df_verbs_greeting {
  uint32_t magic, padding;
  df_verbs_end end;
} df_verbs_greeting;
DF_STATIC_ASSERT(sizeof(df_verbs_greeting) == 56, "part of the protocol between hosts");

typedef struct df_verbs_meeting {
  df_stream *channel;
  uint32_t silence_ms;
  df_verbs_greeting out, in;
  uint32_t sent, received; /* bytes of out that were sent, bytes of in that have arrived */
  int has_joined;
} df_verbs_meeting;

/* Opens each device that has an active port. dfcclInvalidUsage: there is no such device, or this
 * user may not open it. dfcclOutOfMemory: also if the limit of locked memory is too low. */
dfcclResult_t df_verbs_open(df_verbs **verbs);
void df_verbs_close(df_verbs *verbs);
/* Called in a forked child. */
void df_verbs_close_in_child(const df_verbs *verbs);

/* A descriptor that is readable when df_verbs_look has something to report, if df_verbs_look was
 * called after earlier events. */
int df_verbs_fd(const df_verbs *verbs);
/* Handles completions, and requests an event for the next one. */
void df_verbs_look(df_verbs *verbs);
/* Handles completions without a system call. Returns 1 when a stream became ready. */
int df_verbs_poll(df_verbs *verbs);

/* Makes a stream at the device that has the address, or at the first device if none has. mine: the
 * description for the other end. The stream carries nothing until the remote end has joined too. */
dfcclResult_t df_verbs_stream_make(df_verbs *verbs, const df_address *here,
                                   df_verbs_stream **stream, df_verbs_end *mine);
/* Connects to the other end, which may send from now on. silence_ms: permitted silence of the other
 * end; 0: 10 s. dfcclRemoteError: the description is malformed. */
dfcclResult_t df_verbs_stream_join(df_verbs_stream *stream, const df_verbs_end *theirs,
                                   uint32_t silence_ms);
void df_verbs_stream_end(df_verbs_stream *stream);

df_net_backend_stream *df_verbs_stream_of(df_verbs_stream *stream);
df_verbs_meeting *df_verbs_stream_meeting(df_verbs_stream *stream);
/* The TCP connection of this stream has ended: bytes that have arrived can still be read. */
void df_verbs_stream_hang_up(df_verbs_stream *stream, const char *reason);
/* Returns 1 if the device of the other end has not received everything that was written. */
int df_verbs_stream_has_unsent(df_verbs_stream *stream);
/* Writes both ends for sentences, this end first. */
void df_verbs_stream_describe(const df_verbs_stream *stream, char text[DF_NET_BACKEND_ENDS_BYTES]);

#endif
