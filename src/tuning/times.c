#include "tuning/times.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/attributes.h"

static int by_size(const void *a, const void *b) {
  const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return (x > y) - (x < y);
}

static void sort(uint32_t sorted[DF_TIMES_MOST], const uint32_t *times, uint32_t n) {
  memcpy(sorted, times, n * sizeof *times);
  qsort(sorted, n, sizeof *sorted, by_size);
}

double df_times_median(const uint32_t *times, uint32_t n) {
  uint32_t sorted[DF_TIMES_MOST];
  sort(sorted, times, n);
  return DF_MAX(((double)sorted[(n - 1) / 2] + (double)sorted[n / 2]) / 2, 1.0);
}

double df_times_mean(const uint32_t *times, uint32_t n) {
  double sum = 0;
  for (uint32_t i = 0; i < n; i++) sum += (double)times[i];
  return DF_MAX(sum / n, 1.0);
}

double df_times_quarter(const uint32_t *times, uint32_t n) {
  uint32_t sorted[DF_TIMES_MOST];
  sort(sorted, times, n);
  return DF_MAX((double)sorted[n / 4], 1.0);
}

double df_times_error_of_median(const uint32_t *times, uint32_t n) {
  uint32_t sorted[DF_TIMES_MOST];
  sort(sorted, times, n);
  return 0.33 * (double)(sorted[3 * n / 4] - sorted[n / 4]);
}

double df_times_error_of_mean(const uint32_t *times, uint32_t n) {
  return fabs(df_times_mean(times, n / 2) - df_times_mean(times + n / 2, n - n / 2)) / 2;
}
