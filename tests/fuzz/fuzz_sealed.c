/*
 * An attacker on the network path of a stream of encrypted records can change, omit, repeat and
 * insert bytes, in pieces of any size. Whatever arrives, the reader stays within its buffers. It
 * returns a prefix of the bytes that the other end has written, and nothing else, and it ends for
 * good at the first byte that differs.
 *
 * The input selects in turn the bytes that the other end writes, the attack, and the length of the
 * next read.
 */
#include <stdlib.h>
#include <string.h>

#include "input.h"
#include "transports/net/security/records.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { PIPE = 1 << 18, SENT = 1 << 18, GUARD = 16 };

typedef struct path {
  df_stream stream;
  uint8_t bytes[PIPE];
  size_t at, end, portion;
} path;

static int64_t path_write(df_stream *stream, const df_stream_part *parts, uint32_t n_parts) {
  path *p = (path *)stream;
  int64_t taken = 0;
  for (uint32_t i = 0; i < n_parts; i++) {
    const size_t now = DF_MIN(parts[i].length, PIPE - p->end);
    memcpy(p->bytes + p->end, parts[i].bytes, now);
    p->end += now;
    taken += (int64_t)now;
  }
  return taken;
}

static int64_t path_read(df_stream *stream, const df_stream_room *rooms, uint32_t n_rooms) {
  path *p = (path *)stream;
  (void)n_rooms;
  const size_t now = DF_MIN(DF_MIN(rooms[0].length, p->end - p->at), p->portion);
  memcpy(rooms[0].bytes, p->bytes + p->at, now);
  p->at += now;
  return (int64_t)now;
}

static const char *no_reason(df_stream *stream) {
  (void)stream;
  return "";
}

typedef struct scene {
  path path;
  df_encrypted *remote, *here;
  uint8_t sent[SENT], got[SENT + GUARD];
  size_t n_sent, n_got;
  int has_ended;
} scene;

static size_t length_in(input *in) {
  const uint8_t what = next_byte(in);
  return what < 200 ? what : (size_t)(what - 199) * 1700;
}

static void seal(scene *s, input *in) {
  const size_t small = next_byte(in), large = length_in(in);
  if (s->n_sent + small + large > SENT) return;
  uint8_t *from = s->sent + s->n_sent;
  for (size_t i = 0; i < small + large; i++) from[i] = (uint8_t)(s->n_sent + i * 7);
  const df_stream_part parts[2] = {{from, small}, {from + small, large}};
  const int64_t taken = s->remote->stream.write(&s->remote->stream, parts, 2);
  DF_ASSERT(taken >= 0);
  s->n_sent += (size_t)taken;
}

/* Chooses a byte of those that were encrypted and not yet read. */
static void change(scene *s, input *in, uint8_t how) {
  path *p = &s->path;
  const size_t there = p->end - p->at, where = there ? length_in(in) % there : 0;
  size_t n = length_in(in);
  if (how == 0 && there) p->bytes[p->at + where] ^= (uint8_t)(1 << next_byte(in) % 8);
  if (how == 1) p->end -= DF_MIN(n, there);
  if (how == 2 && p->end + n < PIPE) { /* a repetition */
    n = DF_MIN(n, there);
    memmove(p->bytes + p->end, p->bytes + p->at, n);
    p->end += n;
  }
  if (how == 3) {
    const uint8_t *bytes = next_bytes(in, DF_MIN(n, PIPE - p->end), &n);
    if (n) memcpy(p->bytes + p->end, bytes, n);
    p->end += n;
  }
}

static void read_some(scene *s, input *in) {
  const size_t most = DF_MIN(length_in(in), SENT - s->n_got);
  const df_stream_room rooms[2] = {{s->got + s->n_got, most / 4},
                                   {s->got + s->n_got + most / 4, most - most / 4}};
  s->path.portion = 1 + length_in(in);
  const int64_t came = s->here->stream.read(&s->here->stream, rooms, 2);
  DF_ASSERT(came >= DF_STREAM_ENDED && came <= (int64_t)most);
  DF_ASSERT(!s->has_ended || came == DF_STREAM_ENDED || most == 0);
  s->has_ended |= came == DF_STREAM_ENDED;
  if (came > 0) s->n_got += (size_t)came;
  DF_ASSERT(s->n_got <= s->n_sent && memcmp(s->got, s->sent, s->n_got) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const unsigned char key[DF_KEY_BYTES] = {1};
  input in = {data, size};
  scene *s = calloc(1, sizeof *s);
  DF_ASSERT(s != NULL && sodium_init() >= 0);
  s->path.stream = (df_stream){.write = path_write, .read = path_read, .reason = no_reason};
  const uint8_t way = next_byte(&in);
  const df_cipher_kind kind = way & 1 && df_cipher_has_aes() ? DF_CIPHER_AES : DF_CIPHER_CHACHA;
  const int hides = way >> 1 & 1;
  DF_ASSERT(df_encrypted_open(&s->remote, &s->path.stream, kind, hides, key, 1) == dfcclSuccess);
  DF_ASSERT(df_encrypted_open(&s->here, &s->path.stream, kind, hides, key, 0) == dfcclSuccess);
  while (in.size) {
    const uint8_t what = next_byte(&in) % 16;
    if (what < 6 && s->path.end + (1 << 17) < PIPE) seal(s, &in);
    if (what >= 6 && what < 12) read_some(s, &in);
    if (what >= 12 && next_byte(&in) % 4 == 0) change(s, &in, what - 12);
  }
  for (int i = 0; i < GUARD; i++) DF_ASSERT(s->got[SENT + i] == 0);
  s->remote->stream.close(&s->remote->stream);
  s->here->stream.close(&s->here->stream);
  free(s);
  return 0;
}
