/*
 * What the litmus programs share. Each runs for some seconds (--seconds S) and counts an outcome
 * that must never be seen; a run that sees it fails. Two threads meet before each batch, so that
 * what they do overlaps as often as the machine allows.
 */
#ifndef DF_TESTS_LITMUS_LITMUS_H
#define DF_TESTS_LITMUS_LITMUS_H

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/atomic.h"
#include "base/clock.h"

static inline double litmus_seconds(int argc, char **argv) {
  if (argc == 1) return 2;
  if (argc == 3 && strcmp(argv[1], "--seconds") == 0 && atof(argv[2]) > 0) return atof(argv[2]);
  fprintf(stderr, "usage: %s [--seconds S]\n", argv[0]);
  exit(2);
}

/* Two sides meet: each calls it with its own count of meetings. Yields, because there may be one
 * processor for both. */
typedef struct litmus_meeting {
  DF_ALIGNED(64) uint64_t arrived[2][8];
} litmus_meeting;

static inline void litmus_meet(litmus_meeting *meeting, int side, uint64_t number) {
  df_publish_u64(&meeting->arrived[side][0], number);
  for (uint32_t polls = 1; df_observe_u64(&meeting->arrived[1 - side][0]) < number; polls++) {
    if (polls % 200 == 0)
      sched_yield();
    else
      df_pause();
  }
}

#endif
