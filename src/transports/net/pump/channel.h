/*
 * One connection of a pump: frames that wait for the stream, and bytes that have arrived. Frames
 * are gathered and written together. A payload is not copied if it stays in place until the remote
 * end has it; small payloads are copied behind their headers.
 */
#ifndef DF_TRANSPORTS_NET_PUMP_CHANNEL_H
#define DF_TRANSPORTS_NET_PUMP_CHANNEL_H

#include "transports/net/pump/frame.h"
#include "transports/net/stream/stream.h"

enum {
  DF_CHANNEL_FRAMES = 28,  /* gathered for one write */
  DF_CHANNEL_GATHERED = 4, /* full frames in one write, if there is one connection for them */
#if defined(DF_SIMULATION)
  DF_CHANNEL_COPIED = 8,
  DF_CHANNEL_INPUT = 48,
  DF_CHANNEL_AHEAD = 24
#else
  DF_CHANNEL_COPIED = 256, /* payloads up to this size are copied behind their headers */
  DF_CHANNEL_INPUT = 8 << 10,
  DF_CHANNEL_AHEAD =
      2048 +
      16 /* read in addition to a payload that goes elsewhere: a header and a small payload */
#endif
};

typedef struct df_channel {
  df_stream *stream; /* NULL: not connected */
  uint32_t frame_bytes;
  uint32_t batch; /* full frames in one write */

  df_stream_part parts[DF_STREAM_PARTS];
  const void *owners[DF_STREAM_PARTS]; /* owner of a part that is not in `staged` */
  uint32_t first, n_parts, n_frames;
  uint64_t gathered; /* bytes gathered and not written */
  uint8_t *staged;   /* headers, and copies of small payloads */
  uint32_t staged_end;
  int has_lent; /* the last part is a lent buffer */

  uint8_t *input;
  uint32_t input_at, input_end;
  int has_more;           /* the stream may have more than was read */
  int is_quiesced;        /* nothing more is sent; something may still arrive */
  uint32_t one_way;       /* payloads put in a row since one arrived */
  uint32_t came_in_a_row; /* payloads that arrived in a row since one was put */
  uint64_t put_ns;        /* time of the latest payload that was put */
  int awaits;             /* further frames are DF_FRAME_IS_AWAITED ... */
  int gathers;            /* ... and the stream gathers the bytes that follow one of them */
  /* the latest received frame is awaited: its rest, and a part of the next, are acknowledged at
   * once */
  int owes;
  int has_ended;
  /* Totals of all streams of this channel. */
  uint64_t frames_sent, bytes_sent, frames_received, bytes_received;
  uint64_t sent_before, received_before; /* values when the present stream was attached */
  uint64_t delivered; /* lower bound for the bytes that the present stream has delivered */
} df_channel;

/* Returns 0 if there is no memory. */
int df_channel_make(df_channel *channel, uint32_t frame_bytes);
void df_channel_free(df_channel *channel);

/* Drops everything that was gathered for, or read from, an earlier stream. stream is NULL if there
 * is no connection. */
void df_channel_attach(df_channel *channel, df_stream *stream);

static inline int df_channel_is_clear(const df_channel *channel) {
  return channel->first == channel->n_parts;
}
/* Returns 1 if a further frame has room before the write. */
static inline int df_channel_has_room(const df_channel *channel) {
  return channel->n_frames < DF_CHANNEL_FRAMES && !channel->has_lent &&
         channel->gathered < (uint64_t)channel->batch * channel->frame_bytes;
}

/* Returns the number of gathered bytes that the stream has not accepted. */
uint64_t df_channel_waiting(const df_channel *channel);

/* Call before putting frames, if they are short. After some payloads in a row in one direction, the
 * stream gathers: a packet for each payload would cost the sender more than everything else. */
void df_channel_begin(df_channel *channel);
/* Puts a header alone, whatever its member `bytes` is. */
void df_channel_put_word(df_channel *channel, const df_frame *frame);
/* Puts a frame with a payload that stays unchanged until the remote end has it, or until the owner
 * is disowned. */
void df_channel_put(df_channel *channel, const df_frame *frame, const void *payload,
                    const void *owner);
/* Puts a frame whose payload belongs to the caller again after df_channel_write. No frame may
 * follow before that write. */
void df_channel_put_lent(df_channel *channel, const df_frame *frame, const void *payload);
/* Writes once. Returns 1 when the stream accepted something. */
int df_channel_write(df_channel *channel);
/* Sends nothing more, and drops what has been put. */
void df_channel_quiesce(df_channel *channel);
/* The payloads of the owner disappear: other bytes are sent in their place. */
void df_channel_disown(df_channel *channel, const void *owner);
/* The same for payloads in the given memory. */
void df_channel_disown_at(df_channel *channel, const void *there, size_t bytes);

/* Acknowledges the bytes that were read, if the sender awaits that. */
void df_channel_acknowledge(df_channel *channel);
/* Reads the next header. Returns 0 if it has not arrived completely. */
int df_channel_read_frame(df_channel *channel, df_frame *frame);
/* Reads up to `most` bytes to `there`; NULL: discards them. Returns the number of bytes. */
uint32_t df_channel_read(df_channel *channel, void *there, uint32_t most);

#endif
