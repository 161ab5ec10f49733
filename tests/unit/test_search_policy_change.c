/*
 * Promises of src/tuning/search_policy.c and exploration_budget.c about changes, in virtual time.
 * If times change in mid-job, and with them the fastest variant, then 200 runs later the runs take
 * what they take in a job that has begun after the change, within 10 %, whether the tuner watched
 * or paused. The cost of the probes is limited, too: if all runs take longer for a moment, less
 * than 3 % of 100,000 runs are lost.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "search_world.h"

/* The surface after the change: all runs take four times as long, and another algorithm is best. */
static void change(search_world *w, uint8_t best) {
  w->surface ^= 0x5eed;
  w->baseline_ns *= 4;
  w->best = best;
  w->best_ratio = 0.5;
}

static search_world changing_world(uint64_t seed) {
  return (search_world){.random = {seed},
                        .surface = seed,
                        .baseline_ns = 200e3,
                        .least_ratio = 1.02,
                        .most_ratio = 2.5,
                        .setup_ns = 300e3,
                        .noise = 0.03,
                        .best_ratio = 0.8,
                        .ahead = 4,
                        .lag = 1};
}

static int by_time(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* The median of some runs, in ns. */
static double median_of_runs(search_world *w, int n) {
  double ns[400];
  for (int i = 0; i < n; i++) {
    const double before = w->spent_ns;
    search_run_once(w);
    ns[i] = w->spent_ns - before;
  }
  qsort(ns, (size_t)n, sizeof ns[0], by_time);
  return ns[n / 2];
}

/* The time of a run, from 200 runs after the change on, relative to a job that has begun after
 * it. */
static double after_a_change(uint64_t seed, double part, df_search_state state, uint32_t patience) {
  enum { BEFORE = 5000, WITHIN = 200, LOOKED_AT = 200 };
  const uint8_t best = (uint8_t)(1 + seed % (ALGORITHMS - 1));
  search_world late = changing_world(seed), w = changing_world(seed);
  change(&late, best);
  search_world_open(&late, part);
  while (late.search.state != DF_SEARCH_WATCHING && late.run < 4000000) search_run(&late, 100);
  CHECK(late.search.baseline.subspace == best, "from the beginning: %u",
        late.search.baseline.subspace);
  search_world_open(&w, part);
  search_run(&w, BEFORE);
  while (w.search.state != state && w.run < 4000000) search_run_once(&w);
  search_run(
      &w,
      70 + seed % 32); /* at least a window, which measures the runs' times, and a part of one */
  CHECK(w.search.state == state, "it %s", df_search_state_name(w.search.state));
  const uint8_t before = w.search.baseline.subspace;
  const uint64_t changed_at = w.run;
  w.search.drift.patience = patience;
  change(&w, best);
  search_run(&w, WITHIN);
  CHECK(w.search.begun > 1, "it has not begun anew");
  const double after = median_of_runs(&w, LOOKED_AT) / median_of_runs(&late, LOOKED_AT);
  fprintf(stderr, "leader: change at run %llu while it %s: from %u to %u, best %u, %.3f\n",
          (unsigned long long)changed_at, df_search_state_name(state), before,
          w.search.baseline.subspace, best, after);
  return after;
}

DF_TEST(search_change, a_change_in_mid_run, 120) {
  for (uint64_t seed = 1; seed <= 40; seed++) {
    const int rests = seed % 2 == 0;
    const double after = after_a_change(seed, rests ? 0.01 : 0.05,
                                        rests ? DF_SEARCH_RESTING : DF_SEARCH_WATCHING, 0);
    CHECK(after <= 1.1, "seed %llu: %.3f of what it takes from the beginning",
          (unsigned long long)seed, after);
  }
}

/* The second change occurs when the new search has just begun, before a run of the baseline is
 * measured. */
DF_TEST(search_change, two_changes, 120) {
  for (uint64_t seed = 1; seed <= 20; seed++) {
    const uint8_t best = (uint8_t)(1 + seed % (ALGORITHMS - 1));
    search_world w = changing_world(seed);
    search_world_open(&w, 0.01);
    search_run(&w, 5000);
    w.baseline_ns *= 1.3;
    while (w.search.begun == 1) search_run_once(&w);
    change(&w, best);
    search_run(&w, 600);
    CHECK(w.search.begun == 3, "seed %llu: the second change was not seen",
          (unsigned long long)seed);
  }
}

static int is_at(const search_world *w, uint32_t subspace) {
  return w->search.baseline.subspace == subspace &&
         memcmp(&w->in_force, &w->search.registered, sizeof w->in_force) != 0;
}

static void run_until_it_watches(search_world *w) {
  while (w->search.state != DF_SEARCH_WATCHING && w->run < 4000000) search_run(w, 10);
  search_run(w, 100);
}

/* The result of another job is in force, and becomes worse than another algorithm. */
DF_TEST(search_change, a_saved_result_is_abandoned, 60) {
  search_world w = changing_world(3);
  df_point point;
  w.best_ratio = 0;
  w.ratios[5] = 0.8;
  search_world_open(&w, 0.01);
  point = w.search.registered;
  point.subspace = 5;
  df_search_remember(&w.search, &point);
  run_until_it_watches(&w);
  CHECK(is_at(&w, 5), "it is not what was remembered");
  w.baseline_ns *= 4;
  w.ratios[5] = 0.9;
  w.ratios[2] = 0.4;
  search_run(&w, 400);
  CHECK(is_at(&w, 2), "subspace %u", w.search.baseline.subspace);
}

/* The winner has the registered algorithm with other slots, and keeps its advantage after the
 * change. */
DF_TEST(search_change, a_winner_with_the_registered_algorithm, 120) {
  for (uint64_t seed = 1; seed <= 12; seed++) {
    const double factors[] = {1 / 1.5, 4, 2};
    search_world w = changing_world(seed);
    w.best_ratio = 0;
    w.ratios[0] = 0.35;
    search_world_open(&w, seed % 2 ? 0.01 : 0.05);
    run_until_it_watches(&w);
    CHECK(is_at(&w, 0), "seed %llu: subspace %u", (unsigned long long)seed,
          w.search.baseline.subspace);
    w.baseline_ns *= factors[seed % 3];
    const double spent = w.spent_ns, whole = w.default_ns;
    search_run(&w, 100000);
    const double part = (w.spent_ns - spent) / (w.default_ns - whole);
    CHECK(is_at(&w, 0) && part < 0.37, "seed %llu: it is left; %.3f of the registered one's time",
          (unsigned long long)seed, part);
  }
}

/* Nothing can be gained, and for some runs all take longer. */
DF_TEST(search_change, a_moment, 120) {
  for (uint64_t seed = 1; seed <= 60; seed++) {
    const double factors[] = {1.5, 2, 3};
    search_world w = changing_world(seed);
    w.best_ratio = 0;
    w.least_ratio = 1.2;
    search_world_open(&w, 0.01);
    search_run(&w, 3000);
    while (w.search.state != DF_SEARCH_RESTING && w.run < 4000000) search_run_once(&w);
    w.baseline_ns *= factors[seed % 3];
    search_run(&w, 64 + seed * 2);
    w.baseline_ns /= factors[seed % 3];
    const double spent = w.spent_ns, whole = w.default_ns;
    search_run(&w, 100000);
    const double lost = (w.spent_ns - spent) / (w.default_ns - whole) - 1;
    CHECK(lost < 0.03, "seed %llu: %.1f %% are lost", (unsigned long long)seed, 100 * lost);
  }
}

enum { MUCH_PATIENCE = 10 };

/* Because of varying times, earlier searches were started in vain. */
DF_TEST(search_change, a_change_after_false_alarms, 120) {
  for (uint64_t seed = 1; seed <= 10; seed++) {
    const double after = after_a_change(seed, 0.05, DF_SEARCH_WATCHING, MUCH_PATIENCE);
    CHECK(after <= 1.1, "seed %llu: %.3f of what it takes from the beginning",
          (unsigned long long)seed, after);
  }
}

/* Measurements from before and after the change are mixed. */
DF_TEST(search_change, a_change_during_a_search, 120) {
  for (uint64_t seed = 1; seed <= 40; seed++) {
    const uint8_t best = (uint8_t)(1 + seed % (ALGORITHMS - 1));
    search_world w = changing_world(seed);
    search_world_open(&w, 0.05);
    while (w.search.descent.n_measured < 8 + seed) search_run_once(&w);
    change(&w, best);
    search_run(&w, 30000);
    CHECK(w.search.baseline.subspace == best, "seed %llu: %u, not %u", (unsigned long long)seed,
          w.search.baseline.subspace, best);
  }
}

/* Twice the share, of the runs since the last bonus; the unspent part is returned. */
DF_TEST(search_change, a_bonus_is_bounded, 30) {
  df_budget budget;
  df_budget_open(&budget, 0.01, 32);
  budget.run_ns = 1000;
  df_budget_earn(&budget, 10000);
  const double earned = 0.01 * 10000 * 1000, grant = 2 * earned;
  CHECK(fabs(df_budget_left(&budget) - earned) < 1, "%g", df_budget_left(&budget));
  df_budget_add_bonus(&budget);
  CHECK(fabs(df_budget_left(&budget) - earned - grant) < 1, "%g", df_budget_left(&budget));
  df_budget_charge(&budget, 1000 + grant / 2);
  df_budget_take_back(&budget);
  CHECK(fabs(df_budget_left(&budget) - earned) < 1, "%g, half of it spent",
        df_budget_left(&budget));
  df_budget_add_bonus(&budget);
  CHECK(fabs(df_budget_left(&budget) - earned) < 1, "%g, granted twice", df_budget_left(&budget));
  df_budget_earn(&budget, 20000);
  df_budget_add_bonus(&budget);
  df_budget_charge(&budget, 1000 + 2 * grant);
  df_budget_take_back(&budget);
  CHECK(fabs(df_budget_left(&budget) - (2 * earned - grant)) < 1, "%g, overdrawn",
        df_budget_left(&budget));
}

/* Time that was spent before the bonus, in an exploration that goes on, was not spent of the bonus:
 * what the exploration costs later is, and only the rest is taken back. */
DF_TEST(search_change, a_bonus_in_an_exploration_is_returned_without_what_was_spent_before, 30) {
  static const double before[] = {0, 30000, 70000, 250000}, later[] = {0, 20000, 90000};
  for (size_t b = 0; b < DF_COUNT_OF(before); b++)
    for (size_t l = 0; l < DF_COUNT_OF(later); l++)
      for (uint32_t switches = 0; switches <= 1; switches++) {
        df_budget budget;
        df_budget_open(&budget, 0.01, 32);
        budget.run_ns = 1000;
        budget.switches = switches;
        df_budget_earn(&budget, 100000000);
        df_budget_charge(&budget, 1000 + switches * DF_BUDGET_SWITCH_NS + before[b]);
        const double left = df_budget_left(&budget);
        df_budget_add_bonus(&budget);
        CHECK(df_budget_left(&budget) > left + 1000000, "no bonus");
        if (later[l] > 0) df_budget_charge(&budget, 1000 + later[l]);
        df_budget_take_back(&budget);
        CHECK(fabs(df_budget_left(&budget) - left) < 1, "%g spent before, %g later: %g, not %g",
              before[b], later[l], df_budget_left(&budget), left);
      }
}
