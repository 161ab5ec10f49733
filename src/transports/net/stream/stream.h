/* A stream: bytes in order, in both directions, without boundaries. No function waits. */
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

/* An estimate of how soon bytes that are written now will arrive at the remote end. */
typedef struct df_rate_estimate {
  uint64_t queued; /* bytes that were written and have not arrived */
  uint64_t rate;   /* bytes per second; 0: unknown */
  int is_doubted;  /* the rate is a guess, which is checked by writing one frame at a time */
} df_rate_estimate;

typedef struct df_stream df_stream;
struct df_stream {
  /* Writes from the first part on, at most DF_STREAM_PARTS parts. Returns the number of bytes
   * accepted. If that is less than all, the stream becomes ready when it accepts more, and the
   * caller offers the rest again, all of it, perhaps with changed contents and with more behind it.
   * DF_STREAM_ENDED: nothing is accepted any more; bytes that have arrived can still be read. */
  int64_t (*write)(df_stream *stream, const df_stream_part *parts, uint32_t n_parts);
  /* Fills the rooms in order, at most DF_STREAM_ROOMS. Returns the number of bytes that were read.
   * If that is less than the rooms have, the stream becomes ready when more arrives. 0: nothing at
   * the moment. DF_STREAM_ENDED: the stream has ended. */
  int64_t (*read)(df_stream *stream, const df_stream_room *rooms, uint32_t n_rooms);
  /* Returns the reason for DF_STREAM_ENDED, as a part of a sentence. */
  const char *(*reason)(df_stream *stream);
  /* Called before the first byte, until it returns 1; 0: call again when something has arrived.
   * DF_STREAM_ENDED; DF_STREAM_REFUSED: another attempt would fail in the same way. NULL: the
   * stream is connected. */
  int (*connect)(df_stream *stream);
  /* After a read that returned less than the rooms have: returns 1 if a part of a record has
   * arrived, and its rest is missing. NULL: the stream has no records. */
  int (*awaits_rest)(const df_stream *stream);
  /* Costs a system call. NULL: the stream cannot estimate. */
  df_rate_estimate (*rate_estimate)(df_stream *stream);
  /* gathers 1: bytes that are written while earlier bytes are in transit may wait until the system
   * of the remote end has acknowledged those. 0: bytes that wait are sent, and none wait any more.
   * NULL: bytes never wait. */
  void (*gather)(df_stream *stream, int gathers);
  /* Acknowledges the bytes that were read at once. Set if `gather` is. */
  void (*acknowledge)(df_stream *stream);
  /* Closes a stream on top of another one (protection.h); the other one stays open. NULL: the owner
   * closes the stream. */
  void (*close)(df_stream *stream);
};

#endif
