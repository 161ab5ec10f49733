/*
 * One connection over a network plugin: a communicator for each direction, and cells of registered
 * memory, one for a message. Two threads use it: the owner, which holds the lock of the endpoint,
 * and the thread of the plugin. Each shared word has one writer (docs/MEMORY_MODEL.md, row 4g).
 */
#ifndef DF_TRANSPORTS_NET_PLUGIN_PLUGIN_STREAM_H
#define DF_TRANSPORTS_NET_PLUGIN_PLUGIN_STREAM_H

#include "transports/net/stream/net_backend.h"
#include "transports/net/plugin/plugin_thread.h"

enum {
  DF_PLUGIN_CELLS = 8, /* the number of messages in flight that all plugins permit */
  DF_PLUGIN_CELL_BYTES = 64 << 10,
  DF_PLUGIN_WHY_BYTES = 240
};

typedef enum {
  DF_PLUGIN_BEGINS,
  DF_PLUGIN_LISTENS,  /* the handle is available */
  DF_PLUGIN_CONNECTS, /* the remote handle has arrived */
  DF_PLUGIN_CALLED,   /* connect was called: the remote end may accept */
  DF_PLUGIN_CONNECTED
} df_plugin_phase;

/* Precedes the bytes of each message. */
typedef struct df_plugin_head {
  uint32_t bytes, number;
} df_plugin_head;

typedef struct df_plugin_stream {
  df_net_backend_stream base; /* used by the owner */
  df_plugin_thread *thread;
  uint8_t
      *area; /* [2 * DF_PLUGIN_CELLS * DF_PLUGIN_CELL_BYTES] cells to send, then cells to receive */
  uint32_t message_most; /* the smaller limit of both ends, once the remote handle has arrived */

  /* Published by the thread of the plugin. */
  DF_ALIGNED(64) uint32_t phase;
  uint32_t has_failed; /* the reason is in why */
  uint32_t sent;       /* messages whose cells are free again */
  uint32_t arrived;
  uint32_t naps; /* naps: the thread would stop polling for messages; n_napped is set */
  char why[DF_PLUGIN_WHY_BYTES];
  uint32_t n_napped; /* number of messages that had arrived */
  DF_ALIGNED(16)
  uint8_t handle[DF_PLUGIN_HANDLE_BYTES]; /* aligned because plugins cast it to their structures */

  /* Published by the owner. */
  DF_ALIGNED(64) uint32_t has_remote_handle;
  uint32_t remote_has_called;
  uint32_t written;       /* messages */
  uint32_t taken;         /* messages whose cells are free again */
  uint32_t naps_reported; /* number of naps that the remote end was notified of */
  uint32_t wakes;         /* how often the remote end announced that it sends again */
  uint32_t is_over;
  DF_ALIGNED(16) uint8_t remote_handle[DF_PLUGIN_HANDLE_BYTES];

  /* [df_plugin_lock] */
  void (*notify)(struct df_plugin_stream
                     *stream); /* notifies the owner of progress; NULL: the owner has gone */
  void *owner;

  /* Used by the thread of the plugin. */
  struct df_plugin_stream *next;
  void *listener, *sender, *receiver;
  void *send_registration, *receive_registration;
  void *sends[DF_PLUGIN_CELLS], *receives[DF_PLUGIN_CELLS]; /* requests */
  uint32_t posted, asked_for; /* messages given to the plugin, and receives posted */
  uint64_t busy_ns;           /* time of the latest progress */
  uint32_t wakes_seen;
  int rests; /* the thread has stopped polling since naps changed */
} df_plugin_stream;

/* Fails with dfcclOutOfMemory. */
dfcclResult_t df_plugin_stream_make(df_plugin_stream **stream, df_plugin_thread *thread);

typedef enum {
  DF_PLUGIN_SLEEPS, /* until the thread is rung */
  DF_PLUGIN_ASKS,   /* only calls of the plugin can show progress */
  DF_PLUGIN_MOVED
} df_plugin_progress;

/* The thread of the plugin: does a bounded amount of work, which lasts as long as the calls of the
 * plugin take. */
df_plugin_progress df_plugin_stream_work(df_plugin_stream *stream, uint64_t now_ns);
/* The thread of the plugin, after is_over: closes and frees the stream. */
void df_plugin_stream_close(df_plugin_stream *stream);

static inline uint8_t *df_plugin_cell(const df_plugin_stream *stream, int receives, uint32_t n) {
  const size_t cell = n % DF_PLUGIN_CELLS + (receives ? DF_PLUGIN_CELLS : 0);
  return stream->area + cell * DF_PLUGIN_CELL_BYTES;
}

#endif
