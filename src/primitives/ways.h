/*
 * Ways in which messages go from a sender to a receiver on the same host. The fastest way depends
 * on the processors, on where the system runs the ranks, and on the program's use of its buffers.
 * So both ends measure the times of their moves, and the sender chooses, alone and at any time:
 * each message shows how it was sent. In doubling intervals the sender tries another way for a few
 * messages. Trials have an exploration budget of 1 % of the time of all moves. A trial ends when
 * the budget is empty, but messages that are in the ring then are already on their way.
 *
 * All functions are pure: they get the times, and never read a clock.
 */
#ifndef DF_PRIMITIVES_WAYS_H
#define DF_PRIMITIVES_WAYS_H

#include <stdint.h>

#include "base/assert.h"
#include "base/atomic.h"
#include "base/limits.h"

typedef enum {
  DF_WAY_CACHED, /* slots; the stores go through the caches */
  DF_WAY_OWNED,  /* the same; the slot's lines are requested for writing ahead of the stores */
  DF_WAY_PAST,   /* slots; the stores go past the caches */
  DF_WAY_LENT,   /* the receiver reads the sender's buffer */
  DF_WAYS
} df_way;

/* Values of the tuning number `way`: 0 chooses by times, 1 + way forces a way where the message can
 * go that way, and DF_WAY_RANDOM mixes them (test modes). */
enum { DF_WAY_BY_TIMES = 0, DF_WAY_RANDOM = 1 + DF_WAYS };

/* Least bytes of messages that have a choice of ways. */
#if defined(DF_SIMULATION) /* simulated messages are small */
enum { DF_WAY_LEAST = 4 };
#else
enum { DF_WAY_LEAST = 1025 };
#endif
enum {
  DF_WAY_UNIT = 65536,       /* times are for so many bytes */
  DF_WAY_SAMPLES = 32,       /* without a trial, one of so many messages is measured */
  DF_WAY_LOOKS = 256,        /* and after so many the receiver's times are looked at */
  DF_WAY_TRIAL = 12,         /* messages of a trial that the receiver must have read */
  DF_WAY_INTERVAL = 8,       /* log2 of the messages between trials at first, */
  DF_WAY_INTERVAL_MOST = 18, /* and at most */
  DF_WAY_SHARE = 100,        /* the exploration budget is 1/100 of all times */
  DF_WAY_TRIALS_SAVED = 64,  /* the budget is at most enough for so many trials */
  DF_WAY_UNKNOWN_MOST = 512, /* so many messages are measured to learn the cost of the way in use */
  DF_WAY_SLOT_PERCENT = 95,  /* a way through slots must take less than this share of another's */
  DF_DISTANCES = 4           /* each has a record of its own */
};

/* A word of the receiver: its mean time for a way, and the number of measurements modulo 256. */
enum { DF_WAY_COUNT_BITS = 8, DF_WAY_NS_MOST = (1 << (32 - DF_WAY_COUNT_BITS)) - 1 };
static inline uint32_t df_way_word_ns(uint32_t word) { return word >> DF_WAY_COUNT_BITS; }

/* The ways to a receiver at one distance. */
typedef struct df_way_record {
  uint32_t write_ns[DF_WAYS]; /* mean times of the sender; 0: unknown */
  uint32_t read_ns[DF_WAYS];  /* those of the receiver, as last looked at */
  uint32_t usual_ns[DF_WAYS]; /* long-term means of the cost; 0: unknown */
  uint32_t left;              /* messages until the next trial */
  uint8_t slots;              /* the way through slots that is in use */
  uint8_t lends;              /* 1: a message that can be lent is lent */
  uint8_t interval;           /* log2 of the messages between trials */
  uint8_t next;               /* the way to try next */
  uint8_t free_trials;        /* trials that are not charged */
  uint16_t unknown;           /* messages measured while the cost was not known */
} df_way_record;

/* The choice of one sender for one link. Only the thread that executes the block uses it. */
typedef struct df_ways {
  df_way_record *record; /* the record of the current distance */
  uint32_t look_ns[3];   /* the latest times in which the credit's line came from the receiver */
  uint32_t n_looks;
  uint32_t count;      /* messages */
  uint32_t trial_left; /* messages after which a trial ends anyway */
  uint32_t trial_sent; /* messages of the trial */
  uint32_t random;
  uint8_t forced;       /* value of the tuning number */
  uint8_t one_way;      /* the ends work at the same time; else one waits for the other */
  uint8_t lent_percent; /* lending must take less than this share of the time of slots */
  uint8_t tries;        /* the way on trial; DF_WAYS: none */
  uint8_t instead_of;   /* the way that the trial is compared with */
  uint8_t size;         /* power of two of the longest messages: only these are measured */
  uint8_t began_at;     /* the receiver's count of the way at the beginning of the trial */
  int64_t budget;       /* in 1/DF_WAY_SHARE nanoseconds */
  int64_t charged;      /* for the trial, so far */
  uint64_t fastest_ns;  /* the sender's least time of a message of the trial */
  uint32_t *remember;   /* [DF_DISTANCES] the beginning of later links of the kind; or NULL */
  df_way_record at[DF_DISTANCES];
} df_ways;

/* ---- means ---- */

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

/* 0: not known at both ends. */
static inline uint64_t df_way_cost(const df_ways *ways, uint32_t way) {
  const uint64_t write = ways->record->write_ns[way], read = ways->record->read_ns[way];
  if (write == 0 || read == 0) return 0;
  return ways->one_way ? DF_MAX(write, read) : write + read;
}

/* ---- distances ---- */

/* Each factor of two of the time that a line takes is a distance: a common cache, caches with a
 * fabric between them, ... The system may move ranks at any time. A time within a quarter of the
 * limits of the distance so far belongs to it. */
enum { DF_NEAREST_NS = 128 };
static inline uint32_t df_way_distance(uint32_t before, uint64_t line_ns) {
  uint32_t distance = before;
  while (distance + 1 < DF_DISTANCES && line_ns * 4 >= ((uint64_t)DF_NEAREST_NS << distance) * 5)
    distance++;
  while (distance > 0 && line_ns * 5 < ((uint64_t)DF_NEAREST_NS << (distance - 1)) * 4) distance--;
  return distance;
}

/* The median of three. */
static inline uint32_t df_way_middle(const uint32_t ns[3]) {
  const uint32_t low = DF_MIN(ns[0], ns[1]), high = DF_MAX(ns[0], ns[1]);
  return DF_MAX(low, DF_MIN(high, ns[2]));
}

/* `ns`: the time in which the credit's line came that the receiver has just written. */
static inline void df_ways_look(df_ways *ways, uint64_t ns) {
  ways->look_ns[ways->n_looks++ % 3] = (uint32_t)DF_MIN(ns, (uint64_t)UINT32_MAX);
  const uint32_t before = (uint32_t)(ways->record - ways->at);
  const uint32_t distance = df_way_distance(before, df_way_middle(ways->look_ns));
  if (distance == before) return;
  if (ways->tries != DF_WAYS) ways->record->left = 1u << ways->record->interval;
  ways->tries = DF_WAYS;
  ways->record = &ways->at[distance];
}

/* ---- links of a kind ---- */

enum { DF_WAYS_KNOWN = 1 << 7 };
static inline uint32_t df_ways_memory(const df_way_record *record) {
  return DF_WAYS_KNOWN | record->slots | (uint32_t)record->lends << 2 |
         (uint32_t)record->interval << 8;
}

/* The settings of all messages of a link. */
typedef struct df_ways_terms {
  uint8_t forced, one_way, lent_percent; /* as in df_ways */
} df_ways_terms;

/* Links of a kind have a free trial of each other way at each distance until one of them has saved
 * its result. They begin with stores past the caches at all distances but the nearest. */
static inline void df_ways_open(df_ways *ways, df_ways_terms terms, uint32_t *remember) {
  *ways = (df_ways){.record = &ways->at[0],
                    .random = 0x9e3779b9u,
                    .forced = terms.forced,
                    .one_way = terms.one_way,
                    .lent_percent = terms.lent_percent,
                    .tries = DF_WAYS,
                    .remember = remember};
  for (uint32_t distance = 0; distance < DF_DISTANCES; distance++) {
    df_way_record *record = &ways->at[distance];
    const uint32_t known = remember ? df_load_relaxed_u32(&remember[distance]) : 0;
    *record = (df_way_record){.lends = 1,
                              .slots = distance ? DF_WAY_PAST : DF_WAY_CACHED,
                              .interval = DF_WAY_INTERVAL,
                              .free_trials = DF_WAYS - 1};
    if (!(known & DF_WAYS_KNOWN)) continue;
    record->slots = (uint8_t)((known & 3) % DF_WAY_LENT);
    record->lends = known >> 2 & 1;
    record->interval = (uint8_t)DF_MIN(known >> 8, (uint32_t)DF_WAY_INTERVAL_MOST);
    record->free_trials = 0;
    record->left = 1u << record->interval;
  }
}

/* ---- trials ---- */

static inline int df_ways_gains(const df_ways *ways) {
  const uint64_t new_cost = df_way_cost(ways, ways->tries);
  const uint64_t old_cost = df_way_cost(ways, ways->instead_of);
  if (new_cost == 0 || old_cost == 0) return 0;
  if (ways->instead_of == DF_WAY_LENT) return old_cost * 100 >= new_cost * ways->lent_percent;
  return new_cost * 100 < old_cost * (ways->tries == DF_WAY_LENT ? ways->lent_percent
                                                                 : (uint8_t)DF_WAY_SLOT_PERCENT);
}

static inline void df_ways_end_trial(df_ways *ways, int gains) {
  df_way_record *record = ways->record;
  if (gains) {
    record->lends =
        ways->tries == DF_WAY_LENT || (record->lends && ways->instead_of != DF_WAY_LENT);
    if (ways->tries != DF_WAY_LENT) record->slots = ways->tries;
  }
  record->interval =
      (uint8_t)(gains ? DF_WAY_INTERVAL : DF_MIN(record->interval + 1, DF_WAY_INTERVAL_MOST));
  record->left = record->free_trials ? 0 : 1u << record->interval;
  ways->tries = DF_WAYS;
  if (ways->remember && !record->free_trials)
    df_store_relaxed_u32(&ways->remember[record - ways->at], df_ways_memory(record));
}

/* The price of a trial of a way that takes twice the time. */
static inline int64_t df_ways_price(const df_ways *ways, uint32_t in_use, uint64_t bytes) {
  const uint64_t usual_ns = df_way_time((uint32_t)df_way_cost(ways, in_use), bytes);
  return (int64_t)DF_MAX(usual_ns, 1u) * 2 * DF_WAY_TRIAL * DF_WAY_SHARE;
}

/* Begins a trial if the budget is enough. */
static inline void df_ways_begin_trial(df_ways *ways, uint32_t in_use, int may_lend,
                                       uint64_t bytes) {
  df_way_record *record = ways->record;
  if (df_way_cost(ways, in_use) == 0) return; /* the way in use has not been measured yet */
  const int64_t price = df_ways_price(ways, in_use, bytes);
  if (record->free_trials) {
    record->free_trials--;
    ways->budget = DF_MAX(ways->budget, 0) + price;
  }
  if (ways->budget < price) return;
  do record->next = (uint8_t)((record->next + 1) % DF_WAYS);
  while (record->next == in_use || (record->next == DF_WAY_LENT && !may_lend));
  ways->tries = record->next;
  ways->instead_of = (uint8_t)in_use;
  ways->trial_left = DF_MAX_LINK_SLOTS + 2 * DF_WAY_TRIAL;
  ways->trial_sent = 0;
  ways->charged = 0;
  ways->fastest_ns = UINT64_MAX;
  record->write_ns[ways->tries] = record->read_ns[ways->tries] = 0;
}

/* Charges a message of the trial. All messages of a trial count as much as the one that took the
 * sender least, since others may have been interrupted, or as the means of both ends say. */
static inline void df_ways_charge(df_ways *ways, uint64_t bytes, uint64_t ns) {
  const uint64_t usual = df_way_time((uint32_t)df_way_cost(ways, ways->instead_of), bytes);
  const uint64_t mean = df_way_time((uint32_t)df_way_cost(ways, ways->tries), bytes);
  ways->trial_sent++;
  ways->fastest_ns = DF_MIN(ways->fastest_ns, ns);
  const uint64_t each = DF_MAX(ways->fastest_ns, mean);
  const int64_t all = each > usual ? (int64_t)(each - usual) * ways->trial_sent * DF_WAY_SHARE : 0;
  ways->budget -= all - ways->charged;
  ways->charged = all;
}

/* ---- the sender's calls for each message ---- */

static inline uint32_t df_ways_forced(df_ways *ways, int may_lend, int *is_timed) {
  uint32_t way = ways->forced - 1u;
  if (ways->forced == DF_WAY_RANDOM) {
    ways->random ^= ways->random << 13;
    ways->random ^= ways->random >> 17;
    ways->random ^= ways->random << 5;
    way = ways->random % DF_WAYS;
    *is_timed = ways->random >> 8 & 1;
  }
  return way == DF_WAY_LENT && !may_lend ? DF_WAY_CACHED : way;
}

/* Times of messages of different sizes cannot be compared. Returns 1 for the longest messages. */
static inline int df_ways_has_size(df_ways *ways, uint64_t bytes) {
  const uint8_t size = (uint8_t)(63 - __builtin_clzll(bytes));
  if (size <= ways->size) return size == ways->size;
  ways->size = size;
  ways->tries = DF_WAYS;
  for (uint32_t distance = 0; distance < DF_DISTANCES; distance++)
    for (uint32_t way = 0; way < DF_WAYS; way++)
      ways->at[distance].write_ns[way] = ways->at[distance].read_ns[way] =
          ways->at[distance].usual_ns[way] = 0;
  return 1;
}

/* Returns the way of the next message. *is_timed: both ends measure it. */
static inline uint32_t df_ways_next(df_ways *ways, int may_lend, uint64_t bytes, int *is_timed) {
  *is_timed = 0;
  if (ways->forced != DF_WAY_BY_TIMES) return df_ways_forced(ways, may_lend, is_timed);
  df_way_record *record = ways->record;
  const uint32_t in_use = may_lend && record->lends ? DF_WAY_LENT : record->slots;
  if (!df_ways_has_size(ways, bytes)) return in_use;
  ways->count++;
  if (ways->tries == DF_WAYS) {
    if (record->left > 0)
      record->left--;
    else
      df_ways_begin_trial(ways, in_use, may_lend, bytes);
  }
  if (ways->tries == DF_WAYS) {
    *is_timed = ways->count % DF_WAY_SAMPLES == 0;
    if (df_way_cost(ways, in_use) == 0 && record->unknown < DF_WAY_UNKNOWN_MOST) {
      record->unknown++;
      *is_timed = 1;
    }
    return in_use;
  }
  if (--ways->trial_left == 0) df_ways_end_trial(ways, 0);
  /* Runs may have buffers that cannot take part in the trial. */
  if (ways->tries == DF_WAYS || in_use != ways->instead_of ||
      (ways->tries == DF_WAY_LENT && !may_lend))
    return in_use;
  *is_timed = 1;
  return ways->tries;
}

/* Returns 1 if df_ways_note needs the words of the receiver. Reading them fetches a line that the
 * receiver has written, so without a trial it is done seldom. */
static inline int df_ways_wants_words(const df_ways *ways, uint32_t way) {
  return ways->tries != DF_WAYS || ways->count % DF_WAY_LOOKS == 0 || df_way_cost(ways, way) == 0;
}

/* If the way in use has become slower by half, another one may be faster now. */
static inline void df_way_compare_with_usual(df_way_record *record, uint32_t way, uint64_t cost) {
  const uint64_t usual = record->usual_ns[way] ? record->usual_ns[way] : cost;
  record->usual_ns[way] = (uint32_t)((31 * usual + cost) / 32);
  if (cost * 2 <= usual * 3) return;
  record->usual_ns[way] = (uint32_t)cost;
  record->interval = DF_WAY_INTERVAL;
  record->left = 0;
}

/* Called for a message for which df_ways_next has set *is_timed. ns: the time of the sender's move.
 * word: the receiver's word for the way, if df_ways_wants_words. */
static inline void df_ways_note(df_ways *ways, uint32_t way, uint64_t bytes, uint64_t ns,
                                uint32_t word) {
  df_way_record *record = ways->record;
  if (ways->forced != DF_WAY_BY_TIMES) return;
  const int is_trial = ways->tries == way, is_first = record->write_ns[way] == 0;
  const int has_word = df_ways_wants_words(ways, way);
  const uint8_t n_read = (uint8_t)(word - ways->began_at);
  record->write_ns[way] = df_way_mean(record->write_ns[way], bytes, ns);
  if (is_trial && is_first) ways->began_at = (uint8_t)word;
  if (has_word && !(is_trial && (is_first || n_read < 2)))
    record->read_ns[way] = df_way_word_ns(word);
  const uint64_t cost = df_way_cost(ways, way);
  if (!is_trial) {
    if (cost == 0) return;
    ways->budget =
        DF_MIN(ways->budget + (int64_t)df_way_time((uint32_t)cost, bytes) * DF_WAY_SAMPLES,
               df_ways_price(ways, way, bytes) * DF_WAY_TRIALS_SAVED);
    df_way_compare_with_usual(record, way, cost);
    return;
  }
  df_ways_charge(ways, bytes, ns);
  if (ways->budget < 0 && ways->trial_sent > 1) /* one message may have been interrupted */
    df_ways_end_trial(ways, 0);
  else if (!is_first && n_read >= DF_WAY_TRIAL)
    df_ways_end_trial(ways, df_ways_gains(ways));
}

#endif
