/*
 * Promises of src/tuning/leader.c and account.c, in virtual time: the times of runs are given, links
 * are set up and members answer some runs later, and all of it is added up.
 *   - If the registered variant is the best, a job takes at most 1 % longer than without the tuner, at
 *     every moment of it: switches, cold first runs, slow variants and comparisons included. It does
 *     so as long as a switch costs at most what it is charged with, and a variant takes at most 5 times as
 *     long. Else the excess of one variant's first runs is added, once at a time.
 *   - A search that has found nothing costs nothing any more.
 *   - If a variant is faster, it stays; not if it is short in most runs and long in some. If its runs
 *     then take longer than the registered variant's did, it is compared again.
 *   - If times change in mid-run, and with them what is fastest, runs take 200 runs later what they take
 *     in a job that has begun after the change, within 10 %; whether it watched or rested. What the
 *     probes cost is bounded, too.
 *   - Whatever clocks and members say, it asks for what there is, and at finite moments.
 *   - A job goes on if members do not tell, if a variant cannot be had, or if somebody else asks.
 */
#include "tuning/leader.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/harness.h"

enum { ALGORITHMS = 10, PLACES = 8, NEVER = 1 << 30 };

typedef struct world {
  df_leader leader;
  df_random random;
  uint64_t surface;
  double home_ns, most_ratio, least_ratio; /* of variants, by the registered one's */
  double setup_ns, cold_ns;                /* until links stand; of the first run */
  double noise;
  double best_ratio; /* of one algorithm; 0: none is better */
  uint8_t best;      /* which one */
  int spikes;        /* every fourth run of that algorithm takes three times as long */
  int ahead, lag;    /* runs until all have gone over; until they have told */
  int runs_ahead;    /* this rank's own runs tell nothing */
  int is_mute;       /* no times are told */
  uint64_t lost_of;  /* one of so many variants is called off; 0: none */

  uint64_t run;
  df_point in_force, next;
  uint64_t over_at; /* NEVER: no switch is in progress */
  uint64_t timed_from, timed_to, tell_at;
  uint64_t asked;    /* to be timed, of the latest variant */
  uint64_t woken_at; /* of a rest or a watch */
  uint32_t rested;   /* times that are told then */
  int is_first;
  uint32_t ns[DF_LEADER_TIMES], own[DF_LEADER_WINDOW];
  double spent_ns, default_ns, most_over; /* the greatest of spent - 1.01 * default */
  uint64_t switches;
  df_purpose purpose; /* of what is in force, or asked for */
} world;

static double uniform(df_random *random, double least, double most) {
  return least + (most - least) * (double)(df_random_next(random) >> 11) / 9007199254740992.0;
}

/* The same for the same point. */
static double ratio_of(const world *w, const df_point *p) {
  df_random random = {p->subspace * 1000003u + p->at[0] * 10007u + p->at[1] * 101u + w->surface};
  if (memcmp(p, &w->leader.registered, sizeof *p) == 0) return 1;
  df_random_next(&random);
  if (w->best_ratio > 0 && p->subspace == w->best) return w->best_ratio;
  return uniform(&random, w->least_ratio, w->most_ratio);
}

static void open(world *w, double part) {
  static const uint8_t sizes[DF_DESCENT_AXES] = {PLACES, PLACES, 1, 1, 1},
                       start[DF_DESCENT_AXES] = {3, 3};
  df_descent_begin(&w->leader.descent, DF_DESCENT_MOST);
  for (int i = 0; i < ALGORITHMS; i++) df_descent_add(&w->leader.descent, sizes, start);
  df_leader_open(&w->leader, part, w->runs_ahead, w->runs_ahead);
  if (w->best == 0) w->best = ALGORITHMS / 2;
  w->in_force = w->leader.registered;
  w->over_at = w->tell_at = w->woken_at = NEVER;
}

static void obey(world *w, df_wish wish) {
  if (wish.kind != DF_WISH_NOTHING && wish.purpose < DF_PURPOSES) w->purpose = wish.purpose;
  switch (wish.kind) {
  case DF_WISH_VARIANT:
    CHECK(w->over_at == NEVER, "it asks while members go over");
    CHECK(wish.runs <= DF_LEADER_TIMES, "%llu times", (unsigned long long)wish.runs);
    w->tell_at = w->woken_at = NEVER;
    if (w->lost_of && df_random_below(&w->random, w->lost_of) == 0) {
      obey(w, df_leader_called_off(&w->leader, w->run));
      return;
    }
    w->asked = wish.runs;
    w->next = wish.point;
    w->over_at = w->run + (uint64_t)w->ahead;
    w->timed_from = w->over_at + 1;
    w->timed_to = w->timed_from + wish.runs;
    return;
  case DF_WISH_REST:
  case DF_WISH_WATCH:
    CHECK(wish.runs >= 1 && (wish.kind == DF_WISH_REST || wish.runs >= DF_LEADER_WINDOW), "%llu",
          (unsigned long long)wish.runs);
    w->woken_at = w->run + wish.runs;
    w->rested = wish.runs < DF_LEADER_WINDOW ? 1 : DF_LEADER_WINDOW;
    w->timed_from = w->timed_to = 0;
    w->tell_at = NEVER;
    return;
  default:
    return;
  }
}

static void wake(world *w) {
  df_leader *l = &w->leader;
  w->woken_at = NEVER;
  obey(w, l->state == DF_LEADER_WATCHES
              ? df_leader_watched(l, w->run, w->own, DF_LEADER_WINDOW, w->over_at == NEVER)
              : df_leader_rested(l, w->run, w->own, w->rested, w->over_at == NEVER));
}

static void tell(world *w) {
  const uint32_t n = (uint32_t)(w->timed_to - w->timed_from);
  w->tell_at = NEVER;
  w->timed_from = w->timed_to = 0;
  double sum_ns = 0;
  for (uint32_t i = 0; i < n; i++) sum_ns += (double)w->ns[i];
  if (!w->is_mute) obey(w, df_leader_told(&w->leader, w->run, w->ns, n, sum_ns));
}

static double time_of_run(world *w) {
  const double noise = 1 + w->noise * uniform(&w->random, -1, 1);
  double ns = w->home_ns * ratio_of(w, &w->in_force) * noise;
  w->default_ns += w->home_ns * noise;
  if (w->spikes && w->in_force.subspace == w->best && w->run % 4 == 0) ns *= 3;
  if (w->over_at != NEVER && memcmp(&w->next, &w->leader.registered, sizeof w->next) != 0)
    ns += w->setup_ns / w->ahead;
  if (w->is_first) ns += w->cold_ns;
  w->is_first = 0;
  return ns;
}

static void run_once(world *w) {
  df_leader *l = &w->leader;
  if (w->run == w->over_at) {
    w->in_force = w->next;
    w->is_first = 1;
    w->switches++;
    w->over_at = NEVER;
  }
  const double ns = time_of_run(w);
  const uint64_t number = w->run++;
  w->spent_ns += ns;
  w->most_over = fmax(w->most_over, w->spent_ns - 1.01 * w->default_ns);
  const uint32_t own_ns = (uint32_t)(w->runs_ahead ? w->home_ns : ns);
  w->own[number % DF_LEADER_WINDOW] = own_ns;
  if (number >= w->timed_from && number < w->timed_to) w->ns[number - w->timed_from] = (uint32_t)ns;
  if (w->run == w->timed_to) w->tell_at = w->run + (uint64_t)w->lag;
  if (l->state == DF_LEADER_BEGINS && w->run == DF_LEADER_WARM + DF_LEADER_WINDOW)
    obey(w, df_leader_begin(l, w->run, w->own, DF_LEADER_WINDOW));
  if (df_leader_counts(l))
    obey(w, df_leader_ran(l, w->run, own_ns, w->over_at == NEVER, w->over_at == NEVER));
  if (w->run >= w->tell_at && w->over_at == NEVER) tell(w);
  if (w->run >= w->woken_at && w->over_at == NEVER) wake(w);
}

static void run(world *w, uint64_t n) {
  for (uint64_t i = 0; i < n; i++) run_once(w);
}

/* 10,000 runs, and more of short ones, in which the tuner would else do nothing at all. */
static void nothing_to_gain(double home_us, double noise, int runs_ahead, uint64_t seed) {
  world w = {.random = {seed},
             .surface = seed,
             .home_ns = home_us * 1e3,
             .least_ratio = 1.02,
             .most_ratio = 5,
             .setup_ns = 300e3,
             .cold_ns = 100e3,
             .noise = noise,
             .runs_ahead = runs_ahead,
             .ahead = 4 + (int)(seed % 3),
             .lag = (int)(seed % 2)};
  open(&w, 0.01);
  run(&w, 10000);
  const double lost = w.spent_ns / w.default_ns - 1;
  CHECK(w.most_over <= 0, "%g us: at some moment %g us beyond 1 %%", home_us, w.most_over * 1e-3);
  while (w.leader.state != DF_LEADER_WATCHES && w.run < 40000000) run(&w, 1000);
  const double lost_at_end = w.spent_ns / w.default_ns - 1;
  CHECK(w.most_over <= 0, "%g us: at some moment %g us beyond 1 %%", home_us, w.most_over * 1e-3);
  CHECK(w.leader.state == DF_LEADER_WATCHES, "%g us: it %s", home_us,
        df_leader_state_name(w.leader.state));
  CHECK(memcmp(&w.leader.home, &w.leader.registered, sizeof w.leader.home) == 0, "it has moved");
  CHECK(w.purpose == DF_PURPOSE_BACK, "purpose %s", df_purpose_name(w.purpose));
  fprintf(stderr,
          "leader: %g us: lost %.3f %% of 10,000 runs; %u variants in %llu runs, lost %.3f %%\n",
          home_us, 100 * lost, w.leader.descent.n_measured, (unsigned long long)w.run,
          100 * lost_at_end);
  const uint64_t switches = w.switches;
  if (noise > 0) return;
  run(&w, 20000);
  CHECK(w.switches == switches, "it still explores");
}

DF_TEST(leader, nothing_to_gain_costs_at_most_1_per_cent, 120) {
  static const double homes_us[] = {0.3, 1, 15, 100, 1000, 20000};
  for (unsigned i = 0; i < sizeof homes_us / sizeof homes_us[0]; i++)
    for (uint64_t seed = 1; seed <= 6; seed++) nothing_to_gain(homes_us[i], 0, 0, seed);
}

DF_TEST(leader, nor_with_noise, 120) {
  static const double homes_us[] = {15, 100, 1000};
  for (unsigned i = 0; i < sizeof homes_us / sizeof homes_us[0]; i++)
    for (uint64_t seed = 1; seed <= 6; seed++) nothing_to_gain(homes_us[i], 0.05, 0, seed);
}

/* As in a broadcast: only the members know. */
DF_TEST(leader, nor_if_the_leader_waits_for_nobody, 120) {
  static const double homes_us[] = {1, 100, 1000};
  for (unsigned i = 0; i < sizeof homes_us / sizeof homes_us[0]; i++)
    for (uint64_t seed = 1; seed <= 6; seed++) nothing_to_gain(homes_us[i], 0, 1, seed);
}

/* What no one can know before: then the excess of one variant's first runs, or of one switch. */
DF_TEST(leader, surprises_are_paid_before_the_next_one, 120) {
  for (uint64_t seed = 1; seed <= 6; seed++) {
    world slow = {.random = {seed},
                  .home_ns = 100e3,
                  .least_ratio = 50,
                  .most_ratio = 100,
                  .setup_ns = 100e3,
                  .ahead = 4,
                  .lag = 1};
    open(&slow, 0.01);
    run(&slow, 400000);
    const double first_runs = (2 + 4 + 1) * 99 * slow.home_ns;
    CHECK(slow.most_over <= first_runs, "%g us beyond 1 %%", slow.most_over * 1e-3);
    CHECK(slow.leader.descent.n_measured > 2, "%u variants", slow.leader.descent.n_measured);

    world dear = {.random = {seed},
                  .home_ns = 100e3,
                  .least_ratio = 1.02,
                  .most_ratio = 3,
                  .setup_ns = 50e6,
                  .ahead = 4,
                  .lag = 1};
    open(&dear, 0.01);
    run(&dear, 400000);
    CHECK(dear.most_over <= 1.01 * (dear.setup_ns + 15 * 2 * dear.home_ns), "%g us beyond 1 %%",
          dear.most_over * 1e-3);
  }
}

DF_TEST(leader, what_is_faster_stays, 60) {
  for (uint64_t seed = 1; seed <= 6; seed++) {
    world w = {.random = {seed},
               .surface = seed,
               .home_ns = 200e3,
               .least_ratio = 1.02,
               .most_ratio = 3,
               .setup_ns = 300e3,
               .noise = 0.03,
               .best_ratio = 0.8,
               .ahead = 4,
               .lag = 1};
    open(&w, 0.01);
    while (w.leader.state != DF_LEADER_WATCHES && w.run < 2000000) run(&w, 100);
    CHECK(w.leader.home.subspace == ALGORITHMS / 2, "subspace %u", w.leader.home.subspace);
    CHECK(memcmp(&w.in_force, &w.leader.home, sizeof w.in_force) == 0, "another is in force");
    CHECK(w.purpose == DF_PURPOSE_ADOPTED, "purpose %s", df_purpose_name(w.purpose));
    CHECK(w.leader.tuned_ns < 0.9 * w.leader.registered_ns && w.leader.has_news, "%g, %g",
          w.leader.tuned_ns, w.leader.registered_ns);
    CHECK(w.most_over <= 0, "%g us beyond 1 %%", w.most_over * 1e-3);
  }
}

/* The means of variants are of 4 ms, as far as 32 to 128 runs are so long. */
DF_TEST(leader, means_of_short_runs_are_of_more, 60) {
  static const struct {
    double home_ns;
    uint64_t runs;
  } cases[] = {{1e3, 128}, {30e3, 128}, {50e3, 80}, {1e6, 32}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    world w = {.random = {i + 1},
               .surface = i,
               .home_ns = cases[i].home_ns,
               .runs_ahead = 1,
               .least_ratio = 1.02,
               .most_ratio = 3,
               .ahead = 4,
               .lag = 1};
    open(&w, 0);
    run(&w, 1000);
    CHECK(w.leader.descent.n_measured > 1, "%u variants", w.leader.descent.n_measured);
    CHECK(w.asked == cases[i].runs, "%llu runs of %g us", (unsigned long long)w.asked,
          cases[i].home_ns * 1e-3);
  }
}

DF_TEST(leader, short_in_most_runs_and_long_in_some, 60) {
  for (uint64_t seed = 1; seed <= 6; seed++) {
    world w = {.random = {seed},
               .surface = seed,
               .home_ns = 200e3,
               .least_ratio = 1.02,
               .most_ratio = 3,
               .best_ratio = 0.8,
               .spikes = 1,
               .ahead = 4,
               .lag = 1};
    open(&w, 0);
    run(&w, 4000);
    CHECK(w.leader.state == DF_LEADER_WATCHES, "it %s", df_leader_state_name(w.leader.state));
    CHECK(memcmp(&w.leader.home, &w.leader.registered, sizeof w.leader.home) == 0, "it has moved");
  }
}

DF_TEST(leader, a_winner_that_is_none, 60) {
  for (uint64_t seed = 1; seed <= 6; seed++) {
    world w = {.random = {seed},
               .surface = seed,
               .home_ns = 200e3,
               .least_ratio = 1.02,
               .most_ratio = 3,
               .best_ratio = 0.8,
               .noise = 0.005,
               .ahead = 4,
               .lag = 1};
    open(&w, 0);
    while (w.leader.state != DF_LEADER_WATCHES && w.run < 10000) run(&w, 1);
    CHECK(w.leader.home.subspace == ALGORITHMS / 2, "subspace %u", w.leader.home.subspace);
    w.best_ratio = 1.05;
    run(&w, 1000);
    CHECK(memcmp(&w.in_force, &w.leader.registered, sizeof w.in_force) == 0, "it stays");
    CHECK(w.leader.begun == 1, "%u searches", w.leader.begun);
  }
}

/* As another job has found: one comparison, and nothing is searched unless it is lost. */
DF_TEST(leader, what_is_remembered_is_compared_first, 60) {
  for (int is_better = 0; is_better < 2; is_better++) {
    world w = {.random = {7},
               .home_ns = 200e3,
               .least_ratio = 1.02,
               .most_ratio = 3,
               .setup_ns = 300e3,
               .best_ratio = is_better ? 0.8 : 1.5,
               .ahead = 4,
               .lag = 1};
    open(&w, 0.01);
    df_point point = w.leader.registered;
    point.subspace = ALGORITHMS / 2;
    df_leader_remember(&w.leader, &point);
    while (w.leader.state != DF_LEADER_WATCHES && w.run < 2000000) run(&w, 100);
    CHECK((w.leader.descent.n_measured == 0) == is_better, "%u variants",
          w.leader.descent.n_measured);
    CHECK((w.leader.home.subspace == ALGORITHMS / 2) == is_better, "subspace %u",
          w.leader.home.subspace);
    CHECK(w.most_over <= 0, "%g us beyond 1 %%", w.most_over * 1e-3);
  }
}

DF_TEST(leader, a_search_without_a_limit_ends_within_so_many_runs, 60) {
  world w = {.random = {3},
             .home_ns = 1e3,
             .least_ratio = 0.8,
             .most_ratio = 3,
             .ahead = 6,
             .lag = 2,
             .noise = 0.3};
  open(&w, 0);
  run(&w, 64 * 24 + 2 * 200);
  CHECK(w.leader.state == DF_LEADER_WATCHES, "it %s", df_leader_state_name(w.leader.state));
}

DF_TEST(leader, members_that_do_not_tell, 60) {
  world w = {.random = {3},
             .home_ns = 100e3,
             .least_ratio = 1.02,
             .most_ratio = 1.5,
             .ahead = 4,
             .is_mute = 1};
  open(&w, 0);
  run(&w, 1000000);
  CHECK(w.leader.state == DF_LEADER_STOPPED, "it %s", df_leader_state_name(w.leader.state));
}

DF_TEST(leader, variants_that_cannot_be_had, 60) {
  for (uint64_t seed = 1; seed <= 20; seed++) {
    world w = {.random = {seed},
               .surface = seed,
               .home_ns = 100e3,
               .least_ratio = 1.02,
               .most_ratio = 1.5,
               .setup_ns = 100e3,
               .ahead = 4,
               .lag = 1,
               .lost_of = 3};
    open(&w, 0.01);
    while (w.leader.state != DF_LEADER_WATCHES && w.leader.state != DF_LEADER_STOPPED &&
           w.run < 4000000)
      run(&w, 100);
    CHECK(w.run < 4000000, "it %s", df_leader_state_name(w.leader.state));
  }
}

DF_TEST(leader, times_that_cannot_be, 60) {
  static const double homes_ns[] = {0, 0, 4294967295.0};
  for (uint64_t seed = 1; seed <= 30; seed++) {
    world w = {.random = {seed},
               .surface = seed,
               .home_ns = homes_ns[seed % 3],
               .most_ratio = seed % 2 ? 0 : 1,
               .setup_ns = seed % 5 ? 0 : 1e6,
               .ahead = 1,
               .runs_ahead = seed % 7 == 0};
    open(&w, seed % 4 ? 0.01 : 0);
    run(&w, 200000);
    CHECK(w.leader.account.run_ns >= 1 && w.leader.account.run_ns < 1e10, "%g ns",
          w.leader.account.run_ns);
    CHECK(isfinite(w.leader.account.spent_ns) && isfinite(w.leader.account.earned_ns), "%g of %g",
          w.leader.account.spent_ns, w.leader.account.earned_ns);
  }
}

/* The surface of after the change: all runs take four times as long, and another algorithm is best. */
static void change(world *w, uint8_t best) {
  w->surface ^= 0x5eed;
  w->home_ns *= 4;
  w->best = best;
  w->best_ratio = 0.5;
}

static world changing_world(uint64_t seed) {
  return (world){.random = {seed},
                 .surface = seed,
                 .home_ns = 200e3,
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
static double median_of_runs(world *w, int n) {
  double ns[400];
  for (int i = 0; i < n; i++) {
    const double before = w->spent_ns;
    run_once(w);
    ns[i] = w->spent_ns - before;
  }
  qsort(ns, (size_t)n, sizeof ns[0], by_time);
  return ns[n / 2];
}

/* Time of a run, from 200 runs after the change on, by that in a job that has begun then. */
static double after_a_change(uint64_t seed, double part, df_leader_state state) {
  enum { BEFORE = 5000, WITHIN = 200, LOOKED_AT = 200 };
  const uint8_t best = (uint8_t)(1 + seed % (ALGORITHMS - 1));
  world late = changing_world(seed), w = changing_world(seed);
  change(&late, best);
  open(&late, part);
  while (late.leader.state != DF_LEADER_WATCHES && late.run < 4000000) run(&late, 100);
  CHECK(late.leader.home.subspace == best, "from the beginning: %u", late.leader.home.subspace);
  open(&w, part);
  run(&w, BEFORE);
  while (w.leader.state != state && w.run < 4000000) run_once(&w);
  run(&w, 70 + seed % 32); /* a window at least, which says what runs take, and a part of one */
  CHECK(w.leader.state == state, "it %s", df_leader_state_name(w.leader.state));
  const uint8_t before = w.leader.home.subspace;
  const uint64_t changed_at = w.run;
  change(&w, best);
  run(&w, WITHIN);
  CHECK(w.leader.begun > 1, "it has not begun anew");
  const double after = median_of_runs(&w, LOOKED_AT) / median_of_runs(&late, LOOKED_AT);
  fprintf(stderr, "leader: change at run %llu while it %s: from %u to %u, best %u, %.3f\n",
          (unsigned long long)changed_at, df_leader_state_name(state), before,
          w.leader.home.subspace, best, after);
  return after;
}

DF_TEST(leader, a_change_in_mid_run, 120) {
  for (uint64_t seed = 1; seed <= 40; seed++) {
    const int rests = seed % 2 == 0;
    const double after =
        after_a_change(seed, rests ? 0.01 : 0.05, rests ? DF_LEADER_RESTS : DF_LEADER_WATCHES);
    CHECK(after <= 1.1, "seed %llu: %.3f of what it takes from the beginning",
          (unsigned long long)seed, after);
  }
}

/* What was measured before and after is mixed. */
DF_TEST(leader, a_change_during_a_search, 120) {
  for (uint64_t seed = 1; seed <= 40; seed++) {
    const uint8_t best = (uint8_t)(1 + seed % (ALGORITHMS - 1));
    world w = changing_world(seed);
    open(&w, 0.05);
    while (w.leader.descent.n_measured < 8 + seed) run_once(&w);
    change(&w, best);
    run(&w, 30000);
    CHECK(w.leader.home.subspace == best, "seed %llu: %u, not %u", (unsigned long long)seed,
          w.leader.home.subspace, best);
  }
}

/* Twice the part, of the runs since the last grant; what was not spent of it goes back. */
DF_TEST(leader, a_grant_is_bounded, 30) {
  df_account account;
  df_account_open(&account, 0.01, 32);
  account.run_ns = 1000;
  df_account_earn(&account, 10000);
  const double earned = 0.01 * 10000 * 1000, grant = 2 * earned;
  CHECK(fabs(df_account_left(&account) - earned) < 1, "%g", df_account_left(&account));
  df_account_grant(&account);
  CHECK(fabs(df_account_left(&account) - earned - grant) < 1, "%g", df_account_left(&account));
  df_account_charge(&account, 1000 + grant / 2);
  df_account_take_back(&account);
  CHECK(fabs(df_account_left(&account) - earned) < 1, "%g, half of it spent",
        df_account_left(&account));
  df_account_grant(&account);
  CHECK(fabs(df_account_left(&account) - earned) < 1, "%g, granted twice",
        df_account_left(&account));
  df_account_earn(&account, 20000);
  df_account_grant(&account);
  df_account_charge(&account, 1000 + 2 * grant);
  df_account_take_back(&account);
  CHECK(fabs(df_account_left(&account) - (2 * earned - grant)) < 1, "%g, overdrawn",
        df_account_left(&account));
}
