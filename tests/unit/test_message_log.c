/*
 * Promises of the log of messages that networks carry (host/observe/message_log.h):
 *   - A message is recorded when it is complete, with the time of its first part. A credit
 *     completes a message and those before it, of its link only, in the order of sending.
 *   - Memory of a link that a later collective uses again mixes up nothing.
 *   - The oldest records are overwritten, and messages of which the rest never comes are forgotten;
 *     both are counted as lost.
 *   - Sent messages whose credit never comes are recorded at last.
 */
#include "host/observe/message_log.h"
#include "support/harness.h"

static const uint8_t memory[2];

static df_watched_message message_of(int ring, uint64_t collective, uint64_t sequence) {
  return (df_watched_message){.ring = &memory[ring],
                              .collective = collective,
                              .sequence = sequence,
                              .peer = 5,
                              .block = 1,
                              .bytes = 100 * (uint32_t)sequence,
                              .is_sent = 1};
}

static void report(df_message_log *log, df_watch_event what, int ring, uint64_t collective,
                   uint64_t sequence, uint64_t now_ns) {
  df_watched_message message = message_of(ring, collective, sequence);
  message.is_sent = what == DF_WATCH_SENDS || what == DF_WATCH_SENT;
  if (what == DF_WATCH_SENT || what == DF_WATCH_CAME) message.bytes = 0;
  df_message_log_report(log, what, &message, now_ns);
}

static df_message_record take_one(df_message_log *log) {
  df_message_record record;
  uint64_t lost;
  CHECK(df_message_log_take(log, &record, 1, &lost) == 1, "no record");
  CHECK(lost == 0, "%d are lost", (int)lost);
  return record;
}

static void expect(df_message_log *log, int ring, uint64_t collective, uint64_t sequence,
                   uint64_t from, uint64_t to) {
  const df_message_record r = take_one(log);
  CHECK(r.message.ring == &memory[ring] && r.message.collective == collective &&
            r.message.sequence == sequence,
        "ring %d, collective %d, message %d", (int)(r.message.ring - memory),
        (int)r.message.collective, (int)r.message.sequence);
  CHECK(r.from == from && r.to == to, "from %d to %d", (int)r.from, (int)r.to);
  CHECK(r.message.bytes == 100 * sequence && r.message.peer == 5 && r.message.block == 1,
        "%u bytes, rank %u, block %u", r.message.bytes, r.message.peer, r.message.block);
}

DF_TEST(message_log, a_credit_completes_a_message_and_those_before, 30) {
  df_message_log *log = df_message_log_make();
  for (uint64_t i = 1; i <= 3; i++) report(log, DF_WATCH_SENDS, 0, 7, i, 10 * i);
  report(log, DF_WATCH_SENDS, 1, 7, 1, 40);
  report(log, DF_WATCH_SENDS, 0, 7, 2, 50); /* again */
  CHECK(df_message_log_length(log) == 0, "%u are complete", df_message_log_length(log));
  report(log, DF_WATCH_SENT, 0, 7, 2, 60);
  CHECK(df_message_log_length(log) == 2, "%u are complete", df_message_log_length(log));
  expect(log, 0, 7, 1, 10, 60);
  expect(log, 0, 7, 2, 20, 60);
  report(log, DF_WATCH_SENT, 1, 7, 1, 70);
  report(log, DF_WATCH_SENT, 0, 7, 3, 80);
  expect(log, 1, 7, 1, 40, 70);
  expect(log, 0, 7, 3, 30, 80);
  df_message_log_free(log);
}

DF_TEST(message_log, messages_arrive_in_any_order, 30) {
  df_message_log *log = df_message_log_make();
  report(log, DF_WATCH_COMES, 0, 7, 4, 10);
  report(log, DF_WATCH_COMES, 0, 7, 5, 20);
  report(log, DF_WATCH_COMES, 0, 7, 4, 30); /* a further part */
  report(log, DF_WATCH_CAME, 0, 7, 5, 40);
  report(log, DF_WATCH_CAME, 0, 7, 6, 45); /* an empty one: it has no parts */
  report(log, DF_WATCH_CAME, 0, 7, 4, 50);
  expect(log, 0, 7, 5, 20, 40);
  expect(log, 0, 7, 4, 10, 50);
  CHECK(df_message_log_length(log) == 0, "%u are left", df_message_log_length(log));
  df_message_log_free(log);
}

DF_TEST(message_log, memory_of_a_link_is_used_again, 30) {
  df_message_log *log = df_message_log_make();
  report(log, DF_WATCH_SENDS, 0, 7, 1, 10);
  report(log, DF_WATCH_SENDS, 0, 8, 1, 20);
  report(log, DF_WATCH_SENT, 0, 8, 1, 30);
  expect(log, 0, 8, 1, 20, 30);
  df_message_log_finish(log);
  expect(log, 0, 7, 1, 10, 10);
  df_message_log_free(log);
}

DF_TEST(message_log, what_is_lost_is_counted, 30) {
  df_message_log *log = df_message_log_make();
  static df_message_record records[DF_MESSAGE_RECORDS];
  const uint64_t n = DF_MESSAGE_RECORDS + 10;
  uint64_t lost;
  for (uint64_t i = 1; i <= n; i++) {
    report(log, DF_WATCH_COMES, 0, 7, i, i);
    report(log, DF_WATCH_CAME, 0, 7, i, i + 1);
  }
  CHECK(df_message_log_length(log) == DF_MESSAGE_RECORDS, "%u", df_message_log_length(log));
  CHECK(df_message_log_take(log, records, DF_MESSAGE_RECORDS, &lost) == DF_MESSAGE_RECORDS,
        "the log is not full");
  CHECK(lost == 10, "%d are lost, not 10", (int)lost);
  CHECK(records[0].message.sequence == 11, "the first one is %d", (int)records[0].message.sequence);
  for (uint64_t i = 1; i <= DF_MESSAGES_UNDER_WAY + 3; i++) /* the rest of none comes */
    report(log, DF_WATCH_COMES, 1, 7, i, i);
  CHECK(df_message_log_take(log, records, 1, &lost) == 0, "one has come");
  CHECK(lost == DF_MESSAGES_UNDER_WAY / 2, "%d are lost", (int)lost);
  df_message_log_free(log);
}

DF_TEST(message_log, sent_messages_without_a_credit_are_recorded, 30) {
  df_message_log *log = df_message_log_make();
  for (uint64_t i = 1; i <= DF_MESSAGES_UNDER_WAY + 3; i++) report(log, DF_WATCH_SENDS, 1, 7, i, i);
  CHECK(df_message_log_length(log) == DF_MESSAGES_UNDER_WAY / 2, "%u", df_message_log_length(log));
  expect(log, 1, 7, 1, 1, 1);
  df_message_log_finish(log);
  CHECK(df_message_log_length(log) == DF_MESSAGES_UNDER_WAY + 2, "%u", df_message_log_length(log));
  df_message_log_free(log);
}
