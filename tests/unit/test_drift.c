/*
 * Promises of src/tuning/drift.h:
 *   - Times that spread around the level are no drift, however long they are watched.
 *   - Two windows in a row that are half slower or faster, or several that are a sixth slower or
 *     faster, are a drift. Windows on both sides of the level do not add up.
 *   - Each search that found nothing else doubles the windows that a small drift needs, to a limit.
 *     A great drift needs two windows in any case.
 */
#include "tuning/drift.h"

#include "support/harness.h"

enum { MANY = 5000 };

/* The number of windows of `ns` after which the drift is certain; MANY: never. */
static int windows_until_certain(df_drift *drift, double ns) {
  for (int windows = 1; windows < MANY; windows++) {
    df_drift_note(drift, ns);
    if (df_drift_is_certain(drift)) return windows;
  }
  return MANY;
}

static df_drift watch(double level, uint32_t searches_in_vain) {
  df_drift drift = {0};
  df_drift_note(&drift, level);
  for (uint32_t i = 0; i < searches_in_vain; i++) df_drift_add_patience(&drift);
  return drift;
}

DF_TEST(drift, times_around_the_level_are_none, 30) {
  df_drift drift = watch(1000, 0);
  df_random random = {1};
  for (int i = 0; i < MANY; i++) {
    df_drift_note(&drift, 1000 * (0.88 + 0.26 * (double)df_random_below(&random, 1000) / 1000));
    CHECK(!df_drift_is_certain(&drift), "window %d", i);
  }
}

DF_TEST(drift, slower_and_faster, 30) {
  static const struct {
    double ratio;
    int windows;
  } cases[] = {{1.16, 2}, {1.6, 2}, {10, 2}, {0.86, 2}, {0.5, 2}, {1.14, MANY}, {0.88, MANY}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    df_drift drift = watch(1000, 0);
    const int windows = windows_until_certain(&drift, 1000 * cases[i].ratio);
    CHECK(windows == cases[i].windows, "%g times the level: %d windows", cases[i].ratio, windows);
  }
}

DF_TEST(drift, windows_on_both_sides_are_none, 30) {
  df_drift drift = watch(1000, 0);
  for (int i = 0; i < MANY; i++) {
    df_drift_note(&drift, i % 2 ? 5000 : 200);
    CHECK(!df_drift_is_certain(&drift), "window %d", i);
  }
  df_drift_note(&drift, 5000);
  df_drift_forget(&drift);
  df_drift_note(&drift, 5000);
  CHECK(!df_drift_is_certain(&drift), "the window before was forgotten");
}

DF_TEST(drift, patience_doubles_what_a_small_drift_needs, 30) {
  for (uint32_t in_vain = 0; in_vain < 14; in_vain++) {
    df_drift small = watch(1000, in_vain), great = watch(1000, in_vain);
    const int windows = windows_until_certain(&small, 1300);
    const int wanted = 2 << (in_vain < 10 ? in_vain : 10);
    CHECK(windows == wanted, "%d windows after %u searches", windows, in_vain);
    CHECK(windows_until_certain(&great, 1600) == 2, "a great drift after %u searches", in_vain);
  }
}
