/* Ticks: the marks of a picture's axis, and the text of their numbers. */
#ifndef DF_SIM_SWEEP_TICKS_H
#define DF_SIM_SWEEP_TICKS_H

#include <stdbool.h>

enum { DF_MAX_TICKS = 400 /* more than a double has decades */, DF_TICK_TEXT_BYTES = 24 };

typedef struct {
  double value;
  double place; /* on the axis, from 0 to 1 */
  bool labelled;
} df_tick;

/*
 * Marks an axis from low to high (low < high; of a logarithmic one low > 0): both ends and the
 * round numbers between, in rising order; of a logarithmic axis all decades. Both ends are
 * labelled, and no two labels are nearer than gap (a part of the axis). Returns how many ticks
 * there are.
 */
int df_ticks(double low, double high, bool logarithmic, double gap, df_tick ticks[DF_MAX_TICKS]);

/* Where a value lies on such an axis, from 0 to 1. */
double df_place_on_axis(double low, double high, bool logarithmic, double value);

/* Writes a number with at most three digits, small ones as 2.5e-7. Returns text. */
const char *df_tick_text(double value, char text[DF_TICK_TEXT_BYTES]);

#endif
