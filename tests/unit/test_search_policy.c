/*
 * Promises of src/tuning/search_policy.c and exploration_budget.c, in virtual time. The times of
 * runs are given, links are set up and members answer some runs later, and all times are added up.
 *   - If the registered variant is the best, a job takes at most 1 % longer than without the tuner,
 *     at every moment: switches, cold first runs, slow variants and comparisons included. The
 *     condition is that a switch costs at most its charge, and that a variant takes at most 5 times
 *     as long. Otherwise the excess of one variant's first runs is added, once at a time.
 *   - A search that has found nothing costs nothing afterwards.
 *   - If a variant is faster, it stays, unless it is fast in most runs and slow in some. If its
 *     runs later take longer than the registered variant's did, it is compared again.
 *   - Whatever clocks and members report, requests name existing variants, at finite moments.
 *   - A job continues if members send no times, if a variant is not available, or if another
 *     request arrives.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "search_world.h"

/* 10,000 runs, and more of short ones, in which the tuner would otherwise do nothing at all. */
static void nothing_to_gain(double baseline_us, double noise, int runs_ahead, uint64_t seed) {
  search_world w = {.random = {seed},
                    .surface = seed,
                    .baseline_ns = baseline_us * 1e3,
                    .least_ratio = 1.02,
                    .most_ratio = 5,
                    .setup_ns = 300e3,
                    .cold_ns = 100e3,
                    .noise = noise,
                    .runs_ahead = runs_ahead,
                    .ahead = 4 + (int)(seed % 3),
                    .lag = (int)(seed % 2)};
  search_world_open(&w, 0.01);
  search_run(&w, 10000);
  const double lost = w.spent_ns / w.default_ns - 1;
  CHECK(w.most_over <= 0, "%g us: at some moment %g us beyond 1 %%", baseline_us,
        w.most_over * 1e-3);
  while (w.search.state != DF_SEARCH_WATCHING && w.run < 40000000) search_run(&w, 1000);
  const double lost_at_end = w.spent_ns / w.default_ns - 1;
  CHECK(w.most_over <= 0, "%g us: at some moment %g us beyond 1 %%", baseline_us,
        w.most_over * 1e-3);
  CHECK(w.search.state == DF_SEARCH_WATCHING, "%g us: it %s", baseline_us,
        df_search_state_name(w.search.state));
  CHECK(memcmp(&w.search.baseline, &w.search.registered, sizeof w.search.baseline) == 0,
        "it has moved");
  CHECK(w.purpose == DF_PURPOSE_BACK, "purpose %s", df_purpose_name(w.purpose));
  fprintf(stderr,
          "leader: %g us: lost %.3f %% of 10,000 runs; %u variants in %llu runs, lost %.3f %%\n",
          baseline_us, 100 * lost, w.search.descent.n_measured, (unsigned long long)w.run,
          100 * lost_at_end);
  const uint64_t switches = w.switches;
  if (noise > 0) return;
  search_run(&w, 20000);
  CHECK(w.switches == switches, "it still explores");
}

DF_TEST(search, nothing_to_gain_costs_at_most_1_per_cent, 120) {
  static const double homes_us[] = {0.3, 1, 15, 100, 1000, 20000};
  for (unsigned i = 0; i < sizeof homes_us / sizeof homes_us[0]; i++)
    for (uint64_t seed = 1; seed <= 6; seed++) nothing_to_gain(homes_us[i], 0, 0, seed);
}

DF_TEST(search, nor_with_noise, 120) {
  static const double homes_us[] = {15, 100, 1000};
  for (unsigned i = 0; i < sizeof homes_us / sizeof homes_us[0]; i++)
    for (uint64_t seed = 1; seed <= 6; seed++) nothing_to_gain(homes_us[i], 0.05, 0, seed);
}

/* As in a broadcast: only the members measure the time. */
DF_TEST(search, nor_if_the_leader_waits_for_no_member, 120) {
  static const double homes_us[] = {1, 100, 1000};
  for (unsigned i = 0; i < sizeof homes_us / sizeof homes_us[0]; i++)
    for (uint64_t seed = 1; seed <= 6; seed++) nothing_to_gain(homes_us[i], 0, 1, seed);
}

/* The unforeseeable part: the excess of one variant's first runs, or of one switch. */
DF_TEST(search, surprises_are_paid_before_the_next_one, 120) {
  for (uint64_t seed = 1; seed <= 6; seed++) {
    search_world slow = {.random = {seed},
                         .baseline_ns = 100e3,
                         .least_ratio = 50,
                         .most_ratio = 100,
                         .setup_ns = 100e3,
                         .ahead = 4,
                         .lag = 1};
    search_world_open(&slow, 0.01);
    search_run(&slow, 400000);
    const double first_runs = (2 + 4 + 1) * 99 * slow.baseline_ns;
    CHECK(slow.most_over <= first_runs, "%g us beyond 1 %%", slow.most_over * 1e-3);
    CHECK(slow.search.descent.n_measured > 2, "%u variants", slow.search.descent.n_measured);

    search_world dear = {.random = {seed},
                         .baseline_ns = 100e3,
                         .least_ratio = 1.02,
                         .most_ratio = 3,
                         .setup_ns = 50e6,
                         .ahead = 4,
                         .lag = 1};
    search_world_open(&dear, 0.01);
    search_run(&dear, 400000);
    CHECK(dear.most_over <= 1.01 * (dear.setup_ns + 15 * 2 * dear.baseline_ns), "%g us beyond 1 %%",
          dear.most_over * 1e-3);
  }
}

DF_TEST(search, a_faster_variant_stays, 60) {
  for (uint64_t seed = 1; seed <= 6; seed++) {
    search_world w = {.random = {seed},
                      .surface = seed,
                      .baseline_ns = 200e3,
                      .least_ratio = 1.02,
                      .most_ratio = 3,
                      .setup_ns = 300e3,
                      .noise = 0.03,
                      .best_ratio = 0.8,
                      .ahead = 4,
                      .lag = 1};
    search_world_open(&w, 0.01);
    while (w.search.state != DF_SEARCH_WATCHING && w.run < 2000000) search_run(&w, 100);
    CHECK(w.search.baseline.subspace == ALGORITHMS / 2, "subspace %u", w.search.baseline.subspace);
    CHECK(memcmp(&w.in_force, &w.search.baseline, sizeof w.in_force) == 0, "another is in force");
    CHECK(w.purpose == DF_PURPOSE_ADOPTED, "purpose %s", df_purpose_name(w.purpose));
    CHECK(w.search.tuned_ns < 0.9 * w.search.registered_ns && w.search.has_result, "%g, %g",
          w.search.tuned_ns, w.search.registered_ns);
    CHECK(w.most_over <= 0, "%g us beyond 1 %%", w.most_over * 1e-3);
  }
}

/* The means of variants are over 4 ms, if 32 to 128 runs take that long. */
DF_TEST(search, means_of_short_runs_are_of_more, 60) {
  static const struct {
    double baseline_ns;
    uint64_t runs;
  } cases[] = {{1e3, 128}, {30e3, 128}, {50e3, 80}, {1e6, 32}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    search_world w = {.random = {i + 1},
                      .surface = i,
                      .baseline_ns = cases[i].baseline_ns,
                      .runs_ahead = 1,
                      .least_ratio = 1.02,
                      .most_ratio = 3,
                      .ahead = 4,
                      .lag = 1};
    search_world_open(&w, 0);
    search_run(&w, 1000);
    CHECK(w.search.descent.n_measured > 1, "%u variants", w.search.descent.n_measured);
    CHECK(w.asked == cases[i].runs, "%llu runs of %g us", (unsigned long long)w.asked,
          cases[i].baseline_ns * 1e-3);
  }
}

DF_TEST(search, short_in_most_runs_and_long_in_some, 60) {
  for (uint64_t seed = 1; seed <= 6; seed++) {
    search_world w = {.random = {seed},
                      .surface = seed,
                      .baseline_ns = 200e3,
                      .least_ratio = 1.02,
                      .most_ratio = 3,
                      .best_ratio = 0.8,
                      .spikes = 1,
                      .ahead = 4,
                      .lag = 1};
    search_world_open(&w, 0);
    search_run(&w, 4000);
    CHECK(w.search.state == DF_SEARCH_WATCHING, "it %s", df_search_state_name(w.search.state));
    CHECK(memcmp(&w.search.baseline, &w.search.registered, sizeof w.search.baseline) == 0,
          "it has moved");
  }
}

DF_TEST(search, a_winner_that_loses_the_comparison, 60) {
  for (uint64_t seed = 1; seed <= 6; seed++) {
    search_world w = {.random = {seed},
                      .surface = seed,
                      .baseline_ns = 200e3,
                      .least_ratio = 1.02,
                      .most_ratio = 3,
                      .best_ratio = 0.8,
                      .noise = 0.005,
                      .ahead = 4,
                      .lag = 1};
    search_world_open(&w, 0);
    while (w.search.state != DF_SEARCH_WATCHING && w.run < 10000) search_run(&w, 1);
    CHECK(w.search.baseline.subspace == ALGORITHMS / 2, "subspace %u", w.search.baseline.subspace);
    w.best_ratio = 1.05;
    search_run(&w, 1000);
    CHECK(memcmp(&w.in_force, &w.search.registered, sizeof w.in_force) == 0, "it stays");
    CHECK(w.search.begun == 1, "%u searches", w.search.begun);
  }
}

/* The variant that was fastest in the search is slow in the comparison, as over a link that accepts
 * a burst at once: the runner-up stays. */
DF_TEST(search, a_runner_up, 60) {
  for (uint64_t seed = 1; seed <= 20; seed++) {
    search_world w = {.random = {seed},
                      .surface = seed,
                      .baseline_ns = 200e3,
                      .least_ratio = 1.1,
                      .most_ratio = 1.4,
                      .best_ratio = 0.6,
                      .sprinter = ALGORITHMS / 2 + 1,
                      .noise = 0.02,
                      .ahead = 4,
                      .lag = 1};
    search_world_open(&w, 0);
    while (w.search.state != DF_SEARCH_WATCHING && w.run < 20000) search_run(&w, 1);
    CHECK(w.search.baseline.subspace == ALGORITHMS / 2, "seed %llu: subspace %u",
          (unsigned long long)seed, w.search.baseline.subspace);
    CHECK(w.search.losses > 0, "the luckiest has not lost");
  }
}

/* Starts with the result of another job: one comparison, and no search unless the result loses
 * it. */
DF_TEST(search, a_saved_result_is_compared_first, 60) {
  for (int is_better = 0; is_better < 2; is_better++) {
    search_world w = {.random = {7},
                      .baseline_ns = 200e3,
                      .least_ratio = 1.02,
                      .most_ratio = 3,
                      .setup_ns = 300e3,
                      .best_ratio = is_better ? 0.8 : 1.5,
                      .ahead = 4,
                      .lag = 1};
    search_world_open(&w, 0.01);
    df_point point = w.search.registered;
    point.subspace = ALGORITHMS / 2;
    df_search_remember(&w.search, &point);
    while (w.search.state != DF_SEARCH_WATCHING && w.run < 2000000) search_run(&w, 100);
    CHECK((w.search.descent.n_measured == 0) == is_better, "%u variants",
          w.search.descent.n_measured);
    CHECK((w.search.baseline.subspace == ALGORITHMS / 2) == is_better, "subspace %u",
          w.search.baseline.subspace);
    CHECK(w.most_over <= 0, "%g us beyond 1 %%", w.most_over * 1e-3);
  }
}

DF_TEST(search, a_search_without_a_limit_ends_within_so_many_runs, 60) {
  search_world w = {.random = {3},
                    .baseline_ns = 1e3,
                    .least_ratio = 0.8,
                    .most_ratio = 3,
                    .ahead = 6,
                    .lag = 2,
                    .noise = 0.3};
  search_world_open(&w, 0);
  search_run(&w, 64 * 24 + 2 * 200);
  CHECK(w.search.state == DF_SEARCH_WATCHING, "it %s", df_search_state_name(w.search.state));
}

DF_TEST(search, members_that_send_no_times, 60) {
  search_world w = {.random = {3},
                    .baseline_ns = 100e3,
                    .least_ratio = 1.02,
                    .most_ratio = 1.5,
                    .ahead = 4,
                    .is_silent = 1};
  search_world_open(&w, 0);
  search_run(&w, 1000000);
  CHECK(w.search.state == DF_SEARCH_STOPPED, "it %s", df_search_state_name(w.search.state));
}

DF_TEST(search, unavailable_variants, 60) {
  for (uint64_t seed = 1; seed <= 20; seed++) {
    search_world w = {.random = {seed},
                      .surface = seed,
                      .baseline_ns = 100e3,
                      .least_ratio = 1.02,
                      .most_ratio = 1.5,
                      .setup_ns = 100e3,
                      .ahead = 4,
                      .lag = 1,
                      .lost_of = 3};
    search_world_open(&w, 0.01);
    while (w.search.state != DF_SEARCH_WATCHING && w.search.state != DF_SEARCH_STOPPED &&
           w.run < 4000000)
      search_run(&w, 100);
    CHECK(w.run < 4000000, "it %s", df_search_state_name(w.search.state));
  }
}

DF_TEST(search, impossible_times, 60) {
  static const double homes_ns[] = {0, 0, 4294967295.0};
  for (uint64_t seed = 1; seed <= 30; seed++) {
    search_world w = {.random = {seed},
                      .surface = seed,
                      .baseline_ns = homes_ns[seed % 3],
                      .most_ratio = seed % 2 ? 0 : 1,
                      .setup_ns = seed % 5 ? 0 : 1e6,
                      .ahead = 1,
                      .runs_ahead = seed % 7 == 0};
    search_world_open(&w, seed % 4 ? 0.01 : 0);
    search_run(&w, 200000);
    CHECK(w.search.budget.run_ns >= 1 && w.search.budget.run_ns < 1e10, "%g ns",
          w.search.budget.run_ns);
    CHECK(isfinite(w.search.budget.spent_ns) && isfinite(w.search.budget.earned_ns), "%g of %g",
          w.search.budget.spent_ns, w.search.budget.earned_ns);
  }
}
