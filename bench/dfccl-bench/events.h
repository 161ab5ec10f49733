/* dfccl-bench events: what a GPU's daemon does with collectives in disorder, collective by
 * collective (Figures 9 and 11 of Pan et al., EuroSys 2025). */
#ifndef DF_BENCH_DFCCL_BENCH_EVENTS_H
#define DF_BENCH_DFCCL_BENCH_EVENTS_H

#include "options.h"

/* Plays the batches and prints what the daemons noted. Returns the program's exit status. */
int df_bench_events(const df_bench_options *options);

#endif
