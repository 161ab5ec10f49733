#include "search_world.h"

#include <math.h>
#include <string.h>

double leader_uniform(df_random *random, double least, double most) {
  return least + (most - least) * (double)(df_random_next(random) >> 11) / 9007199254740992.0;
}

/* The same for the same point. */
static double ratio_of(const leader_world *w, const df_point *p) {
  df_random random = {p->subspace * 1000003u + p->at[0] * 10007u + p->at[1] * 101u + w->surface};
  if (memcmp(p, &w->leader.registered, sizeof *p) == 0) return 1;
  if (w->ratios[p->subspace] > 0) return w->ratios[p->subspace];
  df_random_next(&random);
  if (w->best_ratio > 0 && p->subspace == w->best) return w->best_ratio;
  return leader_uniform(&random, w->least_ratio, w->most_ratio);
}

void leader_world_open(leader_world *w, double part) {
  static const uint8_t sizes[DF_DESCENT_AXES] = {PLACES, PLACES, 1, 1, 1},
                       start[DF_DESCENT_AXES] = {3, 3};
  df_descent_begin(&w->leader.descent, DF_DESCENT_MOST);
  for (int i = 0; i < ALGORITHMS; i++) df_descent_add(&w->leader.descent, sizes, start);
  df_leader_open(&w->leader, part, w->runs_ahead, w->runs_ahead);
  if (w->best == 0) w->best = ALGORITHMS / 2;
  w->in_force = w->leader.registered;
  w->over_at = w->tell_at = w->woken_at = NEVER;
}

static void obey(leader_world *w, df_wish wish) {
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

static void wake(leader_world *w) {
  df_leader *l = &w->leader;
  w->woken_at = NEVER;
  obey(w, l->state == DF_LEADER_WATCHES
              ? df_leader_watched(l, w->run, w->own, DF_LEADER_WINDOW, w->over_at == NEVER)
              : df_leader_rested(l, w->run, w->own, w->rested, w->over_at == NEVER));
}

static void tell(leader_world *w) {
  const uint32_t n = (uint32_t)(w->timed_to - w->timed_from);
  w->tell_at = NEVER;
  w->timed_from = w->timed_to = 0;
  double sum_ns = 0;
  for (uint32_t i = 0; i < n; i++) sum_ns += (double)w->ns[i];
  if (!w->is_mute) obey(w, df_leader_told(&w->leader, w->run, w->ns, n, sum_ns));
}

static double time_of_run(leader_world *w) {
  const double noise = 1 + w->noise * leader_uniform(&w->random, -1, 1);
  double ns = w->home_ns * ratio_of(w, &w->in_force) * noise;
  w->default_ns += w->home_ns * noise;
  if (w->spikes && w->in_force.subspace == w->best && w->run % 4 == 0) ns *= 3;
  if (w->over_at != NEVER && memcmp(&w->next, &w->leader.registered, sizeof w->next) != 0)
    ns += w->setup_ns / w->ahead;
  if (w->sprinter && w->in_force.subspace == w->sprinter && w->on_it++ < SPRINT) ns /= 3;
  if (w->is_first) ns += w->cold_ns;
  w->is_first = 0;
  return ns;
}

void leader_run_once(leader_world *w) {
  df_leader *l = &w->leader;
  if (w->run == w->over_at) {
    w->in_force = w->next;
    w->is_first = 1;
    w->on_it = 0;
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

void leader_run(leader_world *w, uint64_t n) {
  for (uint64_t i = 0; i < n; i++) leader_run_once(w);
}
