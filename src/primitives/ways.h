/*
 * Ways in which messages go from a sender to a receiver on the same host. The fastest way depends
 * on the processors, on where the system runs the ranks, and on the program's use of its buffers.
 * So both ends measure the times of their moves, and the sender chooses, alone and at any time:
 * each message shows how it was sent. In doubling intervals the sender tries another way.
 *
 *   - A way through slots is tried for a few messages, and compared by the times of both ends.
 *   - Lending is tried for a few runs, since it costs the owner most after the run: the program's
 *     next writes take the lines back from the receiver's cache. So the time from run to run
 *     decides. Runs before and after the trial are compared with those of the trial.
 *
 * Trials have an exploration budget of 1 % of the time of all moves. A trial ends when the budget
 * is empty, but messages that are in the ring then are already on their way.
 *
 * All functions are pure: they get the times, and never read a clock.
 */
#ifndef DF_PRIMITIVES_WAYS_H
#define DF_PRIMITIVES_WAYS_H

#include <stdint.h>

#include "base/assert.h"
#include "base/atomic.h"
#include "base/limits.h"
#include "primitives/foreign_memory.h"
#include "primitives/way_record.h"
#include "primitives/way_runs.h"

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
  DF_WAY_SAMPLES = 32,       /* without a trial, one of so many messages is measured */
  DF_WAY_LOOKS = 256,        /* and after so many the receiver's times are looked at */
  DF_WAY_FIRST_LOOKS = 3,    /* looks that a new distance needs */
  DF_WAY_TRIAL = 12,         /* messages of a trial that the receiver must have read, and messages
                                that are measured one after the other before it */
  DF_WAY_SHARE = 100,        /* the exploration budget is 1/100 of all times */
  DF_WAY_TRIALS_SAVED = 64,  /* the budget is at most enough for so many trials */
  DF_WAY_UNKNOWN_MOST = 512, /* so many messages are measured to learn the cost of the way in use */
  DF_WAY_SLOT_PERCENT = 95,  /* a way through slots must take less than this share of another's */
  DF_WAY_RUN_PERCENT = 98,   /* lending must take less than this share of the time from run to run.
                                If neither gains so much, runs take most of their time elsewhere:
                                then the times of both ends decide, */
  DF_WAY_LENT_PERCENT = 70   /* and lending must take less than this share of that of slots */
};

/* The choice of one sender for one link. Only the thread that executes the block uses it. */
typedef struct DF_ALIGNED(64) df_ways {
  df_way_record *record;                /* the record of the current distance */
  uint32_t look_ns[DF_WAY_FIRST_LOOKS]; /* the latest times in which a line came */
  uint32_t n_looks;
  uint32_t look_at;     /* number of the message from which on a look is wanted */
  uint32_t cold;        /* slots that have not been written yet: their pages may be missing */
  uint32_t count;       /* messages */
  uint32_t paid;        /* those that the budget has earned for */
  uint32_t before_left; /* messages that are measured before a trial of slots */
  uint32_t trial_left;  /* messages after which a trial ends anyway */
  uint32_t trial_sent;  /* messages of the trial */
  uint32_t random;
  uint8_t forced;       /* value of the tuning number */
  uint8_t one_way;      /* the ends work at the same time; else one waits for the other */
  uint8_t tries;        /* the way on trial; DF_WAYS: none */
  uint8_t instead_of;   /* the way that the trial is compared with */
  uint8_t size;         /* power of two of the longest messages: only these are measured */
  uint8_t began_at;     /* the receiver's count of the way at the beginning of the trial */
  int64_t budget;       /* in 1/DF_WAY_SHARE nanoseconds */
  int64_t charged;      /* for the trial, so far */
  uint64_t fastest_ns;  /* the sender's least time of a message of the trial */
  uint64_t messages_ns; /* the excess of the trial's messages */
  df_way_runs runs;
  uint64_t checked_run;   /* the latest run that was a check of remembered times, plus 1 */
  uint64_t summary;       /* df_way_record_word of the record in use; other threads load it */
  df_ways_memory *memory; /* shared by the links of the kind; or NULL */
  df_link_calls calls;
  df_way_record at[DF_DISTANCES];
} df_ways;

/* 0: not known at both ends. */
static inline uint64_t df_way_cost(const df_ways *ways, uint32_t way) {
  const uint64_t write = ways->record->write_ns[way], read = ways->record->read_ns[way];
  if (write == 0 || read == 0) return 0;
  return ways->one_way ? DF_MAX(write, read) : write + read;
}

/* ---- links of a kind ---- */

/* The settings of all messages of a link. */
typedef struct df_ways_terms {
  uint8_t forced, one_way; /* as in df_ways */
} df_ways_terms;

/* Takes what earlier links of the kind have left. Several links may do it at once, so the budget is
 * not more than they have earned. memory: NULL: there were none. */
static inline void df_ways_recall(df_ways *ways, df_ways_memory *memory) {
  ways->memory = memory;
  ways->budget = 0;
  df_way_records_recall(ways->at, memory);
  if (memory == NULL) return;
  const uint64_t budget = df_load_relaxed_u64(&memory->budget);
  ways->budget = (int64_t)budget;
  df_device_add_u64(&memory->budget, 0 - budget);
}

/* The first links of a kind have a free trial of each other way at each distance. */
static inline void df_ways_open(df_ways *ways, df_ways_terms terms, uint32_t n_slots,
                                df_ways_memory *memory) {
  *ways = (df_ways){.record = &ways->at[0],
                    .cold = n_slots,
                    .random = 0x9e3779b9u,
                    .forced = terms.forced,
                    .one_way = terms.one_way,
                    .tries = DF_WAYS};
  df_ways_recall(ways, memory);
}

static inline void df_ways_remember(const df_ways *ways, const df_way_record *record) {
  if (ways->memory && record->line_ns && ways->size)
    df_way_record_remember(record, ways->size, ways->memory);
}

/* ---- trials ---- */

static inline int df_ways_is_of_lending(const df_ways *ways) {
  return ways->tries == DF_WAY_LENT || ways->instead_of == DF_WAY_LENT;
}

/* The sender's time from run to run. A sender that waits for nobody may have run ahead, but in the
 * long run it is not faster than the receiver. */
static inline uint64_t df_ways_run_time(const df_ways *ways, uint32_t way, int is_tried) {
  return DF_MAX(ways->runs.usual_ns[is_tried],
                df_way_time(ways->record->read_ns[way], ways->runs.bytes[1]));
}

static inline int df_ways_lending_gains(const df_ways *ways) {
  const int is_tried = ways->tries == DF_WAY_LENT;
  const uint32_t through = is_tried ? ways->instead_of : ways->tries;
  const uint64_t lent_ns = df_ways_run_time(ways, DF_WAY_LENT, is_tried);
  const uint64_t slots_ns = df_ways_run_time(ways, through, !is_tried);
  if (lent_ns * 100 <= slots_ns * DF_WAY_RUN_PERCENT) return 1;
  if (slots_ns * 100 <= lent_ns * DF_WAY_RUN_PERCENT) return 0;
  const uint64_t lent = df_way_cost(ways, DF_WAY_LENT);
  const uint64_t slots = df_way_cost(ways, through);
  const int favors_lent = lent * 100 < slots * DF_WAY_LENT_PERCENT;
  return lent != 0 && slots != 0 ? favors_lent : !is_tried; /* unknown: stay */
}

static inline int df_ways_gains(const df_ways *ways) {
  if (df_ways_is_of_lending(ways))
    return df_ways_lending_gains(ways) == (ways->tries == DF_WAY_LENT);
  const uint64_t new_cost = df_way_cost(ways, ways->tries);
  const uint64_t old_cost = df_way_cost(ways, ways->instead_of);
  return new_cost != 0 && new_cost * 100 < old_cost * DF_WAY_SLOT_PERCENT;
}

static inline void df_ways_end_trial(df_ways *ways, int gains) {
  df_way_record *record = ways->record;
  df_way_schedule *schedule = df_ways_is_of_lending(ways) ? &record->of_lending : &record->of_slots;
  if (gains && ways->tries != DF_WAY_LENT) record->slots = ways->tries;
  if (gains) record->lends = ways->tries == DF_WAY_LENT;
  schedule->interval =
      (uint8_t)(gains ? DF_WAY_INTERVAL : DF_MIN(schedule->interval + 1, DF_WAY_INTERVAL_MOST));
  schedule->left = schedule->n_free ? 0 : 1u << schedule->interval;
  ways->tries = DF_WAYS;
  ways->runs.phase = DF_RUNS_UNTIMED;
  df_ways_remember(ways, record);
}

/* Leaves the records and the budget to later links of the kind. */
static inline void df_ways_close(df_ways *ways) {
  if (ways->tries != DF_WAYS) df_ways_end_trial(ways, 0);
  for (const df_way_record *record = ways->at; record < ways->at + DF_DISTANCES; record++)
    if (record->usual_ns[record->slots] != 0) df_ways_remember(ways, record);
  if (ways->memory) df_device_add_u64(&ways->memory->budget, (uint64_t)ways->budget);
  ways->memory = NULL;
}

/* The price of a trial of a way that takes twice the time. */
static inline int64_t df_ways_price(const df_ways *ways, uint32_t in_use, uint64_t bytes) {
  const uint64_t usual_ns = df_way_time((uint32_t)df_way_cost(ways, in_use), bytes);
  return (int64_t)(DF_MAX(usual_ns, 1u) * 2 * DF_WAY_SHARE);
}

/* 1: the budget is enough. */
static inline int df_ways_can_pay(df_ways *ways, df_way_schedule *schedule, int64_t price) {
  if (schedule->n_free) {
    schedule->n_free--;
    ways->budget = DF_MAX(ways->budget, 0) + price;
  }
  return ways->budget >= price;
}

/* Begins a trial if the budget is enough. */
static inline void df_ways_begin_trial(df_ways *ways, uint32_t in_use, int is_of_lending,
                                       uint64_t bytes) {
  df_way_record *record = ways->record;
  if (df_way_cost(ways, in_use) == 0) return; /* the way in use has not been measured yet */
  if (record->line_ns == 0 && ways->count < DF_WAY_LOOKS) return; /* nor the distance */
  if (is_of_lending && ways->runs.bytes[1] == 0) return;          /* nor a whole run */
  const uint64_t all_bytes =
      is_of_lending ? ways->runs.bytes[1] * (DF_WAY_RUNS + 1) : bytes * DF_WAY_TRIAL;
  df_way_schedule *schedule = is_of_lending ? &record->of_lending : &record->of_slots;
  if (!df_ways_can_pay(ways, schedule, df_ways_price(ways, in_use, all_bytes))) return;
  if (in_use == DF_WAY_LENT || !is_of_lending) {
    do record->next = (uint8_t)((record->next + 1) % DF_WAY_LENT);
    while (record->next == in_use);
  }
  ways->tries = in_use != DF_WAY_LENT && is_of_lending ? DF_WAY_LENT : record->next;
  ways->instead_of = (uint8_t)in_use;
  ways->before_left = is_of_lending ? 0 : DF_WAY_TRIAL;
  ways->trial_left = DF_MAX_LINK_SLOTS + 2 * DF_WAY_TRIAL;
  ways->trial_sent = 0;
  ways->charged = 0;
  ways->messages_ns = ways->runs.more_ns = 0;
  ways->fastest_ns = UINT64_MAX;
  /* Slots are tried instead of lending for so few runs that the receiver may not have read one. */
  if (in_use != DF_WAY_LENT) record->write_ns[ways->tries] = record->read_ns[ways->tries] = 0;
  ways->runs.phase = is_of_lending ? DF_RUNS_BEFORE : DF_RUNS_UNTIMED;
  ways->runs.n = 0;
  ways->runs.usual_ns[0] = ways->runs.usual_ns[1] = UINT32_MAX;
}

/* Begins a trial if one is due. Ways through slots are compared first. */
static inline void df_ways_attend_schedules(df_ways *ways, uint32_t in_use, int may_lend,
                                            uint64_t bytes) {
  df_way_record *record = ways->record;
  const int slots_are_due = in_use != DF_WAY_LENT && record->of_slots.left == 0;
  const int lending_is_due = may_lend && record->of_lending.left == 0 &&
                             (in_use == DF_WAY_LENT || record->of_slots.n_free == 0);
  if (in_use != DF_WAY_LENT && record->of_slots.left > 0) record->of_slots.left--;
  if (may_lend && record->of_lending.left > 0) record->of_lending.left--;
  if (lending_is_due) df_ways_begin_trial(ways, in_use, 1, bytes);
  if (slots_are_due && ways->tries == DF_WAYS) df_ways_begin_trial(ways, in_use, 0, bytes);
}

/* The excess over the way in use, so far: by the trial's messages or by its runs. */
static inline void df_ways_charge(df_ways *ways) {
  const int64_t all = (int64_t)(DF_MAX(ways->messages_ns, ways->runs.more_ns) * DF_WAY_SHARE);
  ways->budget -= all - ways->charged;
  ways->charged = all;
}

/* All messages of a trial count as much as the one that took the sender least, since others may
 * have been interrupted, or as the means of both ends say. */
static inline void df_ways_charge_message(df_ways *ways, uint64_t bytes, uint64_t ns) {
  const uint64_t usual = df_way_time((uint32_t)df_way_cost(ways, ways->instead_of), bytes);
  const uint64_t mean = df_way_time((uint32_t)df_way_cost(ways, ways->tries), bytes);
  ways->trial_sent++;
  ways->fastest_ns = DF_MIN(ways->fastest_ns, ns);
  const uint64_t each = DF_MAX(ways->fastest_ns, mean);
  ways->messages_ns = each > usual ? (each - usual) * ways->trial_sent : 0;
  df_ways_charge(ways);
}

/* ---- distances ---- */

/* A look costs as much as it measures, so without a need it is seldom. */
static inline int df_ways_wants_look(const df_ways *ways) {
  return ways->forced == DF_WAY_BY_TIMES && (int32_t)(ways->count - ways->look_at) >= 0;
}

/* `ns`: the time in which a line came that the receiver has just written. */
static inline void df_ways_look(df_ways *ways, uint64_t ns) {
  const uint32_t line_ns = (uint32_t)DF_MAX(DF_MIN(ns, (uint64_t)DF_LINE_NS_MOST), 1u);
  for (int i = 0; ways->n_looks == 0 && i < DF_WAY_FIRST_LOOKS; i++) ways->look_ns[i] = line_ns;
  ways->look_ns[ways->n_looks++ % DF_WAY_FIRST_LOOKS] = line_ns;
  const int is_sure = ways->n_looks >= DF_WAY_FIRST_LOOKS;
  const uint32_t middle = df_way_middle(ways->look_ns);
  df_way_record *record = df_way_record_for(ways->at, ways->record, middle, is_sure);
  if (record != ways->record && ways->tries != DF_WAYS) df_ways_end_trial(ways, 0);
  ways->record = record;
  /* A distance that has no record, because all are in use, never becomes usual. */
  const int is_usual =
      df_line_is_same(record->line_ns, line_ns) || !df_line_is_same(record->line_ns, middle);
  ways->look_at = ways->count + (is_sure && is_usual ? DF_WAY_LOOKS : 1);
}

/* ---- runs ---- */

static inline int df_ways_wants_time(const df_ways *ways, uint64_t run) {
  return ways->runs.phase != DF_RUNS_UNTIMED && run + 1 != ways->runs.run;
}

static inline void df_ways_end_phase(df_ways *ways) {
  df_way_runs *runs = &ways->runs;
  uint64_t *usual = &runs->usual_ns[runs->phase == DF_RUNS_DURING];
  *usual = DF_MIN(*usual, df_ways_nth_time(runs, DF_WAY_RUNS, DF_WAY_RUNS / 2));
  if (runs->phase == DF_RUNS_AFTER)
    df_ways_end_trial(ways, ways->trial_sent >= DF_WAY_RUNS && df_ways_gains(ways));
  else
    runs->phase++;
  runs->n = 1; /* this run is the first one of the next phase */
}

/* A run of a trial begins. The time of a phase's first run also has costs of earlier messages, and
 * in the first call the time of the former beginning is missing. */
static inline void df_ways_time_run(df_ways *ways, uint64_t now_ns) {
  df_way_runs *runs = &ways->runs;
  const uint32_t unused = runs->phase == DF_RUNS_BEFORE ? 1 : 2, n = runs->n++;
  const uint64_t ns = now_ns - runs->began_ns;
  runs->began_ns = now_ns;
  if (n < unused) return;
  runs->ns[n - unused] = ns;
  const uint64_t least = df_ways_nth_time(runs, n - unused + 1, 0);
  if (runs->phase == DF_RUNS_DURING) {
    runs->more_ns = least > runs->usual_ns[0] ? (least - runs->usual_ns[0]) * n : 0;
    df_ways_charge(ways);
  }
  if (ways->budget < 0 && ways->trial_sent > 1)
    df_ways_end_trial(ways, 0);
  else if (n - unused + 1 == DF_WAY_RUNS)
    df_ways_end_phase(ways);
}

static inline void df_ways_begin_run(df_ways *ways, uint64_t run, uint64_t now_ns) {
  df_way_runs *runs = &ways->runs;
  runs->bytes[1] = runs->bytes[0];
  runs->bytes[0] = 0;
  runs->run = run + 1;
  if (runs->phase != DF_RUNS_UNTIMED) df_ways_time_run(ways, now_ns);
}

/* ---- the sender's calls for each message ---- */

typedef struct df_way_message {
  uint64_t bytes;
  uint64_t run;
  uint64_t now_ns; /* if df_ways_wants_time */
  int may_lend;
} df_way_message;

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
  if (ways->tries != DF_WAYS) df_ways_end_trial(ways, 0);
  ways->size = size;
  ways->runs = (df_way_runs){.phase = DF_RUNS_UNTIMED};
  for (uint32_t distance = 0; distance < DF_DISTANCES; distance++) {
    df_way_record *record = &ways->at[distance];
    for (uint32_t way = 0; way < DF_WAYS; way++)
      record->write_ns[way] = record->read_ns[way] = record->usual_ns[way] = 0;
    if (record->kept_size != size) record->checks = 0;
  }
  return 1;
}

/* 1: the run shows whether remembered times still hold. The first runs of a link often write to new
 * pages of the program. */
static inline int df_ways_checks(const df_ways *ways) {
  return ways->record->checks != 0 && ways->checked_run != ways->runs.run;
}

/* 1: both ends measure the message, which is no part of a trial. */
static inline int df_ways_samples(df_ways *ways, uint32_t in_use) {
  df_way_record *record = ways->record;
  if (ways->count % DF_WAY_SAMPLES == 0) return 1;
  if (df_way_cost(ways, in_use) != 0 && (!df_ways_checks(ways) || in_use == DF_WAY_LENT)) return 0;
  if (record->unknown >= DF_WAY_UNKNOWN_MOST) return 0;
  record->unknown++;
  return 1;
}

/* Runs may have buffers that cannot take part in the trial. */
static inline int df_ways_takes_part(const df_ways *ways, uint32_t in_use, int may_lend) {
  return ways->tries != DF_WAYS && in_use == ways->instead_of &&
         (ways->tries != DF_WAY_LENT || may_lend) && ways->before_left == 0 &&
         (ways->runs.phase == DF_RUNS_UNTIMED || ways->runs.phase == DF_RUNS_DURING);
}

/* Begins or ends a trial if it is time. */
static inline void df_ways_attend(df_ways *ways, uint32_t in_use, const df_way_message *message) {
  if (ways->tries == DF_WAYS)
    df_ways_attend_schedules(ways, in_use, message->may_lend, message->bytes);
  else if (ways->runs.phase == DF_RUNS_UNTIMED && --ways->trial_left == 0)
    df_ways_end_trial(ways, 0);
}

/* Returns the way of the next message. *is_timed: both ends measure it. */
static inline uint32_t df_ways_next(df_ways *ways, const df_way_message *message, int *is_timed) {
  const int may_lend = message->may_lend;
  *is_timed = 0;
  if (ways->forced != DF_WAY_BY_TIMES) return df_ways_forced(ways, may_lend, is_timed);
  if (!df_ways_has_size(ways, message->bytes)) return df_way_in_use(ways->record, may_lend);
  if (message->run + 1 != ways->runs.run) df_ways_begin_run(ways, message->run, message->now_ns);
  df_way_record *record = ways->record;
  const uint32_t in_use = df_way_in_use(record, may_lend);
  ways->count++;
  ways->runs.bytes[0] += message->bytes;
  if (ways->cold == 0 || in_use == DF_WAY_LENT) df_ways_attend(ways, in_use, message);
  const int takes_part = df_ways_takes_part(ways, in_use, may_lend);
  const uint32_t way = takes_part ? ways->tries : in_use;
  if (ways->cold && way != DF_WAY_LENT) {
    ways->cold--;
    return way;
  }
  const int is_before = ways->tries != DF_WAYS && ways->before_left != 0;
  *is_timed = takes_part || is_before || df_ways_samples(ways, in_use);
  if (is_before) ways->before_left--;
  return way;
}

/* Returns 1 if df_ways_note needs the words of the receiver. Reading them fetches a line that the
 * receiver has written, so without a trial it is done seldom. */
static inline int df_ways_wants_words(const df_ways *ways, uint32_t way) {
  return ways->tries != DF_WAYS || ways->count % DF_WAY_LOOKS == 0 || df_ways_checks(ways) ||
         df_way_cost(ways, way) == 0;
}

/* If the way in use has become slower by half, another one may be faster now. */
static inline void df_way_compare_with_usual(df_way_record *record, uint32_t way, uint64_t cost) {
  const uint64_t usual = record->usual_ns[way] ? record->usual_ns[way] : cost;
  record->usual_ns[way] = (uint32_t)((31 * usual + cost) / 32);
  if (cost * 2 <= usual * 3) return;
  record->usual_ns[way] = (uint32_t)cost;
  df_way_record_doubt(record);
}

/* The same, of what an earlier link has left. */
static inline void df_ways_compare_with_kept(df_ways *ways, uint32_t way, uint64_t cost) {
  df_way_record *record = ways->record;
  if (way != record->slots || !df_ways_checks(ways)) return;
  ways->checked_run = ways->runs.run;
  if (--record->checks > 0) return;
  record->usual_ns[way] = (uint32_t)cost;
  if (cost * 2 > (uint64_t)record->kept_ns * 3) df_way_record_doubt(record);
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
    const int64_t most =
        df_ways_price(ways, way, bytes * DF_WAY_TRIAL + ways->runs.bytes[1] * DF_WAY_RUNS);
    const int64_t earned =
        (int64_t)(df_way_time((uint32_t)cost, bytes) * (ways->count - ways->paid));
    ways->paid = ways->count;
    ways->budget = DF_MIN(ways->budget + earned, most * DF_WAY_TRIALS_SAVED);
    df_way_compare_with_usual(record, way, cost);
    df_ways_compare_with_kept(ways, way, cost);
    df_store_relaxed_u64(&ways->summary, df_way_record_word(record, ways->size));
    return;
  }
  df_ways_charge_message(ways, bytes, ns);
  if (ways->budget < 0 && ways->trial_sent > 1) /* one message may have been interrupted */
    df_ways_end_trial(ways, 0);
  else if (ways->runs.phase == DF_RUNS_UNTIMED && !is_first && n_read >= DF_WAY_TRIAL)
    df_ways_end_trial(ways, df_ways_gains(ways));
}

#endif
