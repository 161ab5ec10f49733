/* Wilson's score interval for a proportion. */
#ifndef DF_SIM_WILSON_H
#define DF_SIM_WILSON_H

#include <stdint.h>

typedef struct {
  double low, high;
} df_interval;

/* The 95% interval for hits out of trials (trials >= 1). */
df_interval df_wilson95(uint64_t hits, uint64_t trials);

/* The same for a published ratio. */
df_interval df_wilson95_of_ratio(double ratio, double trials);

static inline int df_intervals_overlap(df_interval a, df_interval b) {
  return a.low <= b.high && b.low <= a.high;
}

#endif
