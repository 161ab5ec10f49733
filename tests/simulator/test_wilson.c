/*
 * Promises of simulator/wilson.h:
 *   - The interval is Wilson's: the proportions p for which |hits/n - p| is at most 1.96 standard
 *     errors of p.
 *   - It is [0, x] without hits, [x, 1] if every round is a hit, and it contains the ratio.
 */
#include <math.h>

#include "support/harness.h"
#include "wilson.h"

DF_TEST(wilson, bounds_solve_the_definition, 10) {
  const double z = 1.959963984540054;
  for (uint64_t n = 1; n <= 100000; n = n * 3 + 1)
    for (uint64_t hits = 0; hits <= n; hits += n / 17 + 1) {
      df_interval ci = df_wilson95(hits, n);
      double ratio = (double)hits / (double)n, bound[2] = {ci.low, ci.high};
      CHECK(ci.low <= ratio && ratio <= ci.high, "%g is outside [%g, %g]", ratio, ci.low, ci.high);
      for (int i = 0; i < 2; i++) {
        if ((i == 0 && hits == 0) || (i == 1 && hits == n)) continue; /* exactly 0 and 1 */
        double distance = fabs(ratio - bound[i]);
        double expected = z * sqrt(bound[i] * (1 - bound[i]) / (double)n);
        CHECK(fabs(distance - expected) < 1e-9, "n %llu, hits %llu: %g is %g away, not %g",
              (unsigned long long)n, (unsigned long long)hits, bound[i], distance, expected);
      }
    }
}

DF_TEST(wilson, ends, 10) {
  df_interval none = df_wilson95(0, 1000), all = df_wilson95(1000, 1000);
  CHECK(none.low == 0.0 && none.high > 0.003 && none.high < 0.004, "[%g, %g]", none.low, none.high);
  CHECK(all.high == 1.0 && all.low > 0.996 && all.low < 0.997, "[%g, %g]", all.low, all.high);
}
