#include "sweep_ticks.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* An axis of at most so many decades has marks at 2 to 9; of at most so many, labels at 2 and 5. */
enum { DECADES_WITH_DIGITS = 4, DECADES_WITH_LABELS = 2 };

double df_place_on_axis(double low, double high, bool logarithmic, double value) {
  return logarithmic ? log(value / low) / log(high / low) : (value - low) / (high - low);
}

typedef struct {
  double low, high, gap;
  bool logarithmic;
  df_tick *ticks;
  int count;
} axis;

static void add(axis *on, double value, bool labelled) {
  double place = df_place_on_axis(on->low, on->high, on->logarithmic, value);
  if (place < 1e-9 || place > 1.0 - 1e-9 || on->count == DF_MAX_TICKS - 1) return;
  on->ticks[on->count++] = (df_tick){value, place, labelled};
}

static void add_decades(axis *on) {
  double decades = log10(on->high / on->low);
  int first = (int)floor(log10(on->low)), last = (int)ceil(log10(on->high));
  int step = (int)ceil(on->gap * decades);
  for (int decade = first; decade <= last; decade++) {
    add(on, pow(10.0, decade), decade % step == 0);
    for (int digit = 2; digit < 10 && decades <= DECADES_WITH_DIGITS; digit++)
      add(on, digit * pow(10.0, decade),
          decades <= DECADES_WITH_LABELS && (digit == 2 || digit == 5));
  }
}

static void add_steps(axis *on) {
  double rough = on->gap * (on->high - on->low);
  double unit = pow(10.0, floor(log10(rough)));
  double step = unit * (rough <= unit ? 1 : rough <= 2 * unit ? 2 : rough <= 5 * unit ? 5 : 10);
  for (double i = ceil(on->low / step); i * step < on->high; i++) add(on, i * step, true);
}

/* Labels give way to those of the ends first, then to the label before them. */
static void thin_labels(axis *on) {
  df_tick *ticks = on->ticks;
  for (int i = 1, before = 0; i < on->count - 1; i++) {
    if (ticks[i].place - ticks[before].place < on->gap || 1.0 - ticks[i].place < on->gap)
      ticks[i].labelled = false;
    if (ticks[i].labelled) before = i;
  }
}

int df_ticks(double low, double high, bool logarithmic, double gap, df_tick ticks[DF_MAX_TICKS]) {
  axis on = {low, high, gap, logarithmic, ticks, 1};
  ticks[0] = (df_tick){low, 0.0, true};
  if (logarithmic)
    add_decades(&on);
  else
    add_steps(&on);
  ticks[on.count++] = (df_tick){high, 1.0, true};
  thin_labels(&on);
  return on.count;
}

const char *df_tick_text(double value, char text[DF_TICK_TEXT_BYTES]) {
  if (value >= 0.000999 || value == 0.0) {
    snprintf(text, DF_TICK_TEXT_BYTES, "%.3g", value);
    return text;
  }
  char digits[DF_TICK_TEXT_BYTES];
  snprintf(digits, sizeof digits, "%.2e", value); /* 2.50e-07 */
  const char *exponent = strchr(digits, 'e');
  int power = 0, length = (int)(exponent - digits);
  sscanf(exponent + 1, "%d", &power);
  while (digits[length - 1] == '0') length--;
  if (digits[length - 1] == '.') length--;
  snprintf(text, DF_TICK_TEXT_BYTES, "%.*se%d", length, digits, power);
  return text;
}
