#include "search_world.h"

#include <math.h>
#include <string.h>

double search_uniform(df_random *random, double least, double most) {
  return least + (most - least) * (double)(df_random_next(random) >> 11) / 9007199254740992.0;
}

/* A pseudo-random factor, the same for the same point. */
static double ratio_of(const search_world *w, const df_point *p) {
  df_random random = {p->subspace * 1000003u + p->at[0] * 10007u + p->at[1] * 101u + w->surface};
  if (memcmp(p, &w->search.registered, sizeof *p) == 0) return 1;
  if (w->ratios[p->subspace] > 0) return w->ratios[p->subspace];
  df_random_next(&random);
  if (w->best_ratio > 0 && p->subspace == w->best) return w->best_ratio;
  return search_uniform(&random, w->least_ratio, w->most_ratio);
}

void search_world_open(search_world *w, double part) {
  static const uint8_t sizes[DF_DESCENT_AXES] = {PLACES, PLACES, 1, 1, 1},
                       start[DF_DESCENT_AXES] = {3, 3};
  df_coordinate_descent_begin(&w->search.descent, DF_DESCENT_MOST);
  for (int i = 0; i < ALGORITHMS; i++) df_coordinate_descent_add(&w->search.descent, sizes, start);
  df_search_open(&w->search, part, w->runs_ahead, w->runs_ahead);
  if (w->best == 0) w->best = ALGORITHMS / 2;
  w->in_force = w->search.registered;
  w->over_at = w->report_at = w->woken_at = NEVER;
}

static void perform(search_world *w, df_search_request request) {
  if (request.kind != DF_REQUEST_NOTHING && request.purpose < DF_PURPOSES)
    w->purpose = request.purpose;
  switch (request.kind) {
  case DF_REQUEST_VARIANT:
    CHECK(w->over_at == NEVER, "it asks while members go over");
    CHECK(request.runs <= DF_SEARCH_TIMES, "%llu times", (unsigned long long)request.runs);
    w->report_at = w->woken_at = NEVER;
    if (w->lost_of && df_random_below(&w->random, w->lost_of) == 0) {
      perform(w, df_search_called_off(&w->search, w->run));
      return;
    }
    w->asked = request.runs;
    w->next = request.point;
    w->over_at = w->run + (uint64_t)w->ahead;
    w->timed_from = w->over_at + 1;
    w->timed_to = w->timed_from + request.runs;
    return;
  case DF_REQUEST_REST:
  case DF_REQUEST_WATCH:
    CHECK(request.runs >= 1 &&
              (request.kind == DF_REQUEST_REST || request.runs >= DF_SEARCH_WINDOW),
          "%llu", (unsigned long long)request.runs);
    w->woken_at = w->run + request.runs;
    w->rested = request.runs < DF_SEARCH_WINDOW ? 1 : DF_SEARCH_WINDOW;
    w->timed_from = w->timed_to = 0;
    w->report_at = NEVER;
    return;
  default:
    return;
  }
}

static void wake(search_world *w) {
  df_search *l = &w->search;
  w->woken_at = NEVER;
  perform(w, l->state == DF_SEARCH_WATCHING
                 ? df_search_watched(l, w->run, w->own, DF_SEARCH_WINDOW, w->over_at == NEVER)
                 : df_search_rested(l, w->run, w->own, w->rested, w->over_at == NEVER));
}

static void report(search_world *w) {
  const uint32_t n = (uint32_t)(w->timed_to - w->timed_from);
  w->report_at = NEVER;
  w->timed_from = w->timed_to = 0;
  double sum_ns = 0;
  for (uint32_t i = 0; i < n; i++) sum_ns += (double)w->ns[i];
  if (!w->is_silent) perform(w, df_search_reported(&w->search, w->run, w->ns, n, sum_ns));
}

static double time_of_run(search_world *w) {
  const double noise = 1 + w->noise * search_uniform(&w->random, -1, 1);
  double ns = w->baseline_ns * ratio_of(w, &w->in_force) * noise;
  w->default_ns += w->baseline_ns * noise;
  if (w->spikes && w->in_force.subspace == w->best && w->run % 4 == 0) ns *= 3;
  if (w->over_at != NEVER && memcmp(&w->next, &w->search.registered, sizeof w->next) != 0)
    ns += w->setup_ns / w->ahead;
  if (w->sprinter && w->in_force.subspace == w->sprinter && w->on_it++ < SPRINT) ns /= 3;
  if (w->is_first) ns += w->cold_ns;
  w->is_first = 0;
  return ns;
}

void search_run_once(search_world *w) {
  df_search *l = &w->search;
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
  const uint32_t own_ns = (uint32_t)(w->runs_ahead ? w->baseline_ns : ns);
  w->own[number % DF_SEARCH_WINDOW] = own_ns;
  if (number >= w->timed_from && number < w->timed_to) w->ns[number - w->timed_from] = (uint32_t)ns;
  if (w->run == w->timed_to) w->report_at = w->run + (uint64_t)w->lag;
  if (l->state == DF_SEARCH_WARMING && w->run == DF_SEARCH_WARM + DF_SEARCH_WINDOW)
    perform(w, df_search_begin(l, w->run, w->own, DF_SEARCH_WINDOW));
  if (df_search_counts(l))
    perform(w, df_search_ran(l, w->run, own_ns, w->over_at == NEVER, w->over_at == NEVER));
  if (w->run >= w->report_at && w->over_at == NEVER) report(w);
  if (w->run >= w->woken_at && w->over_at == NEVER) wake(w);
}

void search_run(search_world *w, uint64_t n) {
  for (uint64_t i = 0; i < n; i++) search_run_once(w);
}
