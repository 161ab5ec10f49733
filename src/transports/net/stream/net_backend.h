/*
 * A network beside TCP: it carries a connection's bytes, and TCP stays beside it as a line.
 *
 *   1  the line stands: both ends have proven themselves over it (connection_handshake.h)
 *   2  meet: the ends tell each other over the line where they are, and connect
 *   3  both ends prove themselves again, over the fabric's stream; frames follow
 *
 * From 2 on the line belongs to the fabric: it may write there to wake the other end. The end of
 * the line is the end of the connection. Not thread-safe: the caller has a lock, but the owner's
 * wake may be called by any thread.
 */
#ifndef DF_TRANSPORTS_NET_STREAM_NET_BACKEND_H
#define DF_TRANSPORTS_NET_STREAM_NET_BACKEND_H

#include "base/result.h"
#include "bootstrap/net/address.h"
#include "transports/net/stream/stream.h"

enum { DF_NET_BACKEND_NAME_BYTES = 512, DF_NET_BACKEND_ENDS_BYTES = 128 };

typedef struct df_net_backend_ops df_net_backend_ops;

typedef struct df_net_backend_owner {
  void *owner;
  uint32_t rank;
  void (*wake)(void *owner); /* look has something to note; any thread, never waits */
} df_net_backend_owner;

/* What embeds it is the fabric's own. */
typedef struct df_net_backend {
  const df_net_backend_ops *ops;
  int fd; /* readable when look has something to note; -1: wake alone tells */
} df_net_backend;

/* One connection. */
typedef struct df_net_backend_stream {
  df_stream stream; /* from 3 on; reason also after DF_CONNECT_REFUSED */
  int is_ready;     /* something happened since the owner cleared this */
} df_net_backend_stream;

/* Copied by begin, but for the stream. */
typedef struct df_net_backend_channel {
  df_stream *stream;
  df_address here;     /* this end's, of TCP; family 0: it is not known */
  uint32_t silence_ms; /* the other end's, that means a loss; 0: the network's */
  uint32_t peer, port;
  int calls; /* this end has called */
} df_net_backend_channel;

typedef enum { DF_CONNECT_REFUSED = -1, DF_CONNECT_PENDING, DF_CONNECT_DONE } df_connect_state;

struct df_net_backend_ops {
  const char *name; /* the word before the colon of DFCCL_NET */
  /* name: what follows the colon; "": nothing does. Failures leave a sentence. */
  dfcclResult_t (*open)(df_net_backend **net_backend, const df_net_backend_owner *owner,
                        const char *name);
  void (*close)(df_net_backend *net_backend);
  void (*close_in_child)(df_net_backend *net_backend); /* descriptors only. NULL: there are none */

  /* The line stands. dfcclOutOfMemory, dfcclSystemError. */
  dfcclResult_t (*begin)(df_net_backend *net_backend, const df_net_backend_channel *channel,
                         df_net_backend_stream **stream);
  /* Called when the line or the stream is ready. */
  df_connect_state (*connect)(df_net_backend_stream *stream);
  /* The line is ready. Reads all of it: it may have ended. */
  void (*on_readable)(df_net_backend_stream *stream);
  /* The line is closed by the caller, afterwards. */
  void (*end)(df_net_backend_stream *stream);

  /* Notes which streams are ready. What it does not find makes fd readable, or calls wake. spins: the
   * caller looks again at once, so nothing needs to tell it. */
  void (*look)(df_net_backend *net_backend, int spins);
  /* The network does not have all that was written. */
  int (*has_unsent)(df_net_backend_stream *stream);
  /* For sentences: what it is, and its devices here and there. */
  void (*describe)(const df_net_backend_stream *stream, char text[DF_NET_BACKEND_ENDS_BYTES]);
};

/* choice: "NAME" or "NAME:REST", as DFCCL_NET has it. NULL: this build has none of that name. *rest:
 * behind the colon. */
const df_net_backend_ops *df_net_backend_find(const char *choice, const char **rest);

#endif
