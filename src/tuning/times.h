/* Statistics of the times of several runs. n: 1 to DF_TIMES_MOST. Times are at least 1, because a
 * clock may have stopped and a peer may send any number. */
#ifndef DF_TUNING_TIMES_H
#define DF_TUNING_TIMES_H

#include <stdint.h>

enum { DF_TIMES_MOST = 128 };

double df_times_median(const uint32_t *times, uint32_t n);
double df_times_mean(const uint32_t *times, uint32_t n);
/* A quarter of the runs took no longer. */
double df_times_quarter(const uint32_t *times, uint32_t n);
/* Standard error of the median, from the quartiles: 1.2533 * 0.7413 * (q3 - q1) / sqrt(8), for 8
 * runs. */
double df_times_error_of_median(const uint32_t *times, uint32_t n);
/* From the mean's halves. */
double df_times_error_of_mean(const uint32_t *times, uint32_t n);

#endif
