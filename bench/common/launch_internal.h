/* Shared by the two ways of launching. */
#ifndef DF_BENCH_COMMON_LAUNCH_INTERNAL_H
#define DF_BENCH_COMMON_LAUNCH_INTERNAL_H

#include "common/launch.h"

bool df_tool_launch_threads(const df_tool_job *job);
bool df_tool_launch_processes(const df_tool_job *job);

/* Runs rank_main, then aborts (after a failure) and destroys the context; called in the rank's
 * thread or process. */
void df_tool_rank_run(const df_tool_job *job, df_tool_rank *rank);

/* Writes the failure that explains the others (a dead process or a local error rather than "a peer
 * failed") to standard error. Returns true if nobody failed. */
bool df_tool_report_failures(const df_tool_outcome *outcomes, int n_ranks);

#endif
