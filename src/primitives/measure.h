/* The moves of messages that both ends measure (ways.h). On the CPU only. */
#ifndef DF_PRIMITIVES_MEASURE_H
#define DF_PRIMITIVES_MEASURE_H

#include "primitives/lanes.h"
#include "primitives/link.h"

#if defined(__CUDACC__)

DF_CORE int df_measure_choose_way(df_move *move, uint64_t run, int may_lend, uint64_t bytes) {
  (void)move;
  (void)run;
  (void)bytes;
  return may_lend;
}
DF_CORE void df_measure_common(df_move *move, int writes, uint64_t run, uint64_t bytes) {
  (void)move, (void)writes, (void)run, (void)bytes;
}
DF_CORE uint32_t df_measure_tag(const df_move *move) { return move->lends != 0; }
DF_CORE void df_measure_received(df_move *move) { (void)move; }
DF_CORE uint64_t df_measure_begin(const df_move *move) {
  (void)move;
  return 0;
}
DF_CORE void df_measure_end(const df_move *move, uint64_t begin) {
  (void)move;
  (void)begin;
}

#else

#include "base/clock.h"
#include "primitives/ways.h"

/* Bits of df_move.measures. */
enum { DF_MEASURES_SEND = 1, DF_MEASURES_RECEIVE = 2 };

DF_CORE_APART uint8_t df_measure_next_way(df_link *link, uint64_t run, int may_lend, uint64_t bytes,
                                          int *is_timed) {
  df_ways *ways = link->ways;
  const df_way_message message = {.bytes = bytes,
                                  .run = run,
                                  .now_ns = df_ways_wants_time(ways, run) ? df_clock_ns() : 0,
                                  .may_lend = may_lend};
  if (df_ways_wants_look(ways)) link->credit_seen = df_link_look_at_credit(link);
  return (uint8_t)df_ways_next(ways, &message, is_timed);
}

static inline void df_measure_find_way(df_move *move, uint64_t run, int may_lend, uint64_t bytes) {
  int is_timed = 0;
  move->way = may_lend ? DF_WAY_LENT : DF_WAY_CACHED;
  if (DF_UNLIKELY(move->send_link->ways != NULL) && bytes >= DF_WAY_LEAST)
    move->way = df_measure_next_way(move->send_link, run, may_lend, bytes, &is_timed);
  move->tag = 0;
  if (is_timed) {
    move->tag = (uint8_t)(DF_COMMIT_TIMED | move->way * DF_COMMIT_WAY);
    move->measures |= DF_MEASURES_SEND;
  }
}

/* Sets the way and the tag of the message that is sent. Returns 1 if it is lent. */
static inline int df_measure_choose_way(df_move *move, uint64_t run, int may_lend, uint64_t bytes) {
  df_measure_find_way(move, run, may_lend, bytes);
  if (move->way != DF_WAY_LENT) return 0;
  move->tag |= DF_COMMIT_DIRECT;
  return 1;
}

/* A common slot is written once, in a way through slots, and its first reader's times count for
 * all. */
static inline void df_measure_common(df_move *move, int writes, uint64_t run, uint64_t bytes) {
  move->way = DF_WAY_CACHED;
  move->tag = 0;
  if (writes) df_measure_find_way(move, run, 0, bytes);
  move->tag |= DF_COMMIT_DIRECT;
}
static inline uint32_t df_measure_tag(const df_move *move) { return move->tag; }

/* The tag of the received message. Whatever the peer has stored there, the way is a valid one. */
static inline uint32_t df_measure_received_tag(const df_move *move) {
  const uint8_t *slot = df_link_slot(move->recv_link, move->recv_sequence);
  return (uint32_t)df_load_relaxed_u64((const uint64_t *)slot);
}

static inline void df_measure_received(df_move *move) {
  move->measures = 0;
  move->way = DF_WAY_CACHED;
  move->tag = 0; /* an empty message keeps it */
  if (move->recv_link && move->recv_link->ways_read && move->announces & DF_MESSAGE_COMES &&
      df_measure_received_tag(move) & DF_COMMIT_TIMED)
    move->measures |= DF_MEASURES_RECEIVE;
}

static inline uint64_t df_measure_begin(const df_move *move) {
  return DF_LIKELY(move->measures == 0) ? 0 : df_clock_ns();
}

/* A move that receives and sends counts for both links. */
static inline void df_measure_end(const df_move *move, uint64_t begin) {
  const uint64_t ns = df_clock_ns() - begin, bytes = move->count * move->element_bytes;
  if (bytes == 0) return;
  if (move->measures & DF_MEASURES_RECEIVE) {
    const uint32_t way = df_measure_received_tag(move) / DF_COMMIT_WAY % DF_WAYS;
    uint32_t *word = &move->recv_link->ways_read[way];
    *word = df_way_read_word(*word, bytes, ns);
    df_store_relaxed_u32(&df_link_read_words(move->recv_link)[way], *word);
  }
  if (move->measures & DF_MEASURES_SEND) {
    df_ways *ways = move->send_link->ways;
    uint32_t word = 0;
    if (df_ways_wants_words(ways, move->way)) {
      word = df_load_relaxed_u32(&df_link_read_words(move->send_link)[move->way]);
      /* The line is here now, so a later look must not find an older change of the credit. */
      move->send_link->credit_seen = df_observe_u64(move->send_link->credit);
    }
    df_ways_note(ways, move->way, bytes, ns, word);
  }
}

#endif
#endif
