/*
 * Promises of src/transports/net/security/records.h and cipher.h:
 *   - Written bytes are read in order, however the stream below splits it, across changes of the
 *     key. A write takes what the stream below has, and never less than is offered for ever.
 *   - Small parts share a record.
 *   - A record with a changed bit, cut short, left out, repeated, exchanged with another, of
 *     another connection, or sent back to its sender ends the stream with a sentence. The reader
 *     gets a prefix of the sent bytes and nothing else.
 *   - With encryption nothing of it can be read on its way; with integrity alone it can.
 *   - libsodium and OpenSSL encrypt and decrypt the same records.
 */
#include "transports/net/security/records.h"

#include <stdlib.h>
#include <string.h>

#include "pump_stage.h"

enum { WAYS = 4, TOTAL = 300000, SOME = 3000 };

static const unsigned char key[DF_KEY_BYTES] = {7, 1, 2}, other_key[DF_KEY_BYTES] = {7, 1, 3};

typedef struct ends {
  pump_stage stage;
  df_encrypted *sides[2];
} ends;

static df_cipher_kind kind_of(int way) { return way / 2 ? DF_CIPHER_CHACHA : DF_CIPHER_AES; }
static int is_there(int way) { return kind_of(way) != DF_CIPHER_AES || df_cipher_has_aes(); }

static void make(ends *e, uint64_t seed, int way, const unsigned char *remote_key) {
  CHECK(sodium_init() >= 0, "no libsodium");
  pump_stage_make(&e->stage, seed, 64);
  for (int i = 0; i < 2; i++)
    OK(df_encrypted_open(&e->sides[i], &e->stage.sides[i].stream, kind_of(way), way % 2,
                         i ? remote_key : key, i == 0));
}

static void unmake(ends *e) {
  for (int i = 0; i < 2; i++) e->sides[i]->stream.close(&e->sides[i]->stream);
  pump_stage_free(&e->stage);
}

static int64_t write_to(ends *e, int side, const df_stream_part *parts, uint32_t n) {
  df_stream *stream = &e->sides[side]->stream;
  return stream->write(stream, parts, n);
}

static int64_t read_from(ends *e, int side, void *to, size_t bytes) {
  df_stream *stream = &e->sides[side]->stream;
  const df_stream_room rooms[2] = {{to, bytes / 3}, {(uint8_t *)to + bytes / 3, bytes - bytes / 3}};
  return stream->read(stream, rooms, 2);
}

static uint8_t *draw(df_random *random, size_t bytes) {
  uint8_t *all = malloc(bytes);
  CHECK(all != NULL, "no memory");
  for (size_t i = 0; i < bytes; i++) all[i] = (uint8_t)df_random_below(random, 256);
  return all;
}

/* Bytes of one write, in parts that are offered again until they are taken. */
static uint32_t cut(df_random *random, const uint8_t *bytes, size_t left, df_stream_part *parts) {
  uint32_t n = 0;
  while (left && n < 12) {
    const int large = df_random_chance(random, 20);
    const size_t length = 1 + (size_t)df_random_below(random, large ? 150000 : 700);
    parts[n] = (df_stream_part){bytes, DF_MIN(length, left)};
    bytes += parts[n].length;
    left -= parts[n++].length;
  }
  return n;
}

static void carry(uint64_t seed, int way) {
  ends e;
  df_random random = {seed};
  make(&e, seed, way, key);
  e.stage.most = df_random_chance(&random, 50) ? 1 + (int)df_random_below(&random, 90000) : 0;
  e.stage.refusals = (int)df_random_below(&random, 40);
  e.sides[0]->sends.rekey_every = e.sides[1]->receives.rekey_every =
      1 + (uint64_t)df_random_below(&random, 5);
  uint8_t *sent = draw(&random, TOTAL), *got = malloc(TOTAL + 1);
  size_t written = 0, read = 0;
  df_stream_part parts[12];
  for (uint32_t turn = 0; read < TOTAL; turn++) {
    CHECK(turn < 1000000, "%zu of %zu bytes came", read, written);
    if (written < TOTAL && df_random_chance(&random, 50)) {
      const uint32_t n = cut(&random, sent + written, TOTAL - written, parts);
      const int64_t taken = write_to(&e, 0, parts, n);
      CHECK(taken >= 0, "it ended");
      written += (size_t)taken;
    } else {
      const size_t most = 1 + (size_t)df_random_below(&random, 100000);
      const int64_t came = read_from(&e, 1, got + read, DF_MIN(most, TOTAL + 1 - read));
      CHECK(came >= 0, "it ended: %s", e.sides[1]->stream.reason(&e.sides[1]->stream));
      read += (size_t)came;
    }
  }
  CHECK(memcmp(sent, got, TOTAL) == 0, "other bytes came");
  CHECK(e.sides[0]->outbox.at == e.sides[0]->outbox.end, "something was not written");
  free(sent);
  free(got);
  unmake(&e);
}

DF_TEST(encrypted, what_is_written_is_read, 60) {
  for (uint64_t seed = 1; seed <= 60; seed++)
    if (is_there((int)(seed % WAYS))) carry(seed, (int)(seed % WAYS));
}

/* As the pump: its small frames, and a large payload behind a header. */
DF_TEST(encrypted, small_parts_share_a_record, 30) {
  ends e;
  static uint8_t bytes[40000];
  make(&e, 1, 3, key);
  df_stream_part parts[5] = {{bytes, 16}, {bytes, 200}, {bytes, 16}, {bytes, 300}, {bytes, 16}};
  CHECK(write_to(&e, 0, parts, 5) == 548, "not all was taken");
  const wire_pipe *pipe = &e.stage.pipes[0];
  CHECK(pipe->end - pipe->at == 548 + DF_RECORD_MORE, "%zu bytes", pipe->end - pipe->at);
  parts[1].length = sizeof bytes;
  e.stage.pipes[0].at = e.stage.pipes[0].end;
  CHECK(write_to(&e, 0, parts, 2) == 16 + sizeof bytes, "not all was taken");
  CHECK(pipe->end - pipe->at == 16 + sizeof bytes + 2 * DF_RECORD_MORE, "%zu bytes",
        pipe->end - pipe->at);
  unmake(&e);
}

/* While the stream below takes nothing, nothing counts as taken; and what is offered later may have
 * other contents. */
DF_TEST(encrypted, what_waits_is_offered_again, 30) {
  ends e;
  uint8_t sent[SOME], got[SOME];
  make(&e, 1, 3, key);
  memset(sent, 5, sizeof sent);
  const df_stream_part part = {sent, sizeof sent};
  e.stage.sides[0].is_stuck = 1;
  CHECK(write_to(&e, 0, &part, 1) == 0, "it was taken");
  memset(sent, 6, sizeof sent);
  e.stage.sides[0].is_stuck = 0;
  CHECK(write_to(&e, 0, &part, 1) == SOME, "it was not taken");
  CHECK(read_from(&e, 1, got, SOME) == SOME && got[0] == 5 && got[SOME - 1] == 5, "it is %d",
        got[0]);
  CHECK(read_from(&e, 1, got, SOME) == 0, "it came twice");
  unmake(&e);
}

/* ---- an attacker on the path */

/* Three records, at[i] to at[i + 1] of the pipe. */
static void seal_three(ends *e, const uint8_t *sent, size_t *at) {
  at[0] = 0;
  for (int i = 0; i < 3; i++) {
    const df_stream_part part = {sent + i * 100, 100};
    CHECK(write_to(e, 0, &part, 1) == 100, "it was not taken");
    at[i + 1] = e->stage.pipes[0].end;
  }
}

/* All but `intact` bytes are refused. */
static void is_refused(ends *e, const uint8_t *sent, int64_t intact, const char *what, int where) {
  uint8_t got[400];
  int64_t came = 0, now = 0;
  for (int i = 0; i < 10 && now != DF_STREAM_ENDED; i++) {
    now = read_from(e, 1, got + came, 100);
    if (now > 0) came += now;
  }
  CHECK(came <= intact && (came == 0 || memcmp(got, sent, (size_t)came) == 0),
        "%s %d: %d bytes came", what, where, (int)came);
  CHECK(now == DF_STREAM_ENDED, "%s %d was not noticed", what, where);
  CHECK(read_from(e, 1, got, 100) == DF_STREAM_ENDED, "%s %d: it goes on", what, where);
  const char *reason = e->sides[1]->stream.reason(&e->sides[1]->stream);
  CHECK(strstr(reason, "it was changed on its way") != NULL, "\"%s\"", reason);
}

static void flip(int way, int bit) {
  ends e;
  uint8_t sent[300];
  size_t at[4];
  for (int i = 0; i < 300; i++) sent[i] = (uint8_t)i;
  make(&e, 1, way, key);
  seal_three(&e, sent, at);
  uint8_t *second = e.stage.pipes[0].bytes + at[1];
  second[bit / 8] ^= (uint8_t)(1 << bit % 8);
  is_refused(&e, sent, 100, "bit", bit);
  unmake(&e);
}

DF_TEST(encrypted, every_bit_that_changes_ends_it, 60) {
  for (int way = 0; way < WAYS; way++)
    for (int bit = 0; is_there(way) && bit < 8 * (100 + DF_RECORD_MORE); bit++) flip(way, bit);
}

/* from: a copy of an encrypted record. */
static void put(ends *e, const uint8_t *from, size_t begin, size_t end) {
  wire_pipe *pipe = &e->stage.pipes[0];
  memcpy(pipe->bytes + pipe->end, from + begin, end - begin);
  pipe->end += end - begin;
}

typedef enum { REPEATED, LEFT_OUT, EXCHANGED, CUT, SENT_BACK, OF_ANOTHER, TRICKS } trick;

static void play(int way, trick what) {
  ends e;
  uint8_t sent[300], all[1000];
  size_t at[4];
  for (int i = 0; i < 300; i++) sent[i] = (uint8_t)i;
  make(&e, 1, way, what == OF_ANOTHER ? other_key : key);
  seal_three(&e, sent, at);
  memcpy(all, e.stage.pipes[0].bytes, at[3]);
  e.stage.pipes[0].end = 0;
  int64_t intact = 100;
  if (what == OF_ANOTHER) intact = 0;
  if (what == REPEATED || what == CUT || what == EXCHANGED || what == LEFT_OUT)
    put(&e, all, 0, at[1]);
  if (what == REPEATED) put(&e, all, 0, at[1]);
  if (what == LEFT_OUT) put(&e, all, at[2], at[3]);
  if (what == EXCHANGED) put(&e, all, at[2], at[3]), put(&e, all, at[1], at[2]);
  if (what == CUT) put(&e, all, at[1], at[2] - 1), put(&e, all, at[2], at[3]);
  if (what == OF_ANOTHER) put(&e, all, 0, at[3]);
  if (what == SENT_BACK) { /* side 1's own first record */
    const df_stream_part part = {sent, 100};
    intact = 0;
    CHECK(write_to(&e, 1, &part, 1) == 100, "it was not taken");
    put(&e, e.stage.pipes[1].bytes, 0, e.stage.pipes[1].end);
  }
  is_refused(&e, sent, intact, "trick", (int)what);
  unmake(&e);
}

DF_TEST(encrypted, records_cannot_be_rearranged, 30) {
  for (int way = 0; way < WAYS; way++)
    for (int what = 0; is_there(way) && what < TRICKS; what++) play(way, (trick)what);
}

DF_TEST(encrypted, lengths_that_make_no_sense_end_it, 30) {
  static const uint32_t lengths[] = {0, DF_RECORD_MOST + 1, UINT32_MAX};
  for (int i = 0; i < 3; i++) {
    ends e;
    make(&e, 1, 3, key);
    put(&e, (const uint8_t *)&lengths[i], 0, 4);
    put(&e, (const uint8_t *)"12345678", 0, DF_HEAD_CHECK_BYTES);
    is_refused(&e, NULL, 0, "length", i);
    unmake(&e);
  }
}

enum { JUNK_MOST = 80, FILLS = 5 };

/* Junk of the length: zeros, ones, a small and the largest length, random bytes. */
static void fill(uint8_t *junk, size_t bytes, int how, df_random *random) {
  const uint32_t lengths[] = {500, DF_RECORD_MOST};
  memset(junk, how == 1 ? 1 : 0, bytes);
  for (size_t i = 0; i < bytes && how == 4; i++) junk[i] = (uint8_t)df_random_below(random, 256);
  if (how == 2 || how == 3) memcpy(junk, &lengths[how - 2], DF_MIN(bytes, sizeof *lengths));
}

/* Bytes that somebody inserts are noticed when the record behind them has arrived. A reader that
 * waits for more, because the peer sends nothing, would wait for ever. */
DF_TEST(encrypted, inserted_bytes_end_it_with_the_next_record, 60) {
  df_random random = {1};
  uint8_t junk[JUNK_MOST], sent[300], all[1000];
  size_t at[4];
  for (int i = 0; i < 300; i++) sent[i] = (uint8_t)i;
  for (size_t bytes = 1; bytes <= JUNK_MOST; bytes++)
    for (int how = 0; how < FILLS * WAYS; how++) {
      const int way = how % WAYS, before = (int)bytes % 3; /* whole records before the junk */
      ends e;
      if (!is_there(way)) continue;
      fill(junk, bytes, how / WAYS, &random);
      make(&e, 1, way, key);
      seal_three(&e, sent, at);
      memcpy(all, e.stage.pipes[0].bytes, at[3]);
      e.stage.pipes[0].end = 0;
      const size_t inside = how % 2 ? bytes % (at[1] - at[0]) : 0; /* bytes of a record before */
      put(&e, all, 0, at[before] + inside);
      put(&e, junk, 0, bytes);
      put(&e, all, at[before] + inside, at[before + 1]);
      is_refused(&e, sent, (int64_t)before * 100, "junk", (int)bytes);
      unmake(&e);
    }
}

/* An end behind half a record is the end, and no forgery. */
DF_TEST(encrypted, an_end_is_reported_after_all_data, 30) {
  ends e;
  uint8_t sent[300] = {1}, got[300];
  size_t at[4];
  make(&e, 1, 3, key);
  seal_three(&e, sent, at);
  e.stage.pipes[0].end = at[2] - 1;
  e.stage.sides[1].has_left = 1;
  CHECK(read_from(&e, 1, got, 300) == 100, "the first record did not come");
  CHECK(read_from(&e, 1, got, 300) == DF_STREAM_ENDED, "it did not end");
  CHECK(strcmp(e.sides[1]->stream.reason(&e.sides[1]->stream), "memory does not end") == 0, "why");
  unmake(&e);
}

static int contains(const uint8_t *all, size_t bytes, const uint8_t *what, size_t length) {
  for (size_t i = 0; i + length <= bytes; i++)
    if (memcmp(all + i, what, length) == 0) return 1;
  return 0;
}

DF_TEST(encrypted, only_encryption_hides, 30) {
  for (int way = 0; way < WAYS; way++) {
    ends e;
    df_random random = {9};
    if (!is_there(way)) continue;
    uint8_t *sent = draw(&random, 10000);
    const df_stream_part parts[2] = {{sent, 40}, {sent + 40, 9960}};
    make(&e, 1, way, key);
    CHECK(write_to(&e, 0, parts, 2) == 10000, "it was not taken");
    const wire_pipe *pipe = &e.stage.pipes[0];
    const int hides = way % 2;
    CHECK(contains(pipe->bytes, pipe->end, sent + 8, 16) == !hides, "way %d, a small part", way);
    CHECK(contains(pipe->bytes, pipe->end, sent + 5000, 16) == !hides, "way %d, a large part", way);
    free(sent);
    unmake(&e);
  }
}

DF_TEST(encrypted, both_libraries_make_the_same_records, 30) {
  enum { LONG = 5000 };
  for (int way = 0; way < WAYS; way++) {
    df_cipher with, without, opens;
    static uint8_t plain[LONG], a[LONG + DF_RECORD_MORE], b[LONG + DF_RECORD_MORE], back[LONG];
    if (!is_there(way)) continue;
    for (int i = 0; i < LONG; i++) plain[i] = (uint8_t)(i * 7);
    df_cipher_begin(&with, kind_of(way), way % 2, 1, key);
    df_cipher_begin(&without, kind_of(way), way % 2, 1, key);
    df_cipher_begin(&opens, kind_of(way), way % 2, 0, key);
    without.rekey_every = with.rekey_every = opens.rekey_every = 3;
    void *kept = without.fast;
    for (int round = 0; round < 7; round++) {
      df_cipher_seal(&with, a, plain, LONG);
      if (without.fast) kept = without.fast;
      without.fast = NULL;
      df_cipher_seal(&without, b, plain, LONG);
      CHECK(memcmp(a, b, sizeof a) == 0, "way %d, record %d", way, round);
      CHECK(df_cipher_open(&opens, a, LONG, back) && memcmp(back, plain, LONG) == 0, "way %d", way);
      without.fast = kept;
    }
    df_cipher_end(&with);
    df_cipher_end(&without);
    df_cipher_end(&opens);
  }
}
