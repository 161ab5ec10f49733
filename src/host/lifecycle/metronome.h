/* The ticks of heartbeats. The service thread wakes for other reasons too, and late on a busy
 * processor. Neither may make later ticks late: losses are found by a number of ticks, so small
 * delays would add up to a late report. */
#ifndef DF_HOST_LIFECYCLE_METRONOME_H
#define DF_HOST_LIFECYCLE_METRONOME_H

#include <stdbool.h>
#include <stdint.h>

typedef struct {
  uint64_t period_ns; /* at least 1 */
  uint64_t due_ns;    /* the next tick */
} df_metronome;

/* Returns whether a tick is due, and advances to the next one, which is due one period after the
 * time at which this one was due. If that time has passed too, this thread was stopped for more
 * than a period: ticks that it missed are not made up for, and the next one is due in a period. */
static inline bool df_metronome_ticks(df_metronome *metronome, uint64_t now_ns) {
  if (now_ns < metronome->due_ns) return false;
  metronome->due_ns += metronome->period_ns;
  if (metronome->due_ns <= now_ns) metronome->due_ns = now_ns + metronome->period_ns;
  return true;
}

/* Returns the time in ms until the next tick, rounded up; 0 if it is due. */
static inline int df_metronome_wait_ms(const df_metronome *metronome, uint64_t now_ns) {
  const uint64_t left_ns = metronome->due_ns > now_ns ? metronome->due_ns - now_ns : 0;
  return (int)((left_ns + 999999) / 1000000);
}

#endif
