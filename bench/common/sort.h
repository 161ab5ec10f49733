/* Figures in order, smallest first: for medians and quartiles. */
#ifndef DF_BENCH_COMMON_SORT_H
#define DF_BENCH_COMMON_SORT_H

#include <stdint.h>
#include <stdlib.h>

static inline int df_tool_compare_u64(const void *a, const void *b) {
  uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
  return (left > right) - (left < right);
}

static inline void df_tool_sort_u64(uint64_t *values, size_t count) {
  qsort(values, count, sizeof *values, df_tool_compare_u64);
}

static inline int df_tool_compare_doubles(const void *a, const void *b) {
  double left = *(const double *)a, right = *(const double *)b;
  return (left > right) - (left < right);
}

static inline void df_tool_sort_doubles(double *values, size_t count) {
  qsort(values, count, sizeof *values, df_tool_compare_doubles);
}

#endif
