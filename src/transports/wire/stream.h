/*
 * Stream: bytes in order, both ways, without boundaries. Neither call waits. A pump runs over a
 * socket (tcp.h), and in tests over memory that delays and splits.
 */
#ifndef DF_TRANSPORTS_WIRE_STREAM_H
#define DF_TRANSPORTS_WIRE_STREAM_H

#include <stddef.h>
#include <stdint.h>

typedef struct df_stream_part {
  const void *bytes;
  size_t length;
} df_stream_part;

enum { DF_STREAM_ENDED = -1 };

typedef struct df_stream df_stream;
struct df_stream {
  /* Takes bytes from the front of the parts, one part after the other. Returns how many, 0: none at
   * the moment, DF_STREAM_ENDED: never again. */
  int64_t (*write)(df_stream *stream, const df_stream_part *parts, uint32_t n_parts);
  /* Returns how many bytes have come, 0: none at the moment, DF_STREAM_ENDED. */
  int64_t (*read)(df_stream *stream, void *bytes, size_t most);
  /* After DF_STREAM_ENDED: why. Part of a sentence. */
  const char *(*reason)(df_stream *stream);
};

#endif
