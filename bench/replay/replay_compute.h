/* The computing of a training job: a fixed amount of work, so that it takes longer where the cores
 * are shared; or a sleep, which needs no core, as computing on a GPU does not. */
#ifndef DF_BENCH_REPLAY_REPLAY_COMPUTE_H
#define DF_BENCH_REPLAY_REPLAY_COMPUTE_H

#include "replay_options.h"

/* Sets how many units of work a microsecond is; rate 0: measures how many a core of its own does.
 * Once, before ranks are started. Returns the rate; 0 for a sleep. */
double df_replay_compute_calibrate(replay_compute_kind kind, double rate);

/* Computes for so long, as calibrated. Any thread. */
void df_replay_compute(replay_compute_kind kind, double us);

/* Frees the calling thread's memory; the last call of a thread that has computed. */
void df_replay_compute_end(void);

/* Sums over the threads of this process since each was started. */
typedef struct {
  uint64_t ran_ns, waited_ns; /* waited: ready to run, and without a core */
} replay_core_times;

/* False: the system does not count them. */
bool df_replay_core_times(replay_core_times *times);

#endif
