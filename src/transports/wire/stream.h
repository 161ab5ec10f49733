/* Bytes in order, both ways, without boundaries. Neither call waits. */
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
  /* From the front of the parts. Returns how many; less than all: says when it takes more.
   * DF_STREAM_ENDED: never again; what has come can still be read. */
  int64_t (*write)(df_stream *stream, const df_stream_part *parts, uint32_t n_parts);
  /* Returns how many came, 0: none now, DF_STREAM_ENDED. */
  int64_t (*read)(df_stream *stream, void *bytes, size_t most);
  /* After DF_STREAM_ENDED. Part of a sentence. */
  const char *(*reason)(df_stream *stream);
};

#endif
