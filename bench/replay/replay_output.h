/* The results of a replay, and their output. */
#ifndef DF_BENCH_REPLAY_REPLAY_OUTPUT_H
#define DF_BENCH_REPLAY_REPLAY_OUTPUT_H

#include "replay_rank.h"

typedef struct {
  uint64_t runs;
  int64_t wrong;
  double seconds, communication_s; /* the slowest rank's; medians */
  double compute_s, exposed_s;     /* means of the ranks; medians */
  double cores_short;      /* share of the time in which threads were ready to run and had no core;
                         negative: not known */
  double rounds, round_us; /* coordinator: of an iteration; of a round */
} replay_result;

/* reports: n_ranks of report_bytes each. */
replay_result df_replay_summarise(const replay_job *job, const char *reports, size_t report_bytes);

/* Notes and calls that are left out, before anything runs; on standard error. */
void df_replay_print_notes(const replay_plan *plan);

/* False: standard output cannot be written. */
bool df_replay_print(const replay_job *job, const replay_result *result);

#endif
