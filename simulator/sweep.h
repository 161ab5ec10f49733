/* Sweep: the risk over a grid of probabilities. */
#ifndef DF_SIM_SWEEP_H
#define DF_SIM_SWEEP_H

#include <stdio.h>

#include "config.h"
#include "estimate.h"

typedef struct {
  double first, last;
  uint32_t points;
  bool logarithmic; /* points are equal factors apart, not equal distances */
} df_sweep_axis;

typedef struct {
  const df_config *config;
  uint32_t gpus, groups;
  uint64_t collectives;
  df_sweep_axis disorder, sync;
  df_estimate *cell; /* [sync][disorder] */
} df_sweep;

/* The value of an axis at a point (0 .. points - 1). */
double df_sweep_value(const df_sweep_axis *axis, uint32_t point);

static inline const df_estimate *df_sweep_cell(const df_sweep *sweep, uint32_t disorder,
                                               uint32_t sync) {
  return &sweep->cell[(size_t)sync * sweep->disorder.points + disorder];
}

/* Writes the picture: a map in colours if both axes have several points, else a curve with its 95%
 * intervals. The stream is the caller's; whether writing worked is ferror's to tell. */
void df_sweep_write_svg(const df_sweep *sweep, FILE *stream);

#endif
