/*
 * One connection of a pump: frames that wait for the stream, and bytes that have come. Frames are
 * gathered, and go out in one write. Payloads are not copied if they stay where they are until the
 * remote end has them; small ones lie behind their headers.
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
  DF_CHANNEL_COPIED = 256, /* payloads up to here are copied behind their headers */
  DF_CHANNEL_INPUT = 8 << 10,
  DF_CHANNEL_AHEAD = 2048 + 16 /* read with what goes elsewhere: a header, and a small payload */
#endif
};

typedef struct df_channel {
  df_stream *stream; /* NULL: it does not stand */
  uint32_t frame_bytes;
  uint32_t batch; /* full frames in one write */

  df_stream_part parts[DF_STREAM_PARTS];
  const void *owners[DF_STREAM_PARTS]; /* of a part that lies elsewhere */
  uint32_t first, n_parts, n_frames;
  uint64_t gathered; /* bytes */
  uint8_t *staged;   /* headers, and copies of payloads */
  uint32_t staged_end;
  int has_lent; /* the last part is a lent buffer's */

  uint8_t *input;
  uint32_t input_at, input_end;
  int has_more;           /* the stream may have more than was read */
  int is_quiesced;        /* it takes nothing more; it may still bring something */
  uint32_t one_way;       /* payloads put in a row, since one came */
  uint32_t came_in_a_row; /* and came, since one was put */
  uint64_t put_ns;        /* the latest of them */
  int awaits;             /* further frames are DF_FRAME_IS_AWAITED ... */
  int gathers;            /* ... and the stream gathers what follows one of them */
  int owes; /* the latest frame is one; its rest, and a part of the next, are awaited, too */
  int has_ended;
  /* Of all its streams so far. */
  uint64_t frames_sent, bytes_sent, frames_received, bytes_received;
  uint64_t sent_before, received_before; /* by earlier streams */
  uint64_t delivered;                    /* bytes that this one has brought, as far as is known */
} df_channel;

/* 0: no memory. */
int df_channel_make(df_channel *channel, uint32_t frame_bytes);
void df_channel_free(df_channel *channel);

/* What was gathered and read of an earlier stream is dropped. NULL: it does not stand. */
void df_channel_attach(df_channel *channel, df_stream *stream);

static inline int df_channel_is_clear(const df_channel *channel) {
  return channel->first == channel->n_parts;
}
/* Room for a further frame before the write. */
static inline int df_channel_has_room(const df_channel *channel) {
  return channel->n_frames < DF_CHANNEL_FRAMES && !channel->has_lent &&
         channel->gathered < (uint64_t)channel->batch * channel->frame_bytes;
}

/* Bytes that were gathered, and that the stream has not taken. */
uint64_t df_channel_waiting(const df_channel *channel);

/* Before frames, if they are short. After some payloads in a row, in one direction, at once, the
 * stream gathers: a packet for each costs the sender more than all else. */
void df_channel_begin(df_channel *channel);
/* A header alone, whatever it says of bytes. */
void df_channel_put_word(df_channel *channel, const df_frame *frame);
/* payload stays as it is until the remote end has it, or until owner is disowned. */
void df_channel_put(df_channel *channel, const df_frame *frame, const void *payload,
                    const void *owner);
/* payload is the caller's again after df_channel_write. The last frame. */
void df_channel_put_lent(df_channel *channel, const df_frame *frame, const void *payload);
/* Once. Returns 1 when something was taken. */
int df_channel_write(df_channel *channel);
/* Nothing more is sent, neither what has been put. */
void df_channel_quiesce(df_channel *channel);
/* The owner's payloads go: other bytes are sent in their place. */
void df_channel_disown(df_channel *channel, const void *owner);
/* The same of payloads that lie there. */
void df_channel_disown_at(df_channel *channel, const void *there, size_t bytes);

/* What was read, if it is awaited. */
void df_channel_acknowledge(df_channel *channel);
/* The next header. Returns 0: it has not come whole. */
int df_channel_read_frame(df_channel *channel, df_frame *frame);
/* Up to `most` bytes, to `there`, or nowhere. Returns how many. */
uint32_t df_channel_read(df_channel *channel, void *there, uint32_t most);

#endif
