#include "tuning/search_policy.h"

#include <stdlib.h>
#include <string.h>

#include "base/attributes.h"
#include "tuning/times.h"

enum {
  DF_SEARCH_TO_COMPARE = 4, /* switches */
  DF_SEARCH_WINS = 2,       /* comparisons in a row */
  DF_SEARCH_LOST = 8,       /* cancelled switches in a row after which the policy stops */
  DF_SEARCH_WATCH_NS = 100, /* approximate cost of timing one run */
  DF_SEARCH_WORSE = 2,      /* windows in a row in which the winner was the slower one */
  DF_SEARCH_WARM_RUNS = 2,  /* after the first, until a variant may be called slow */
  /* In runs. After some 8 runs, a variant that takes 5 times as long as the baseline is recognised
   * and left. If the leader waits for nobody, all runs of the variant are charged. */
  DF_SEARCH_RISK = 32,
  DF_SEARCH_AHEAD = 5,
  DF_SEARCH_IN_VAIN = 12,  /* points beyond the starts of all subspaces */
  DF_SEARCH_LOSSES = 3,    /* comparisons that a search may lose */
  DF_SEARCH_PROBES = 10,   /* after a change: the bonus pays for so many switches */
  DF_SEARCH_ROUND_TRIP = 6 /* runs, about, until a variant that is to be left is */
};
static const double least_gain = 0.02, clear_gain = 0.1, slow = 2.0, slow_probe = 1.2,
                    watch_part = 0.001, cannot_be_had = 1e30;
/* If runs take so long in sum without a report of the members' times, somebody else has requested
 * another variant. */
static const double unreported_ns = 5e9;

static double time_of(const df_search *l, const uint32_t *times, uint32_t n) {
  return l->by_mean ? df_times_mean(times, n) : df_times_median(times, n);
}

static double error_of(const df_search *l, const uint32_t *times, uint32_t n) {
  return l->by_mean ? df_times_error_of_mean(times, n) : df_times_error_of_median(times, n);
}

/* Means are of 4 ms if there are so many: ranks that take turns have their cores for as long. */
static uint32_t runs_of_mean(const df_search *l) {
  enum { LONG_NS = 4000000 };
  const double runs = LONG_NS / DF_MAX(l->budget.run_ns, 1.0);
  return (uint32_t)DF_MIN(DF_MAX(runs, (double)DF_SEARCH_WINDOW), (double)DF_SEARCH_TIMES);
}

static uint32_t runs_of_variant(const df_search *l) {
  return l->by_mean ? runs_of_mean(l) : DF_SEARCH_RUNS;
}

static uint32_t runs_of_turn(const df_search *l) {
  return l->by_mean ? runs_of_mean(l) : DF_SEARCH_WINDOW;
}

void df_search_open(df_search *l, double part, int runs_ahead, int by_mean) {
  df_budget_open(&l->budget, part, runs_ahead ? DF_SEARCH_AHEAD * DF_SEARCH_RISK : DF_SEARCH_RISK);
  l->descent.in_vain = DF_SEARCH_IN_VAIN;
  l->runs_ahead = runs_ahead;
  l->by_mean = by_mean;
  l->registered = l->descent.climbs[0].best.point;
  l->baseline = l->winner = l->asked = l->in_force = l->registered;
  l->state = DF_SEARCH_WARMING;
}

void df_search_remember(df_search *l, const df_point *point) {
  l->winner = *point;
  l->is_remembered = 1;
}

void df_search_stop(df_search *l) { l->state = DF_SEARCH_STOPPED; }

int df_search_counts(const df_search *l) {
  return l->state == DF_SEARCH_MEASURING || l->state == DF_SEARCH_COMPARING ||
         l->state == DF_SEARCH_RETURNING || !df_point_same(&l->in_force, &l->baseline);
}

/* ---- requests */

static const df_search_request nothing = {.kind = DF_REQUEST_NOTHING};

static df_purpose purpose_at_baseline(const df_search *l) {
  if (df_point_same(&l->baseline, &l->registered)) return DF_PURPOSE_BACK;
  return l->has_drifted && !df_point_same(&l->baseline, &l->winner) ? DF_PURPOSE_DRIFT
                                                                    : DF_PURPOSE_ADOPTED;
}

static df_purpose purpose_of(const df_search *l, df_search_state state) {
  if (state == DF_SEARCH_COMPARING) return DF_PURPOSE_CHECK;
  if (state == DF_SEARCH_RETURNING) return purpose_at_baseline(l);
  return l->has_drifted ? DF_PURPOSE_DRIFT : DF_PURPOSE_CANDIDATE;
}

/* The purpose of the variant that stays in force. A variant that is neither the baseline nor the
 * requested one keeps its earlier purpose. */
static df_purpose purpose_to_stay(const df_search *l) {
  return df_point_same(&l->in_force, &l->baseline) ? purpose_at_baseline(l) : DF_PURPOSES;
}

static df_search_request ask(df_search *l, const df_point *point, uint32_t runs,
                             df_search_state state) {
  l->state = state;
  l->asked = *point;
  l->since = l->there = l->n_own = 0;
  l->there_ns = 0;
  l->awaited = runs;
  l->budget.switches++;
  return (df_search_request){
      .kind = DF_REQUEST_VARIANT, .point = *point, .runs = runs, .purpose = purpose_of(l, state)};
}

/* Number of runs until the next window. Short runs are sampled so that timing costs at most 0.1 %;
 * long runs are always timed. */
static uint64_t between_windows(const df_search *l) {
  const double every =
      DF_SEARCH_WINDOW * DF_SEARCH_WATCH_NS / watch_part / DF_MAX(l->budget.run_ns, 1.0);
  return (uint64_t)DF_MIN(DF_MAX(every, (double)DF_SEARCH_WINDOW), 1e6);
}

/* A rest on the baseline ends when the next window is due. */
static df_search_request rest(df_search *l, uint64_t runs) {
  const uint64_t most = between_windows(l);
  const int is_baseline = df_point_same(&l->in_force, &l->baseline);
  l->state = DF_SEARCH_RESTING;
  return (df_search_request){.kind = DF_REQUEST_REST,
                             .runs = is_baseline ? DF_MIN(runs, most) : runs,
                             .purpose = purpose_to_stay(l)};
}

static df_search_request watch(df_search *l) {
  l->state = DF_SEARCH_WATCHING;
  return (df_search_request){
      .kind = DF_REQUEST_WATCH, .runs = between_windows(l), .purpose = purpose_to_stay(l)};
}

static df_search_request at_baseline(df_search *l) {
  df_budget_close(&l->budget);
  if (l->then == DF_SEARCH_WATCHING) return watch(l);
  return rest(l, df_budget_runs_until(&l->budget, l->needed_ns));
}

static df_search_request return_to_baseline(df_search *l, df_search_state then) {
  l->then = then;
  if (df_point_same(&l->in_force, &l->baseline)) return at_baseline(l);
  return ask(l, &l->baseline, runs_of_variant(l), DF_SEARCH_RETURNING);
}

/* A baseline that stays keeps its level, because times may have changed during a comparison. */
static void move_watch(df_search *l, const df_point *to) {
  if (!df_point_same(&l->baseline, to)) l->drift.level_ns = 0;
}

/* A search that found what was there already need not be repeated soon. */
static df_search_request settle(df_search *l) {
  l->has_drifted = 0;
  l->is_remembered = 0;
  l->probes = 0;
  df_budget_take_back(&l->budget);
  const int is_new = l->begun <= 1 || !df_point_same(&l->winner, &l->before);
  if (is_new)
    l->drift.patience = 0;
  else
    df_drift_add_patience(&l->drift);
  move_watch(l, &l->winner);
  l->before = l->baseline = l->winner;
  l->worse = 0;
  df_drift_forget(&l->drift);
  return return_to_baseline(l, DF_SEARCH_WATCHING);
}

/* 0: the search has not measured it. */
static double registered_ns(df_search *l) {
  const df_measured *registered = df_coordinate_descent_find(&l->descent, &l->registered);
  return registered ? registered->time : 0;
}

static int is_worth_comparing(df_search *l) {
  const df_measured *best = df_coordinate_descent_best(&l->descent);
  if (l->is_remembered) return !df_point_same(&l->winner, &l->registered);
  return !df_point_same(&best->point, &l->registered) &&
         (registered_ns(l) == 0 || best->time < (1 - least_gain) * registered_ns(l));
}

static df_search_request keep_registered(df_search *l) {
  l->winner = l->registered;
  l->registered_ns = l->tuned_ns = registered_ns(l);
  l->has_result = l->registered_ns > 0;
  return settle(l);
}

static df_search_request compare(df_search *l) {
  if (!l->is_remembered) l->winner = df_coordinate_descent_best(&l->descent)->point;
  l->turn = 0;
  return ask(l, &l->winner, runs_of_turn(l), DF_SEARCH_COMPARING);
}

/* The cost of the registered variant's turn in a comparison, if the baseline is faster. */
static double cost_of_registered(df_search *l) {
  const df_measured *baseline = df_coordinate_descent_find(&l->descent, &l->baseline);
  if (baseline == NULL || registered_ns(l) <= baseline->time) return 0;
  return (runs_of_turn(l) + DF_SEARCH_ROUND_TRIP) * (registered_ns(l) / baseline->time - 1) *
         l->budget.run_ns;
}

static df_search_request go_on(df_search *l) {
  df_point point;
  if (df_point_same(&l->in_force, &l->baseline)) df_budget_close(&l->budget);
  const int is_over = l->is_remembered || !df_coordinate_descent_next(&l->descent, &point);
  if (is_over && !is_worth_comparing(l)) return keep_registered(l);
  l->needed_ns = df_budget_needed(&l->budget, is_over ? DF_SEARCH_TO_COMPARE : 2);
  if (is_over) l->needed_ns += cost_of_registered(l);
  if (df_budget_left(&l->budget) < l->needed_ns) return return_to_baseline(l, DF_SEARCH_RESTING);
  return is_over ? compare(l) : ask(l, &point, runs_of_variant(l), DF_SEARCH_MEASURING);
}

static df_search_request search(df_search *l) {
  l->begun++;
  l->wins = l->losses = 0;
  return go_on(l);
}

/* ---- reports */

df_search_request df_search_begin(df_search *l, uint64_t run, const uint32_t *ns, uint32_t n) {
  l->budget.run_ns = time_of(l, ns, n);
  if (l->by_mean)
    l->budget.risk =
        (l->runs_ahead ? DF_SEARCH_AHEAD : 1) * DF_MAX(runs_of_mean(l), (uint32_t)DF_SEARCH_RISK);
  df_budget_earn(&l->budget, run);
  return search(l);
}

static int is_clearly_faster(const df_measured *a, const df_measured *b) {
  const double gain = b->time - a->time;
  return gain > clear_gain * b->time &&
         gain * gain > 4 * (a->error * a->error + b->error * b->error);
}

static int has_runner_up(df_search *l) {
  const df_measured *registered = df_coordinate_descent_find(&l->descent, &l->registered);
  return registered && is_clearly_faster(df_coordinate_descent_best(&l->descent), registered);
}

/* ratio: of the winner's time to the registered one's. A remembered winner is given up, and the
 * search begins. The fastest of many is often the luckiest one, so the next one gets its turn, too.
 * */
static df_search_request lose(df_search *l, double ratio) {
  df_coordinate_descent_correct(&l->descent, &l->winner, ratio * registered_ns(l));
  move_watch(l, &l->registered);
  l->winner = l->baseline = l->registered;
  l->wins = 0;
  const int goes_on = l->is_remembered || (++l->losses < DF_SEARCH_LOSSES && has_runner_up(l));
  l->is_remembered = 0;
  if (!goes_on) return settle(l);
  l->has_result = 0;
  return go_on(l);
}

static void move_baseline(df_search *l, const df_measured *to, const df_measured *from) {
  l->budget.run_ns *= to->time / from->time;
  l->baseline = to->point;
  l->baseline_ns = to->time;
}

/* After a change the baseline moves to a runner-up without a comparison. A comparison would take
 * longer than all probes, and it follows at the end of the search. But the earlier baseline is
 * measured once more, because it may have been slow for a moment only. */
static df_search_request note_probe(df_search *l) {
  const df_measured *best = df_coordinate_descent_best(&l->descent);
  const df_measured *baseline = df_coordinate_descent_find(&l->descent, &l->baseline);
  if (l->probes == 0) return go_on(l);
  if (--l->probes == 0) df_budget_take_back(&l->budget);
  if (baseline == NULL || baseline->time >= cannot_be_had || !is_clearly_faster(best, baseline))
    return go_on(l);
  l->displaced = l->baseline;
  l->checks_displaced = 1;
  move_baseline(l, best, baseline);
  return ask(l, &l->displaced, runs_of_variant(l), DF_SEARCH_MEASURING);
}

/* If the displaced baseline is faster after all, it comes back: its first measurement was an
 * outlier. */
static df_search_request note_displaced(df_search *l, const df_measured *measured) {
  df_measured *before = df_coordinate_descent_find(&l->descent, &l->displaced);
  const df_measured *baseline = df_coordinate_descent_find(&l->descent, &l->baseline);
  l->checks_displaced = 0;
  before->time = measured->time;
  before->error = measured->error;
  if (before->time < baseline->time) move_baseline(l, before, baseline);
  return go_on(l);
}

static df_search_request note_measured(df_search *l, const df_measured *measured) {
  if (l->checks_displaced) return note_displaced(l, measured);
  df_coordinate_descent_report(&l->descent, measured);
  return note_probe(l);
}

/* Leaves the current variant before its members have reported their times. If the registered
 * variant is too slow to be compared now, the winner has not lost: the turn only costs more than
 * expected. */
static df_search_request give_up(df_search *l) {
  const double scale = l->baseline_ns > 0 ? l->baseline_ns / l->budget.run_ns : 1;
  const double time = scale * time_of(l, l->own, l->n_own);
  df_measured *registered = df_coordinate_descent_find(&l->descent, &l->registered);
  if (l->state == DF_SEARCH_COMPARING && df_point_same(&l->asked, &l->registered) && registered) {
    registered->time = DF_MAX(registered->time, time);
    l->wins = 0;
    return return_to_baseline(l, DF_SEARCH_RESTING);
  }
  if (l->state == DF_SEARCH_COMPARING) return lose(l, 1);
  return note_measured(l, &(df_measured){.point = l->asked, .time = time});
}

/* The variant is clearly slow, or the budget cannot pay for its remaining runs. */
static int must_go(const df_search *l) {
  uint32_t least = UINT32_MAX;
  for (uint32_t i = 0; i < l->n_own; i++) least = DF_MIN(least, l->own[i]);
  const double excess = (double)least - l->budget.run_ns;
  if (l->n_own == 0 || excess <= 0) return 0;
  const uint32_t to_come = DF_MAX(l->awaited, l->n_own) - l->n_own;
  const double still = (to_come + DF_SEARCH_ROUND_TRIP) * excess + DF_BUDGET_SWITCH_NS;
  return df_budget_left(&l->budget) < still ||
         (l->n_own >= DF_SEARCH_WARM_RUNS && !l->runs_ahead && l->state == DF_SEARCH_MEASURING &&
          (double)least > (l->probes ? slow_probe : slow) * l->budget.run_ns);
}

df_search_request df_search_ran(df_search *l, uint64_t run, uint32_t ns, int is_there,
                                int may_ask) {
  df_budget_earn(&l->budget, run);
  df_budget_charge(&l->budget, (double)ns);
  l->since++;
  if (is_there) {
    l->in_force = l->asked;
    if (l->there++ > 0 && l->n_own < DF_SEARCH_TIMES) l->own[l->n_own++] = ns;
  }
  l->there_ns += is_there ? (double)ns : 0;
  if (may_ask && l->there_ns > unreported_ns && l->there > l->awaited + 1)
    return df_search_called_off(l, run);
  if (!may_ask || df_point_same(&l->asked, &l->baseline) ||
      (l->state != DF_SEARCH_MEASURING && l->state != DF_SEARCH_COMPARING) || !must_go(l))
    return nothing;
  return give_up(l);
}

/* If this rank waits for nobody, only the other members' times show what the runs have cost. */
static void charge_members(df_search *l, double ns) {
  const double excess = (ns - l->baseline_ns) * (l->since + DF_SEARCH_ROUND_TRIP);
  if (l->runs_ahead && l->baseline_ns > 0 && excess > l->budget.excess_ns)
    l->budget.excess_ns = excess;
}

static void note_baseline(df_search *l, double ns) {
  l->baseline_ns = ns;
  if (l->n_own >= DF_SEARCH_RUNS / 2) l->budget.run_ns = time_of(l, l->own, l->n_own);
}

/* Both turns of the winner must be faster than both halves of the registered variant's, and take
 * less in sum: a variant with short runs and a few long ones is not faster. */
static int has_won(const df_search *l) {
  const double *turns = l->turns_ns, *sums = l->sums_ns;
  const double slower = DF_MAX(turns[0], turns[3]), faster = DF_MIN(turns[1], turns[2]);
  return slower < (1 - least_gain) * faster && DF_MAX(sums[0], sums[2]) < sums[1];
}

static df_search_request begin_anew(df_search *l, const uint32_t *ns, uint32_t n) {
  l->budget.run_ns = time_of(l, ns, n);
  l->drift.level_ns = df_times_quarter(ns, n); /* times may change again during the search */
  df_drift_forget(&l->drift);
  l->baseline_ns = 0;
  l->worse = 0;
  l->has_drifted = 1;
  l->probes = DF_SEARCH_PROBES;
  l->is_remembered = l->checks_displaced = 0;
  df_budget_add_bonus(&l->budget);
  df_coordinate_descent_again(&l->descent, &l->baseline);
  return search(l);
}

static df_search_request conclude(df_search *l) {
  l->registered_ns = (l->turns_ns[1] + l->turns_ns[2]) / 2;
  l->tuned_ns = (l->turns_ns[0] + l->turns_ns[3]) / 2;
  if (!has_won(l)) {
    const double ratio = l->tuned_ns / l->registered_ns;
    l->tuned_ns = l->registered_ns;
    l->has_result = !l->is_remembered;
    return lose(l, DF_MAX(ratio, 1 - least_gain));
  }
  if (!l->is_remembered && ++l->wins < DF_SEARCH_WINS) {
    /* On some machines times depend on where threads happen to be, for as long as one comparison.
     * */
    return return_to_baseline(l, DF_SEARCH_RESTING);
  }
  l->has_result = 1;
  return settle(l);
}

static df_search_request note_turn(df_search *l, const uint32_t *ns, uint32_t n, double sum_ns) {
  l->sums_ns[l->turn++] = sum_ns;
  if (l->turn == 2) {
    if (!l->runs_ahead && l->n_own >= l->awaited)
      l->registered_own_ns = df_times_quarter(l->own, l->n_own);
    l->turns_ns[1] = time_of(l, ns, n / 2);
    l->turns_ns[2] = time_of(l, ns + n / 2, n - n / 2);
    return ask(l, &l->winner, runs_of_turn(l), DF_SEARCH_COMPARING);
  }
  l->turns_ns[l->turn == 1 ? 0 : 3] = time_of(l, ns, n);
  if (l->turn == 1) return ask(l, &l->registered, runs_of_turn(l), DF_SEARCH_COMPARING);
  return conclude(l);
}

df_search_request df_search_reported(df_search *l, uint64_t run, const uint32_t *ns, uint32_t n,
                                     double sum_ns) {
  const double middle = time_of(l, ns, n);
  df_budget_earn(&l->budget, run);
  l->in_force = l->asked;
  l->lost = 0;
  if (df_point_same(&l->asked, &l->baseline))
    note_baseline(l, middle);
  else
    charge_members(l, middle);
  if (l->state == DF_SEARCH_RETURNING) return at_baseline(l);
  if (l->state == DF_SEARCH_COMPARING) return note_turn(l, ns, n, sum_ns);
  if (l->state != DF_SEARCH_MEASURING) return nothing;
  return note_measured(
      l, &(df_measured){.point = l->asked, .time = middle, .error = error_of(l, ns, n)});
}

/* The policy rests first, because the reason of the cancellation may still be there. */
df_search_request df_search_called_off(df_search *l, uint64_t run) {
  const df_measured none = {.point = l->asked, .time = cannot_be_had};
  /* The application's own change was cancelled before the search has a space of points. The search
   * begins with the next window, as if there had been no change. */
  if (l->state == DF_SEARCH_WARMING)
    return (df_search_request){
        .kind = DF_REQUEST_REST, .runs = DF_SEARCH_WARM + DF_SEARCH_WINDOW, .purpose = DF_PURPOSES};
  df_budget_earn(&l->budget, run);
  if (l->state == DF_SEARCH_STOPPED || l->state == DF_SEARCH_WATCHING) return nothing;
  if (l->state == DF_SEARCH_MEASURING && !l->checks_displaced)
    df_coordinate_descent_report(&l->descent, &none);
  l->checks_displaced = 0;
  if (l->state != DF_SEARCH_RETURNING) l->then = DF_SEARCH_RESTING;
  if (l->is_remembered) {
    l->is_remembered = 0;
    l->winner = l->registered;
  }
  const df_measured *best = df_coordinate_descent_best(&l->descent);
  if (++l->lost == DF_SEARCH_LOST || (best && best->time >= cannot_be_had)) {
    df_search_stop(l);
    return (df_search_request){.kind = DF_REQUEST_STOP};
  }
  l->asked = l->in_force;
  return rest(l, DF_SEARCH_WARM);
}

/* The comparison was wrong, or no longer holds. Times may also be longer for all variants now. */
static df_search_request compare_anew(df_search *l) {
  l->winner = l->baseline;
  l->is_remembered = 1;
  l->worse = 0;
  return go_on(l);
}

df_search_request df_search_watched(df_search *l, uint64_t run, const uint32_t *ns, uint32_t n,
                                    int may_ask) {
  const double quarter = df_times_quarter(ns, n);
  df_budget_earn(&l->budget, run);
  df_drift_note(&l->drift, quarter);
  const int is_tuned = !df_point_same(&l->baseline, &l->registered) && l->registered_own_ns > 0;
  l->worse = is_tuned && quarter > l->registered_own_ns ? l->worse + 1 : 0;
  if (!may_ask) return watch(l);
  if (df_drift_is_certain(&l->drift)) return begin_anew(l, ns, n);
  return l->worse >= DF_SEARCH_WORSE ? compare_anew(l) : watch(l);
}

/* Measurements from before a change are worthless, so the search begins anew instead of going on.
 * */
df_search_request df_search_rested(df_search *l, uint64_t run, const uint32_t *ns, uint32_t n,
                                   int may_ask) {
  const int is_baseline = df_point_same(&l->in_force, &l->baseline);
  if (l->state != DF_SEARCH_RESTING) return nothing;
  df_budget_earn(&l->budget, run);
  if (n == DF_SEARCH_WINDOW && is_baseline && !l->runs_ahead)
    df_drift_note(&l->drift, df_times_quarter(ns, n));
  if (!may_ask) return rest(l, DF_SEARCH_WARM);
  if (!is_baseline && l->then == DF_SEARCH_WATCHING) return return_to_baseline(l, l->then);
  if (!df_drift_is_certain(&l->drift) || l->is_remembered || n < DF_SEARCH_WINDOW) return go_on(l);
  df_drift_add_patience(&l->drift);
  return begin_anew(l, ns, n);
}

const char *df_search_state_name(df_search_state state) {
  static const char *const names[] = {"is warming up", "is measuring", "is returning", "is resting",
                                      "is comparing",  "is watching",  "has stopped"};
  return names[state];
}
