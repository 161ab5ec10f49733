/* Monotonic time. */
#ifndef DF_BASE_CLOCK_H
#define DF_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t df_clock_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline uint64_t df_after_ms(uint64_t ms) { return df_clock_ns() + ms * 1000000u; }

#endif
