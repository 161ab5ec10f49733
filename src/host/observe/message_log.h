/*
 * The log of the messages that networks carry for a rank (DFCCL_TRACE_TURNS): a ring of the latest
 * ones that have arrived, here or at the remote end. A message takes a place when its first bytes
 * are sent or come, and is recorded when it is complete.
 */
#ifndef DF_HOST_OBSERVE_MESSAGE_LOG_H
#define DF_HOST_OBSERVE_MESSAGE_LOG_H

#include "base/mutex.h"
#include "transports/watch.h"

enum {
  DF_MESSAGE_RECORDS = 8192,
  DF_MESSAGES_UNDER_WAY = 128 /* at most; the older half is given up then */
};

/* A sent message is complete when a credit for it has come: the remote block has read it. Credits
 * of short messages wait for other frames. */
typedef struct df_message_record {
  uint64_t from, to; /* ns of CLOCK_MONOTONIC */
  df_watched_message message;
} df_message_record;

typedef struct df_message_log df_message_log;

/* NULL: no memory. */
df_message_log *df_message_log_make(void);
void df_message_log_free(df_message_log *log);
/* The watch that fills the log; its time is an argument in tests only. */
const df_message_watch *df_message_log_watch(df_message_log *log);
void df_message_log_report(df_message_log *log, df_watch_event what,
                           const df_watched_message *message, uint64_t now_ns);

/* A sent message that is given up is recorded with `to` equal to `from`. A received one is lost. */

/* Takes up to `most` of the oldest records out of the log, and returns their number. *lost: number
 * of messages before them that were not recorded, or were overwritten, since the last call. */
uint32_t df_message_log_take(df_message_log *log, df_message_record *records, uint32_t most,
                             uint64_t *lost);
/* Records the sent messages whose credit has not come, with `to` equal to `from`. */
void df_message_log_finish(df_message_log *log);
/* The number of records that can be taken. */
uint32_t df_message_log_length(df_message_log *log);

#endif
