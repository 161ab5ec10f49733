/* The time that the tools measure by. */
#ifndef DF_BENCH_COMMON_CLOCK_H
#define DF_BENCH_COMMON_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Nanoseconds on the monotonic clock. */
static inline uint64_t df_tool_now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline double df_tool_now_seconds(void) { return (double)df_tool_now_ns() * 1e-9; }

#endif
