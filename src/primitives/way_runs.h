/* The times from run to run in a trial of lending (ways.h). */
#ifndef DF_PRIMITIVES_WAY_RUNS_H
#define DF_PRIMITIVES_WAY_RUNS_H

#include <stdint.h>

enum { DF_WAY_RUNS = 5 }; /* timed runs before, during and after a trial of lending */

/* A trial of lending, in runs. */
typedef enum { DF_RUNS_UNTIMED, DF_RUNS_BEFORE, DF_RUNS_DURING, DF_RUNS_AFTER } df_runs_phase;

typedef struct df_way_runs {
  uint64_t run;             /* the latest run, plus 1 */
  uint64_t began_ns;        /* when it began, in a trial */
  uint64_t usual_ns[2];     /* from run to run: [1] in the trial, [0] before and after it */
  uint64_t ns[DF_WAY_RUNS]; /* those of the phase */
  uint64_t bytes[2];        /* [0] the latest run's so far, [1] those of the run before it */
  uint64_t more_ns;         /* the excess of the trial's runs */
  uint8_t phase;            /* df_runs_phase */
  uint8_t n;                /* runs of the phase */
} df_way_runs;

/* The shortest time but `nth` of the phase. Runs may be interrupted, and senders that wait for
 * nobody write some messages in advance, so neither the mean nor the shortest time is the usual
 * one. */
static inline uint64_t df_ways_nth_time(const df_way_runs *runs, uint32_t n, uint32_t nth) {
  for (uint32_t i = 0; i < n; i++) {
    uint32_t shorter = 0;
    for (uint32_t j = 0; j < n; j++)
      shorter += runs->ns[j] < runs->ns[i] || (runs->ns[j] == runs->ns[i] && j < i);
    if (shorter == nth) return runs->ns[i];
  }
  return 0;
}

#endif
