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

#include "primitives/way_trials.h"

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
  if (df_ways_must_end(ways))
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
    df_way_record_use(record, record->slots);
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
  if (df_ways_proves(ways, in_use) && ways->count % DF_WAY_PROOF_SAMPLES == 0) return 1;
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
  if (df_ways_proves(ways, in_use)) {
    if (ways->record->proof > 0) ways->record->proof--;
  } else if (ways->tries == DF_WAYS)
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
         df_way_cost(ways, way) == 0 ||
         (df_ways_proves(ways, way) && ways->count % DF_WAY_PROOF_LOOKS == 0);
}

static inline void df_ways_compare_with_kept(df_ways *ways, uint32_t way, uint64_t cost) {
  df_way_record *record = ways->record;
  if (way != record->slots || !df_ways_checks(ways)) return;
  ways->checked_run = ways->runs.run;
  if (--record->checks == 0) df_way_record_compare_with_kept(record, cost);
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
    if (df_ways_proves(ways, way)) {
      df_ways_prove(ways, bytes, cost);
    } else {
      const int is_early = ways->count < ways->lap + DF_WAY_PROOF;
      df_way_record_compare(record, way, cost,
                            is_early ? DF_WAY_EARLY_SHARE : DF_WAY_SHARE_OF_USUAL);
      df_ways_compare_with_kept(ways, way, cost);
    }
    df_store_relaxed_u64(&ways->summary, df_way_record_word(record, ways->size));
    return;
  }
  df_ways_charge_message(ways, bytes, ns);
  if (df_ways_must_end(ways))
    df_ways_end_trial(ways, 0);
  else if (ways->runs.phase == DF_RUNS_UNTIMED && !is_first && n_read >= DF_WAY_TRIAL)
    df_ways_end_trial(ways, df_ways_gains(ways));
}

#endif
