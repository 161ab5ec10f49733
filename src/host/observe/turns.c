/*
 * The logs of the daemon's blocks (primitives/turn_log.h) and of the messages of networks
 * (message_log.h) as lines of the trace. K is the number of
 * a collective in the trace; 0: it has been deregistered since. B is a block, Q the length of its
 * task queue, P the number of the collective's runs that are pending in the block. Times are those
 * of trace.c.
 *
 *   {"daemon":"start"|"quit","block":B,"at":T,"queue":Q}     quit: voluntarily, not at the end
 *   {"taken":K,"block":B,"at":T,"queue":Q,"pending":P}       the block has taken a run
 *   {"load":K,"block":B,"at":T}, {"save":K,"block":B,"at":T} the context of the collective
 *   {"turn":K,"block":B,"from":T,"to":T,"end":E,"queue":Q,"pending":P,"steps":N,
 *    "polls":N,"waited":D,"longest":D,"on":"receive"|"send","peer":R}
 *       A turn. E is "done" (a run has ended), "preempted" (the spin threshold has run out), or
 *       "kept" (the collective keeps its place, since another thread executes the block). "steps"
 *       counts the primitives that were executed, and the end of the run. The members from "polls"
 *       on are there if the block has polled without success: the sum of the waits, and the longest
 *       one, with its link. On "receive" rank R had not sent its message, on "send" it had not
 *       released a slot or a lent buffer.
 *   {"lost_turns":N,"block":B,"at":T}
 *       The ring of the block has overwritten N records before they were read.
 *   {"message":K,"block":B,"from":T,"to":T,"way":"sent"|"received","peer":R,"number":N,"bytes":B}
 *       A network has carried message N of a link with rank R, from its first byte until it had
 *       arrived; a sent one, until the credit for it has come (equal times: it has not come).
 *   {"lost_messages":N,"at":T}
 *       N messages are missing.
 *
 * The lines of a block are in the order of time, and later than other lines of the same time.
 */
#include "host/observe/turns.h"

#include <string.h>

#include "base/clock.h"
#include "host/observe/message_log.h"
#include "host/observe/tracer.h"
#include "primitives/turn_log.h"

enum {
  DF_TURNS_MANY = DF_TURN_RECORDS / 8, /* records of one block; the ring has room for eight times */
  DF_MESSAGES_MANY = DF_MESSAGE_RECORDS / 8,
  DF_TURN_LINE_BYTES = 512,
  DF_MESSAGES_AT_ONCE = 64
};

/* ---- lines ---- */

/* A formatted line costs vsnprintf 0.7 us, more than the turn of a short run. */
typedef struct trace_line {
  char text[DF_TURN_LINE_BYTES];
  size_t length;
} trace_line;

static void put_text(trace_line *line, const char *text) {
  const size_t length = strlen(text);
  DF_ASSERT(line->length + length <= sizeof line->text);
  memcpy(line->text + line->length, text, length);
  line->length += length;
}

static void put_number(trace_line *line, const char *name, uint64_t number) {
  char digits[20];
  size_t n = 0;
  put_text(line, name);
  do digits[n++] = (char)('0' + number % 10);
  while ((number /= 10) > 0);
  DF_ASSERT(line->length + n <= sizeof line->text);
  while (n > 0) line->text[line->length++] = digits[--n];
}

/* A variant is traced as its registered collective. */
static uint32_t number_of(dfcclContext_t context, uint32_t index,
                          uint32_t generation) DF_RANK_LOCKED {
  if (index >= context->registry.n_indices || context->registry.generations[index] != generation)
    return 0;
  df_coll *coll = context->registry.by_index[index];
  if (coll == NULL) return 0;
  if (coll->registered) coll = coll->registered;
  if (coll->trace.number == 0) df_tracer_describe(context, coll);
  return coll->trace.number;
}

static uint32_t number_of_turn(dfcclContext_t context,
                               const df_turn_record *record) DF_RANK_LOCKED {
  return number_of(context, df_turn_collective(record), (uint32_t)(record->whose >> 32));
}

static void put_event(trace_line *line, const df_turn_record *record, uint32_t block) {
  put_number(line, ",\"block\":", block);
  put_number(line, ",\"at\":", record->to);
}

static void put_queue(trace_line *line, const df_turn_record *record) {
  put_number(line, ",\"queue\":", df_turn_length(record));
  put_number(line, ",\"pending\":", df_turn_pending(record));
}

static void put_turn(trace_line *line, const df_turn_record *record, uint32_t block,
                     const char *end) {
  const uint32_t side = (uint32_t)record->whose & 0xffff;
  put_number(line, ",\"block\":", block);
  put_number(line, ",\"from\":", record->from);
  put_number(line, ",\"to\":", record->to);
  put_text(line, ",\"end\":\"");
  put_text(line, end);
  put_text(line, "\"");
  put_queue(line, record);
  put_number(line, ",\"steps\":", record->steps);
  if (side == DF_TURN_NO_WAIT) return;
  put_number(line, ",\"polls\":", record->polls);
  put_number(line, ",\"waited\":", record->waited);
  put_number(line, ",\"longest\":", record->longest);
  put_text(line, side == DF_TURN_SENDS ? ",\"on\":\"send\"" : ",\"on\":\"receive\"");
  put_number(line, ",\"peer\":", (uint32_t)record->whose >> 16);
}

static void put_record(dfcclContext_t context, trace_line *line, const df_turn_record *record,
                       uint32_t block) DF_RANK_LOCKED {
  const df_event_kind kind = df_turn_kind(record);
  switch (kind) {
  case DF_EVENT_LAUNCHED:
  case DF_EVENT_LEFT:
    put_text(line, kind == DF_EVENT_LEFT ? "{\"daemon\":\"quit\"" : "{\"daemon\":\"start\"");
    put_event(line, record, block);
    put_number(line, ",\"queue\":", df_turn_length(record));
    break;
  case DF_EVENT_FETCHED:
    put_number(line, "{\"taken\":", number_of_turn(context, record));
    put_event(line, record, block);
    put_queue(line, record);
    break;
  case DF_EVENT_LOADED:
  case DF_EVENT_SAVED:
    put_number(line, kind == DF_EVENT_LOADED ? "{\"load\":" : "{\"save\":",
               number_of_turn(context, record));
    put_event(line, record, block);
    break;
  case DF_EVENT_SET_ASIDE:
  case DF_EVENT_DONE:
  case DF_EVENT_KEPT:
    put_number(line, "{\"turn\":", number_of_turn(context, record));
    put_turn(line, record, block,
             kind == DF_EVENT_DONE        ? "done"
             : kind == DF_EVENT_SET_ASIDE ? "preempted"
                                          : "kept");
    break;
  case DF_EVENT_BEGUN: /* the run's first turn says it */
    return;
  }
  put_text(line, "}\n");
}

/* ---- reading the logs ---- */

static void add(dfcclContext_t context, const trace_line *line) DF_RANK_LOCKED {
  df_growing_text *lines = &context->tracer->lines;
  const size_t before = lines->length;
  df_grow(lines, line->text, line->length);
  df_tracer_end_lines(context, before);
}

static void trace_lost(dfcclContext_t context, uint32_t block, uint64_t lost) DF_RANK_LOCKED {
  trace_line line = {.length = 0};
  put_number(&line, "{\"lost_turns\":", lost);
  put_number(&line, ",\"block\":", block);
  put_number(&line, ",\"at\":", df_clock_ns());
  put_text(&line, "}\n");
  add(context, &line);
}

static void trace_block(dfcclContext_t context, uint32_t block) DF_RANK_LOCKED {
  const df_turn_log *log = &context->device.turns[block];
  uint64_t *read = &context->tracer->turns[block];
  const uint64_t until = df_observe_u64(&log->noted);
  uint64_t lost = 0;
  for (; *read < until && !context->tracer->ended; ++*read) {
    df_turn_record record;
    trace_line line;
    if (!df_turn_log_read(log, *read, &record)) {
      const uint64_t first = DF_MIN(df_turn_log_first(df_observe_u64(&log->noted)), until);
      lost += first - *read;
      *read = first - 1;
      continue;
    }
    if (lost > 0) trace_lost(context, block, lost);
    lost = 0;
    line.length = 0;
    put_record(context, &line, &record, block);
    if (line.length > 0) add(context, &line);
  }
  if (lost > 0 && !context->tracer->ended) trace_lost(context, block, lost);
}

static void put_message(dfcclContext_t context, trace_line *line,
                        const df_message_record *record) DF_RANK_LOCKED {
  const df_watched_message *message = &record->message;
  const uint64_t whose = message->collective;
  put_number(line, "{\"message\":", number_of(context, (uint32_t)whose, (uint32_t)(whose >> 32)));
  put_number(line, ",\"block\":", message->block);
  put_number(line, ",\"from\":", record->from);
  put_number(line, ",\"to\":", record->to);
  put_text(line, message->is_sent ? ",\"way\":\"sent\"" : ",\"way\":\"received\"");
  put_number(line, ",\"peer\":", message->peer);
  put_number(line, ",\"number\":", message->sequence);
  put_number(line, ",\"bytes\":", message->bytes);
  put_text(line, "}\n");
}

static void trace_messages(dfcclContext_t context) DF_RANK_LOCKED {
  df_message_record records[DF_MESSAGES_AT_ONCE];
  uint32_t n;
  do {
    trace_line line = {.length = 0};
    uint64_t lost;
    n = df_message_log_take(context->messages, records, DF_MESSAGES_AT_ONCE, &lost);
    if (lost > 0 && !context->tracer->ended) {
      put_number(&line, "{\"lost_messages\":", lost);
      put_number(&line, ",\"at\":", df_clock_ns());
      put_text(&line, "}\n");
      add(context, &line);
    }
    for (uint32_t i = 0; i < n && !context->tracer->ended; i++) {
      line.length = 0;
      put_message(context, &line, &records[i]);
      add(context, &line);
    }
  } while (n == DF_MESSAGES_AT_ONCE);
}

void df_trace_turns(dfcclContext_t context) {
  if (context->messages != NULL) trace_messages(context);
  if (context->device.turns == NULL) return;
  for (uint32_t b = 0; b < context->device.shared->n_blocks; b++) trace_block(context, b);
}

void df_trace_many_turns(dfcclContext_t context) {
  if (context->messages != NULL && df_message_log_length(context->messages) >= DF_MESSAGES_MANY)
    trace_messages(context);
  for (uint32_t b = 0; b < context->device.shared->n_blocks; b++)
    if (df_load_relaxed_u64(&context->device.turns[b].noted) - context->tracer->turns[b] >=
        DF_TURNS_MANY)
      trace_block(context, b);
}

int df_trace_has_turns(const dfcclContext_t context) {
  if (context->tracer->ended) return 0;
  if (context->messages != NULL && df_message_log_length(context->messages) > 0) return 1;
  if (context->device.turns == NULL) return 0;
  for (uint32_t b = 0; b < context->device.shared->n_blocks; b++)
    if (df_load_relaxed_u64(&context->device.turns[b].noted) != context->tracer->turns[b]) return 1;
  return 0;
}
