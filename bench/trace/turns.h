/* Sums of the daemon's turns, and the waits of its blocks for links. */
#ifndef DF_BENCH_TRACE_TURNS_H
#define DF_BENCH_TRACE_TURNS_H

#include "trace/job.h"

/* A block polled a link without success, in one turn or in several turns of the collective, between
 * which it executed others. */
typedef struct df_traced_wait {
  uint32_t rank, block, peer;
  bool sends; /* as in df_traced_turn */
  size_t of;
  int64_t from, to;
  uint64_t turns, polls;
} df_traced_wait;

/* The turns of one collective, of all members and blocks. */
typedef struct df_row_turns {
  uint64_t of_kind[DF_TURN_KINDS];
  uint64_t queue_sum, queue_most; /* length of the task queue when runs were taken, with them */
} df_row_turns;

typedef struct df_turn_summary {
  uint64_t (*ranks)[DF_TURN_KINDS]; /* [job->n_ranks]; of DF_TURN_LOST: records */
  df_row_turns *rows;               /* [job->n_rows + 1]; the last: deregistered collectives */
  df_traced_wait *waits;            /* the longest one first */
  size_t n_waits, waits_room;
} df_turn_summary;

/* The job is aligned. False: no memory. */
bool df_turns_summarise(const df_job_trace *job, df_turn_summary *summary);
void df_turns_free(df_turn_summary *summary);

#endif
