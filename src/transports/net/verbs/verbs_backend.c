/* Verbs as a network backend. Over the TCP stream the ends exchange the descriptions of their queue
 * pairs, and then confirm that the queue pair accepts packets: earlier packets would be lost and
 * sent again late. */
#include <stdlib.h>
#include <string.h>

#include "transports/net/verbs/verbs.h"

enum { MEETING_MAGIC = 0x0feddfcc, READY_MAGIC = 0x0fefdfcc };

typedef struct verbs_backend {
  df_net_backend base;
  df_verbs *verbs;
} verbs_backend;

static df_verbs *verbs_of(df_net_backend *base) { return ((verbs_backend *)base)->verbs; }
static df_verbs_stream *stream_of(df_net_backend_stream *base) { return (df_verbs_stream *)base; }

static dfcclResult_t net_backend_open(df_net_backend **out, const df_net_backend_owner *owner,
                                      const char *name) {
  (void)owner;
  if (*name)
    return df_fail(
        dfcclInvalidUsage,
        "environment variable DFCCL_NET names \"verbs:%.64s\"; nothing may follow verbs: "
        "DFCCL_NET_INTERFACES chooses the device",
        name);
  verbs_backend *net_backend = calloc(1, sizeof *net_backend);
  if (net_backend == NULL) return df_fail(dfcclOutOfMemory, "no memory for the record of devices");
  dfcclResult_t result = df_verbs_open(&net_backend->verbs);
  if (result != dfcclSuccess) {
    free(net_backend);
    return result;
  }
  net_backend->base =
      (df_net_backend){.ops = &df_net_backend_verbs, .fd = df_verbs_fd(net_backend->verbs)};
  *out = &net_backend->base;
  return dfcclSuccess;
}

static void net_backend_close(df_net_backend *base) {
  df_verbs_close(verbs_of(base));
  free(base);
}

static void net_backend_close_in_child(df_net_backend *base) {
  df_verbs_close_in_child(verbs_of(base));
}

static dfcclResult_t net_backend_begin(df_net_backend *base, const df_net_backend_channel *channel,
                                       df_net_backend_stream **out) {
  df_verbs_stream *stream;
  df_verbs_end mine;
  dfcclResult_t result = df_verbs_stream_make(verbs_of(base), &channel->here, &stream, &mine);
  if (result != dfcclSuccess) return result;
  df_verbs_meeting *meeting = df_verbs_stream_meeting(stream);
  meeting->channel = channel->stream;
  meeting->silence_ms = channel->silence_ms;
  meeting->out = (df_verbs_greeting){.magic = MEETING_MAGIC, .end = mine};
  *out = df_verbs_stream_of(stream);
  return dfcclSuccess;
}

/* Returns 1 when the whole message has been sent, -1 when the TCP stream has ended. */
static int send_message(df_verbs_meeting *meeting) {
  while (meeting->sent < sizeof meeting->out) {
    const df_stream_part part = {(const uint8_t *)&meeting->out + meeting->sent,
                                 sizeof meeting->out - meeting->sent};
    const int64_t taken = meeting->channel->write(meeting->channel, &part, 1);
    if (taken <= 0) return taken < 0 ? -1 : 0;
    meeting->sent += (uint32_t)taken;
  }
  return 1;
}

static int receive_message(df_verbs_meeting *meeting) {
  while (meeting->received < sizeof meeting->in) {
    const df_stream_room room = {(uint8_t *)&meeting->in + meeting->received,
                                 sizeof meeting->in - meeting->received};
    const int64_t came = meeting->channel->read(meeting->channel, &room, 1);
    if (came <= 0) return came < 0 ? -1 : 0;
    meeting->received += (uint32_t)came;
  }
  return 1;
}

static df_connect_state refuse(df_verbs_stream *stream, const char *reason) {
  df_verbs_stream_hang_up(stream, reason);
  return DF_CONNECT_REFUSED;
}

static df_connect_state join(df_verbs_stream *stream, df_verbs_meeting *meeting) {
  if (meeting->in.magic != MEETING_MAGIC)
    return refuse(stream, "the other end sent what is no queue pair");
  if (df_verbs_stream_join(stream, &meeting->in.end, meeting->silence_ms) != dfcclSuccess)
    return refuse(stream, df_last_sentence());
  meeting->has_joined = 1;
  meeting->out = (df_verbs_greeting){.magic = READY_MAGIC};
  meeting->sent = meeting->received = 0;
  return DF_CONNECT_PENDING;
}

static df_connect_state net_backend_connect(df_net_backend_stream *base) {
  df_verbs_stream *stream = stream_of(base);
  df_verbs_meeting *meeting = df_verbs_stream_meeting(stream);
  for (;;) {
    const int sent = send_message(meeting);
    const int received = sent < 0 ? -1 : receive_message(meeting);
    if (received < 0) return refuse(stream, meeting->channel->reason(meeting->channel));
    if (sent == 0 || received == 0) return DF_CONNECT_PENDING;
    if (meeting->has_joined)
      return meeting->in.magic == READY_MAGIC
                 ? DF_CONNECT_DONE
                 : refuse(stream, "the other end sent what is no queue pair");
    const df_connect_state state = join(stream, meeting);
    if (state != DF_CONNECT_PENDING) return state;
  }
}

/* The other end sends nothing more over the TCP stream, so only its end can be read. */
static void net_backend_read(df_net_backend_stream *base) {
  df_stream *channel = df_verbs_stream_meeting(stream_of(base))->channel;
  uint8_t bytes[64];
  const df_stream_room room = {bytes, sizeof bytes};
  int64_t came;
  do came = channel->read(channel, &room, 1);
  while (came > 0);
  if (came == DF_STREAM_ENDED) df_verbs_stream_hang_up(stream_of(base), channel->reason(channel));
}

static void net_backend_end(df_net_backend_stream *base) { df_verbs_stream_end(stream_of(base)); }

static void net_backend_look(df_net_backend *base, int spins) {
  if (spins)
    df_verbs_poll(verbs_of(base));
  else
    df_verbs_look(verbs_of(base));
}

static int net_backend_has_unsent(df_net_backend_stream *base) {
  return df_verbs_stream_has_unsent(stream_of(base));
}

static void net_backend_describe(const df_net_backend_stream *base,
                                 char text[DF_NET_BACKEND_ENDS_BYTES]) {
  df_verbs_stream_describe((const df_verbs_stream *)base, text);
}

const df_net_backend_ops df_net_backend_verbs = {.name = "verbs",
                                                 .open = net_backend_open,
                                                 .close = net_backend_close,
                                                 .close_in_child = net_backend_close_in_child,
                                                 .begin = net_backend_begin,
                                                 .connect = net_backend_connect,
                                                 .on_readable = net_backend_read,
                                                 .end = net_backend_end,
                                                 .look = net_backend_look,
                                                 .has_unsent = net_backend_has_unsent,
                                                 .describe = net_backend_describe};
