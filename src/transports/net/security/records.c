#include "transports/net/security/records.h"

#include <stdlib.h>
#include <string.h>

#include "bootstrap/rendezvous/handshake.h"

static df_sealed *sealed_of(df_stream *stream) {
  return (df_sealed *)(void *)((uint8_t *)stream - offsetof(df_sealed, stream));
}

/* ---- writing */

/* As many records as there is room for, of what the stream below has not got yet. */
static void seal(df_sealed *sealed, df_parts parts) {
  df_outbox *outbox = &sealed->outbox;
  for (;;) {
    uint8_t *record = outbox->bytes + outbox->end;
    const size_t room = df_outbox_room(outbox);
    uint32_t bytes;
    if (room <= DF_RECORD_MORE) return;
    const size_t most = DF_MIN(room - DF_RECORD_MORE, (size_t)DF_RECORD_MOST);
    const uint8_t *plain =
        df_parts_next(&parts, record + DF_RECORD_HEAD, most, outbox->end != 0, &bytes);
    if (plain == NULL) return;
    df_cipher_seal(&sealed->sends, record, plain, bytes);
    outbox->end += bytes + DF_RECORD_MORE;
    outbox->held += bytes;
  }
}

static int64_t sealed_write(df_stream *stream, const df_stream_part *parts, uint32_t n_parts) {
  df_sealed *sealed = sealed_of(stream);
  df_parts rest = {.parts = parts, .n = n_parts};
  int64_t taken = 0;
  for (;;) {
    const int flushed = df_outbox_flush(&sealed->outbox, sealed->below);
    if (flushed == DF_STREAM_ENDED) return DF_STREAM_ENDED;
    if (!flushed) return taken;
    df_parts_skip(&rest, sealed->outbox.held);
    taken += sealed->outbox.held;
    sealed->outbox.held = 0;
    seal(sealed, rest);
    if (sealed->outbox.held == 0) return taken;
  }
}

/* ---- reading */

/* 1: a whole record is at in_at; 0: not yet; DF_STREAM_ENDED. */
static int fetch(df_sealed *sealed, uint32_t *bytes) {
  for (;;) {
    const uint32_t have = sealed->in_end - sealed->in_at;
    uint32_t want = DF_SEALED_FIRST;
    if (have >= DF_RECORD_HEAD) {
      memcpy(bytes, sealed->in + sealed->in_at, DF_RECORD_HEAD);
      sealed->is_forged = *bytes == 0 || *bytes > DF_RECORD_MOST;
      if (sealed->is_forged) return DF_STREAM_ENDED;
      if (have >= *bytes + DF_RECORD_MORE) return 1;
      want = *bytes + DF_RECORD_MORE - have + DF_SEALED_AHEAD;
    }
    if (sealed->is_dry) return 0;
    if (sealed->in_end + want > DF_SEALED_IN) {
      memmove(sealed->in, sealed->in + sealed->in_at, have);
      sealed->in_at = 0;
      sealed->in_end = have;
    }
    const df_stream_room room = {sealed->in + sealed->in_end, want};
    const int64_t came = sealed->below->read(sealed->below, &room, 1);
    if (came == DF_STREAM_ENDED) return DF_STREAM_ENDED;
    sealed->is_dry = came < (int64_t)want;
    sealed->in_end += (uint32_t)came;
  }
}

/* Straight to where it belongs, if it goes there whole. Returns how many bytes are there. */
static uint32_t open_record(df_sealed *sealed, uint32_t bytes, uint8_t *to, size_t room) {
  uint8_t *record = sealed->in + sealed->in_at, *plain = record + DF_RECORD_HEAD;
  const int goes_whole = bytes <= room;
  sealed->in_at += bytes + DF_RECORD_MORE;
  if (!df_cipher_open(&sealed->receives, record, bytes, goes_whole ? to : plain)) {
    sealed->is_forged = 1;
    return 0;
  }
  if (goes_whole) return bytes;
  sealed->plain_at = (uint32_t)(plain - sealed->in);
  sealed->plain_end = sealed->plain_at + bytes;
  return 0;
}

static uint32_t take_plain(df_sealed *sealed, uint8_t *to, size_t room) {
  const uint32_t now = (uint32_t)DF_MIN((size_t)(sealed->plain_end - sealed->plain_at), room);
  memcpy(to, sealed->in + sealed->plain_at, now);
  sealed->plain_at += now;
  return now;
}

/* After a forgery what came before in this call is lost too: it is sent again, as what was
 * forged. */
static int64_t sealed_read(df_stream *stream, const df_stream_room *rooms, uint32_t n_rooms) {
  df_sealed *sealed = sealed_of(stream);
  int64_t came = 0;
  sealed->is_dry = 0;
  for (uint32_t i = 0; i < n_rooms; i++) {
    uint8_t *to = rooms[i].bytes;
    for (size_t left = rooms[i].length, now; left; left -= now, to += now, came += (int64_t)now) {
      uint32_t bytes;
      if (sealed->plain_at < sealed->plain_end) {
        now = take_plain(sealed, to, left);
        continue;
      }
      const int state = sealed->is_forged ? DF_STREAM_ENDED : fetch(sealed, &bytes);
      if (sealed->is_forged || (state == DF_STREAM_ENDED && came == 0)) return DF_STREAM_ENDED;
      if (state != 1) return came;
      now = open_record(sealed, bytes, to, left);
      if (sealed->is_forged) return DF_STREAM_ENDED;
    }
  }
  return came;
}

static const char *sealed_reason(df_stream *stream) {
  df_sealed *sealed = sealed_of(stream);
  if (!sealed->is_forged) return sealed->below->reason(sealed->below);
  return "what came was not what the other end had sealed: somebody changed it on its way";
}

static df_stream_outlook sealed_outlook(df_stream *stream) {
  df_stream *below = sealed_of(stream)->below;
  return below->outlook ? below->outlook(below) : (df_stream_outlook){.queued = 0};
}

/* ---- opening and closing */

static void sealed_close(df_stream *stream) {
  df_sealed *sealed = sealed_of(stream);
  df_cipher_end(&sealed->sends);
  df_cipher_end(&sealed->receives);
  sodium_memzero(sealed->in, DF_SEALED_IN);
  free(sealed->in);
  free(sealed);
}

/* Each level and each direction has keys of its own. */
static void begin(df_cipher *cipher, df_cipher_kind kind, int hides, int seals, int is_callers,
                  const unsigned char key[DF_KEY_BYTES]) {
  const uint32_t what[3] = {(uint32_t)kind, (uint32_t)hides, (uint32_t)is_callers};
  unsigned char own[DF_KEY_BYTES];
  df_derive(own, sizeof own, key, "dfccl records of a wire", what, sizeof what, NULL, 0);
  df_cipher_begin(cipher, kind, hides, seals, own);
  sodium_memzero(own, sizeof own);
}

dfcclResult_t df_sealed_open(df_sealed **out, df_stream *below, df_cipher_kind kind, int hides,
                             const unsigned char key[DF_KEY_BYTES], int calls) {
  df_sealed *sealed = aligned_alloc(DF_CACHE_LINE, DF_ALIGN_UP(sizeof *sealed, DF_CACHE_LINE));
  uint8_t *buffers = malloc(DF_SEALED_IN + DF_SEALED_OUT);
  if (sealed == NULL || buffers == NULL) {
    free(sealed);
    free(buffers);
    return df_fail(dfcclOutOfMemory, "no memory for the records of a connection");
  }
  memset(sealed, 0, sizeof *sealed);
  sealed->stream = (df_stream){.write = sealed_write,
                               .read = sealed_read,
                               .reason = sealed_reason,
                               .outlook = sealed_outlook,
                               .close = sealed_close};
  sealed->below = below;
  sealed->in = buffers;
  sealed->outbox = (df_outbox){.bytes = buffers + DF_SEALED_IN, .capacity = DF_SEALED_OUT};
  begin(&sealed->sends, kind, hides, 1, calls, key);
  begin(&sealed->receives, kind, hides, 0, !calls, key);
  *out = sealed;
  return dfcclSuccess;
}
