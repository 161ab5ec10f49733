/* Bytes in order, both ways, without boundaries. Neither call waits. */
#ifndef DF_TRANSPORTS_NET_STREAM_STREAM_H
#define DF_TRANSPORTS_NET_STREAM_STREAM_H

#include <stddef.h>
#include <stdint.h>

typedef struct df_stream_part {
  const void *bytes;
  size_t length;
} df_stream_part;

typedef struct df_stream_room {
  void *bytes;
  size_t length;
} df_stream_room;

enum { DF_STREAM_ENDED = -1, DF_STREAM_REFUSED = -2, DF_STREAM_PARTS = 64, DF_STREAM_ROOMS = 2 };

/* How soon bytes that are written now will be at the remote end. */
typedef struct df_rate_estimate {
  uint64_t queued; /* bytes written earlier that are not there yet */
  uint64_t rate;   /* bytes a second; 0: not known */
  int is_doubted;  /* the rate is hoped for, and is measured when a frame at a time is written */
} df_rate_estimate;

typedef struct df_stream df_stream;
struct df_stream {
  /* From the front of the parts, at most DF_STREAM_PARTS. Returns how many bytes; less than all:
   * says when it takes more, and the rest is offered again, all of it, perhaps with other contents
   * and more behind. DF_STREAM_ENDED: never again; what has come can still be read. */
  int64_t (*write)(df_stream *stream, const df_stream_part *parts, uint32_t n_parts);
  /* Fills the rooms in order, at most DF_STREAM_ROOMS. Returns how many bytes came, less than all:
   * says when there is more. 0: none now. DF_STREAM_ENDED. */
  int64_t (*read)(df_stream *stream, const df_stream_room *rooms, uint32_t n_rooms);
  /* After DF_STREAM_ENDED. Part of a sentence. */
  const char *(*reason)(df_stream *stream);
  /* Before the first byte, until it returns 1; 0: call again when something has come.
   * DF_STREAM_ENDED; DF_STREAM_REFUSED: and it will not be otherwise next time. NULL: it stands. */
  int (*connect)(df_stream *stream);
  /* Costs a system call. NULL: nothing is known. */
  df_rate_estimate (*rate_estimate)(df_stream *stream);
  /* From now on what is written while earlier bytes are under way may wait until the remote end's system
   * has acknowledged them; 0: no more, and what waits goes. NULL: nothing ever waits. */
  void (*gather)(df_stream *stream, int gathers);
  /* What was read is acknowledged at once. Of streams with `gather`. */
  void (*acknowledge)(df_stream *stream);
  /* Of a stream upon another one (protection.h); the other one is not closed. NULL: its owner's. */
  void (*close)(df_stream *stream);
};

#endif
