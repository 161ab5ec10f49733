#include "transports/net/security/records.h"

#include <stdlib.h>
#include <string.h>

#include "bootstrap/rendezvous/handshake.h"

static df_encrypted *encrypted_of(df_stream *stream) {
  return (df_encrypted *)(void *)((uint8_t *)stream - offsetof(df_encrypted, stream));
}

/* ---- writing */

/* Makes as many records as there is room for, of the bytes that the stream below has not accepted
 * yet. */
static void seal(df_encrypted *encrypted, df_parts parts) {
  df_outbox *outbox = &encrypted->outbox;
  for (;;) {
    uint8_t *record = outbox->bytes + outbox->end;
    const size_t room = df_outbox_room(outbox);
    uint32_t bytes;
    if (room <= DF_RECORD_MORE) return;
    const size_t most = DF_MIN(room - DF_RECORD_MORE, (size_t)DF_RECORD_MOST);
    const uint8_t *plain =
        df_parts_next(&parts, record + DF_RECORD_HEAD, most, outbox->end != 0, &bytes);
    if (plain == NULL) return;
    df_cipher_seal(&encrypted->sends, record, plain, bytes);
    outbox->end += bytes + DF_RECORD_MORE;
    outbox->held += bytes;
  }
}

static int64_t encrypted_write(df_stream *stream, const df_stream_part *parts, uint32_t n_parts) {
  df_encrypted *encrypted = encrypted_of(stream);
  df_parts rest = {.parts = parts, .n = n_parts};
  int64_t taken = 0;
  for (;;) {
    const int flushed = df_outbox_flush(&encrypted->outbox, encrypted->below);
    if (flushed == DF_STREAM_ENDED) return DF_STREAM_ENDED;
    if (!flushed) return taken;
    df_parts_skip(&rest, encrypted->outbox.held);
    taken += encrypted->outbox.held;
    encrypted->outbox.held = 0;
    seal(encrypted, rest);
    if (encrypted->outbox.held == 0) return taken;
  }
}

/* ---- reading */

/* Returns 1: a complete record is at in_at; 0: not yet; DF_STREAM_ENDED. */
static int fetch(df_encrypted *encrypted, uint32_t *bytes) {
  for (;;) {
    const uint32_t have = encrypted->in_end - encrypted->in_at;
    uint32_t want = DF_ENCRYPTED_FIRST;
    if (have >= DF_RECORD_HEAD) {
      encrypted->is_forged =
          !df_cipher_read_head(&encrypted->receives, encrypted->in + encrypted->in_at, bytes);
      if (encrypted->is_forged) return DF_STREAM_ENDED;
      if (have >= *bytes + DF_RECORD_MORE) return 1;
      want = *bytes + DF_RECORD_MORE - have + DF_ENCRYPTED_AHEAD;
    }
    if (encrypted->is_dry) return 0;
    if (encrypted->in_end + want > DF_ENCRYPTED_IN) {
      memmove(encrypted->in, encrypted->in + encrypted->in_at, have);
      encrypted->in_at = 0;
      encrypted->in_end = have;
    }
    const df_stream_room room = {encrypted->in + encrypted->in_end, want};
    const int64_t came = encrypted->below->read(encrypted->below, &room, 1);
    if (came == DF_STREAM_ENDED) return DF_STREAM_ENDED;
    encrypted->is_dry = came < (int64_t)want;
    encrypted->in_end += (uint32_t)came;
  }
}

/* Decrypts directly to the destination if the whole record fits there. Returns the number of bytes
 * there. */
static uint32_t open_record(df_encrypted *encrypted, uint32_t bytes, uint8_t *to, size_t room) {
  uint8_t *record = encrypted->in + encrypted->in_at, *plain = record + DF_RECORD_HEAD;
  const int goes_whole = bytes <= room;
  encrypted->in_at += bytes + DF_RECORD_MORE;
  if (!df_cipher_open(&encrypted->receives, record, bytes, goes_whole ? to : plain)) {
    encrypted->is_forged = 1;
    return 0;
  }
  if (goes_whole) return bytes;
  encrypted->plain_at = (uint32_t)(plain - encrypted->in);
  encrypted->plain_end = encrypted->plain_at + bytes;
  return 0;
}

static uint32_t take_plain(df_encrypted *encrypted, uint8_t *to, size_t room) {
  const uint32_t now = (uint32_t)DF_MIN((size_t)(encrypted->plain_end - encrypted->plain_at), room);
  memcpy(to, encrypted->in + encrypted->plain_at, now);
  encrypted->plain_at += now;
  return now;
}

/* After a forged record, the bytes that this call has read before it are lost too. They are sent
 * again on the next connection, like the forged ones. */
static int64_t encrypted_read(df_stream *stream, const df_stream_room *rooms, uint32_t n_rooms) {
  df_encrypted *encrypted = encrypted_of(stream);
  int64_t came = 0;
  encrypted->is_dry = 0;
  for (uint32_t i = 0; i < n_rooms; i++) {
    uint8_t *to = rooms[i].bytes;
    for (size_t left = rooms[i].length, now; left; left -= now, to += now, came += (int64_t)now) {
      uint32_t bytes;
      if (encrypted->plain_at < encrypted->plain_end) {
        now = take_plain(encrypted, to, left);
        continue;
      }
      const int state = encrypted->is_forged ? DF_STREAM_ENDED : fetch(encrypted, &bytes);
      if (encrypted->is_forged || (state == DF_STREAM_ENDED && came == 0)) return DF_STREAM_ENDED;
      if (state != 1) return came;
      now = open_record(encrypted, bytes, to, left);
      if (encrypted->is_forged) return DF_STREAM_ENDED;
    }
  }
  return came;
}

static int encrypted_awaits_rest(const df_stream *stream) {
  const df_encrypted *encrypted =
      (const void *)((const uint8_t *)stream - offsetof(df_encrypted, stream));
  return encrypted->in_at < encrypted->in_end;
}

static const char *encrypted_reason(df_stream *stream) {
  df_encrypted *encrypted = encrypted_of(stream);
  if (!encrypted->is_forged) return encrypted->below->reason(encrypted->below);
  return "a received record was not authentic: it was changed on its way";
}

static df_rate_estimate encrypted_rate_estimate(df_stream *stream) {
  df_stream *below = encrypted_of(stream)->below;
  return below->rate_estimate ? below->rate_estimate(below) : (df_rate_estimate){.queued = 0};
}

/* ---- opening and closing */

static void encrypted_close(df_stream *stream) {
  df_encrypted *encrypted = encrypted_of(stream);
  df_cipher_end(&encrypted->sends);
  df_cipher_end(&encrypted->receives);
  sodium_memzero(encrypted->in, DF_ENCRYPTED_IN);
  free(encrypted->in);
  free(encrypted);
}

/* Each level and each direction has a key of its own. */
static void begin(df_cipher *cipher, df_cipher_kind kind, int hides, int seals, int is_callers,
                  const unsigned char key[DF_KEY_BYTES]) {
  const uint32_t what[3] = {(uint32_t)kind, (uint32_t)hides, (uint32_t)is_callers};
  unsigned char own[DF_KEY_BYTES];
  df_derive(own, sizeof own, key, "dfccl records of a wire", what, sizeof what, NULL, 0);
  df_cipher_begin(cipher, kind, hides, seals, own);
  sodium_memzero(own, sizeof own);
}

dfcclResult_t df_encrypted_open(df_encrypted **out, df_stream *below, df_cipher_kind kind,
                                int hides, const unsigned char key[DF_KEY_BYTES], int calls) {
  df_encrypted *encrypted =
      aligned_alloc(DF_CACHE_LINE, DF_ALIGN_UP(sizeof *encrypted, DF_CACHE_LINE));
  uint8_t *buffers = malloc(DF_ENCRYPTED_IN + DF_ENCRYPTED_OUT);
  if (encrypted == NULL || buffers == NULL) {
    free(encrypted);
    free(buffers);
    return df_fail(dfcclOutOfMemory, "no memory for the records of a connection");
  }
  memset(encrypted, 0, sizeof *encrypted);
  encrypted->stream = (df_stream){.write = encrypted_write,
                                  .read = encrypted_read,
                                  .awaits_rest = encrypted_awaits_rest,
                                  .reason = encrypted_reason,
                                  .rate_estimate = encrypted_rate_estimate,
                                  .close = encrypted_close};
  encrypted->below = below;
  encrypted->in = buffers;
  encrypted->outbox = (df_outbox){.bytes = buffers + DF_ENCRYPTED_IN, .capacity = DF_ENCRYPTED_OUT};
  begin(&encrypted->sends, kind, hides, 1, calls, key);
  begin(&encrypted->receives, kind, hides, 0, !calls, key);
  *out = encrypted;
  return dfcclSuccess;
}
