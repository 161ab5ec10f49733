/* The processor's counter of time: cheaper to read than a clock, but without a unit. A reader takes
 * the counter and a clock at two moments, and computes the times in between. */
#ifndef DF_BASE_TICKS_H
#define DF_BASE_TICKS_H

#include <stdint.h>

#include "base/clock.h"

/* The counters of a machine's processors agree, but two reads are not ordered with the memory
 * accesses around them. */
static inline uint64_t df_ticks(void) {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
  uint64_t ticks;
  __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
  return ticks;
#else
  return df_clock_ns();
#endif
}

#endif
