/* The part of a connection that the thread of the plugin executes. */
#include "transports/net/plugin/plugin_stream.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/foreign_log.h"

enum { AREA_BYTES = 2 * DF_PLUGIN_CELLS * DF_PLUGIN_CELL_BYTES };

/* Time without a message after which both ends agree that the thread sleeps. */
#define DROWSY_NS ((uint64_t)20 * 1000 * 1000)

dfcclResult_t df_plugin_stream_make(df_plugin_stream **out, df_plugin_thread *thread) {
  df_plugin_stream *stream = aligned_alloc(64, sizeof *stream);
  void *area = mmap(NULL, AREA_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (stream == NULL || area == MAP_FAILED) {
    free(stream);
    if (area != MAP_FAILED) munmap(area, AREA_BYTES);
    return df_fail(dfcclOutOfMemory, "no memory for a connection over a network plugin");
  }
  memset(stream, 0, sizeof *stream);
  stream->thread = thread;
  stream->area = area;
  stream->message_most = DF_PLUGIN_CELL_BYTES;
  *out = stream;
  return dfcclSuccess;
}

/* Keeps the first failure, which is the cause of later ones. */
static void fail(df_plugin_stream *stream, const char *what, int error) {
  int number;
  const df_plugin *plugin = df_plugin_thread_plugin(stream->thread);
  const df_plugin_device *device = df_plugin_thread_device(stream->thread, &number);
  const char *said = df_foreign_last_warning();
  if (stream->has_failed) return;
  if (error)
    snprintf(stream->why, sizeof stream->why,
             "network plugin %.40s, device %.40s: %s fails with %d (%s)%s%.100s%s",
             df_plugin_name(plugin), device->name, what, error, df_plugin_error(error),
             *said ? "; it says \"" : "", said, *said ? "\"" : "");
  else
    snprintf(stream->why, sizeof stream->why, "network plugin %.40s, device %.40s: %s",
             df_plugin_name(plugin), device->name, what);
  df_publish_u32(&stream->has_failed, 1);
}

/* ---- connecting */

static int listen_here(df_plugin_stream *stream, const df_plugin *plugin, int device) {
  const int error = df_plugin_listen(plugin, device, stream->handle, &stream->listener);
  if (error || stream->listener == NULL) {
    fail(stream, error ? "listen" : "listen returns no listener", error);
    return 0;
  }
  df_publish_u32(&stream->phase, DF_PLUGIN_LISTENS);
  return 1;
}

static void try_connect(df_plugin_stream *stream, const df_plugin *plugin, int device) {
  const int error = df_plugin_connect(plugin, device, stream->remote_handle, &stream->sender);
  if (error) fail(stream, "connect", error);
}

static void try_accept(df_plugin_stream *stream, const df_plugin *plugin) {
  const int error = df_plugin_accept(plugin, stream->listener, &stream->receiver);
  if (error) fail(stream, "accept", error);
  if (error || stream->receiver == NULL) return;
  df_plugin_close_listener(plugin, stream->listener);
  stream->listener = NULL;
}

static void register_area(df_plugin_stream *stream, const df_plugin *plugin) {
  int error = df_plugin_register(plugin, stream->sender, df_plugin_cell(stream, 0, 0),
                                 AREA_BYTES / 2, &stream->send_registration);
  if (error) {
    stream->send_registration = NULL;
    fail(stream, "regMr", error);
    return;
  }
  error = df_plugin_register(plugin, stream->receiver, df_plugin_cell(stream, 1, 0), AREA_BYTES / 2,
                             &stream->receive_registration);
  if (error) {
    stream->receive_registration = NULL;
    fail(stream, "regMr", error);
  }
}

/* Calls accept only when the remote end has called connect: accept waits in version 4, and in one
 * plugin of later versions too. Otherwise threads could wait for each other in a circle. */
static int connect_both(df_plugin_stream *stream, const df_plugin *plugin, int device) {
  const int waits = df_plugin_connect_waits(plugin);
  const int had = (stream->sender != NULL) + (stream->receiver != NULL);
  int is_news = 0;
  if (stream->sender == NULL) try_connect(stream, plugin, device);
  if (stream->has_failed) return 1;
  if ((stream->sender || !waits) && stream->phase < DF_PLUGIN_CALLED) {
    df_publish_u32(&stream->phase, DF_PLUGIN_CALLED);
    is_news = 1;
  }
  if (stream->receiver == NULL && df_observe_u32(&stream->remote_has_called))
    try_accept(stream, plugin);
  if (!stream->has_failed && stream->sender && stream->receiver) {
    register_area(stream, plugin);
    if (!stream->has_failed) df_publish_u32(&stream->phase, DF_PLUGIN_CONNECTED);
    return 1;
  }
  return is_news || stream->has_failed ||
         (stream->sender != NULL) + (stream->receiver != NULL) > had;
}

static df_plugin_progress advance_connection(df_plugin_stream *stream, const df_plugin *plugin) {
  int device;
  (void)df_plugin_thread_device(stream->thread, &device);
  if (stream->phase == DF_PLUGIN_BEGINS) {
    listen_here(stream, plugin, device);
    return DF_PLUGIN_MOVED;
  }
  if (stream->phase == DF_PLUGIN_LISTENS && df_observe_u32(&stream->has_remote_handle))
    df_publish_u32(&stream->phase, DF_PLUGIN_CONNECTS);
  if (stream->phase == DF_PLUGIN_LISTENS) return DF_PLUGIN_SLEEPS;
  if (connect_both(stream, plugin, device)) return DF_PLUGIN_MOVED;
  /* Then the thread waits for the message of the remote end, which rings. */
  const int awaits = stream->sender && !df_observe_u32(&stream->remote_has_called);
  return awaits ? DF_PLUGIN_SLEEPS : DF_PLUGIN_ASKS;
}

/* ---- messages */

static uint32_t bytes_of(const df_plugin_stream *stream, uint32_t n) {
  df_plugin_head head;
  memcpy(&head, df_plugin_cell(stream, 0, n), sizeof head);
  return (uint32_t)sizeof head + head.bytes;
}

static int send_some(df_plugin_stream *stream, const df_plugin *plugin) {
  const uint32_t written = df_observe_u32(&stream->written);
  int did = 0;
  while (stream->posted != written) {
    void *request;
    const int error =
        df_plugin_send(plugin, stream->sender, df_plugin_cell(stream, 0, stream->posted),
                       bytes_of(stream, stream->posted), stream->send_registration, &request);
    if (error) fail(stream, "isend", error);
    if (error || request == NULL) break;
    stream->sends[stream->posted++ % DF_PLUGIN_CELLS] = request;
    did = 1;
  }
  return did;
}

/* Tests the oldest first, because one plugin fails if tested in another order. */
static int test_sends(df_plugin_stream *stream, const df_plugin *plugin) {
  const uint32_t before = stream->sent;
  uint32_t sent = before;
  while (sent != stream->posted && !stream->has_failed) {
    int is_done;
    const int error = df_plugin_test(plugin, stream->sends[sent % DF_PLUGIN_CELLS], &is_done);
    if (error) fail(stream, "test of a send", error);
    if (error || !is_done) break;
    sent++;
  }
  if (sent != before) df_publish_u32(&stream->sent, sent);
  return sent != before;
}

static int ask_for_some(df_plugin_stream *stream, const df_plugin *plugin) {
  const uint32_t end = df_observe_u32(&stream->taken) + DF_PLUGIN_CELLS;
  int did = 0;
  while (stream->asked_for != end) {
    void *request;
    const int error =
        df_plugin_receive(plugin, stream->receiver, df_plugin_cell(stream, 1, stream->asked_for),
                          stream->message_most, stream->receive_registration, &request);
    if (error) fail(stream, "irecv", error);
    if (error || request == NULL) break;
    stream->receives[stream->asked_for++ % DF_PLUGIN_CELLS] = request;
    did = 1;
  }
  return did;
}

/* Checks a message head, which comes from another process. */
static int is_sound(const df_plugin_stream *stream, uint32_t n) {
  df_plugin_head head;
  memcpy(&head, df_plugin_cell(stream, 1, n), sizeof head);
  return head.number == n && head.bytes && head.bytes <= stream->message_most - sizeof head;
}

static int test_receives(df_plugin_stream *stream, const df_plugin *plugin) {
  const uint32_t before = stream->arrived;
  uint32_t arrived = before;
  while (arrived != stream->asked_for && !stream->has_failed) {
    int is_done;
    const int error = df_plugin_test(plugin, stream->receives[arrived % DF_PLUGIN_CELLS], &is_done);
    if (error) fail(stream, "test of a receive", error);
    if (error || !is_done) break;
    if (is_sound(stream, arrived))
      arrived++;
    else
      fail(stream, "a message arrived with a wrong length or number", 0);
  }
  if (arrived != before) df_publish_u32(&stream->arrived, arrived);
  return arrived != before;
}

/* Only calls of the plugin can show that a message has arrived. After 20 ms without one, the remote
 * end is asked to announce when it sends again. Until it has been asked, and while it announces
 * messages, the calls continue. */
static df_plugin_progress rest(df_plugin_stream *stream, uint64_t now_ns) {
  const uint32_t wakes = df_observe_u32(&stream->wakes);
  if (stream->posted != stream->sent || stream->posted != df_observe_u32(&stream->written))
    return DF_PLUGIN_ASKS;
  const uint32_t reported = df_observe_u32(&stream->naps_reported);
  if (wakes != stream->wakes_seen) {
    stream->wakes_seen = wakes;
    stream->busy_ns = now_ns;
    stream->rests = 0;
  }
  if (stream->n_napped != stream->arrived) stream->rests = 0;
  if (stream->rests) return reported == stream->naps ? DF_PLUGIN_SLEEPS : DF_PLUGIN_ASKS;
  if (reported != stream->naps || now_ns - stream->busy_ns < DROWSY_NS) return DF_PLUGIN_ASKS;
  stream->rests = 1;
  stream->n_napped = stream->arrived;
  df_publish_u32(&stream->naps, stream->naps + 1);
  return DF_PLUGIN_MOVED; /* the owner has to be notified */
}

df_plugin_progress df_plugin_stream_work(df_plugin_stream *stream, uint64_t now_ns) {
  const df_plugin *plugin = df_plugin_thread_plugin(stream->thread);
  if (stream->has_failed) return DF_PLUGIN_SLEEPS;
  if (stream->phase != DF_PLUGIN_CONNECTED) return advance_connection(stream, plugin);
  int did = ask_for_some(stream, plugin);
  if (!stream->has_failed) did |= send_some(stream, plugin);
  if (!stream->has_failed) did |= test_sends(stream, plugin);
  if (!stream->has_failed) did |= test_receives(stream, plugin);
  if (did) stream->busy_ns = now_ns;
  if (did || stream->has_failed) return DF_PLUGIN_MOVED;
  return rest(stream, now_ns);
}

/* ---- closing */

/* Posted receives cannot be withdrawn. A plugin may still write to their memory, so that memory is
 * never reused; its pages are returned. */
void df_plugin_stream_close(df_plugin_stream *stream) {
  const df_plugin *plugin = df_plugin_thread_plugin(stream->thread);
  const int is_asked = stream->posted != stream->sent || stream->asked_for != stream->arrived;
  if (stream->send_registration)
    df_plugin_deregister(plugin, stream->sender, stream->send_registration);
  if (stream->receive_registration)
    df_plugin_deregister(plugin, stream->receiver, stream->receive_registration);
  if (stream->sender) df_plugin_close_sender(plugin, stream->sender);
  if (stream->receiver) df_plugin_close_receiver(plugin, stream->receiver);
  if (stream->listener) df_plugin_close_listener(plugin, stream->listener);
  if (is_asked)
    (void)madvise(stream->area, AREA_BYTES, MADV_DONTNEED);
  else
    munmap(stream->area, AREA_BYTES);
  free(stream);
}
