/*
 * For streams that change what goes through them (records.h, tls.h): changed bytes that wait for the
 * stream below, and a cursor over the caller's parts. The caller's bytes count as taken when the
 * stream below has all that was made of them. Until then the caller offers them again, and they are
 * skipped. So nothing remains to be sent that the caller does not know of.
 */
#ifndef DF_TRANSPORTS_NET_STREAM_WRITE_BUFFER_H
#define DF_TRANSPORTS_NET_STREAM_WRITE_BUFFER_H

#include "transports/net/stream/stream.h"

enum {
  DF_OUTBOX_SMALL = 8 << 10,     /* parts below are copied together */
  DF_OUTBOX_GATHERED = 16 << 10, /* at most, of small parts */
};

typedef struct df_outbox {
  uint8_t *bytes;
  uint32_t capacity, at, end;
  uint32_t held; /* of the caller's bytes */
} df_outbox;

typedef struct df_parts {
  const df_stream_part *parts;
  uint32_t n;
  size_t offset; /* in parts[0] */
} df_parts;

static inline uint32_t df_outbox_room(const df_outbox *outbox) {
  return outbox->capacity - outbox->end;
}

/* 1: it is empty now; 0: the stream below takes no more; DF_STREAM_ENDED. */
int df_outbox_flush(df_outbox *outbox, df_stream *below);

void df_parts_skip(df_parts *parts, size_t bytes);
/* Up to `most` bytes that lie together, and skips them: of a large part where it lies, else small
 * parts in a row, copied to scratch (DF_OUTBOX_GATHERED). NULL: none are left, or most is less than
 * the next large part, and must_fit is set. */
const uint8_t *df_parts_next(df_parts *parts, uint8_t *scratch, size_t most, int must_fit,
                             uint32_t *bytes);

#endif
