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

enum { DF_FABRIC_NAME_BYTES = 512, DF_FABRIC_ENDS_BYTES = 128 };

typedef struct df_fabric_ops df_fabric_ops;

typedef struct df_fabric_owner {
  void *owner;
  uint32_t rank;
  void (*wake)(void *owner); /* look has something to note; any thread, never waits */
} df_fabric_owner;

/* What embeds it is the fabric's own. */
typedef struct df_fabric {
  const df_fabric_ops *ops;
  int fd; /* readable when look has something to note; -1: wake alone tells */
} df_fabric;

/* One connection. */
typedef struct df_fabric_stream {
  df_stream stream; /* from 3 on; reason also after DF_MEETING_REFUSED */
  int is_ready;     /* something happened since the owner cleared this */
} df_fabric_stream;

/* Copied by begin, but for the stream. */
typedef struct df_fabric_line {
  df_stream *stream;
  df_address here;     /* this end's, of TCP; family 0: it is not known */
  uint32_t silence_ms; /* the other end's, that means a loss; 0: the network's */
  uint32_t peer, port;
  int calls; /* this end has called */
} df_fabric_line;

typedef enum { DF_MEETING_REFUSED = -1, DF_MEETING_GOES_ON, DF_MEETING_STANDS } df_meeting_state;

struct df_fabric_ops {
  const char *name; /* the word before the colon of DFCCL_NET */
  /* name: what follows the colon; "": nothing does. Failures leave a sentence. */
  dfcclResult_t (*open)(df_fabric **fabric, const df_fabric_owner *owner, const char *name);
  void (*close)(df_fabric *fabric);
  void (*close_in_child)(df_fabric *fabric); /* descriptors only. NULL: there are none */

  /* The line stands. dfcclOutOfMemory, dfcclSystemError. */
  dfcclResult_t (*begin)(df_fabric *fabric, const df_fabric_line *line, df_fabric_stream **stream);
  /* Called when the line or the stream is ready. */
  df_meeting_state (*meet)(df_fabric_stream *stream);
  /* The line is ready. Reads all of it: it may have ended. */
  void (*hear)(df_fabric_stream *stream);
  /* The line is closed by the caller, afterwards. */
  void (*end)(df_fabric_stream *stream);

  /* Notes which streams are ready. What it does not find makes fd readable, or calls wake. spins: the
   * caller looks again at once, so nothing needs to tell it. */
  void (*look)(df_fabric *fabric, int spins);
  /* The network does not have all that was written. */
  int (*has_unsent)(df_fabric_stream *stream);
  /* For sentences: what it is, and its devices here and there. */
  void (*describe)(const df_fabric_stream *stream, char text[DF_FABRIC_ENDS_BYTES]);
};

/* choice: "NAME" or "NAME:REST", as DFCCL_NET has it. NULL: this build has none of that name. *rest:
 * behind the colon. */
const df_fabric_ops *df_fabric_find(const char *choice, const char **rest);

#endif
