/*
 * Promise of src/control/message.c: a datagram is accepted only if its handler can rely on
 * its header, on its length, on the number of ranks it names, and on the end of its sentence.
 */
#include "control/message.h"

#include <string.h>

#include "bootstrap/entry.h"
#include "support/harness.h"

typedef struct datagram {
  df_message message;
  uint8_t payload[DF_MAX_MESSAGE_BYTES];
} datagram;

static datagram d;

static size_t make(df_message_kind kind, uint32_t payload_bytes) {
  memset(&d, 0, sizeof d);
  d.message = (df_message){.magic = DF_MESSAGE_MAGIC, .kind = (uint16_t)kind};
  d.message.payload_bytes = payload_bytes;
  return sizeof(df_message) + payload_bytes;
}

static size_t announce(uint32_t group_size) {
  df_announcement announcement = {.group_size = group_size};
  size_t bytes =
      make(DF_MESSAGE_ANNOUNCE, (uint32_t)(sizeof announcement + group_size * sizeof(uint32_t)));
  memcpy(d.payload, &announcement, sizeof announcement);
  return bytes;
}

static size_t sentence(df_message_kind kind, uint32_t length) {
  size_t bytes = make(kind, length + 1);
  memset(d.payload, 'a', length);
  return bytes;
}

/* source, number of ranks, those, a message */
static size_t envelope(uint32_t source, uint32_t n, df_message_kind kind) {
  const uint32_t head[2] = {source, n}, listed = n < 100 ? n : 100;
  const df_message inner = {.magic = DF_MESSAGE_MAGIC, .kind = (uint16_t)kind};
  const uint32_t before = (uint32_t)(2 + listed + listed % 2) * (uint32_t)sizeof(uint32_t);
  const size_t bytes = make(DF_MESSAGE_RELAYED, before + (uint32_t)sizeof inner);
  memcpy(d.payload, head, sizeof head);
  memcpy(d.payload + before, &inner, sizeof inner);
  return bytes;
}

static int has_sentence(int kind) {
  return kind == DF_MESSAGE_FAIL || kind == DF_MESSAGE_ABORT || kind == DF_MESSAGE_FAILURE_REASON ||
         kind == DF_MESSAGE_LOST;
}

DF_TEST(message, every_kind, 30) {
  for (int kind = DF_MESSAGE_SEGMENT; kind < DF_MESSAGE_KINDS; kind++) {
    size_t bytes = kind == DF_MESSAGE_ANNOUNCE   ? announce(3)
                   : has_sentence(kind)          ? sentence((df_message_kind)kind, 20)
                   : kind == DF_MESSAGE_LINKS    ? make(DF_MESSAGE_LINKS, DF_OFFER_BYTES)
                   : kind == DF_MESSAGE_PROPOSE  ? make(DF_MESSAGE_PROPOSE, sizeof(df_variant_spec))
                   : kind == DF_MESSAGE_TIMES    ? make(DF_MESSAGE_TIMES, 8)
                   : kind == DF_MESSAGE_QUESTION ? make(DF_MESSAGE_QUESTION, 16)
                   : kind == DF_MESSAGE_SNAPSHOT ? make(DF_MESSAGE_SNAPSHOT, 100)
                   : kind == DF_MESSAGE_ENTRY    ? make(DF_MESSAGE_ENTRY, sizeof(df_entry_request))
                   : kind == DF_MESSAGE_ADMIT_DIFFERS
                       ? make(DF_MESSAGE_ADMIT_DIFFERS, sizeof(df_count_difference))
                   : kind == DF_MESSAGE_RELAYED ? envelope(1, 3, DF_MESSAGE_PING)
                                                : make((df_message_kind)kind, 0);
    CHECK(df_message_is_valid(&d, bytes), "kind %d", kind);
    for (size_t cut = 0; cut < bytes; cut++)
      CHECK(!df_message_is_valid(&d, cut), "kind %d: %zu of %zu bytes", kind, cut, bytes);
    CHECK(!df_message_is_valid(&d, bytes + 1), "kind %d: a byte too many", kind);
    d.message.payload_bytes++;
    CHECK(!df_message_is_valid(&d, bytes), "kind %d: another length", kind);
    d.message.payload_bytes--;
    d.message.magic ^= 1;
    CHECK(!df_message_is_valid(&d, bytes), "kind %d: another magic number", kind);
  }
}

DF_TEST(message, unknown_kinds, 30) {
  for (uint32_t kind = 0; kind < 65536; kind++) {
    size_t bytes = make((df_message_kind)kind, 0);
    int known =
        kind >= DF_MESSAGE_SEGMENT && kind < DF_MESSAGE_KINDS && kind != DF_MESSAGE_ANNOUNCE &&
        kind != DF_MESSAGE_LINKS && kind != DF_MESSAGE_PROPOSE && kind != DF_MESSAGE_TIMES &&
        kind != DF_MESSAGE_RELAYED && kind != DF_MESSAGE_ENTRY && kind != DF_MESSAGE_SNAPSHOT &&
        kind != DF_MESSAGE_ADMIT_DIFFERS && !has_sentence((int)kind);
    CHECK(df_message_is_valid(&d, bytes) == known, "kind %u", kind);
  }
}

DF_TEST(message, envelopes, 30) {
  CHECK(df_message_is_valid(&d, envelope(0, 1, DF_MESSAGE_BYE)), "of one rank");
  CHECK(df_message_is_valid(&d, envelope(DF_MAX_RANKS - 1, 100, DF_MESSAGE_BYE)), "of many");
  CHECK(!df_message_is_valid(&d, envelope(DF_MAX_RANKS, 1, DF_MESSAGE_BYE)),
        "a source that no job has");
  CHECK(!df_message_is_valid(&d, envelope(0, 0, DF_MESSAGE_BYE)), "for nobody");
  CHECK(!df_message_is_valid(&d, envelope(0, 101, DF_MESSAGE_BYE)), "more ranks than are there");
  CHECK(!df_message_is_valid(&d, envelope(0, UINT32_MAX, DF_MESSAGE_BYE)),
        "a number that wraps around");
  CHECK(!df_message_is_valid(&d, envelope(0, 1, DF_MESSAGE_RELAYED)), "an envelope in an envelope");
  CHECK(!df_message_is_valid(&d, envelope(0, 1, DF_MESSAGE_KINDS)), "a kind that is none");
  const size_t bytes = envelope(0, 1, DF_MESSAGE_BYE);
  d.payload[16] ^= 1;
  CHECK(!df_message_is_valid(&d, bytes), "another magic number within");
}

/* The receiver looks up the words of a message. */
DF_TEST(message, purposes, 30) {
  for (int i = 0; i < 2; i++) {
    const size_t bytes =
        i ? make(DF_MESSAGE_PROPOSE, sizeof(df_variant_spec)) : make(DF_MESSAGE_PURPOSE, 0);
    for (uint64_t purpose = 0; purpose < DF_PURPOSES; purpose++) {
      d.message.a = purpose;
      CHECK(df_message_is_valid(&d, bytes), "purpose %d", (int)purpose);
      CHECK(strlen(df_purpose_name((df_purpose)purpose)) > 0 &&
                strncmp(df_purpose_words((df_purpose)purpose), "as ", 3) == 0,
            "purpose %d has no words", (int)purpose);
    }
    d.message.a = DF_PURPOSES;
    CHECK(!df_message_is_valid(&d, bytes), "one that is none");
    d.message.a = (uint64_t)1 << 32; /* 0 in 32 bits */
    CHECK(!df_message_is_valid(&d, bytes), "one that wraps around");
  }
  CHECK(!df_message_is_valid(&d, make(DF_MESSAGE_PURPOSE, 8)), "8 bytes of nothing");
}

DF_TEST(message, a_payload_where_none_belongs, 30) {
  size_t bytes = make(DF_MESSAGE_BYE, 8);
  CHECK(!df_message_is_valid(&d, bytes), "8 bytes of nothing");
}

DF_TEST(message, groups, 30) {
  static const uint32_t good[] = {1, 2, DF_MAX_RANKS};
  for (size_t i = 0; i < DF_COUNT_OF(good); i++)
    CHECK(df_message_is_valid(&d, announce(good[i])), "%u ranks", good[i]);
  static const uint32_t bad[] = {0, DF_MAX_RANKS + 1, 12000};
  for (size_t i = 0; i < DF_COUNT_OF(bad); i++)
    CHECK(!df_message_is_valid(&d, announce(bad[i])), "%u ranks", bad[i]);
  size_t bytes = announce(5);
  df_announcement lie = {.group_size = 6};
  memcpy(d.payload, &lie, sizeof lie);
  CHECK(!df_message_is_valid(&d, bytes), "six ranks, five given");
  lie.group_size = 0x40000005; /* times four it is 20, in 32 bits */
  memcpy(d.payload, &lie, sizeof lie);
  CHECK(!df_message_is_valid(&d, bytes), "a size that wraps around");
}

static int accepts_step(uint32_t group_size, uint32_t step, uint32_t first) {
  df_announcement announcement = {.group_size = group_size, .group_step = step};
  size_t bytes = make(DF_MESSAGE_ANNOUNCE, sizeof announcement + sizeof first);
  CHECK(df_announcement_write(&announcement, &first, d.payload) == sizeof announcement + 4, "%u",
        group_size);
  return df_message_is_valid(&d, bytes);
}

/* Groups that are described by a first rank and a step contain only ranks of the job. */
DF_TEST(message, groups_by_a_step, 30) {
  const uint32_t most = DF_MAX_RANKS - 1;
  CHECK(accepts_step(DF_MAX_RANKS, 1, 0), "all ranks");
  CHECK(accepts_step(2, most, 0) && accepts_step(1, most, most) && accepts_step(4, 5, 7), "some");
  CHECK(!accepts_step(DF_MAX_RANKS, 1, 1) && !accepts_step(2, most, 1), "one too many");
  CHECK(!accepts_step(0, 1, 0) && !accepts_step(DF_MAX_RANKS + 1, 1, 0), "sizes that none has");
  CHECK(!accepts_step(3, 1u << 31, 0) && !accepts_step(2, 1, UINT32_MAX), "ranks that wrap around");
  static const uint32_t even[] = {1, 3, 5, 7}, odd[] = {1, 3, 5, 8}, down[] = {3, 2, 1};
  CHECK(df_group_step(even, 4) == 2 && df_group_step(even, 2) == 2, "equal steps");
  CHECK(!df_group_step(odd, 4) && !df_group_step(down, 3) && !df_group_step(even, 1), "no step");
}

DF_TEST(message, sentences_end, 30) {
  for (int i = 0; i < 2; i++) {
    df_message_kind kind = i ? DF_MESSAGE_FAIL : DF_MESSAGE_ABORT;
    CHECK(df_message_is_valid(&d, sentence(kind, 0)), "an empty sentence");
    CHECK(df_message_is_valid(&d, sentence(kind, DF_SENTENCE_BYTES - 1)), "the longest sentence");
    CHECK(!df_message_is_valid(&d, sentence(kind, DF_SENTENCE_BYTES)), "too long a sentence");
    CHECK(!df_message_is_valid(&d, make(kind, 0)), "no sentence");
    size_t bytes = sentence(kind, 10);
    d.payload[10] = 'a';
    CHECK(!df_message_is_valid(&d, bytes), "a sentence without an end");
  }
}
