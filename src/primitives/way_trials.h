/* Trials of ways (ways.h): what they cost, when they begin, and how they end. */
#ifndef DF_PRIMITIVES_WAY_TRIALS_H
#define DF_PRIMITIVES_WAY_TRIALS_H

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
  DF_WAY_PROOF_SAMPLES = 8,  /* one of so many messages is measured while a way proves itself, */
  DF_WAY_PROOF_LOOKS = 32,   /* and after so many the receiver's times are looked at */
  DF_WAY_UNKNOWN_MOST = 512, /* so many messages are measured to learn the cost of the way in use */
  DF_WAY_RUN_PERCENT = 98,   /* lending must take less than this share of the time from run to run.
                                If neither gains so much, runs take most of their time elsewhere:
                                then the times of both ends decide, */
  DF_WAY_CLEAR_PERCENT = 75, /* a clear gain */
  DF_WAY_LENT_PERCENT = 70   /* and lending must take less than this share of that of slots */
};

/* The choice of one sender for one link. Only the thread that executes the block uses it. */
typedef struct DF_ALIGNED(64) df_ways {
  df_way_record *record;                /* the record of the current distance */
  uint32_t look_ns[DF_WAY_FIRST_LOOKS]; /* the latest times in which a line came */
  uint32_t n_looks;
  uint32_t look_at;     /* number of the message from which on a look is wanted */
  uint32_t lap;         /* slots of the ring */
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
  int64_t credit;       /* how far the trial may overdraw the budget */
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
                    .lap = n_slots,
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

/* A way that was better once, and is not now, is no longer tried for that. */
static inline void df_ways_end_trial_of_slots(df_ways *ways, int gains) {
  df_way_record *record = ways->record;
  if (gains)
    df_way_record_switch(record, ways->tries, ways->lap);
  else
    record->usual_ns[ways->tries] = 0;
  df_way_schedule_next(&record->of_slots, gains && record->former == DF_WAYS);
}

/* Times from run to run differ so much that one trial says little. A clear gain counts twice, but
 * not of calls, which seldom gain. */
static inline void df_ways_end_trial_of_lending(df_ways *ways, int gains) {
  df_way_record *record = ways->record;
  const uint64_t now = df_ways_run_time(ways, ways->tries, 1);
  const uint64_t before = df_ways_run_time(ways, ways->instead_of, 0);
  const int is_clear =
      ways->calls.memory != DF_LENDS_BY_CALL && now * 100 <= before * DF_WAY_CLEAR_PERCENT;
  record->wins = (uint8_t)(gains ? record->wins + 1 + is_clear : 0);
  const int is_decided = record->wins >= DF_WAY_WINS;
  if (is_decided && ways->tries != DF_WAY_LENT) df_way_record_use(record, ways->tries);
  if (is_decided) record->lends = ways->tries == DF_WAY_LENT;
  if (is_decided || !gains) df_way_schedule_next(&record->of_lending, is_decided);
  if (is_decided) record->wins = 0;
}

static inline void df_ways_end_trial(df_ways *ways, int gains) {
  df_way_record *record = ways->record;
  if (df_ways_is_of_lending(ways))
    df_ways_end_trial_of_lending(ways, gains);
  else
    df_ways_end_trial_of_slots(ways, gains);
  ways->tries = DF_WAYS;
  ways->runs.phase = DF_RUNS_UNTIMED;
  df_ways_remember(ways, record);
}

/* Leaves the records and the budget to later links of the kind. */
static inline void df_ways_close(df_ways *ways) {
  if (ways->tries != DF_WAYS) {
    const uint8_t wins = ways->record->wins;
    df_ways_end_trial(ways, 0);
    ways->record->wins = wins; /* a trial that did not end says nothing */
    df_ways_remember(ways, ways->record);
  }
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

/* 1: a trial may begin, at once or on credit. */
static inline int df_ways_can_pay(df_ways *ways, df_way_schedule *schedule, int64_t price,
                                  int is_again) {
  ways->credit = 0;
  if (schedule->n_free) {
    schedule->n_free--;
    ways->budget = DF_MAX(ways->budget, 0) + price;
  }
  if (ways->budget >= price) return 1;
  if (ways->budget < 0 || !(schedule->n_credit || is_again)) return 0;
  if (schedule->n_credit) schedule->n_credit--;
  ways->credit = price;
  return 1;
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
  const int is_again = is_of_lending && record->wins > 0;
  const int64_t price = df_ways_price(ways, in_use, all_bytes);
  if (!df_ways_can_pay(ways, schedule, price, is_again)) return;
  if ((in_use == DF_WAY_LENT && !is_again) || !is_of_lending) {
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

/* The budget is empty. One message may have been interrupted. */
static inline int df_ways_must_end(const df_ways *ways) {
  return ways->budget + ways->credit < 0 && ways->trial_sent > 1;
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

/* ---- proof of a new way ---- */

/* 1: the way in use has won a trial, and has not proven itself yet. */
static inline int df_ways_proves(const df_ways *ways, uint32_t in_use) {
  return ways->record->former != DF_WAYS && in_use == ways->record->slots;
}

/* A new way that costs more than the former one was a trial that has gained nothing. */
static inline void df_ways_prove(df_ways *ways, uint64_t bytes, uint64_t cost) {
  df_way_record *record = ways->record;
  const uint32_t messages = ways->lap + DF_WAY_PROOF - record->proof;
  const df_proof proof = df_way_record_prove(record, (uint32_t)cost);
  if (proof == DF_PROOF_OPEN) return;
  if (proof == DF_PROOF_GIVEN) {
    record->of_slots.interval = DF_WAY_INTERVAL;
    record->of_slots.left = DF_MIN(record->of_slots.left, 1u << DF_WAY_INTERVAL);
    df_way_record_use(record, record->slots);
  } else {
    const uint32_t now = record->usual_ns[record->slots];
    const uint32_t more = now - DF_MIN(now, record->sure_ns);
    ways->budget -= (int64_t)(df_way_time(more, bytes) * DF_WAY_SHARE * messages);
    df_way_record_use(record, record->former);
  }
  df_ways_remember(ways, record);
}

#endif
