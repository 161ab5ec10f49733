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
  DF_WAY_UNIT = 65536,        /* times are for so many bytes */
  DF_WAY_INTERVAL = 8,        /* log2 of the messages between trials at first, */
  DF_WAY_INTERVAL_MOST = 14,  /* and at most: a change is found after so many */
  DF_WAY_CHECKS = 8,          /* runs that show whether remembered times still hold */
  DF_WAY_SLOT_PERCENT = 95,   /* a way through slots must take less than this share of another's */
  DF_WAY_WINS = 3,            /* so many trials in a row decide about lending */
  DF_WAY_SHARE_OF_USUAL = 32, /* one cost counts so much in the usual one, */
  DF_WAY_EARLY_SHARE = 8,     /* and in a link's first messages */
  DF_WAY_GRAVE = 3,           /* times the sure time: other ways are tried at once */
  DF_WAY_PROOF = 256, /* messages after a lap of the ring in which a new way proves itself */
  DF_DISTANCES = 4
};

/* When the next trial begins. */
typedef struct df_way_schedule {
  uint32_t left;    /* messages until then */
  uint8_t interval; /* log2 of the messages between trials */
  uint8_t n_free;   /* trials that are not charged */
  uint8_t n_credit; /* trials that may begin with an empty budget */
} df_way_schedule;

/* gains: the way in use is a new one. */
static inline void df_way_schedule_next(df_way_schedule *schedule, int gains) {
  schedule->interval =
      (uint8_t)(gains ? DF_WAY_INTERVAL : DF_MIN(schedule->interval + 1, DF_WAY_INTERVAL_MOST));
  schedule->left = schedule->n_free ? 0 : 1u << schedule->interval;
}

/* The ways to a receiver at one distance. */
typedef struct df_way_record {
  uint32_t line_ns;           /* the time in which a line arrives; 0: the record is free */
  uint32_t write_ns[DF_WAYS]; /* mean times of the sender; 0: unknown */
  uint32_t read_ns[DF_WAYS];  /* those of the receiver, as last looked at */
  uint32_t usual_ns[DF_WAYS]; /* long-term means of the cost; 0: unknown */
  uint32_t sure_ns;           /* that of the way in use before it became slower by half, or what a
                                 new way must not exceed; 0: neither */
  uint32_t kept_ns;           /* that of the way through slots, for an earlier link; 0: unknown */
  df_way_schedule of_slots, of_lending;
  uint16_t unknown;  /* messages measured while the cost was not known */
  uint8_t kept_size; /* power of two of the messages that kept_ns is of */
  uint8_t checks;    /* runs until kept_ns is compared; 0: it has been */
  uint8_t slots;     /* the way through slots that is in use */
  uint8_t lends;     /* 1: a message that can be lent is lent */
  uint8_t next;      /* the way through slots to try next */
  uint8_t wins;      /* trials in a row that speak for lending, or against it */
  uint8_t former; /* the way through slots before a new one that must prove itself; DF_WAYS: none */
  uint16_t proof; /* messages until it has */
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
                         .of_lending = {.interval = DF_WAY_INTERVAL, .n_free = 1},
                         .former = DF_WAYS};
}

/* All ways are tried as soon as the budget allows it; for nothing, if that has not happened for
 * long. */
static inline void df_way_record_doubt(df_way_record *record) {
  if (record->of_slots.interval == DF_WAY_INTERVAL_MOST) record->of_slots.n_free = DF_WAY_LENT - 1;
  record->of_slots.interval = record->of_lending.interval = DF_WAY_INTERVAL;
  record->of_slots.left = record->of_lending.left = 0;
}

/* The budget that the way in use earns may come too late, so trials begin on credit. */
static inline void df_way_record_doubt_gravely(df_way_record *record) {
  df_way_record_doubt(record);
  record->of_slots.n_credit = DF_WAY_LENT - 1;
  record->of_lending.n_credit = 1;
}

/* A way that has been in use is tried next if the present one takes half as long again. */
static inline void df_way_record_recollect(df_way_record *record) {
  const uint64_t now = record->usual_ns[record->slots];
  for (uint32_t way = 0; way < DF_WAY_LENT; way++) {
    const uint64_t then = record->usual_ns[way];
    if (then == 0 || now * 2 <= then * 3) continue;
    record->next = (uint8_t)((way + DF_WAY_LENT - 1) % DF_WAY_LENT); /* the way before it */
    record->of_slots.n_credit = DF_MAX(record->of_slots.n_credit, 1);
    record->of_slots.left = 0;
  }
}

/* If the way in use has become slower by half, another one may be faster now. share: the cost is
 * one of so many in the usual one. */
static inline void df_way_record_compare(df_way_record *record, uint32_t way, uint64_t cost,
                                         uint32_t share) {
  const uint64_t usual = record->usual_ns[way] ? record->usual_ns[way] : cost;
  const int is_slower = cost * 2 > usual * 3;
  record->usual_ns[way] = (uint32_t)(is_slower ? cost : ((share - 1) * usual + cost) / share);
  if (is_slower) df_way_record_doubt(record);
  if (way != record->slots) return;
  if (share > DF_WAY_EARLY_SHARE) df_way_record_recollect(record);
  if (cost * 2 <= (uint64_t)record->sure_ns * 3) record->sure_ns = 0;
  if (is_slower && record->sure_ns == 0) record->sure_ns = (uint32_t)usual;
  if (record->sure_ns == 0 || cost <= (uint64_t)record->sure_ns * DF_WAY_GRAVE) return;
  record->sure_ns = 0;
  df_way_record_doubt_gravely(record);
}

/* The same after a link's first runs. kept_ns is what an earlier link has left. */
static inline void df_way_record_compare_with_kept(df_way_record *record, uint64_t cost) {
  const uint64_t kept = record->kept_ns;
  record->usual_ns[record->slots] = (uint32_t)cost;
  if (cost > kept * DF_WAY_GRAVE)
    df_way_record_doubt_gravely(record);
  else if (cost * 2 > kept * 3)
    df_way_record_doubt(record);
}

/* ---- proof of a new way ---- */

/* Uses a way without a proof. */
static inline void df_way_record_use(df_way_record *record, uint32_t way) {
  record->slots = (uint8_t)way;
  record->former = DF_WAYS;
  record->sure_ns = 0;
}

/* A trial is short: its messages go to slots that the former way has left, whose lines may be in
 * other caches than after a lap of the new way. So the new way must prove itself after a lap. lap:
 * slots of the ring. */
static inline void df_way_record_switch(df_way_record *record, uint32_t way, uint32_t lap) {
  const uint32_t usual = record->usual_ns[record->slots], sure = record->sure_ns;
  const uint8_t former = record->slots;
  df_way_record_use(record, way);
  if (usual == 0) return;
  record->former = former;
  record->proof = (uint16_t)(lap + DF_WAY_PROOF);
  record->sure_ns = sure ? (uint32_t)(((uint64_t)sure + usual) / 2) : usual;
  record->usual_ns[way] = 0;
}

typedef enum { DF_PROOF_OPEN, DF_PROOF_GIVEN, DF_PROOF_FAILED } df_proof;

/* cost: of the new way at both ends, now. Slots of the first lap say nothing yet. */
static inline df_proof df_way_record_prove(df_way_record *record, uint32_t cost) {
  uint32_t *usual = &record->usual_ns[record->slots];
  if (record->proof > DF_WAY_PROOF) return DF_PROOF_OPEN;
  *usual = *usual ? (uint32_t)((7 * (uint64_t)*usual + cost) / 8) : cost;
  const uint64_t former = record->sure_ns;
  if (*usual * 2 > former * 3 ||
      (record->proof == 0 && (uint64_t)*usual * 100 >= former * DF_WAY_SLOT_PERCENT))
    return DF_PROOF_FAILED;
  return record->proof == 0 ? DF_PROOF_GIVEN : DF_PROOF_OPEN;
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
enum {
  DF_REMEMBER_INTERVAL = 16,
  DF_REMEMBER_FREE = 24,
  DF_REMEMBER_OF_LENDING = 32,
  DF_REMEMBER_WINS = 58 /* only of lending */
};

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

/* A way that has not proven itself is remembered with the time that it must not exceed. */
static inline uint64_t df_way_record_word(const df_way_record *record, uint32_t size) {
  uint64_t usual_ns = record->usual_ns[record->slots];
  if (usual_ns == 0 && record->former != DF_WAYS) usual_ns = record->sure_ns;
  usual_ns = DF_MIN(usual_ns, (uint64_t)DF_WAY_NS_MOST);
  return 1 | (uint64_t)record->slots << DF_REMEMBER_SLOTS |
         (uint64_t)record->lends << DF_REMEMBER_LENDS | (uint64_t)record->next << DF_REMEMBER_NEXT |
         (uint64_t)size << DF_REMEMBER_SIZE | (uint64_t)record->line_ns << DF_REMEMBER_LINE |
         usual_ns << DF_REMEMBER_USUAL;
}
static inline uint64_t df_way_schedules_word(const df_way_record *record) {
  return df_way_schedule_bits(&record->of_slots) |
         df_way_schedule_bits(&record->of_lending) << DF_REMEMBER_OF_LENDING |
         (uint64_t)record->wins << DF_REMEMBER_WINS;
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
  record.wins = schedules >> DF_REMEMBER_WINS & 3;
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
