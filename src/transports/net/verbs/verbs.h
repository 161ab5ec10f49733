/*
 * Streams over reliable connections (RC) of RDMA verbs. Each end has a ring in registered memory,
 * into which the other end's device writes: RDMA write with immediate data, which says how many
 * bytes came and how many cells of the other ring are free again. A write begins at a cell, and
 * never without credit for its cells and for the receive that its immediate data takes. So the
 * other end's queue always has a receive.
 *
 * A sender's bytes lie in a copy of the remote ring until the credit for them has come. So nothing that
 * a stream was given is read after write has returned, and no completion of a send is waited for.
 *
 * Not thread-safe: its caller has a lock.
 */
#ifndef DF_TRANSPORTS_NET_VERBS_VERBS_H
#define DF_TRANSPORTS_NET_VERBS_VERBS_H

#include "bootstrap/net/address.h"
#include "transports/net/stream/net_backend.h"

extern const df_net_backend_ops df_net_backend_verbs;

enum { DF_VERBS_REASON_BYTES = 160 };

typedef struct df_verbs df_verbs;
typedef struct df_verbs_stream df_verbs_stream;

/* What an end tells the other. It comes from another process: df_verbs_join checks it. */
typedef struct df_verbs_end {
  uint8_t gid[16];
  uint64_t ring; /* where it is, for the remote device */
  uint32_t key;
  uint32_t ring_bytes;
  uint32_t receives; /* posted, and posted again as they are taken */
  uint32_t number;   /* of the queue pair */
  uint32_t sequence; /* of its first packet */
  uint16_t lid;      /* 0: the GID is the address */
  uint8_t mtu;       /* enum ibv_mtu */
  uint8_t link_layer;
} df_verbs_end;

/* What an end tells over the channel: where it is, and then that it takes what is sent. */
typedef struct df_verbs_telling {
  uint32_t magic, padding;
  df_verbs_end end;
} df_verbs_telling;
DF_STATIC_ASSERT(sizeof(df_verbs_telling) == 56, "part of the protocol between hosts");

typedef struct df_verbs_meeting {
  df_stream *channel;
  uint32_t silence_ms;
  df_verbs_telling out, in;
  uint32_t told, heard; /* bytes */
  int has_joined;
} df_verbs_meeting;

/* Opens each device that has an active port. dfcclInvalidUsage: there is no such device, or this user may not open it.
 * dfcclOutOfMemory: also if too little memory may be locked. */
dfcclResult_t df_verbs_open(df_verbs **verbs);
void df_verbs_close(df_verbs *verbs);
/* In a forked child. */
void df_verbs_close_in_child(const df_verbs *verbs);

/* Readable when df_verbs_look has news, if it looked after the news before. */
int df_verbs_fd(const df_verbs *verbs);
/* Takes completions, and asks devices to tell of the next. */
void df_verbs_look(df_verbs *verbs);
/* Takes completions without a system call. Returns 1 when a stream became ready. */
int df_verbs_poll(df_verbs *verbs);

/* At the device that has the address; at the first if none has. mine: for the other end. Takes
 * nothing, and brings nothing, until the remote end has joined too. */
dfcclResult_t df_verbs_stream_make(df_verbs *verbs, const df_address *here,
                                   df_verbs_stream **stream, df_verbs_end *mine);
/* The other end may send from now on. silence_ms: how long it may be silent; 0: some seconds.
 * dfcclRemoteError: the end makes no sense. */
dfcclResult_t df_verbs_stream_join(df_verbs_stream *stream, const df_verbs_end *theirs,
                                   uint32_t silence_ms);
void df_verbs_stream_end(df_verbs_stream *stream);

df_net_backend_stream *df_verbs_stream_of(df_verbs_stream *stream);
df_verbs_meeting *df_verbs_stream_meeting(df_verbs_stream *stream);
/* The connection beside it has ended: what has come can still be read. */
void df_verbs_stream_hang_up(df_verbs_stream *stream, const char *reason);
/* The other end's device does not have all that was written. */
int df_verbs_stream_has_unsent(df_verbs_stream *stream);
/* For sentences; this end first. */
void df_verbs_stream_describe(const df_verbs_stream *stream, char text[DF_NET_BACKEND_ENDS_BYTES]);

#endif
