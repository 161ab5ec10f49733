/* The cost of the library around an empty collective. */
#ifndef DF_BENCH_DFCCL_BENCH_OVERHEAD_H
#define DF_BENCH_DFCCL_BENCH_OVERHEAD_H

#include "options.h"

typedef struct {
  const char *phase;
  double min_ns, median_ns;
} df_bench_phase;

enum { DF_BENCH_MAX_PHASES = 16 };

/* Measures all phases and prints them. Returns the program's exit status. */
int df_bench_overhead(const df_bench_options *options);

/*
 * Times the core operations by themselves, each in many batches of many repetitions on one thread:
 * SQE push to fetch, context load, context save, and CQE write and read for each CQ variant. A
 * batch's time is divided by its repetitions. Writes at most DF_BENCH_MAX_PHASES entries and
 * returns how many; -1: out of memory.
 */
int df_bench_overhead_phases(df_bench_phase *phases);

/*
 * The same with the daemon on a GPU, by its timers: SQE submit to fetch, context load, context
 * save, CQE write for each CQ variant, and from there to the callback; of so many empty collectives
 * at most. -1: it failed, and has said why. Sets environment variables of the library: to be called
 * after everything that is to run without.
 */
int df_bench_overhead_cuda(const df_bench_options *options, int iterations, df_bench_phase *phases);

/* The smallest and the median of count durations (which are sorted), in ns for each of divisor. */
df_bench_phase df_bench_phase_of(const char *phase, double *durations_ns, int count,
                                 double divisor);

#endif
