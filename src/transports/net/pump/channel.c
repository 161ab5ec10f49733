#include "transports/net/pump/channel.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

/* Number of payloads in a row after which the stream gathers, and the longest time between two of
 * them. */
#if defined(DF_SIMULATION)
enum { IN_A_ROW = 1 };
#define IN_A_ROW_NS UINT64_MAX
#else
enum { IN_A_ROW = 4, IN_A_ROW_NS = 50000 };
#endif

/* Sent in place of payloads that have disappeared. */
static const uint8_t nothing[64 << 10];

static uint32_t staged_bytes(uint32_t frame_bytes) {
  return (DF_CHANNEL_FRAMES + 4) * ((uint32_t)sizeof(df_frame) + DF_CHANNEL_COPIED) + frame_bytes;
}

int df_channel_make(df_channel *channel, uint32_t frame_bytes) {
  *channel = (df_channel){.frame_bytes = frame_bytes, .batch = DF_CHANNEL_GATHERED};
  channel->staged = malloc(staged_bytes(frame_bytes) + DF_CHANNEL_INPUT);
  channel->input = channel->staged + staged_bytes(frame_bytes);
  return channel->staged != NULL;
}

void df_channel_free(df_channel *channel) {
  free(channel->staged);
  channel->staged = NULL;
}

static void clear(df_channel *channel) {
  channel->first = channel->n_parts = channel->n_frames = channel->staged_end = 0;
  channel->gathered = 0;
  channel->has_lent = 0;
}

void df_channel_quiesce(df_channel *channel) {
  channel->is_quiesced = 1;
  clear(channel);
}

void df_channel_attach(df_channel *channel, df_stream *stream) {
  clear(channel);
  channel->stream = stream;
  channel->input_at = channel->input_end = 0;
  channel->is_quiesced = channel->has_ended = 0;
  channel->awaits = channel->gathers = channel->owes = 0;
  channel->has_more = stream != NULL;
  channel->sent_before = channel->bytes_sent;
  channel->received_before = channel->bytes_received;
  channel->delivered = 0;
}

/* ---- writing */

static uint8_t *stage(df_channel *channel, const void *bytes, uint32_t length) {
  uint8_t *there = channel->staged + channel->staged_end;
  memcpy(there, bytes, length);
  channel->staged_end += length;
  return there;
}

static void add(df_channel *channel, const void *bytes, uint32_t length, const void *owner) {
  df_stream_part *last = channel->n_parts ? &channel->parts[channel->n_parts - 1] : NULL;
  channel->gathered += length;
  if (last && owner == NULL && channel->owners[channel->n_parts - 1] == NULL &&
      (const uint8_t *)last->bytes + last->length == bytes) {
    last->length += length;
    return;
  }
  channel->owners[channel->n_parts] = owner;
  channel->parts[channel->n_parts++] = (df_stream_part){bytes, length};
}

void df_channel_begin(df_channel *channel) {
  channel->awaits = channel->one_way >= IN_A_ROW && channel->stream->gather;
  if (channel->gathers && !channel->awaits) {
    channel->gathers = 0;
    channel->stream->gather(channel->stream, 0);
  }
}

/* An awaited frame is sent before later bytes wait for its acknowledgement. */
static void gather_what_follows(df_channel *channel) {
  if (!channel->awaits || channel->gathers || channel->is_quiesced) return;
  channel->gathers = 1;
  channel->stream->gather(channel->stream, 1);
}

void df_channel_put_word(df_channel *channel, const df_frame *frame) {
  df_frame put = *frame; /* staged headers have any alignment */
  if (channel->awaits) put.kind |= DF_FRAME_IS_AWAITED;
  channel->n_frames++;
  channel->frames_sent++;
  add(channel, stage(channel, &put, sizeof put), sizeof put, NULL);
}

void df_channel_put(df_channel *channel, const df_frame *frame, const void *payload,
                    const void *owner) {
  const uint64_t now = df_clock_ns();
  /* Longer payloads fill packets and gain nothing by gathering. */
  if (now - channel->put_ns > IN_A_ROW_NS || frame->bytes > DF_CHANNEL_COPIED) channel->one_way = 0;
  channel->put_ns = now;
  channel->came_in_a_row = 0;
  channel->one_way += frame->bytes <= DF_CHANNEL_COPIED;
  df_channel_put_word(channel, frame);
  if (frame->bytes <= DF_CHANNEL_COPIED)
    add(channel, stage(channel, payload, frame->bytes), frame->bytes, NULL);
  else
    add(channel, payload, frame->bytes, owner);
}

void df_channel_put_lent(df_channel *channel, const df_frame *frame, const void *payload) {
  df_channel_put(channel, frame, payload, payload);
  channel->has_lent = frame->bytes > DF_CHANNEL_COPIED;
}

/* The owner may write to the buffer again, so the bytes that the stream did not accept are
 * copied. */
static void keep_lent(df_channel *channel) {
  df_stream_part *part = &channel->parts[channel->n_parts - 1];
  part->bytes = stage(channel, part->bytes, (uint32_t)part->length);
  channel->owners[channel->n_parts - 1] = NULL;
}

int df_channel_write(df_channel *channel) {
  if (df_channel_is_clear(channel)) return 0;
  int64_t taken = channel->is_quiesced
                      ? DF_STREAM_ENDED
                      : channel->stream->write(channel->stream, channel->parts + channel->first,
                                               channel->n_parts - channel->first);
  /* A remote end that has left accepts nothing more, but its last bytes may be unread. Therefore
   * the connection ends only when reading reaches the end. */
  if (taken == DF_STREAM_ENDED) {
    df_channel_quiesce(channel);
    return 0;
  }
  const int did = taken > 0;
  channel->bytes_sent += (uint64_t)taken;
  while (channel->first < channel->n_parts) {
    df_stream_part *part = &channel->parts[channel->first];
    const size_t now = DF_MIN((size_t)taken, part->length);
    part->bytes = (const uint8_t *)part->bytes + now;
    part->length -= now;
    taken -= (int64_t)now;
    if (part->length) break;
    channel->first++;
  }
  if (df_channel_is_clear(channel)) {
    clear(channel);
    gather_what_follows(channel);
  } else if (channel->has_lent && channel->owners[channel->n_parts - 1])
    keep_lent(channel);
  return did;
}

uint64_t df_channel_waiting(const df_channel *channel) {
  uint64_t bytes = 0;
  for (uint32_t i = channel->first; i < channel->n_parts; i++) bytes += channel->parts[i].length;
  return bytes;
}

static void blank(df_channel *channel, uint32_t part) {
  DF_ASSERT(channel->parts[part].length <= sizeof nothing);
  channel->parts[part].bytes = nothing;
  channel->owners[part] = NULL;
}

void df_channel_disown(df_channel *channel, const void *owner) {
  for (uint32_t i = channel->first; i < channel->n_parts; i++)
    if (channel->owners[i] == owner) blank(channel, i);
}

void df_channel_disown_at(df_channel *channel, const void *there, size_t bytes) {
  for (uint32_t i = channel->first; i < channel->n_parts; i++)
    if (channel->owners[i] && (uintptr_t)channel->parts[i].bytes - (uintptr_t)there < bytes)
      blank(channel, i);
}

/* ---- reading */

void df_channel_acknowledge(df_channel *channel) {
  if (channel->owes && channel->stream->acknowledge) channel->stream->acknowledge(channel->stream);
}

static uint32_t read_rooms(df_channel *channel, const df_stream_room *rooms, uint32_t n_rooms) {
  size_t most = 0;
  for (uint32_t i = 0; i < n_rooms; i++) most += rooms[i].length;
  const int64_t came = channel->stream->read(channel->stream, rooms, n_rooms);
  channel->has_more = came == (int64_t)most;
  if (came == DF_STREAM_ENDED) channel->has_ended = 1;
  if (came > 0) channel->bytes_received += (uint64_t)came;
  return came > 0 ? (uint32_t)came : 0;
}

int df_channel_read_frame(df_channel *channel, df_frame *frame) {
  const uint32_t had = channel->input_end - channel->input_at;
  if (had < sizeof *frame) {
    if (!channel->has_more) return 0;
    memmove(channel->input, channel->input + channel->input_at, had);
    channel->input_at = 0;
    const df_stream_room room = {channel->input + had, DF_CHANNEL_INPUT - had};
    channel->input_end = had + read_rooms(channel, &room, 1);
    if (channel->input_end < sizeof *frame) return 0;
  }
  memcpy(frame, channel->input + channel->input_at, sizeof *frame);
  channel->input_at += (uint32_t)sizeof *frame;
  channel->owes = (frame->kind & DF_FRAME_IS_AWAITED) != 0;
  frame->kind &= (uint8_t)~DF_FRAME_IS_AWAITED;
  channel->frames_received++;
  return 1;
}

static uint32_t take_input(df_channel *channel, void *there, uint32_t most) {
  const uint32_t taken = DF_MIN(most, channel->input_end - channel->input_at);
  if (there && taken) memcpy(there, channel->input + channel->input_at, taken);
  channel->input_at += taken;
  return taken;
}

uint32_t df_channel_read(df_channel *channel, void *there, uint32_t most) {
  uint32_t taken = take_input(channel, there, most);
  if (taken == most || !channel->has_more) return taken;
  channel->input_at = channel->input_end = 0;
  most -= taken;
  if (there == NULL || most < DF_CHANNEL_AHEAD) {
    const df_stream_room room = {channel->input, DF_CHANNEL_INPUT};
    channel->input_end = read_rooms(channel, &room, 1);
    return taken + take_input(channel, there ? (uint8_t *)there + taken : NULL, most);
  }
  const df_stream_room rooms[2] = {{(uint8_t *)there + taken, most},
                                   {channel->input, DF_CHANNEL_AHEAD}};
  const uint32_t came = read_rooms(channel, rooms, 2);
  if (came > most) channel->input_end = came - most;
  return taken + DF_MIN(came, most);
}
