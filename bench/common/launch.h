/* Runs the ranks of a job on this machine, as threads or as processes, and collects their reports.
 */
#ifndef DF_BENCH_COMMON_LAUNCH_H
#define DF_BENCH_COMMON_LAUNCH_H

#include <stdbool.h>
#include <stddef.h>

#include "common/barrier.h"
#include "dfccl.h"

enum { DF_TOOL_SENTENCE_BYTES = 768 };

typedef struct {
  int code; /* 0: fine; else the dfcclResult_t, or -1, of the first failure */
  char sentence[DF_TOOL_SENTENCE_BYTES];
} df_tool_outcome;

struct df_tool_job;

/* The arguments of the main function of a rank. */
typedef struct {
  int rank, n_ranks;
  dfcclContext_t context;            /* NULL in a job without the library */
  void *argument;                    /* the job's */
  void *report;                      /* report_bytes, zeroed; the launcher receives it */
  const struct df_tool_job *env_job; /* the rank is this process alone (env.h); else NULL */
  df_tool_outcome outcome;
} df_tool_rank;

typedef struct df_tool_job {
  int n_ranks;
  bool processes;       /* one process for each rank, else one thread */
  bool without_library; /* no contexts are made */
  dfcclConfig_t config;
  void (*rank_main)(df_tool_rank *rank);
  /* Processes have a copy of *argument, and share only df_tool_shared_alloc memory. */
  void *argument;
  /* May be NULL. Called with argument when a rank failed or died, so that no other waits for it
   * outside the library. From any thread, perhaps several times. */
  void (*on_failure)(void *argument);
  size_t report_bytes;
  void *reports; /* n_ranks * report_bytes, the caller's; filled by ranks that did not die */
} df_tool_job;

/*
 * Runs the job: makes the contexts (dfcclInitAll for threads; for processes a unique id that each
 * child reads from a pipe), calls rank_main for every rank, destroys the contexts. A rank that
 * fails aborts its context, and so ends the others. A process that dies is reported; after ten
 * seconds the remaining processes are killed. Blocks until all are gone. Returns true when every
 * rank was fine; otherwise the cause has been written to standard error. For processes: must be
 * called before any other call of the library, by the process's only thread.
 */
bool df_tool_launch(const df_tool_job *job);

/* Records the rank's failure, if it is the first. */
void df_tool_rank_fail(df_tool_rank *rank, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Waits until every rank has called it; false, and the rank has failed, if another one did. */
bool df_tool_rank_meet(df_tool_rank *rank, df_tool_barrier *barrier);

/* Returns true for dfcclSuccess; otherwise records a failure: what, and the library's sentence. */
bool df_tool_rank_check(df_tool_rank *rank, dfcclResult_t result, const char *what);

#endif
