/*
 * Promises of src/control/remote_channel.h:
 *   - Messages arrive as they were sent, in whatever pieces the stream brings them.
 *   - A record that was changed in any bit, repeated, left out, reversed or made by somebody else
 *     is malformed, and so is a length that no message has. The end of the stream is reported.
 *   - On a new connection each end goes on where the other end asks it to, and sends nothing before
 *     that.
 *   - Impossible numbers are malformed: more messages than were sent, or fewer than were
 *     acknowledged before.
 */
#include "control/remote_channel.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/attributes.h"
#include "support/harness.h"

enum { BYTES = 100 };
static const unsigned char key[DF_REMOTE_CHANNEL_KEY] = {1, 2, 3};

typedef struct {
  df_remote_channel *from, *to;
  int ends[2];
} pair;

static pair make_pair(void) {
  pair p = {.from = df_remote_channel_open(key, 3, 5), .to = df_remote_channel_open(key, 5, 3)};
  CHECK(p.from && p.to, "no memory");
  CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, p.ends) == 0, "no sockets");
  return p;
}

static void end_pair(pair *p) {
  df_remote_channel_close(p->from);
  df_remote_channel_close(p->to);
  close(p->ends[0]);
  close(p->ends[1]);
}

static void put(const pair *p, const uint8_t *bytes, size_t n) {
  CHECK(send(p->ends[0], bytes, n, 0) == (ssize_t)n, "send");
}

static df_remote_channel_event read_at(df_remote_channel *channel, int socket, uint8_t *message,
                                       size_t *bytes) {
  int error;
  const df_remote_channel_event event =
      df_remote_channel_read(channel, socket, message, bytes, &error);
  return event == DF_REMOTE_CHANNEL_RECORD ? df_remote_channel_take(channel) : event;
}

static df_remote_channel_event get(const pair *p, uint8_t *message, size_t *bytes) {
  return read_at(p->to, p->ends[1], message, bytes);
}

DF_TEST(channel, messages_arrive_in_whatever_pieces, 20) {
  static uint8_t sent[DF_MAX_MESSAGE_BYTES], record[sizeof sent + DF_REMOTE_CHANNEL_OVERHEAD],
      message[sizeof sent];
  static const size_t lengths[] = {1, 32, 1000, sizeof sent};
  pair p = make_pair();
  size_t bytes;
  for (size_t i = 0; i < DF_COUNT_OF(lengths); i++) {
    memset(sent, (int)i + 1, lengths[i]);
    df_remote_channel_encrypt(p.from, DF_RECORD_MESSAGE, sent, lengths[i], record);
    const size_t total = lengths[i] + DF_REMOTE_CHANNEL_OVERHEAD;
    for (size_t at = 0; at < total; at += i + 1) {
      CHECK(get(&p, message, &bytes) == DF_REMOTE_CHANNEL_NOTHING, "%zu of %zu bytes", at, total);
      put(&p, record + at, DF_MIN(i + 1, total - at));
    }
    CHECK(get(&p, message, &bytes) == DF_REMOTE_CHANNEL_MESSAGE && bytes == lengths[i] &&
              memcmp(message, sent, bytes) == 0,
          "message %zu", i);
  }
  shutdown(p.ends[0], SHUT_WR);
  CHECK(get(&p, message, &bytes) == DF_REMOTE_CHANNEL_ENDED, "the end");
  end_pair(&p);
}

/* Sends what change makes of two records; the first of them must be nonsense. */
static void refuse(void (*change)(uint8_t *first, uint8_t *second, int which), int which) {
  uint8_t sent[BYTES] = {7}, records[2][BYTES + DF_REMOTE_CHANNEL_OVERHEAD],
          message[DF_MAX_MESSAGE_BYTES];
  size_t bytes;
  pair p = make_pair();
  for (int i = 0; i < 2; i++)
    df_remote_channel_encrypt(p.from, DF_RECORD_MESSAGE, sent, sizeof sent, records[i]);
  change(records[0], records[1], which);
  put(&p, records[0], sizeof records[0]);
  put(&p, records[1], sizeof records[1]);
  df_remote_channel_event event = get(&p, message, &bytes);
  if (event == DF_REMOTE_CHANNEL_MESSAGE) event = get(&p, message, &bytes);
  CHECK(event == DF_REMOTE_CHANNEL_MALFORMED, "change %d is not noticed", which);
  end_pair(&p);
}

static void flip(uint8_t *first, uint8_t *second, int which) {
  (void)second;
  first[which / 8] ^= (uint8_t)(1 << which % 8);
}
static void leave_out(uint8_t *first, uint8_t *second, int which) {
  (void)which;
  memcpy(first, second, BYTES + DF_REMOTE_CHANNEL_OVERHEAD);
}
static void repeat(uint8_t *first, uint8_t *second, int which) {
  (void)which;
  memcpy(second, first, BYTES + DF_REMOTE_CHANNEL_OVERHEAD);
}
static void reverse(uint8_t *first, uint8_t *second, int which) {
  df_remote_channel *other =
      df_remote_channel_open(key, 5, 3); /* as if the receiver's own record came back */
  uint8_t sent[BYTES] = {7};
  (void)second;
  (void)which;
  df_remote_channel_encrypt(other, DF_RECORD_MESSAGE, sent, sizeof sent, first);
  df_remote_channel_close(other);
}
static void lengthen(uint8_t *first, uint8_t *second, int which) {
  const uint32_t length = which ? UINT32_MAX : 3;
  (void)second;
  memcpy(first, &length, sizeof length);
}

DF_TEST(channel, changed_records_are_nonsense, 20) {
  for (int bit = 0; bit < 8 * (BYTES + DF_REMOTE_CHANNEL_OVERHEAD); bit++) refuse(flip, bit);
  refuse(leave_out, 0);
  refuse(repeat, 0);
  refuse(reverse, 0);
  refuse(lengthen, 0);
  refuse(lengthen, 1);
}

/* ---- inserted bytes */

enum { JUNK_MOST = 80, RECORDS = 3, FILLS = 5 };

/* Junk of the length: zeros, ones, the length of a message that would be right, the largest length,
 * random bytes. */
static void fill(uint8_t *junk, size_t bytes, int how, df_random *random) {
  const uint32_t lengths[] = {64, DF_MAX_MESSAGE_BYTES + 16};
  memset(junk, how == 1 ? 1 : 0, bytes);
  for (size_t i = 0; i < bytes && how == 4; i++) junk[i] = (uint8_t)df_random_below(random, 256);
  if (how == 2 || how == 3) memcpy(junk, &lengths[how - 2], DF_MIN(bytes, sizeof *lengths));
}

/* Inserts junk at a byte of the stream. The record behind it must end the connection: a receiver
 * that waits for more would take the peer for silent. */
static void insert(const uint8_t *junk, size_t bytes, size_t at, int is_renewed) {
  uint8_t sent[BYTES] = {7}, stream[RECORDS][BYTES + DF_REMOTE_CHANNEL_OVERHEAD];
  static uint8_t message[DF_MAX_MESSAGE_BYTES];
  const uint8_t *all = stream[0];
  pair p = make_pair();
  size_t length;
  int n = 0;
  if (is_renewed) {
    const unsigned char again[DF_REMOTE_CHANNEL_KEY] = {9};
    df_remote_channel_renew(p.from, again);
    df_remote_channel_renew(p.to, again);
    p.from->owes_count = p.to->owes_count = 0;
    p.from->may_send = p.to->may_send = 1;
  }
  for (int i = 0; i < RECORDS; i++)
    df_remote_channel_encrypt(p.from, DF_RECORD_MESSAGE, sent, sizeof sent, stream[i]);
  put(&p, all, at);
  put(&p, junk, bytes);
  const size_t end = (at / sizeof stream[0] + 1) * sizeof stream[0];
  put(&p, all + at, end - at); /* the rest of the record, and nothing more */
  df_remote_channel_event event;
  while ((event = get(&p, message, &length)) == DF_REMOTE_CHANNEL_MESSAGE) n++;
  CHECK(event == DF_REMOTE_CHANNEL_MALFORMED && n == (int)(at / sizeof stream[0]),
        "%zu bytes at %zu: event %d behind %d messages", bytes, at, (int)event, n);
  end_pair(&p);
}

DF_TEST(channel, inserted_bytes_end_it_with_the_next_record, 60) {
  df_random random = {1};
  const size_t record = BYTES + DF_REMOTE_CHANNEL_OVERHEAD;
  uint8_t junk[JUNK_MOST];
  for (size_t bytes = 1; bytes <= JUNK_MOST; bytes++)
    for (int how = 0; how < FILLS; how++) {
      fill(junk, bytes, how, &random);
      for (size_t first = 0; first < RECORDS; first++) insert(junk, bytes, first * record, 0);
      insert(junk, bytes, 0, 1); /* the first record of a new connection */
      insert(junk, bytes, record + bytes % record, 0);
    }
}

/* ---- new connections */

typedef struct {
  df_remote_channel *channel;
  int socket;
} end;

static void send_record(const end *e, df_record_kind kind, uint8_t value) {
  uint8_t record[1 + DF_REMOTE_CHANNEL_OVERHEAD];
  const size_t bytes =
      df_remote_channel_encrypt(e->channel, kind, &value, kind == DF_RECORD_MESSAGE, record);
  CHECK(df_remote_channel_send(e->channel, e->socket, record, bytes) == 1,
        "the socket takes little");
}

static void expect_event(const end *e, df_remote_channel_event expected, uint8_t value) {
  static uint8_t message[DF_MAX_MESSAGE_BYTES];
  size_t bytes = 0;
  const df_remote_channel_event event = read_at(e->channel, e->socket, message, &bytes);
  CHECK(event == expected, "event %d in the place of %d", (int)event, (int)expected);
  if (event == DF_REMOTE_CHANNEL_MESSAGE)
    CHECK(bytes == 1 && message[0] == value, "message %u in the place of %u", message[0], value);
}

static void renew(pair *p, end *a, end *b, uint8_t which) {
  const unsigned char again[DF_REMOTE_CHANNEL_KEY] = {9, which};
  close(p->ends[0]);
  close(p->ends[1]);
  CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, p->ends) == 0, "no sockets");
  df_remote_channel_renew(p->from, again);
  df_remote_channel_renew(p->to, again);
  *a = (end){p->from, p->ends[0]};
  *b = (end){p->to, p->ends[1]};
}

DF_TEST(channel, a_new_connection_goes_on_where_the_other_end_says, 20) {
  pair p = make_pair();
  end a = {p.from, p.ends[0]}, b = {p.to, p.ends[1]};
  for (uint8_t i = 1; i <= 3; i++) send_record(&a, DF_RECORD_MESSAGE, i);
  expect_event(&b, DF_REMOTE_CHANNEL_MESSAGE, 1);
  expect_event(&b, DF_REMOTE_CHANNEL_MESSAGE,
               2); /* the third is lost, and nothing was acknowledged */
  renew(&p, &a, &b, 1);
  CHECK(!a.channel->may_send && a.channel->owes_count, "an end that knows already");
  send_record(&a, DF_RECORD_COUNT, 0);
  send_record(&b, DF_RECORD_COUNT, 0);
  expect_event(&b, DF_REMOTE_CHANNEL_ACKNOWLEDGED, 0);
  expect_event(&a, DF_REMOTE_CHANNEL_ACKNOWLEDGED, 0);
  CHECK(a.channel->acknowledged == 2 && a.channel->sent == 2 && a.channel->may_send,
        "not told of two");
  send_record(&a, DF_RECORD_MESSAGE, 3);
  send_record(&a, DF_RECORD_MESSAGE, 4);
  expect_event(&b, DF_REMOTE_CHANNEL_MESSAGE, 3);
  send_record(&b, DF_RECORD_MESSAGE, 100); /* acknowledges the third too */
  expect_event(&a, DF_REMOTE_CHANNEL_MESSAGE, 100);
  CHECK(a.channel->acknowledged == 3, "not told of three");
  renew(&p, &a, &b, 2);
  send_record(&b, DF_RECORD_COUNT, 0);
  expect_event(&a, DF_REMOTE_CHANNEL_ACKNOWLEDGED, 0);
  CHECK(a.channel->acknowledged == 3 && a.channel->sent == 3, "not told of three again");
  send_record(&a, DF_RECORD_COUNT, 0);
  send_record(&a, DF_RECORD_MESSAGE, 4);
  send_record(&a, DF_RECORD_END, 0);
  expect_event(&b, DF_REMOTE_CHANNEL_ACKNOWLEDGED, 0);
  expect_event(&b, DF_REMOTE_CHANNEL_MESSAGE, 4);
  expect_event(&b, DF_REMOTE_CHANNEL_END, 0);
  CHECK(b.channel->received == 4 && a.channel->received == 1, "wrong numbers");
  end_pair(&p);
}

DF_TEST(channel, records_of_another_connection_are_nonsense, 20) {
  pair p = make_pair();
  end a = {p.from, p.ends[0]}, b = {p.to, p.ends[1]};
  uint8_t record[1 + DF_REMOTE_CHANNEL_OVERHEAD], value = 1;
  df_remote_channel_encrypt(a.channel, DF_RECORD_MESSAGE, &value, 1, record);
  renew(&p, &a, &b, 1);
  put(&p, record, sizeof record);
  expect_event(&b, DF_REMOTE_CHANNEL_MALFORMED, 0);
  end_pair(&p);
}

DF_TEST(channel, numbers_that_cannot_be_are_nonsense, 20) {
  for (int which = 0; which < 4; which++) {
    pair p = make_pair();
    end a = {p.from, p.ends[0]}, b = {p.to, p.ends[1]};
    uint8_t record[8 + DF_REMOTE_CHANNEL_OVERHEAD] = {0};
    if (which == 0) { /* more than were sent */
      a.channel->received = 1;
      send_record(&a, DF_RECORD_COUNT, 0);
    }
    if (which == 1) { /* fewer than were acknowledged */
      send_record(&b, DF_RECORD_MESSAGE, 1);
      expect_event(&a, DF_REMOTE_CHANNEL_MESSAGE, 1);
      send_record(&a, DF_RECORD_COUNT, 0);
      expect_event(&b, DF_REMOTE_CHANNEL_ACKNOWLEDGED, 0);
      a.channel->received = 0;
      send_record(&a, DF_RECORD_COUNT, 0);
    }
    if (which == 2) { /* a message before the count of a new connection */
      renew(&p, &a, &b, 1);
      send_record(&a, DF_RECORD_MESSAGE, 1);
    }
    if (which == 3) { /* an unknown kind */
      const size_t bytes =
          df_remote_channel_encrypt(a.channel, DF_RECORD_END + 1, record, 0, record);
      put(&p, record, bytes);
    }
    expect_event(&b, DF_REMOTE_CHANNEL_MALFORMED, 0);
    end_pair(&p);
  }
}
