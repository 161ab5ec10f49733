/* The ring of a block's turns, whose owner overwrites records while other threads read them. */
#define DF_SMALL_TURN_LOG
#include "primitives/turn_log.h"
#include "litmus.h"

/* ---- 26: a record that is overwritten while it is read is not taken for a whole one */

enum { OLD = 1, NEW = 9 };

typedef struct turns_state {
  df_turn_log log;
  DF_ALIGNED(64) uint32_t read, whole;
} turns_state;

/* The record with number 0 is the next to be overwritten, after one that is free. */
static void turns_prepare(void *state) {
  turns_state *s = state;
  while (s->log.noted + 1 < DF_TURN_RECORDS)
    df_turn_log_note(&s->log, DF_EVENT_SAVED, OLD, OLD, OLD, OLD);
}
static void turns_owner(void *state) {
  turns_state *s = state;
  for (int i = 0; i < 2; i++) df_turn_log_note(&s->log, DF_EVENT_SAVED, NEW, NEW, NEW, NEW);
}
static void turns_reader(void *state) {
  turns_state *s = state;
  df_turn_record record;
  s->read = (uint32_t)df_turn_log_read(&s->log, 0, &record);
  s->whole = df_turn_collective(&record) == OLD && record.whose >> 32 == OLD;
}
static litmus_outcome turns_judge(const void *state) {
  const turns_state *s = state;
  if (!s->read) return LITMUS_NOTHING;
  return s->whole ? LITMUS_SEEN : LITMUS_FORBIDDEN;
}

/* ---- 26: a record below the count is complete */

static void fresh_prepare(void *state) { (void)state; }
static void fresh_owner(void *state) {
  turns_state *s = state;
  df_turn_log_note(&s->log, DF_EVENT_SAVED, NEW, NEW, NEW, NEW);
}
static void fresh_reader(void *state) {
  turns_state *s = state;
  df_turn_record record;
  if (df_observe_u64(&s->log.noted) == 0) return;
  s->read = (uint32_t)df_turn_log_read(&s->log, 0, &record);
  s->whole = df_turn_collective(&record) == NEW && record.whose >> 32 == NEW;
}

static const litmus_test tests[] = {
    {"26",
     "turns_lapped",
     "a record is taken for whole that has been overwritten meanwhile",
     sizeof(turns_state),
     turns_prepare,
     {turns_owner, turns_reader},
     turns_judge,
     {{0, LITMUS_PUBLISH}, {1, LITMUS_OBSERVE}},
     {{0}}},
    {"26",
     "turns",
     "a record is counted, and what it says is not seen",
     sizeof(turns_state),
     fresh_prepare,
     {fresh_owner, fresh_reader},
     turns_judge,
     {{0, LITMUS_PUBLISH}, {1, LITMUS_OBSERVE}},
     {{0}}},
};
const litmus_tests litmus_turns = {tests, DF_COUNT_OF(tests)};
