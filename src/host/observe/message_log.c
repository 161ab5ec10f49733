#include "host/observe/message_log.h"

#include <stdlib.h>
#include <string.h>

#include "base/attributes.h"
#include "base/clock.h"

struct df_message_log {
  df_message_watch watch;
  df_mutex lock; /* protects the members below; taken after the lock of a transport */
  uint64_t noted, taken, lost;
  uint32_t n_under_way;
  df_message_record under_way[DF_MESSAGES_UNDER_WAY];
  df_message_record records[DF_MESSAGE_RECORDS];
};

static void report_now(void *who, df_watch_event what, const df_watched_message *message) {
  df_message_log_report(who, what, message, df_clock_ns());
}

df_message_log *df_message_log_make(void) {
  df_message_log *log = calloc(1, sizeof *log);
  if (log == NULL) return NULL;
  log->watch = (df_message_watch){.report = report_now, .who = log};
  df_mutex_init(&log->lock);
  return log;
}

void df_message_log_free(df_message_log *log) { free(log); }

const df_message_watch *df_message_log_watch(df_message_log *log) { return &log->watch; }

/* A link of a later registration may have the memory of an earlier one. */
static int is_of_same_link(const df_watched_message *a, const df_watched_message *b) {
  return a->ring == b->ring && a->collective == b->collective;
}

static void note(df_message_log *log, const df_message_record *record, uint64_t now_ns) {
  df_message_record *to = &log->records[log->noted++ % DF_MESSAGE_RECORDS];
  *to = *record;
  to->to = now_ns;
  if (log->noted - log->taken <= DF_MESSAGE_RECORDS) return;
  log->taken++;
  log->lost++;
}

/* Neither a credit nor a further part comes for a link that was removed. */
static void forget_oldest_half(df_message_log *log) {
  const uint32_t n = DF_MESSAGES_UNDER_WAY / 2;
  for (uint32_t i = 0; i < n; i++) {
    const df_message_record *record = &log->under_way[i];
    if (record->message.is_sent)
      note(log, record, record->from);
    else
      log->lost++;
  }
  memmove(log->under_way, log->under_way + n, (log->n_under_way - n) * sizeof *log->under_way);
  log->n_under_way -= n;
}

static void begin(df_message_log *log, const df_watched_message *message, uint64_t now_ns) {
  for (uint32_t i = 0; i < log->n_under_way; i++) {
    const df_watched_message *other = &log->under_way[i].message;
    if (is_of_same_link(other, message) && other->sequence == message->sequence)
      return; /* a further part, or it is sent again */
  }
  if (log->n_under_way == DF_MESSAGES_UNDER_WAY) forget_oldest_half(log);
  log->under_way[log->n_under_way++] = (df_message_record){.from = now_ns, .message = *message};
}

/* A credit is for the message and all before it. The messages that stay under way keep their
 * order, so that records are in the order of sending. */
static void end(df_message_log *log, df_watch_event what, const df_watched_message *message,
                uint64_t now_ns) {
  uint32_t left = 0;
  for (uint32_t i = 0; i < log->n_under_way; i++) {
    const df_message_record *record = &log->under_way[i];
    const uint64_t sequence = record->message.sequence;
    const int has_ended =
        is_of_same_link(&record->message, message) &&
        (what == DF_WATCH_SENT ? sequence <= message->sequence : sequence == message->sequence);
    if (has_ended)
      note(log, record, now_ns);
    else
      log->under_way[left++] = *record;
  }
  log->n_under_way = left;
}

void df_message_log_report(df_message_log *log, df_watch_event what,
                           const df_watched_message *message, uint64_t now_ns) {
  df_lock(&log->lock);
  if (what == DF_WATCH_SENDS || what == DF_WATCH_COMES)
    begin(log, message, now_ns);
  else
    end(log, what, message, now_ns);
  df_unlock(&log->lock);
}

uint32_t df_message_log_take(df_message_log *log, df_message_record *records, uint32_t most,
                             uint64_t *lost) {
  df_lock(&log->lock);
  const uint32_t n = (uint32_t)DF_MIN(log->noted - log->taken, (uint64_t)most);
  for (uint32_t i = 0; i < n; i++) records[i] = log->records[log->taken++ % DF_MESSAGE_RECORDS];
  *lost = log->lost;
  log->lost = 0;
  df_unlock(&log->lock);
  return n;
}

uint32_t df_message_log_length(df_message_log *log) {
  df_lock(&log->lock);
  const uint32_t n = (uint32_t)(log->noted - log->taken);
  df_unlock(&log->lock);
  return n;
}

void df_message_log_finish(df_message_log *log) {
  df_lock(&log->lock);
  for (uint32_t i = 0; i < log->n_under_way; i++)
    if (log->under_way[i].message.is_sent) note(log, &log->under_way[i], log->under_way[i].from);
  log->n_under_way = 0;
  df_unlock(&log->lock);
}
