/* A natural logarithm that gives the same bits on every machine.
 *
 * The C library's log may differ in the last bit between processors: some have fused multiply-add.
 * The last bit can move a geometric skip to another slot. This logarithm uses only operations that
 * IEEE 754 fixes; the simulator is compiled with -ffp-contract=off. Relative error below 1e-15 for
 * arguments in (0, 1]. */
#ifndef DF_SIM_PORTABLE_LOG_H
#define DF_SIM_PORTABLE_LOG_H

#include <math.h>

/* 2 * atanh(t), |t| <= 0.172 */
static inline double df_log_series(double t) {
  double square = t * t, sum = 0.0;
  for (int n = 25; n >= 3; n -= 2) sum = (sum + 1.0 / n) * square;
  return 2.0 * t * (1.0 + sum);
}

/* x > 0 and finite. */
static inline double df_log(double x) {
  int exponent;
  double mantissa = frexp(x, &exponent); /* [0.5, 1) */
  if (mantissa < 0.70710678118654757) {
    mantissa *= 2.0;
    exponent--;
  }
  double t = (mantissa - 1.0) / (mantissa + 1.0);
  return (double)exponent * 0.693147180559945309 + df_log_series(t);
}

/* log(1 - q) for 0 <= q < 1, exact for tiny q too. */
static inline double df_log_one_minus(double q) {
  if (q < 0.25) return df_log_series(-q / (2.0 - q));
  return df_log(1.0 - q);
}

#endif
