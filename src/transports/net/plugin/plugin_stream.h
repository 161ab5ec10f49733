/*
 * One connection over a network plugin: a communicator each way, and cells of registered memory,
 * one for a message. Two threads know it: the owner, who holds the endpoint's lock, and the
 * plugin's thread. Each word between them has one writer (docs/MEMORY_MODEL.md, row 4g).
 */
#ifndef DF_TRANSPORTS_NET_PLUGIN_PLUGIN_STREAM_H
#define DF_TRANSPORTS_NET_PLUGIN_PLUGIN_STREAM_H

#include "transports/net/stream/net_backend.h"
#include "transports/net/plugin/plugin_thread.h"

enum {
  DF_PLUGIN_CELLS = 8, /* as many messages in flight as all plugins allow */
  DF_PLUGIN_CELL_BYTES = 64 << 10,
  DF_PLUGIN_WHY_BYTES = 240
};

typedef enum {
  DF_PLUGIN_BEGINS,
  DF_PLUGIN_LISTENS,  /* handle is there */
  DF_PLUGIN_CONNECTS, /* the remote handle is there */
  DF_PLUGIN_CALLED,   /* so is what connect does: the remote end may accept */
  DF_PLUGIN_CONNECTED
} df_plugin_phase;

/* Before each message's bytes. */
typedef struct df_plugin_head {
  uint32_t bytes, number;
} df_plugin_head;

typedef struct df_plugin_stream {
  df_net_backend_stream base; /* the owner's */
  df_plugin_thread *thread;
  uint8_t *area;         /* [2 * DF_PLUGIN_CELLS * DF_PLUGIN_CELL_BYTES] to send, to receive */
  uint32_t message_most; /* both ends', once the remote handle is there */

  /* The plugin's thread publishes. */
  DF_ALIGNED(64) uint32_t phase;
  uint32_t has_failed; /* why is there */
  uint32_t sent;       /* messages whose cells are free again */
  uint32_t arrived;
  uint32_t naps; /* it would no longer ask the plugin for messages; n_napped is there */
  char why[DF_PLUGIN_WHY_BYTES];
  uint32_t n_napped;                                     /* messages that had arrived */
  DF_ALIGNED(16) uint8_t handle[DF_PLUGIN_HANDLE_BYTES]; /* plugins cast it to structs of theirs */

  /* The owner publishes. */
  DF_ALIGNED(64) uint32_t has_remote_handle;
  uint32_t remote_has_called;
  uint32_t written; /* messages */
  uint32_t taken;   /* messages whose cells are free again */
  uint32_t told;    /* naps, to the remote end */
  uint32_t wakes;   /* the remote end sends again */
  uint32_t is_over;
  DF_ALIGNED(16) uint8_t remote_handle[DF_PLUGIN_HANDLE_BYTES];

  /* [df_plugin_lock] */
  void (*tell)(
      struct df_plugin_stream *stream); /* there is news for the owner; NULL: it has gone */
  void *owner;

  /* The plugin's thread. */
  struct df_plugin_stream *next;
  void *listener, *sender, *receiver;
  void *send_registration, *receive_registration;
  void *sends[DF_PLUGIN_CELLS], *receives[DF_PLUGIN_CELLS]; /* requests */
  uint32_t posted, asked_for; /* messages given to the plugin, and receives of it */
  uint64_t busy_ns;           /* when something happened last */
  uint32_t wakes_seen;
  int rests; /* since naps changed */
} df_plugin_stream;

/* dfcclOutOfMemory. */
dfcclResult_t df_plugin_stream_make(df_plugin_stream **stream, df_plugin_thread *thread);

typedef enum {
  DF_PLUGIN_SLEEPS, /* until somebody rings */
  DF_PLUGIN_ASKS,   /* only calls can tell whether there is news */
  DF_PLUGIN_MOVED
} df_plugin_progress;

/* The plugin's thread: a bounded amount, and as long as the plugin's calls take. */
df_plugin_progress df_plugin_stream_work(df_plugin_stream *stream, uint64_t now_ns);
/* The plugin's thread, after is_over: closes and frees it. */
void df_plugin_stream_close(df_plugin_stream *stream);

static inline uint8_t *df_plugin_cell(const df_plugin_stream *stream, int receives, uint32_t n) {
  const size_t cell = n % DF_PLUGIN_CELLS + (receives ? DF_PLUGIN_CELLS : 0);
  return stream->area + cell * DF_PLUGIN_CELL_BYTES;
}

#endif
