/*
 * A network backend: a network that carries the bytes of a connection, in addition to TCP. The TCP
 * stream of the connection stays open beside it.
 *
 *   1  The TCP stream is established: both ends have proven their identity over it
 *      (connection_handshake.h).
 *   2  connect: the ends exchange their descriptions over the TCP stream, and connect the backend.
 *   3  Both ends prove their identity again, over the stream of the backend; frames follow.
 *
 * From step 2 on the TCP stream belongs to the backend, which may write to it to wake the other
 * end. The end of the TCP stream is the end of the connection. Not thread-safe: the caller has a
 * lock, but any thread may call the wake function of the owner.
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
  void (*wake)(void *owner); /* look has something to report; called by any thread, never waits */
} df_net_backend_owner;

/* A network backend; the backend embeds it in a structure of its own. */
typedef struct df_net_backend {
  const df_net_backend_ops *ops;
  int fd; /* readable when look has something to report; -1: only wake reports it */
} df_net_backend;

/* One connection. */
typedef struct df_net_backend_stream {
  df_stream stream; /* usable from step 3 on; reason also after DF_CONNECT_REFUSED */
  int is_ready;     /* an event has occurred since the owner cleared this */
} df_net_backend_stream;

/* Parameters of a connection. begin copies them, except the stream. */
typedef struct df_net_backend_channel {
  df_stream *stream;
  df_address here; /* address of this end, of TCP; family 0: unknown */
  uint32_t
      silence_ms; /* silence of the other end that counts as a loss; 0: the limit of the network */
  uint32_t peer, port;
  int calls; /* this end has called */
} df_net_backend_channel;

typedef enum { DF_CONNECT_REFUSED = -1, DF_CONNECT_PENDING, DF_CONNECT_DONE } df_connect_state;

struct df_net_backend_ops {
  const char *name; /* the word before the colon in DFCCL_NET */
  /* name: the text after the colon; "": none. Failures record a sentence. */
  dfcclResult_t (*open)(df_net_backend **net_backend, const df_net_backend_owner *owner,
                        const char *name);
  void (*close)(df_net_backend *net_backend);
  void (*close_in_child)(
      df_net_backend *net_backend); /* closes descriptors only; NULL: there are none */

  /* Called when the ends have proven themselves over TCP. Fails with dfcclOutOfMemory,
   * dfcclSystemError. */
  dfcclResult_t (*begin)(df_net_backend *net_backend, const df_net_backend_channel *channel,
                         df_net_backend_stream **stream);
  /* Called when the TCP stream or the backend stream is ready. */
  df_connect_state (*connect)(df_net_backend_stream *stream);
  /* Called when the TCP stream is ready. Reads all of it, because it may have ended. */
  void (*on_readable)(df_net_backend_stream *stream);
  /* Ends the backend stream. The caller closes the TCP stream afterwards. */
  void (*end)(df_net_backend_stream *stream);

  /* Finds the streams that are ready. Later events make fd readable, or call wake. spins: the
   * caller will look again at once, so no event needs to be reported. */
  void (*look)(df_net_backend *net_backend, int spins);
  /* Returns 1 if the network has not delivered everything that was written. */
  int (*has_unsent)(df_net_backend_stream *stream);
  /* Writes the name of the connection and its devices at both ends, for sentences. */
  void (*describe)(const df_net_backend_stream *stream, char text[DF_NET_BACKEND_ENDS_BYTES]);
};

/* choice: "NAME" or "NAME:REST", as in DFCCL_NET. Returns NULL if this build has no backend of that
 * name. *rest: the text after the colon. */
const df_net_backend_ops *df_net_backend_find(const char *choice, const char **rest);

#endif
