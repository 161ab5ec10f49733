#include "tuning/leader.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/attributes.h"

enum {
  DF_LEADER_TO_COMPARE = 4,     /* switches */
  DF_LEADER_WINS = 2,           /* comparisons in a row */
  DF_LEADER_LOST = 8,           /* variants in a row that could not be had: it stops */
  DF_LEADER_WATCH_NS = 100,     /* what timing one run costs, about */
  DF_LEADER_DRIFTS = 2,         /* windows in a row, to the same side */
  DF_LEADER_MOST_PATIENCE = 10, /* doublings of that, after searches that found nothing else */
  DF_LEADER_WARM_RUNS = 2,      /* after the first, until a variant may be called slow */
  /* In runs: some 8 until a variant that takes 5 times as long as at home is seen to be slow and left.
   * If the leader waits for nobody, all of them. */
  DF_LEADER_RISK = 32,
  DF_LEADER_RISK_AHEAD = 5 * DF_LEADER_RISK,
  DF_LEADER_IN_VAIN = 12,  /* points beyond the starts of all subspaces */
  DF_LEADER_ROUND_TRIP = 6 /* runs, about, until a variant that is to be left is */
};
static const double least_gain = 0.02, drift = 0.15, slow = 2.0;
static const double watch_part = 0.001;
/* Of runs, without the members' times: then somebody else has asked for another variant. */
static const double deaf_ns = 5e9;
static const double cannot_be_had = 1e30;

static int is_same(const df_point *a, const df_point *b) { return memcmp(a, b, sizeof *a) == 0; }

static int by_size(const void *a, const void *b) {
  const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return (x > y) - (x < y);
}

/* Sorts. */
static double median(uint32_t *times, uint32_t n) {
  qsort(times, n, sizeof *times, by_size);
  return ((double)times[(n - 1) / 2] + (double)times[n / 2]) / 2;
}

static double mean(const uint32_t *times, uint32_t n) {
  double sum = 0;
  for (uint32_t i = 0; i < n; i++) sum += (double)times[i];
  return sum / n;
}

/* At least 1: a clock may stand, and a peer may say anything. */
static double time_of(const df_leader *l, const uint32_t *times, uint32_t n) {
  uint32_t sorted[DF_LEADER_TIMES];
  memcpy(sorted, times, n * sizeof *times);
  return DF_MAX(l->by_mean ? mean(times, n) : median(sorted, n), 1.0);
}

/* Of the median, from the quartiles: 1.2533 * 0.7413 * (q3 - q1) / sqrt(n), of DF_LEADER_RUNS. Of the
 * mean, from its halves. */
static double error_of(const df_leader *l, const uint32_t *times, uint32_t n) {
  uint32_t sorted[DF_LEADER_TIMES];
  if (l->by_mean) return fabs(mean(times, n / 2) - mean(times + n / 2, n - n / 2)) / 2;
  memcpy(sorted, times, n * sizeof *times);
  qsort(sorted, n, sizeof *sorted, by_size);
  return 0.33 * (double)(sorted[3 * n / 4] - sorted[n / 4]);
}

static uint32_t runs_of_variant(const df_leader *l) {
  return l->by_mean ? DF_LEADER_TIMES : DF_LEADER_RUNS;
}

void df_leader_open(df_leader *l, double part, int runs_ahead, int by_mean) {
  df_account_open(&l->account, part, runs_ahead ? DF_LEADER_RISK_AHEAD : DF_LEADER_RISK);
  l->descent.in_vain = DF_LEADER_IN_VAIN;
  l->runs_ahead = runs_ahead;
  l->by_mean = by_mean;
  l->registered = l->descent.climbs[0].best.point;
  l->home = l->winner = l->asked = l->in_force = l->registered;
  l->state = DF_LEADER_BEGINS;
}

void df_leader_remember(df_leader *l, const df_point *point) {
  l->winner = *point;
  l->is_remembered = 1;
}

void df_leader_stop(df_leader *l) { l->state = DF_LEADER_STOPPED; }

int df_leader_counts(const df_leader *l) {
  return l->state == DF_LEADER_SEARCHES || l->state == DF_LEADER_COMPARES ||
         l->state == DF_LEADER_RETURNS || !is_same(&l->in_force, &l->home);
}

/* ---- wishes */

static const df_wish nothing = {.kind = DF_WISH_NOTHING};

static df_wish ask(df_leader *l, const df_point *point, uint32_t runs, df_leader_state state) {
  l->state = state;
  l->asked = *point;
  l->since = l->there = l->n_own = 0;
  l->there_ns = 0;
  l->told = runs;
  l->account.switches++;
  return (df_wish){.kind = DF_WISH_VARIANT, .point = *point, .runs = runs};
}

static df_wish rest(df_leader *l, uint64_t runs) {
  l->state = DF_LEADER_RESTS;
  return (df_wish){.kind = DF_WISH_REST, .runs = runs};
}

/* Timing costs so little of the runs' time; long runs are watched all the time. */
static df_wish watch(df_leader *l) {
  const double every =
      DF_LEADER_TIMES * DF_LEADER_WATCH_NS / watch_part / DF_MAX(l->account.run_ns, 1.0);
  const uint64_t runs = (uint64_t)DF_MIN(DF_MAX(every, (double)DF_LEADER_TIMES), 1e6);
  l->state = DF_LEADER_WATCHES;
  return (df_wish){.kind = DF_WISH_WATCH, .runs = runs << l->patience};
}

static df_wish at_home(df_leader *l) {
  df_account_close(&l->account);
  if (l->then == DF_LEADER_WATCHES) return watch(l);
  return rest(l, df_account_runs_until(&l->account, l->needed_ns));
}

static df_wish go_home(df_leader *l, df_leader_state then) {
  l->then = then;
  if (is_same(&l->in_force, &l->home)) return at_home(l);
  return ask(l, &l->home, runs_of_variant(l), DF_LEADER_RETURNS);
}

/* A search that found what was there already need not be repeated soon. */
static df_wish settle(df_leader *l) {
  const int is_new = l->begun <= 1 || !is_same(&l->winner, &l->before);
  if (is_new)
    l->patience = 0;
  else if (l->patience < DF_LEADER_MOST_PATIENCE)
    l->patience++;
  l->before = l->home = l->winner;
  l->watched_ns = 0;
  l->drifted = l->worse = 0;
  return go_home(l, DF_LEADER_WATCHES);
}

/* 0: the search has not measured it. */
static double registered_ns(const df_leader *l) {
  for (uint32_t i = 0; i < l->descent.n_measured; i++)
    if (is_same(&l->descent.measured[i].point, &l->registered)) return l->descent.measured[i].time;
  return 0;
}

static int is_worth_comparing(const df_leader *l) {
  const df_measured *best = df_descent_best(&l->descent);
  if (l->is_remembered) return !is_same(&l->winner, &l->registered);
  return !is_same(&best->point, &l->registered) &&
         (registered_ns(l) == 0 || best->time < (1 - least_gain) * registered_ns(l));
}

static df_wish keep_registered(df_leader *l) {
  l->winner = l->registered;
  l->registered_ns = l->tuned_ns = registered_ns(l);
  l->has_news = l->registered_ns > 0;
  return settle(l);
}

static df_wish compare(df_leader *l) {
  if (!l->is_remembered) l->winner = df_descent_best(&l->descent)->point;
  l->turn = 0;
  return ask(l, &l->winner, DF_LEADER_TIMES, DF_LEADER_COMPARES);
}

static df_wish go_on(df_leader *l) {
  df_point point;
  if (is_same(&l->in_force, &l->home)) df_account_close(&l->account);
  const int is_over = l->is_remembered || !df_descent_next(&l->descent, &point);
  if (is_over && !is_worth_comparing(l)) return keep_registered(l);
  l->needed_ns = df_account_needed(&l->account, is_over ? DF_LEADER_TO_COMPARE : 2);
  if (df_account_left(&l->account) < l->needed_ns) return go_home(l, DF_LEADER_RESTS);
  return is_over ? compare(l) : ask(l, &point, runs_of_variant(l), DF_LEADER_SEARCHES);
}

static df_wish search(df_leader *l) {
  l->begun++;
  l->wins = 0;
  return go_on(l);
}

/* ---- hearing */

df_wish df_leader_begin(df_leader *l, uint64_t run, const uint32_t *ns, uint32_t n) {
  l->account.run_ns = time_of(l, ns, n);
  df_account_earn(&l->account, run);
  return search(l);
}

df_wish df_leader_rested(df_leader *l, uint64_t run) {
  if (l->state != DF_LEADER_RESTS) return nothing;
  df_account_earn(&l->account, run);
  if (!is_same(&l->in_force, &l->home) && l->then == DF_LEADER_WATCHES) return go_home(l, l->then);
  return go_on(l);
}

/* What was remembered is no longer so: then the search begins. */
static df_wish lose(df_leader *l) {
  l->winner = l->home = l->registered;
  if (!l->is_remembered) return settle(l);
  l->is_remembered = 0;
  return go_on(l);
}

/* Of the variant at hand, which was given up before its members have told. */
static df_wish give_up(df_leader *l) {
  const double scale = l->home_ns > 0 ? l->home_ns / l->account.run_ns : 1;
  if (l->state == DF_LEADER_COMPARES) return lose(l);
  const df_measured measured = {.point = l->asked, .time = scale * time_of(l, l->own, l->n_own)};
  df_descent_tell(&l->descent, &measured);
  return go_on(l);
}

/* It is plainly slow, or what it still takes cannot be paid. */
static int must_go(const df_leader *l) {
  uint32_t least = UINT32_MAX;
  for (uint32_t i = 0; i < l->n_own; i++) least = DF_MIN(least, l->own[i]);
  const double excess = (double)least - l->account.run_ns;
  if (l->n_own == 0 || excess <= 0) return 0;
  const uint32_t to_come = DF_MAX(l->told, l->n_own) - l->n_own;
  const double still = (to_come + DF_LEADER_ROUND_TRIP) * excess + DF_ACCOUNT_SWITCH_NS;
  return df_account_left(&l->account) < still ||
         (l->n_own >= DF_LEADER_WARM_RUNS && !l->runs_ahead && l->state == DF_LEADER_SEARCHES &&
          (double)least > slow * l->account.run_ns);
}

df_wish df_leader_ran(df_leader *l, uint64_t run, uint32_t ns, int is_there, int may_ask) {
  df_account_earn(&l->account, run);
  df_account_charge(&l->account, (double)ns);
  l->since++;
  if (is_there) {
    l->in_force = l->asked;
    if (l->there++ > 0 && l->n_own < DF_LEADER_TIMES) l->own[l->n_own++] = ns;
  }
  l->there_ns += is_there ? (double)ns : 0;
  if (may_ask && l->there_ns > deaf_ns && l->there > DF_LEADER_TIMES + 1)
    return df_leader_called_off(l, run);
  if (!may_ask || is_same(&l->asked, &l->home) ||
      (l->state != DF_LEADER_SEARCHES && l->state != DF_LEADER_COMPARES) || !must_go(l))
    return nothing;
  return give_up(l);
}

/* If this rank waits for nobody, only the others know what the runs have cost. */
static void charge_members(df_leader *l, double ns) {
  const double excess = (ns - l->home_ns) * (l->since + DF_LEADER_ROUND_TRIP);
  if (l->runs_ahead && l->home_ns > 0 && excess > l->account.excess_ns)
    l->account.excess_ns = excess;
}

static void note_home(df_leader *l, double ns) {
  l->home_ns = ns;
  if (l->n_own >= DF_LEADER_RUNS / 2) l->account.run_ns = time_of(l, l->own, l->n_own);
}

/* Both turns of the winner must be faster than both halves of the registered variant's, and take less
 * in sum: what is short in most runs and long in some is not faster. */
static int has_won(const df_leader *l) {
  const double *turns = l->turns_ns, *sums = l->sums_ns;
  const double slower = DF_MAX(turns[0], turns[3]), faster = DF_MIN(turns[1], turns[2]);
  return slower < (1 - least_gain) * faster && DF_MAX(sums[0], sums[2]) < sums[1];
}

static df_wish conclude(df_leader *l) {
  l->registered_ns = (l->turns_ns[1] + l->turns_ns[2]) / 2;
  l->tuned_ns = (l->turns_ns[0] + l->turns_ns[3]) / 2;
  if (!has_won(l)) {
    l->tuned_ns = l->registered_ns;
    l->has_news = !l->is_remembered;
    return lose(l);
  }
  if (!l->is_remembered && ++l->wins < DF_LEADER_WINS) {
    /* On some machines times depend on where threads happen to be, for as long as one comparison. */
    return go_home(l, DF_LEADER_RESTS);
  }
  l->has_news = 1;
  return settle(l);
}

static double quarter_of(const uint32_t *times, uint32_t n) {
  uint32_t sorted[DF_LEADER_TIMES];
  memcpy(sorted, times, n * sizeof *times);
  qsort(sorted, n, sizeof *sorted, by_size);
  return DF_MAX((double)sorted[n / 4], 1.0);
}

static df_wish note_turn(df_leader *l, const uint32_t *ns, uint32_t n, double sum_ns) {
  l->sums_ns[l->turn++] = sum_ns;
  if (l->turn == 2) {
    if (!l->runs_ahead && l->n_own == DF_LEADER_TIMES)
      l->registered_own_ns = quarter_of(l->own, l->n_own);
    l->turns_ns[1] = time_of(l, ns, n / 2);
    l->turns_ns[2] = time_of(l, ns + n / 2, n - n / 2);
    return ask(l, &l->winner, DF_LEADER_TIMES, DF_LEADER_COMPARES);
  }
  l->turns_ns[l->turn == 1 ? 0 : 3] = time_of(l, ns, n);
  if (l->turn == 1) return ask(l, &l->registered, DF_LEADER_TIMES, DF_LEADER_COMPARES);
  return conclude(l);
}

static df_wish note_variant(df_leader *l, double ns, double error) {
  const df_measured measured = {.point = l->asked, .time = ns, .error = error};
  df_descent_tell(&l->descent, &measured);
  return go_on(l);
}

df_wish df_leader_told(df_leader *l, uint64_t run, const uint32_t *ns, uint32_t n, double sum_ns) {
  const double middle = time_of(l, ns, n);
  df_account_earn(&l->account, run);
  l->in_force = l->asked;
  l->lost = 0;
  if (is_same(&l->asked, &l->home))
    note_home(l, middle);
  else
    charge_members(l, middle);
  switch (l->state) {
  case DF_LEADER_SEARCHES:
    return note_variant(l, middle, error_of(l, ns, n));
  case DF_LEADER_RETURNS:
    return at_home(l);
  case DF_LEADER_COMPARES:
    return note_turn(l, ns, n, sum_ns);
  default:
    return nothing;
  }
}

/* Not at once: what calls it off may still be so. */
df_wish df_leader_called_off(df_leader *l, uint64_t run) {
  const df_measured none = {.point = l->asked, .time = cannot_be_had};
  df_account_earn(&l->account, run);
  if (l->state == DF_LEADER_STOPPED || l->state == DF_LEADER_WATCHES) return nothing;
  if (l->state == DF_LEADER_SEARCHES) df_descent_tell(&l->descent, &none);
  if (l->state != DF_LEADER_RETURNS) l->then = DF_LEADER_RESTS;
  if (l->is_remembered) {
    l->is_remembered = 0;
    l->winner = l->registered;
  }
  const df_measured *best = df_descent_best(&l->descent);
  if (++l->lost == DF_LEADER_LOST || (best && best->time >= cannot_be_had)) {
    df_leader_stop(l);
    return (df_wish){.kind = DF_WISH_STOP};
  }
  l->asked = l->in_force;
  return rest(l, DF_LEADER_WARM);
}

/* The comparison was wrong, or is so no longer. Times may also be longer for all variants now. */
static df_wish compare_anew(df_leader *l) {
  l->winner = l->home;
  l->is_remembered = 1;
  l->worse = 0;
  return go_on(l);
}

static df_wish begin_anew(df_leader *l, const uint32_t *ns, uint32_t n) {
  l->account.run_ns = time_of(l, ns, n);
  l->home_ns = 0;
  df_descent_again(&l->descent);
  return search(l);
}

/* This rank may wait for others, so the quarter that waited least counts. */
df_wish df_leader_watched(df_leader *l, uint64_t run, const uint32_t *ns, uint32_t n, int may_ask) {
  const double quarter = quarter_of(ns, n);
  df_account_earn(&l->account, run);
  if (l->watched_ns == 0) l->watched_ns = quarter;
  const int is_tuned = !is_same(&l->home, &l->registered) && l->registered_own_ns > 0;
  l->worse = is_tuned && quarter > l->registered_own_ns ? l->worse + 1 : 0;
  if (quarter > (1 + drift) * l->watched_ns)
    l->drifted = DF_MAX(l->drifted, 0) + 1;
  else if (quarter < (1 - drift) * l->watched_ns)
    l->drifted = DF_MIN(l->drifted, 0) - 1;
  else
    l->drifted = 0;
  if (!may_ask) return watch(l);
  if (abs(l->drifted) >= DF_LEADER_DRIFTS) return begin_anew(l, ns, n);
  return l->worse >= DF_LEADER_DRIFTS ? compare_anew(l) : watch(l);
}

const char *df_leader_state_name(df_leader_state state) {
  static const char *const names[] = {"begins",   "searches", "returns",    "rests",
                                      "compares", "watches",  "has stopped"};
  return names[state];
}
