/* The part of connections over a network plugin that their owner executes. */
#include "transports/net/plugin/plugin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "transports/net/plugin/plugin_rendezvous.h"

typedef struct plugin_backend plugin_backend;

/* One connection, as the owner sees it. */
typedef struct owned {
  df_net_backend_stream base;
  struct owned *next;
  plugin_backend *net_backend;
  df_plugin_stream *stream; /* the part that is shared with the thread of the plugin */
  df_plugin_rendezvous rendezvous;
  int has_ended; /* no bytes are sent or received any more; the reason is in why */
  int has_sent_handle, has_sent_connected;
  int remote_sleeps, must_wake;
  uint32_t read; /* bytes read of the first message that has arrived */
  uint32_t sent_seen, arrived_seen, phase_seen; /* values at the latest look */
  uint32_t asked,
      answered;    /* number of messages asked about, and number confirmed to have arrived */
  uint32_t wanted; /* number of messages whose arrival the remote end asked to be confirmed */
  int has_wanted;
  char why[DF_PLUGIN_WHY_BYTES + 64];
} owned;

struct plugin_backend {
  df_net_backend base;
  df_plugin_thread *thread;
  df_net_backend_owner owner;
  owned *streams;
  uint32_t is_armed; /* the owner may sleep: the thread of the plugin calls wake */
};

static owned *owned_of(df_net_backend_stream *base) { return (owned *)base; }

static void end_because(owned *o, const char *prefix, const char *reason) {
  if (o->has_ended) return;
  o->has_ended = o->base.is_ready = 1;
  snprintf(o->why, sizeof o->why, "%s%.*s", prefix, DF_PLUGIN_TEXT_MOST, reason);
}

/* Sends the reason to the remote end too, which otherwise sees only that the connection ends. */
static void end_and_report(owned *o, const char *reason) {
  if (o->has_ended) return;
  end_because(o, "", reason);
  (void)df_plugin_rendezvous_send(&o->rendezvous, DF_PLUGIN_MESSAGE_FAILED, 0, o->why,
                                  (uint32_t)DF_MIN(strlen(o->why), (size_t)DF_PLUGIN_TEXT_MOST));
}

/* Records the first failure of this end. */
static void note_own_failure(owned *o) {
  if (df_observe_u32(&o->stream->has_failed)) end_and_report(o, o->stream->why);
}

static void receive_messages(owned *o);

/* If the remote end has failed first, it has sent the reason, while the plugin only reports that
 * the peer went away. */
static void note_failure(owned *o) {
  if (o->has_ended || !df_observe_u32(&o->stream->has_failed)) return;
  receive_messages(o);
  note_own_failure(o);
}

/* ---- opening and closing */

static dfcclResult_t net_backend_open(df_net_backend **out, const df_net_backend_owner *owner,
                                      const char *name) {
  plugin_backend *net_backend = calloc(1, sizeof *net_backend);
  if (net_backend == NULL) return df_fail(dfcclOutOfMemory, "no memory for a network plugin");
  dfcclResult_t result = df_plugin_thread_open(&net_backend->thread, name);
  if (result != dfcclSuccess) {
    free(net_backend);
    return result;
  }
  net_backend->base = (df_net_backend){.ops = &df_net_backend_plugin, .fd = -1};
  net_backend->owner = *owner;
  *out = &net_backend->base;
  return dfcclSuccess;
}

static void net_backend_close(df_net_backend *base) {
  plugin_backend *net_backend = (plugin_backend *)base;
  df_plugin_thread_close(net_backend->thread);
  free(net_backend);
}

/* [df_plugin_lock] Called by the thread of the plugin. */
static void wake_owner(df_plugin_stream *stream) {
  plugin_backend *net_backend = stream->owner;
  df_wake_fence(); /* orders the published words before the check whether the owner may sleep */
  if (df_load_relaxed_u32(&net_backend->is_armed) &&
      df_system_exchange_u32(&net_backend->is_armed, 0))
    net_backend->owner.wake(net_backend->owner.owner);
}

static int64_t plugin_write(df_stream *base, const df_stream_part *parts, uint32_t n_parts);
static int64_t plugin_read(df_stream *base, const df_stream_room *rooms, uint32_t n_rooms);
static const char *plugin_reason(df_stream *base);

static dfcclResult_t net_backend_begin(df_net_backend *base, const df_net_backend_channel *channel,
                                       df_net_backend_stream **out) {
  plugin_backend *net_backend = (plugin_backend *)base;
  owned *o = calloc(1, sizeof *o);
  if (o == NULL) return df_fail(dfcclOutOfMemory, "no memory for a connection");
  dfcclResult_t result = df_plugin_stream_make(&o->stream, net_backend->thread);
  if (result != dfcclSuccess) {
    free(o);
    return result;
  }
  o->base.stream = (df_stream){.write = plugin_write, .read = plugin_read, .reason = plugin_reason};
  o->rendezvous.stream = channel->stream;
  o->net_backend = net_backend;
  o->next = net_backend->streams;
  net_backend->streams = o;
  o->stream->owner = net_backend;
  o->stream->notify = wake_owner;
  df_plugin_thread_adopt(net_backend->thread, o->stream);
  *out = &o->base;
  return dfcclSuccess;
}

static void net_backend_end(df_net_backend_stream *base) {
  owned *o = owned_of(base), **at = &o->net_backend->streams;
  note_failure(o);
  df_plugin_lock();
  o->stream->notify = NULL;
  df_plugin_unlock();
  df_publish_u32(&o->stream->is_over,
                 1); /* after this store the thread of the plugin may free it */
  df_plugin_thread_ring(o->net_backend->thread);
  while (*at != o) at = &(*at)->next;
  *at = o->next;
  free(o);
}

/* ---- sending messages */

static void send_handle(owned *o) {
  int number;
  const df_plugin_device *device = df_plugin_thread_device(o->net_backend->thread, &number);
  df_plugin_offer mine = {
      .message_most = (uint32_t)DF_MIN(device->message_most, (uint64_t)DF_PLUGIN_CELL_BYTES),
      .cells = DF_PLUGIN_CELLS};
  snprintf(mine.plugin, sizeof mine.plugin, "%s",
           df_plugin_name(df_plugin_thread_plugin(o->net_backend->thread)));
  memcpy(mine.handle, o->stream->handle, sizeof mine.handle);
  (void)df_plugin_rendezvous_send(&o->rendezvous, DF_PLUGIN_MESSAGE_HANDLE, 0, &mine, sizeof mine);
  o->has_sent_handle = 1;
}

/* Reports what the thread of the plugin has published. */
static void report_progress(owned *o) {
  df_plugin_stream *stream = o->stream;
  const uint32_t phase = df_observe_u32(&stream->phase);
  if (phase >= DF_PLUGIN_LISTENS && !o->has_sent_handle) send_handle(o);
  if (phase >= DF_PLUGIN_CALLED && !o->has_sent_connected) {
    o->has_sent_connected = 1;
    (void)df_plugin_rendezvous_send(&o->rendezvous, DF_PLUGIN_MESSAGE_CONNECTED, 0, NULL, 0);
  }
  const uint32_t naps = df_observe_u32(&stream->naps);
  if (naps != stream->naps_reported &&
      df_plugin_rendezvous_send(&o->rendezvous, DF_PLUGIN_MESSAGE_SLEEPS, stream->n_napped, NULL,
                                0)) {
    df_publish_u32(&stream->naps_reported, naps);
    df_plugin_thread_ring(o->net_backend->thread);
  }
  if (o->must_wake && df_plugin_rendezvous_send(&o->rendezvous, DF_PLUGIN_MESSAGE_WAKE, 0, NULL, 0))
    o->remote_sleeps = o->must_wake = 0;
  if (o->has_wanted && (int32_t)(df_observe_u32(&stream->arrived) - o->wanted) >= 0 &&
      df_plugin_rendezvous_send(&o->rendezvous, DF_PLUGIN_MESSAGE_ANSWER, o->wanted, NULL, 0))
    o->has_wanted = 0;
}

/* ---- receiving messages */

static void take_handle(owned *o) {
  const df_plugin *plugin = df_plugin_thread_plugin(o->net_backend->thread);
  int number;
  const df_plugin_device *device = df_plugin_thread_device(o->net_backend->thread, &number);
  df_plugin_offer theirs;
  memcpy(&theirs, o->rendezvous.in, sizeof theirs);
  theirs.plugin[sizeof theirs.plugin - 1] = '\0';
  if (strncmp(theirs.plugin, df_plugin_name(plugin), sizeof theirs.plugin - 1) != 0) {
    char text[DF_PLUGIN_WHY_BYTES];
    snprintf(text, sizeof text, "this end's network plugin is %.64s, the other end's is %.64s",
             df_plugin_name(plugin), theirs.plugin);
    end_and_report(o, text);
  } else if (o->stream->has_remote_handle || theirs.cells != DF_PLUGIN_CELLS ||
             theirs.message_most < DF_PLUGIN_MESSAGE_LEAST)
    end_and_report(o, "the other end sent a malformed handle");
  else {
    o->stream->message_most =
        (uint32_t)DF_MIN(DF_MIN((uint64_t)theirs.message_most, device->message_most),
                         (uint64_t)DF_PLUGIN_CELL_BYTES);
    memcpy(o->stream->remote_handle, theirs.handle, sizeof theirs.handle);
    df_publish_u32(&o->stream->has_remote_handle, 1);
    df_plugin_thread_ring(o->net_backend->thread);
  }
}

static void wake_thread(owned *o) {
  df_publish_u32(&o->stream->wakes, o->stream->wakes + 1);
  df_plugin_thread_ring(o->net_backend->thread);
}

static void take_word(owned *o) {
  const uint32_t count = o->rendezvous.message.count;
  switch (o->rendezvous.message.kind) {
  case DF_PLUGIN_MESSAGE_HANDLE:
    take_handle(o);
    break;
  case DF_PLUGIN_MESSAGE_CONNECTED:
    df_publish_u32(&o->stream->remote_has_called, 1);
    df_plugin_thread_ring(o->net_backend->thread);
    break;
  case DF_PLUGIN_MESSAGE_FAILED:
    end_because(o, "the other end says: ", (const char *)o->rendezvous.in);
    break;
  case DF_PLUGIN_MESSAGE_SLEEPS:
    o->remote_sleeps = 1;
    o->must_wake = count != o->stream->written;
    break;
  case DF_PLUGIN_MESSAGE_WAKE:
    wake_thread(o);
    break;
  case DF_PLUGIN_MESSAGE_ASK:
    o->wanted = count;
    o->has_wanted = 1;
    break;
  default:
    o->answered = count;
  }
}

static void receive_messages(owned *o) {
  int came = 1;
  df_plugin_rendezvous_flush(&o->rendezvous);
  while (came == 1) {
    came = df_plugin_rendezvous_receive(&o->rendezvous);
    if (came == 1) take_word(o);
  }
  if (came == DF_STREAM_REFUSED) end_because(o, "", "the other end sent a malformed message");
  /* A failure of this end may be the cause. */
  if (came == DF_STREAM_ENDED) {
    note_own_failure(o);
    end_because(o, "", o->rendezvous.stream->reason(o->rendezvous.stream));
  }
}

static df_connect_state net_backend_connect(df_net_backend_stream *base) {
  owned *o = owned_of(base);
  note_failure(o);
  if (!o->has_ended) receive_messages(o);
  report_progress(o);
  if (o->has_ended) return DF_CONNECT_REFUSED;
  return df_observe_u32(&o->stream->phase) == DF_PLUGIN_CONNECTED ? DF_CONNECT_DONE
                                                                  : DF_CONNECT_PENDING;
}

static void net_backend_read(df_net_backend_stream *base) {
  receive_messages(owned_of(base));
  report_progress(owned_of(base));
}

/* ---- bytes */

/* Copies from the parts, starting at byte `at` of the first. */
static void gather(const df_stream_part **parts, size_t *at, uint8_t *there, uint32_t bytes) {
  while (bytes) {
    const uint32_t now = (uint32_t)DF_MIN((*parts)->length - *at, (size_t)bytes);
    memcpy(there, (const uint8_t *)(*parts)->bytes + *at, now);
    there += now;
    bytes -= now;
    *at += now;
    if (*at < (*parts)->length) return;
    ++*parts;
    *at = 0;
  }
}

static int64_t plugin_write(df_stream *base, const df_stream_part *parts, uint32_t n_parts) {
  owned *o = (owned *)base;
  df_plugin_stream *stream = o->stream;
  size_t left = 0, at = 0;
  int64_t taken = 0;
  note_failure(o);
  if (o->has_ended) return DF_STREAM_ENDED;
  for (uint32_t i = 0; i < n_parts; i++) left += parts[i].length;
  o->sent_seen = df_observe_u32(&stream->sent);
  uint32_t written = stream->written;
  while (left && written - o->sent_seen < DF_PLUGIN_CELLS) {
    df_plugin_head head = {.number = written};
    uint8_t *cell = df_plugin_cell(stream, 0, written);
    head.bytes = (uint32_t)DF_MIN(left, (size_t)stream->message_most - sizeof head);
    memcpy(cell, &head, sizeof head);
    gather(&parts, &at, cell + sizeof head, head.bytes);
    left -= head.bytes;
    taken += head.bytes;
    written++;
  }
  if (taken == 0) return 0;
  df_publish_u32(&stream->written, written);
  df_plugin_thread_ring(o->net_backend->thread);
  if (o->remote_sleeps) {
    o->must_wake = 1;
    report_progress(o);
  }
  return taken;
}

/* Reads up to `most` bytes of the first message that has arrived. */
static uint32_t take(owned *o, uint32_t taken, void *there, size_t most) {
  const uint8_t *cell = df_plugin_cell(o->stream, 1, taken);
  df_plugin_head head;
  memcpy(&head, cell, sizeof head);
  const uint32_t now = (uint32_t)DF_MIN((size_t)(head.bytes - o->read), most);
  memcpy(there, cell + sizeof head + o->read, now);
  o->read = o->read + now == head.bytes ? 0 : o->read + now;
  return now;
}

static int64_t plugin_read(df_stream *base, const df_stream_room *rooms, uint32_t n_rooms) {
  owned *o = (owned *)base;
  df_plugin_stream *stream = o->stream;
  note_failure(
      o); /* check before counting the messages that have arrived: all of them can still be read */
  const uint32_t arrived = df_observe_u32(&stream->arrived);
  uint32_t taken = stream->taken;
  int64_t came = 0;
  for (uint32_t i = 0; i < n_rooms; i++)
    for (size_t at = 0; at < rooms[i].length && taken != arrived;) {
      const uint32_t now = take(o, taken, (uint8_t *)rooms[i].bytes + at, rooms[i].length - at);
      taken += o->read == 0;
      at += now;
      came += now;
    }
  if (taken != stream->taken) {
    df_publish_u32(&stream->taken, taken);
    df_plugin_thread_ring(o->net_backend->thread);
  }
  o->arrived_seen = arrived;
  if (!o->has_ended) return came;
  if (came == 0) return DF_STREAM_ENDED;
  o->base.is_ready = 1; /* the end has still to be read */
  return came;
}

static const char *plugin_reason(df_stream *base) { return ((owned *)base)->why; }

/* ---- looking */

/* Arms first, so that words published after the look call wake. */
static void net_backend_look(df_net_backend *base, int spins) {
  plugin_backend *net_backend = (plugin_backend *)base;
  if (!spins) {
    df_store_relaxed_u32(&net_backend->is_armed, 1);
    df_wake_fence();
  }
  for (owned *o = net_backend->streams; o; o = o->next) {
    const df_plugin_stream *stream = o->stream;
    if (o->has_ended) continue;
    const uint32_t arrived = df_observe_u32(&stream->arrived);
    const uint32_t sent = df_observe_u32(&stream->sent);
    if (arrived != o->arrived_seen || sent != o->sent_seen) o->base.is_ready = 1;
    const uint32_t phase = df_observe_u32(&stream->phase);
    if (phase != o->phase_seen) o->base.is_ready = 1; /* for connect */
    o->phase_seen = phase;
    o->arrived_seen = arrived;
    o->sent_seen = sent;
    note_failure(o);
    report_progress(o);
  }
}

static int net_backend_has_unsent(df_net_backend_stream *base) {
  owned *o = owned_of(base);
  const uint32_t written = o->stream->written;
  if (o->has_ended) return 0;
  if (o->answered == written) return 0;
  if (o->asked != written &&
      df_plugin_rendezvous_send(&o->rendezvous, DF_PLUGIN_MESSAGE_ASK, written, NULL, 0))
    o->asked = written;
  return 1;
}

static void net_backend_describe(const df_net_backend_stream *base,
                                 char text[DF_NET_BACKEND_ENDS_BYTES]) {
  const owned *o = (const owned *)base;
  int number;
  const df_plugin_device *device = df_plugin_thread_device(o->net_backend->thread, &number);
  const df_plugin *plugin = df_plugin_thread_plugin(o->net_backend->thread);
  snprintf(text, DF_NET_BACKEND_ENDS_BYTES, "network plugin %.40s, version %d, device %.40s",
           df_plugin_name(plugin), plugin->version, device->name);
}

const df_net_backend_ops df_net_backend_plugin = {.name = "plugin",
                                                  .open = net_backend_open,
                                                  .close = net_backend_close,
                                                  .begin = net_backend_begin,
                                                  .connect = net_backend_connect,
                                                  .on_readable = net_backend_read,
                                                  .end = net_backend_end,
                                                  .look = net_backend_look,
                                                  .has_unsent = net_backend_has_unsent,
                                                  .describe = net_backend_describe};
