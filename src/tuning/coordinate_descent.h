/*
 * Search for the fastest configuration among several: which point to measure next. Pure: no clock,
 * no memory of its own but the struct, so that it is tested on surfaces that are known.
 *
 * A point is a subspace (an algorithm, say) and a place on each of its axes (slot bytes, ...).
 * Along an axis, times are taken to fall and then to rise; the best place of one axis depends on
 * the others. Source: AutoCCL (NSDI 2025), section 4, algorithms 1 and 2; here with directions,
 * with steps that grow and shrink, with pairs of axes, and with subspaces that are dropped.
 *
 *   1. The start of each subspace; the first is what is in force, the default.
 *   2. Subspaces that are far slower than the best are given up.
 *   3. In each of the others, the fastest first: on each axis a long step up, then down; a step
 *      that gains is doubled. When no axis gains, steps are halved, and what is left behind is
 *      given up.
 *   4. When single steps gain nothing: on two axes at once, one up and the other down.
 *   5. It ends when nothing of this gains, or when `most` points were measured; or if `in_vain`
 *      points beyond the starts were measured, and nothing is faster than the default.
 */
#ifndef DF_TUNING_COORDINATE_DESCENT_H
#define DF_TUNING_COORDINATE_DESCENT_H

#include <stdint.h>
#include <string.h>

enum {
  DF_DESCENT_AXES = 5,
  DF_DESCENT_SUBSPACES = 32,
  DF_DESCENT_MOST = 64 /* points */
};

typedef struct df_point {
  uint8_t subspace;
  uint8_t at[DF_DESCENT_AXES];
} df_point;
static inline int df_point_same(const df_point *a, const df_point *b) {
  return memcmp(a, b, sizeof *a) == 0;
}

typedef struct df_measured {
  df_point point;
  double time, error; /* median and its standard error, in any unit */
} df_measured;

/* The state of the search in one subspace. */
typedef struct df_line_search {
  df_measured best;
  double prior; /* before it is probed: what it may take; the least is probed first */
  uint8_t sizes[DF_DESCENT_AXES]; /* places; 1: nothing to choose */
  uint8_t line, stride;           /* along which it looks, and so many steps at once */
  uint8_t level;                  /* halvings of the steps */
  int8_t direction;
  uint8_t failed; /* lines in a row */
  uint8_t gained; /* on this line, since it was begun */
  uint8_t is_probed, looks_at_pairs, is_over;
} df_line_search;

typedef struct df_coordinate_descent {
  uint32_t n_subspaces, most;
  uint32_t in_vain; /* 0: no matter how many */
  df_line_search climbs[DF_DESCENT_SUBSPACES];
  df_point first; /* the default */
  df_point extra; /* the baseline, if its subspace begins with the default */
  int has_extra;  /* it is to be measured */
  uint32_t n_measured;
  df_measured measured[DF_DESCENT_MOST];
  int has_dropped;
} df_coordinate_descent;

void df_coordinate_descent_begin(df_coordinate_descent *descent, uint32_t most);
/* At most DF_DESCENT_SUBSPACES. The first one is the default, which is never dropped. */
void df_coordinate_descent_add(df_coordinate_descent *descent, const uint8_t sizes[DF_DESCENT_AXES],
                               const uint8_t start[DF_DESCENT_AXES]);
/* Times have changed. The search measures first the default, then the baseline, then subspaces that
 * were never measured, and the best places of the others, the fastest of before first; it goes on
 * from there. */
void df_coordinate_descent_again(df_coordinate_descent *descent, const df_point *baseline);
/* Returns 0 if the search has ended. Repeated calls before df_coordinate_descent_report give the
 * same point. */
int df_coordinate_descent_next(df_coordinate_descent *descent, df_point *point);
/* Reports the time of the point that df_coordinate_descent_next gave; HUGE_VAL: it is not
 * available. */
void df_coordinate_descent_report(df_coordinate_descent *descent, const df_measured *measured);
/* NULL: it was not measured. */
df_measured *df_coordinate_descent_find(df_coordinate_descent *descent, const df_point *point);
/* A measured point takes longer than measured, and so do the other points of its subspace. */
void df_coordinate_descent_correct(df_coordinate_descent *descent, const df_point *point,
                                   double time);
/* NULL: nothing was measured. */
const df_measured *df_coordinate_descent_best(const df_coordinate_descent *descent);

#endif
