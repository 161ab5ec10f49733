#include "tuning/coordinate_descent.h"

#include <stddef.h>
#include <string.h>

/* drop, left_behind: times the best, after the start and after the long steps. A gain is the larger
 * of least_gain and so many standard errors. With 8 runs for each point, 3, 1.1, 0.01, 0.5 and
 * STEPS 3 reached most on the model's surfaces (test_coordinate_descent.c), of 2 to 3, 1.1 to 1.5,
 * 0.01 to 0.02, 0.5 to 2 and 2 to 8. */
static const double drop = 3.0, left_behind = 1.1, least_gain = 0.01, errors = 0.5;

void df_coordinate_descent_begin(df_coordinate_descent *descent, uint32_t most) {
  memset(descent, 0, sizeof *descent);
  descent->most = most < DF_DESCENT_MOST ? most : DF_DESCENT_MOST;
}

/* A line goes along one axis, or along two at once, up on one and down on the other (many small
 * chunks, few large ones). */
typedef struct df_line {
  uint8_t up, down; /* axes; equal: one axis */
} df_line;
static const df_line lines[] = {{0, 0}, {1, 1}, {2, 2}, {3, 3}, {4, 4}, {0, 1},
                                {0, 2}, {1, 2}, {0, 3}, {1, 3}, {2, 3}};
enum { LINES = sizeof lines / sizeof lines[0] };

static int has_places(const df_line_search *line_search, const df_line *line) {
  return line_search->sizes[line->up] > 1 && line_search->sizes[line->down] > 1;
}

static int axis_step(const df_line_search *line_search, uint32_t axis) {
  enum { STEPS = 3 };
  const int step = line_search->sizes[axis] / STEPS >> line_search->level;
  return step > 1 ? step : 1;
}
static int is_finest(const df_line_search *line_search) {
  for (uint32_t axis = 0; axis < DF_DESCENT_AXES; axis++)
    if (axis_step(line_search, axis) > 1) return 0;
  return 1;
}

void df_coordinate_descent_add(df_coordinate_descent *descent, const uint8_t sizes[DF_DESCENT_AXES],
                               const uint8_t start[DF_DESCENT_AXES]) {
  if (descent->n_subspaces == DF_DESCENT_SUBSPACES) return;
  df_line_search *line_search = &descent->climbs[descent->n_subspaces];
  memcpy(line_search->sizes, sizes, sizeof line_search->sizes);
  line_search->best.point.subspace = (uint8_t)descent->n_subspaces++;
  memcpy(line_search->best.point.at, start, sizeof line_search->best.point.at);
  if (descent->n_subspaces == 1) descent->first = line_search->best.point;
  line_search->direction = line_search->stride = 1;
}

void df_coordinate_descent_again(df_coordinate_descent *descent, const df_point *baseline) {
  for (uint32_t i = 0; i < descent->n_subspaces; i++) {
    df_line_search *line_search = &descent->climbs[i], anew = {.direction = 1, .stride = 1};
    memcpy(anew.sizes, line_search->sizes, sizeof anew.sizes);
    anew.best.point = i == 0                    ? descent->first
                      : i == baseline->subspace ? *baseline
                                                : line_search->best.point;
    anew.prior = i == 0                    ? -2
                 : i == baseline->subspace ? -1
                 : line_search->is_probed  ? line_search->best.time
                                           : 0;
    *line_search = anew;
  }
  descent->has_extra = baseline->subspace == 0 && !df_point_same(baseline, &descent->first);
  descent->extra = *baseline;
  descent->n_measured = 0;
  descent->has_dropped = 0;
}

df_measured *df_coordinate_descent_find(df_coordinate_descent *descent, const df_point *point) {
  for (uint32_t i = 0; i < descent->n_measured; i++)
    if (df_point_same(&descent->measured[i].point, point)) return &descent->measured[i];
  return NULL;
}

const df_measured *df_coordinate_descent_best(const df_coordinate_descent *descent) {
  const df_measured *best = NULL;
  for (uint32_t i = 0; i < descent->n_measured; i++)
    if (best == NULL || descent->measured[i].time < best->time) best = &descent->measured[i];
  return best;
}

static int is_better(const df_measured *a, const df_measured *b) {
  const double gain = b->time - a->time;
  return gain > least_gain * b->time &&
         gain * gain > errors * errors * (a->error * a->error + b->error * b->error);
}

/* ---- one subspace */

/* The axes with long steps, as long as any gains, then with shorter ones; at last the pairs. */
static void next_line(df_line_search *line_search) {
  const uint8_t n = line_search->looks_at_pairs ? LINES : DF_DESCENT_AXES;
  line_search->failed = line_search->gained ? 0 : (uint8_t)(line_search->failed + 1);
  line_search->line = (uint8_t)((line_search->line + 1) % n);
  line_search->direction = line_search->stride = 1;
  line_search->gained = 0;
  if (line_search->failed < n) return;
  line_search->failed = 0;
  if (!is_finest(line_search)) {
    line_search->level++;
  } else if (!line_search->looks_at_pairs) {
    line_search->looks_at_pairs = 1;
    line_search->failed = line_search->line = DF_DESCENT_AXES;
  } else {
    line_search->is_over = 1;
  }
}

/* A stride that was doubled too often, the other way, another line. */
static void note_failure(df_line_search *line_search) {
  if (line_search->stride > 1) {
    line_search->stride = 1;
  } else if (line_search->direction > 0 && !line_search->gained) {
    line_search->direction = -1;
  } else {
    next_line(line_search);
  }
}

static void note_success(df_line_search *line_search, const df_measured *measured) {
  line_search->best = *measured;
  line_search->gained = 1;
  line_search->failed = 0;
  line_search->stride = (uint8_t)(line_search->stride * 2);
}

static uint8_t place(const df_line_search *line_search, uint8_t axis, int steps) {
  const int there = line_search->best.point.at[axis] + steps, last = line_search->sizes[axis] - 1;
  return (uint8_t)(there < 0 ? 0 : there > last ? last : there);
}

/* Returns 0 if the subspace has no point left to measure. A point that was measured before is
 * looked up. */
static int next_of(df_coordinate_descent *descent, df_line_search *line_search, df_point *point) {
  while (!line_search->is_over) {
    const df_line *line = &lines[line_search->line];
    if (!has_places(line_search, line)) {
      next_line(line_search);
      continue;
    }
    *point = line_search->best.point;
    const int steps = line_search->direction * line_search->stride;
    point->at[line->up] = place(line_search, line->up, steps * axis_step(line_search, line->up));
    if (line->down != line->up)
      point->at[line->down] =
          place(line_search, line->down, -steps * axis_step(line_search, line->down));
    const df_measured *known = df_coordinate_descent_find(descent, point);
    if (known == NULL) return 1;
    if (is_better(known, &line_search->best))
      note_success(line_search, known);
    else
      note_failure(line_search);
  }
  return 0;
}

/* ---- all */

static void drop_slow(df_coordinate_descent *descent) {
  const df_measured *best = df_coordinate_descent_best(descent);
  for (uint32_t i = 1; i < descent->n_subspaces; i++)
    if (descent->climbs[i].best.time > drop * best->time) descent->climbs[i].is_over = 1;
  descent->has_dropped = 1;
}

/* Returns the fastest subspace whose axes still gain, then the fastest whose pairs may gain, or
 * NULL. Subspaces that fell behind are given up. */
static df_line_search *fastest(df_coordinate_descent *descent) {
  const double least = df_coordinate_descent_best(descent)->time;
  df_line_search *best = NULL;
  for (uint32_t i = 0; i < descent->n_subspaces; i++) {
    df_line_search *line_search = &descent->climbs[i];
    if (line_search->level > 0 && line_search->best.time > left_behind * least)
      line_search->is_over = 1;
    if (line_search->is_over) continue;
    if (best == NULL || line_search->looks_at_pairs < best->looks_at_pairs ||
        (line_search->looks_at_pairs == best->looks_at_pairs &&
         line_search->best.time < best->best.time))
      best = line_search;
  }
  return best;
}

/* Neither the start of any subspace nor what is around the default gains anything. */
static int is_in_vain(const df_coordinate_descent *descent) {
  const uint32_t n = descent->n_measured;
  if (descent->in_vain == 0 || !descent->has_dropped || n < descent->n_subspaces + descent->in_vain)
    return 0;
  for (uint32_t i = 1; i < n; i++)
    if (is_better(&descent->measured[i], &descent->measured[0])) return 0;
  return 1;
}

static const df_line_search *next_to_probe(const df_coordinate_descent *descent) {
  const df_line_search *next = NULL;
  for (uint32_t i = 0; i < descent->n_subspaces; i++) {
    const df_line_search *line_search = &descent->climbs[i];
    if (!line_search->is_probed && (next == NULL || line_search->prior < next->prior))
      next = line_search;
  }
  return next;
}

int df_coordinate_descent_next(df_coordinate_descent *descent, df_point *point) {
  if (descent->n_measured >= descent->most || is_in_vain(descent)) return 0;
  if (descent->has_extra && descent->climbs[0].is_probed) {
    *point = descent->extra;
    return 1;
  }
  const df_line_search *start = next_to_probe(descent);
  if (start) {
    *point = start->best.point;
    return 1;
  }
  if (!descent->has_dropped) drop_slow(descent);
  for (df_line_search *line_search; (line_search = fastest(descent)) != NULL;)
    if (next_of(descent, line_search, point)) return 1;
  return 0;
}

void df_coordinate_descent_correct(df_coordinate_descent *descent, const df_point *point,
                                   double time) {
  const df_measured *known = df_coordinate_descent_find(descent, point);
  if (known == NULL || time <= known->time) return;
  const double factor = time / known->time;
  for (uint32_t i = 0; i < descent->n_measured; i++)
    if (descent->measured[i].point.subspace == point->subspace &&
        !df_point_same(&descent->measured[i].point, &descent->first))
      descent->measured[i].time *= factor;
  descent->climbs[point->subspace].best.time *= factor;
}

void df_coordinate_descent_report(df_coordinate_descent *descent, const df_measured *measured) {
  df_line_search *line_search = &descent->climbs[measured->point.subspace];
  if (descent->n_measured < DF_DESCENT_MOST) descent->measured[descent->n_measured++] = *measured;
  if (!line_search->is_probed) {
    line_search->is_probed = 1;
    line_search->best = *measured;
    return;
  }
  if (descent->has_extra && df_point_same(&measured->point, &descent->extra)) {
    descent->has_extra = 0;
    if (is_better(measured, &line_search->best)) line_search->best = *measured;
    return;
  }
  if (is_better(measured, &line_search->best))
    note_success(line_search, measured);
  else
    note_failure(line_search);
}
