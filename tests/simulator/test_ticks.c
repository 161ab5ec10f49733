/*
 * Promises of simulator/sweep_ticks.h:
 *   - Both ends of an axis are labelled, ticks rise, and no two labels are nearer than the gap.
 *   - A logarithmic axis has a tick at every decade. Labels are at decades and at the ends, and on
 *     a short axis at 2 and 5 as well.
 *   - Numbers are short, and can be read back as the value that they represent.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/harness.h"
#include "sweep_ticks.h"

static df_tick ticks[DF_MAX_TICKS];

static int check_ticks(double low, double high, bool logarithmic, double gap) {
  int count = df_ticks(low, high, logarithmic, gap, ticks);
  CHECK(count >= 2 && count <= DF_MAX_TICKS, "%d ticks", count);
  CHECK(ticks[0].value == low && ticks[0].labelled && ticks[0].place == 0.0, "the first end");
  CHECK(ticks[count - 1].value == high && ticks[count - 1].labelled, "the last end");
  CHECK(ticks[count - 1].place == 1.0, "the last end's place");
  for (int i = 1, before = 0; i < count; i++) {
    CHECK(ticks[i].value > ticks[i - 1].value && ticks[i].place > ticks[i - 1].place, "%g, then %g",
          ticks[i - 1].value, ticks[i].value);
    if (!ticks[i].labelled) continue;
    CHECK(ticks[i].place - ticks[before].place >= gap, "labels at %g and %g", ticks[before].value,
          ticks[i].value);
    before = i;
  }
  return count;
}

/* The labels, separated by one space: "1e-9 1e-8". */
static void expect_labels(double low, double high, bool logarithmic, const char *wanted) {
  char text[DF_TICK_TEXT_BYTES], all[512] = "";
  int count = check_ticks(low, high, logarithmic, 0.07);
  for (int i = 0; i < count; i++) {
    if (!ticks[i].labelled) continue;
    if (i > 0) strcat(all, " ");
    strcat(all, df_tick_text(ticks[i].value, text));
  }
  CHECK(strcmp(all, wanted) == 0, "from %g to %g: \"%s\", not \"%s\"", low, high, all, wanted);
}

DF_TEST(ticks, labels, 10) {
  expect_labels(1e-9, 1e-5, true, "1e-9 1e-8 1e-7 1e-6 1e-5");
  expect_labels(3e-9, 2e-5, true, "3e-9 1e-8 1e-7 1e-6 1e-5 2e-5");
  expect_labels(9e-9, 1.1e-5, true,
                "9e-9 1e-7 1e-6 1.1e-5"); /* labels at decades are omitted near the ends */
  expect_labels(1e-3, 0.1, true, "0.001 0.002 0.005 0.01 0.02 0.05 0.1");
  expect_labels(2e-6, 1e-5, true, "2e-6 5e-6 1e-5");
  expect_labels(1e-40, 1, true,
                "1e-40 1e-36 1e-33 1e-30 1e-27 1e-24 1e-21 1e-18 1e-15 1e-12 1e-9 1e-6 0.001 1");
  expect_labels(0, 0.02, false, "0 0.002 0.004 0.006 0.008 0.01 0.012 0.014 0.016 0.018 0.02");
  expect_labels(0.1, 0.35, false, "0.1 0.12 0.14 0.16 0.18 0.2 0.22 0.24 0.26 0.28 0.3 0.32 0.35");
}

DF_TEST(ticks, every_decade_has_one, 10) {
  int count = check_ticks(2e-12, 0.7, true, 0.3);
  for (int decade = -11; decade < 0; decade++) {
    int found = 0;
    for (int i = 0; i < count; i++) found += fabs(log10(ticks[i].value) - decade) < 1e-9;
    CHECK(found == 1, "1e%d has %d ticks", decade, found);
  }
}

DF_TEST(ticks, any_axis, 10) {
  for (double low = 1e-300; low < 0.9; low *= 3.7e3)
    for (double factor = 1.0001; low * factor <= 1.0; factor *= factor)
      for (double gap = 0.03; gap < 0.5; gap *= 2)
        for (int logarithmic = 0; logarithmic < 2; logarithmic++)
          check_ticks(low, low * factor, logarithmic, gap);
}

DF_TEST(ticks, numbers_read_back, 10) {
  char text[DF_TICK_TEXT_BYTES];
  for (double value = 1e-300; value <= 100.0; value *= 1.37) {
    double read = strtod(df_tick_text(value, text), NULL);
    CHECK(fabs(read - value) <= 0.00501 * value && strlen(text) <= 9, "%g is written %s", value,
          text);
  }
  CHECK(strcmp(df_tick_text(0.0, text), "0") == 0, "0 is written %s", text);
  CHECK(strcmp(df_tick_text(3.16e-7, text), "3.16e-7") == 0, "3.16e-7 is written %s", text);
}
