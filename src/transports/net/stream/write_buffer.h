/*
 * For streams that transform the bytes that go through them (records.h, tls.h): a buffer of
 * transformed bytes that wait for the stream below, and a cursor over the parts of the caller.
 * Bytes of the caller count as accepted when the stream below has accepted everything that was made
 * of them. Until then the caller offers them again, and they are skipped. The caller can therefore
 * see all bytes that remain to be sent.
 */
#ifndef DF_TRANSPORTS_NET_STREAM_WRITE_BUFFER_H
#define DF_TRANSPORTS_NET_STREAM_WRITE_BUFFER_H

#include "transports/net/stream/stream.h"

enum {
  DF_OUTBOX_SMALL = 8 << 10,     /* parts below this size are copied together */
  DF_OUTBOX_GATHERED = 16 << 10, /* bytes of small parts that are copied together, at most */
};

typedef struct df_outbox {
  uint8_t *bytes;
  uint32_t capacity, at, end;
  uint32_t held; /* number of bytes of the caller that the buffer holds */
} df_outbox;

typedef struct df_parts {
  const df_stream_part *parts;
  uint32_t n;
  size_t offset; /* offset in parts[0] */
} df_parts;

static inline uint32_t df_outbox_room(const df_outbox *outbox) {
  return outbox->capacity - outbox->end;
}

/* Returns 1: the buffer is empty; 0: the stream below accepts no more at the moment;
 * DF_STREAM_ENDED. */
int df_outbox_flush(df_outbox *outbox, df_stream *below);

void df_parts_skip(df_parts *parts, size_t bytes);
/* Returns up to `most` contiguous bytes, and skips them: from a large part in place, or several
 * small parts copied to scratch (DF_OUTBOX_GATHERED bytes). NULL: no bytes are left, or must_fit is
 * set and the next large part is longer than most. */
const uint8_t *df_parts_next(df_parts *parts, uint8_t *scratch, size_t most, int must_fit,
                             uint32_t *bytes);

#endif
