/*
 * A sender's records of the ways to one receiver (ways.h): one for each distance at which the
 * receiver has been. The system may move ranks between neighbouring and distant processors at any
 * time. No distance is given: looks measure how long a line takes to arrive, and lines that take
 * about the same time come from the same distance.
 *
 * All functions are pure: they get the times, and never read a clock.
 */
#ifndef DF_PRIMITIVES_WAY_RECORD_H
#define DF_PRIMITIVES_WAY_RECORD_H

#include <stdint.h>

#include "base/atomic.h"
#include "base/limits.h"

typedef enum {
  DF_WAY_CACHED, /* slots; the stores go through the caches */
  DF_WAY_OWNED,  /* the same; the slot's lines are requested for writing ahead of the stores */
  DF_WAY_PAST,   /* slots; the stores go past the caches */
  DF_WAY_LENT,   /* the receiver reads the sender's buffer */
  DF_WAYS
} df_way;

enum {
  DF_WAY_UNIT = 65536,       /* times are for so many bytes */
  DF_WAY_INTERVAL = 8,       /* log2 of the messages between trials at first, */
  DF_WAY_INTERVAL_MOST = 14, /* and at most: a change is found after so many */
  DF_WAY_CHECKS = 8,         /* runs that show whether remembered times still hold */
  DF_DISTANCES = 4
};

/* When the next trial begins. */
typedef struct df_way_schedule {
  uint32_t left;    /* messages until then */
  uint8_t interval; /* log2 of the messages between trials */
  uint8_t n_free;   /* trials that are not charged */
} df_way_schedule;

/* The ways to a receiver at one distance. */
typedef struct df_way_record {
  uint32_t line_ns;           /* the time in which a line arrives; 0: the record is free */
  uint32_t write_ns[DF_WAYS]; /* mean times of the sender; 0: unknown */
  uint32_t read_ns[DF_WAYS];  /* those of the receiver, as last looked at */
  uint32_t usual_ns[DF_WAYS]; /* long-term means of the cost; 0: unknown */
  uint32_t kept_ns;           /* that of the way through slots, for an earlier link; 0: unknown */
  df_way_schedule of_slots, of_lending;
  uint16_t unknown;  /* messages measured while the cost was not known */
  uint8_t kept_size; /* power of two of the messages that kept_ns is of */
  uint8_t checks;    /* runs until kept_ns is compared; 0: it has been */
  uint8_t slots;     /* the way through slots that is in use */
  uint8_t lends;     /* 1: a message that can be lent is lent */
  uint8_t next;      /* the way through slots to try next */
} df_way_record;

static inline uint32_t df_way_in_use(const df_way_record *record, int may_lend) {
  return may_lend && record->lends ? DF_WAY_LENT : record->slots;
}

/* ---- means ---- */

/* A word of the receiver: its mean time for a way, and the number of measurements modulo 256. */
enum { DF_WAY_COUNT_BITS = 8, DF_WAY_NS_MOST = (1 << (32 - DF_WAY_COUNT_BITS)) - 1 };
static inline uint32_t df_way_word_ns(uint32_t word) { return word >> DF_WAY_COUNT_BITS; }

static inline uint64_t df_way_time(uint32_t per_unit, uint64_t bytes) {
  return (uint64_t)per_unit * bytes / DF_WAY_UNIT;
}

/* A move that was interrupted counts as one of twice the mean, and one that is much faster shows
 * that the mean was one of interrupted moves. */
static inline uint32_t df_way_mean(uint32_t mean, uint64_t bytes, uint64_t ns) {
  const uint64_t now = DF_MIN(DF_MAX(ns * DF_WAY_UNIT / bytes, 1u), (uint64_t)DF_WAY_NS_MOST);
  if (mean == 0) return (uint32_t)now;
  if (now * 2 < mean) return (uint32_t)((mean + now) / 2);
  const uint64_t next = (3 * (uint64_t)mean + DF_MIN(now, 2 * (uint64_t)mean) + 3) / 4;
  return (uint32_t)DF_MIN(next, (uint64_t)DF_WAY_NS_MOST);
}

/* The receiver's word after one more measurement. */
static inline uint32_t df_way_read_word(uint32_t word, uint64_t bytes, uint64_t ns) {
  return df_way_mean(df_way_word_ns(word), bytes, ns) << DF_WAY_COUNT_BITS |
         ((word + 1) & ((1u << DF_WAY_COUNT_BITS) - 1));
}

/* ---- distances ---- */

enum {
  DF_LINE_NS_MOST = 4095,
  DF_SAME_DISTANCE_PERCENT = 175, /* line times of one distance differ by at most this ratio */
  DF_PAST_LINE_NS = 100 /* a record begins with stores past the caches if lines take longer */
};

static inline uint32_t df_line_ratio(uint32_t a, uint32_t b) {
  return DF_MAX(a, b) * 100 / DF_MAX(DF_MIN(a, b), 1u);
}
static inline int df_line_is_same(uint32_t a, uint32_t b) {
  return df_line_ratio(a, b) <= DF_SAME_DISTANCE_PERCENT;
}

static inline df_way_record df_way_record_new(uint32_t line_ns) {
  return (df_way_record){.line_ns = line_ns,
                         .slots = line_ns > DF_PAST_LINE_NS ? DF_WAY_PAST : DF_WAY_CACHED,
                         .of_slots = {.interval = DF_WAY_INTERVAL, .n_free = DF_WAY_LENT - 1},
                         .of_lending = {.interval = DF_WAY_INTERVAL, .n_free = 1}};
}

/* All ways are tried as soon as the budget allows it; for nothing, if that has not happened for
 * long. */
static inline void df_way_record_doubt(df_way_record *record) {
  if (record->of_slots.interval == DF_WAY_INTERVAL_MOST) record->of_slots.n_free = DF_WAY_LENT - 1;
  record->of_slots.interval = record->of_lending.interval = DF_WAY_INTERVAL;
  record->of_slots.left = record->of_lending.left = 0;
}

/* The record for a distance. is_sure: it may be a new one. */
static inline df_way_record *df_way_record_for(df_way_record at[DF_DISTANCES],
                                               df_way_record *current, uint32_t line_ns,
                                               int is_sure) {
  if (current->line_ns && df_line_is_same(current->line_ns, line_ns)) return current;
  df_way_record *nearest = NULL, *unused = current->line_ns ? NULL : current;
  for (df_way_record *r = at; r < at + DF_DISTANCES; r++) {
    if (r->line_ns == 0)
      unused = unused ? unused : r;
    else if (nearest == NULL ||
             df_line_ratio(r->line_ns, line_ns) < df_line_ratio(nearest->line_ns, line_ns))
      nearest = r;
  }
  if (nearest && df_line_is_same(nearest->line_ns, line_ns)) return nearest;
  if (!is_sure) return current;
  if (unused == NULL) return nearest;
  *unused = df_way_record_new(line_ns);
  return unused;
}

/* The median of three. */
static inline uint32_t df_way_middle(const uint32_t ns[3]) {
  const uint32_t low = DF_MIN(ns[0], ns[1]), high = DF_MAX(ns[0], ns[1]);
  return DF_MAX(low, DF_MIN(high, ns[2]));
}

/* ---- memory for later links of the kind ---- */

/* The memory of a kind of links: for each distance two words, and the budget that links have not
 * spent (df_ways). Several links may use it at once; the last one counts. */
typedef struct df_ways_memory {
  uint64_t records[DF_DISTANCES]; /* 0: none */
  uint64_t schedules[DF_DISTANCES];
  uint64_t budget;
} df_ways_memory;

/* Members of the first word, from bit 0: */
enum {
  DF_REMEMBER_KNOWN = 0, /* 1 */
  DF_REMEMBER_SLOTS = 1,
  DF_REMEMBER_LENDS = 3,
  DF_REMEMBER_NEXT = 4,
  DF_REMEMBER_SIZE = 6,
  DF_REMEMBER_LINE = 12,
  DF_REMEMBER_USUAL = 24
};
/* Half of the second word: the messages left until the next trial, the interval, free trials. */
enum { DF_REMEMBER_INTERVAL = 16, DF_REMEMBER_FREE = 24, DF_REMEMBER_OF_LENDING = 32 };

static inline uint64_t df_way_schedule_bits(const df_way_schedule *schedule) {
  return schedule->left | (uint64_t)schedule->interval << DF_REMEMBER_INTERVAL |
         (uint64_t)schedule->n_free << DF_REMEMBER_FREE;
}
static inline df_way_schedule df_way_schedule_of(uint64_t bits) {
  const uint64_t interval = bits >> DF_REMEMBER_INTERVAL & 255;
  return (df_way_schedule){.left = bits & 0xffff,
                           .interval = (uint8_t)DF_MIN(interval, (uint64_t)DF_WAY_INTERVAL_MOST),
                           .n_free = (uint8_t)(bits >> DF_REMEMBER_FREE & 3)};
}

static inline uint64_t df_way_record_word(const df_way_record *record, uint32_t size) {
  const uint64_t usual_ns = DF_MIN(record->usual_ns[record->slots], (uint32_t)DF_WAY_NS_MOST);
  return 1 | (uint64_t)record->slots << DF_REMEMBER_SLOTS |
         (uint64_t)record->lends << DF_REMEMBER_LENDS | (uint64_t)record->next << DF_REMEMBER_NEXT |
         (uint64_t)size << DF_REMEMBER_SIZE | (uint64_t)record->line_ns << DF_REMEMBER_LINE |
         usual_ns << DF_REMEMBER_USUAL;
}
static inline uint64_t df_way_schedules_word(const df_way_record *record) {
  return df_way_schedule_bits(&record->of_slots) | df_way_schedule_bits(&record->of_lending)
                                                       << DF_REMEMBER_OF_LENDING;
}

static inline uint32_t df_way_word_line(uint64_t word) {
  return (uint32_t)(word >> DF_REMEMBER_LINE) & DF_LINE_NS_MOST;
}

static inline df_way_record df_way_record_of(uint64_t word, uint64_t schedules) {
  df_way_record record = df_way_record_new(df_way_word_line(word));
  record.slots = (uint8_t)((word >> DF_REMEMBER_SLOTS & 3) % DF_WAY_LENT);
  record.lends = word >> DF_REMEMBER_LENDS & 1;
  record.of_slots = df_way_schedule_of(schedules);
  record.of_lending = df_way_schedule_of(schedules >> DF_REMEMBER_OF_LENDING);
  record.next = (uint8_t)((word >> DF_REMEMBER_NEXT & 3) % DF_WAY_LENT);
  record.kept_size = word >> DF_REMEMBER_SIZE & 63;
  record.kept_ns = word >> DF_REMEMBER_USUAL & DF_WAY_NS_MOST;
  record.checks = record.kept_ns ? DF_WAY_CHECKS : 0;
  return record;
}

/* For the user. word: of a record (df_way_record_word). */
static inline const char *df_way_word_name(uint64_t word) {
  static const char *const names[] = {"through the caches", "through the caches, requested ahead",
                                      "past the caches"};
  return names[(word >> DF_REMEMBER_SLOTS & 3) % DF_WAY_LENT];
}
static inline int df_way_word_lends(uint64_t word) { return word >> DF_REMEMBER_LENDS & 1; }
static inline uint32_t df_way_word_usual(uint64_t word) {
  return (uint32_t)(word >> DF_REMEMBER_USUAL);
}

static inline void df_way_record_remember(const df_way_record *record, uint32_t size,
                                          df_ways_memory *memory) {
  uint32_t at = DF_DISTANCES;
  for (uint32_t i = 0; i < DF_DISTANCES; i++) {
    const uint64_t known = df_load_relaxed_u64(&memory->records[i]);
    if (known && !df_line_is_same(df_way_word_line(known), record->line_ns)) continue;
    if (at == DF_DISTANCES || known) at = i;
  }
  if (at == DF_DISTANCES) at = DF_DISTANCES - 1;
  df_store_relaxed_u64(&memory->schedules[at], df_way_schedules_word(record));
  df_store_relaxed_u64(&memory->records[at], df_way_record_word(record, size));
}

/* memory: NULL: nothing is known. */
static inline void df_way_records_recall(df_way_record at[DF_DISTANCES],
                                         const df_ways_memory *memory) {
  for (uint32_t i = 0; i < DF_DISTANCES; i++) {
    const uint64_t known = memory ? df_load_relaxed_u64(&memory->records[i]) : 0;
    at[i] = known ? df_way_record_of(known, df_load_relaxed_u64(&memory->schedules[i]))
                  : df_way_record_new(0);
  }
}

#endif
