/*
 * Promises of src/control/line.h:
 *   - Messages arrive as they were sent, in whatever pieces the stream brings them.
 *   - A record that was changed in any bit, repeated, left out, reversed or made by somebody else is
 *     nonsense, and so is a length that no message has. The end of the stream is told.
 */
#include "control/line.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/attributes.h"
#include "support/harness.h"

enum { BYTES = 100 };
static const unsigned char key[DF_LINE_KEY] = {1, 2, 3};

typedef struct {
  df_line *from, *to;
  int ends[2];
} pair;

static pair make_pair(void) {
  pair p = {.from = df_line_open(key, 3, 5), .to = df_line_open(key, 5, 3)};
  CHECK(p.from && p.to, "no memory");
  CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, p.ends) == 0, "no sockets");
  return p;
}

static void end_pair(pair *p) {
  df_line_close(p->from);
  df_line_close(p->to);
  close(p->ends[0]);
  close(p->ends[1]);
}

static void put(const pair *p, const uint8_t *bytes, size_t n) {
  CHECK(send(p->ends[0], bytes, n, 0) == (ssize_t)n, "send");
}

static df_line_event get(const pair *p, uint8_t *message, size_t *bytes) {
  int error;
  return df_line_read(p->to, p->ends[1], message, bytes, &error);
}

DF_TEST(line, messages_arrive_in_whatever_pieces, 20) {
  static uint8_t sent[DF_MAX_MESSAGE_BYTES], record[sizeof sent + DF_LINE_OVERHEAD],
      message[sizeof sent];
  static const size_t lengths[] = {1, 32, 1000, sizeof sent};
  pair p = make_pair();
  size_t bytes;
  for (size_t i = 0; i < DF_COUNT_OF(lengths); i++) {
    memset(sent, (int)i + 1, lengths[i]);
    df_line_seal(p.from, sent, lengths[i], record);
    const size_t total = lengths[i] + DF_LINE_OVERHEAD;
    for (size_t at = 0; at < total; at += i + 1) {
      CHECK(get(&p, message, &bytes) == DF_LINE_NOTHING, "%zu of %zu bytes", at, total);
      put(&p, record + at, DF_MIN(i + 1, total - at));
    }
    CHECK(get(&p, message, &bytes) == DF_LINE_MESSAGE && bytes == lengths[i] &&
              memcmp(message, sent, bytes) == 0,
          "message %zu", i);
  }
  shutdown(p.ends[0], SHUT_WR);
  CHECK(get(&p, message, &bytes) == DF_LINE_ENDED, "the end");
  end_pair(&p);
}

/* Sends what change makes of two records; the first of them must be nonsense. */
static void refuse(void (*change)(uint8_t *first, uint8_t *second, int which), int which) {
  uint8_t sent[BYTES] = {7}, records[2][BYTES + DF_LINE_OVERHEAD], message[DF_MAX_MESSAGE_BYTES];
  size_t bytes;
  pair p = make_pair();
  for (int i = 0; i < 2; i++) df_line_seal(p.from, sent, sizeof sent, records[i]);
  change(records[0], records[1], which);
  put(&p, records[0], sizeof records[0]);
  put(&p, records[1], sizeof records[1]);
  df_line_event event = get(&p, message, &bytes);
  if (event == DF_LINE_MESSAGE) event = get(&p, message, &bytes);
  CHECK(event == DF_LINE_NONSENSE || event == DF_LINE_NOTHING, "change %d is not noticed", which);
  end_pair(&p);
}

static void flip(uint8_t *first, uint8_t *second, int which) {
  (void)second;
  first[which / 8] ^= (uint8_t)(1 << which % 8);
}
static void leave_out(uint8_t *first, uint8_t *second, int which) {
  (void)which;
  memcpy(first, second, BYTES + DF_LINE_OVERHEAD);
}
static void repeat(uint8_t *first, uint8_t *second, int which) {
  (void)which;
  memcpy(second, first, BYTES + DF_LINE_OVERHEAD);
}
static void reverse(uint8_t *first, uint8_t *second, int which) {
  df_line *other = df_line_open(key, 5, 3); /* as if the receiver's own record came back */
  uint8_t sent[BYTES] = {7};
  (void)second;
  (void)which;
  df_line_seal(other, sent, sizeof sent, first);
  df_line_close(other);
}
static void lengthen(uint8_t *first, uint8_t *second, int which) {
  const uint32_t length = which ? UINT32_MAX : 3;
  (void)second;
  memcpy(first, &length, sizeof length);
}

DF_TEST(line, changed_records_are_nonsense, 20) {
  for (int bit = 0; bit < 8 * (BYTES + DF_LINE_OVERHEAD); bit++) refuse(flip, bit);
  refuse(leave_out, 0);
  refuse(repeat, 0);
  refuse(reverse, 0);
  refuse(lengthen, 0);
  refuse(lengthen, 1);
}
