/*
 * The log of one block of the CPU device (DFCCL_TRACE_TURNS): a ring with the latest events of the
 * block, and with each turn of a collective. The thread that owns the block writes it, and never
 * waits for a reader. Any number of threads may read it meanwhile. A reader detects records that
 * were overwritten while it read them.
 */
#ifndef DF_PRIMITIVES_TURN_LOG_H
#define DF_PRIMITIVES_TURN_LOG_H

#include "primitives/link.h"
#include "primitives/timers.h"

#if defined(DF_SMALL_TURN_LOG) /* litmus tests */
enum { DF_TURN_RECORDS = 2 };
#else
enum { DF_TURN_RECORDS = DF_TIMED_EVENTS };
#endif

/* The kind of the link on which a turn has polled longest. */
typedef enum {
  DF_TURN_NO_WAIT,
  DF_TURN_RECEIVES, /* the peer has not sent the message yet */
  DF_TURN_SENDS     /* the peer has not released a slot, or a lent buffer, yet */
} df_turn_side;

/* Times are nanoseconds of CLOCK_MONOTONIC. */
typedef struct DF_ALIGNED(64) df_turn_record {
  uint64_t from, to; /* equal, unless a turn has ended: DF_EVENT_SET_ASIDE, DONE or KEPT */
  uint64_t what;     /* as in df_timed_event */
  uint64_t whose;    /* generation of the collective << 32 | peer << 16 | df_turn_side */
  uint64_t waited;   /* time of all waits in the turn */
  uint64_t longest;  /* time of the longest of them */
  uint64_t polls;    /* number of polls without success */
  uint64_t steps;    /* number of successful steps */
} df_turn_record;

typedef struct DF_ALIGNED(64) df_turn_log {
  uint64_t noted; /* number of records since the beginning */
  /* Only the owner of the block uses these; they describe the turn under way. */
  uint64_t turn_from, wait_from, waited, longest, polls, steps;
  const df_link *awaited; /* NULL: the block does not wait */
  uint32_t peer, side;    /* end of the longest wait */
  df_turn_record records[DF_TURN_RECORDS];
} df_turn_log;

DF_CORE int df_turn_ends(df_event_kind kind) {
  return kind == DF_EVENT_SET_ASIDE || kind == DF_EVENT_DONE || kind == DF_EVENT_KEPT;
}
DF_CORE df_event_kind df_turn_kind(const df_turn_record *record) {
  return (df_event_kind)(record->what >> DF_EVENT_KIND_SHIFT);
}
DF_CORE uint32_t df_turn_collective(const df_turn_record *record) {
  return (uint32_t)(record->what & ((1u << DF_EVENT_PENDING_SHIFT) - 1));
}
DF_CORE uint32_t df_turn_pending(const df_turn_record *record) {
  return (uint32_t)(record->what >> DF_EVENT_PENDING_SHIFT) & DF_EVENT_FIELD;
}
DF_CORE uint32_t df_turn_length(const df_turn_record *record) {
  return (uint32_t)(record->what >> DF_EVENT_LENGTH_SHIFT) & DF_EVENT_FIELD;
}

/* ---- the owner of the block ---- */

DF_CORE_APART void df_turn_log_begin(df_turn_log *log) {
  log->turn_from = df_device_ns();
  log->waited = log->longest = log->polls = log->steps = 0;
  log->awaited = NULL;
  log->peer = log->side = 0;
}

DF_CORE_APART void df_turn_log_end_wait(df_turn_log *log) {
  const uint64_t ns = df_device_ns() - log->wait_from;
  log->waited += ns;
  if (ns >= log->longest) {
    log->longest = ns;
    log->peer = log->awaited->peer;
    log->side = log->awaited->sends ? DF_TURN_SENDS : DF_TURN_RECEIVES;
  }
  log->awaited = NULL;
}

DF_CORE void df_turn_log_step(df_turn_log *log) {
  log->steps++;
  if (log->awaited) df_turn_log_end_wait(log);
}

/* Called after each poll without success. NULL: the turn waits for no link. */
DF_CORE_APART void df_turn_log_wait(df_turn_log *log, const df_link *link) {
  log->polls++;
  if (link == log->awaited) return;
  if (log->awaited) df_turn_log_end_wait(log);
  log->awaited = link;
  log->wait_from = df_device_ns();
}

/* Each store is a release, so that a reader that sees a new value also sees that the record before
 * it is complete, and thus that the ring has come round (df_turn_log_read). */
DF_CORE_APART void df_turn_log_note(df_turn_log *log, df_event_kind kind, uint32_t collective,
                                    uint32_t generation, uint32_t pending, uint32_t length) {
  df_turn_record *record = &log->records[log->noted % (uint64_t)DF_TURN_RECORDS];
  const int is_turn = df_turn_ends(kind);
  if (is_turn && log->awaited) df_turn_log_end_wait(log);
  const uint64_t to = kind == DF_EVENT_BEGUN ? log->turn_from : df_device_ns();
  df_publish_u64(&record->from, is_turn ? log->turn_from : to);
  df_publish_u64(&record->to, to);
  df_publish_u64(&record->what, df_event_what(kind, collective, pending, length));
  df_publish_u64(&record->whose, (uint64_t)generation << 32 | (is_turn ? log->peer << 16 : 0) |
                                     (is_turn ? log->side : 0));
  df_publish_u64(&record->waited, is_turn ? log->waited : 0);
  df_publish_u64(&record->longest, is_turn ? log->longest : 0);
  df_publish_u64(&record->polls, is_turn ? log->polls : 0);
  df_publish_u64(&record->steps, is_turn ? log->steps : 0);
  df_publish_u64(&log->noted, log->noted + 1);
}

/* ---- any thread ---- */

/* Returns 0 if the record has been overwritten, perhaps while it was read. number: less than a
 * value of `noted` that the thread has observed. */
static inline int df_turn_log_read(const df_turn_log *log, uint64_t number, df_turn_record *to) {
  const df_turn_record *record = &log->records[number % (uint64_t)DF_TURN_RECORDS];
  to->from = df_observe_u64(&record->from);
  to->to = df_observe_u64(&record->to);
  to->what = df_observe_u64(&record->what);
  to->whose = df_observe_u64(&record->whose);
  to->waited = df_observe_u64(&record->waited);
  to->longest = df_observe_u64(&record->longest);
  to->polls = df_observe_u64(&record->polls);
  to->steps = df_observe_u64(&record->steps);
  return df_load_relaxed_u64(&log->noted) < number + DF_TURN_RECORDS;
}

/* The oldest record that can be read. */
static inline uint64_t df_turn_log_first(uint64_t noted) {
  return noted >= DF_TURN_RECORDS ? noted - DF_TURN_RECORDS + 1 : 0;
}

#endif
