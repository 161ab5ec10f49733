/* Traces: when each run, callback and synchronisation of this rank began and ended. */
#ifndef DF_HOST_OBSERVE_TRACE_H
#define DF_HOST_OBSERVE_TRACE_H

#include "base/mutex.h"
#include "host/state/context.h"

/* From here on df_submit_run takes the time of every run. */
dfcclResult_t df_tracer_open(dfcclContext_t context);
/* The run that runs.taken counted last has ended. */
void df_trace_run(dfcclContext_t context, df_coll *coll, uint64_t from_ns,
                  dfcclResult_t status) DF_RANK_LOCKED;
/* A callback of the collective began at from_ns and has returned. */
void df_trace_callback(dfcclContext_t context, df_coll *coll, uint64_t from_ns) DF_RANK_LOCKED;
/* Describes the present configuration and its reason, unless the trace has it already. It is valid
 * from the next admitted run on. */
void df_trace_describe(dfcclContext_t context, df_coll *coll) DF_RANK_LOCKED;
void df_trace_synchronisation(dfcclContext_t context, uint64_t from_ns) DF_RANK_LOCKED;
/* Traces the runs that have waited long, so that they are in the file if the program is killed. */
void df_trace_waiting_runs(dfcclContext_t context) DF_RANK_LOCKED;
/* The collective has failed, or the whole context. */
void df_trace_failure(dfcclContext_t context, df_coll *coll, dfcclResult_t status,
                      const char *sentence) DF_RANK_LOCKED;
void df_trace_broken(dfcclContext_t context, dfcclResult_t status,
                     const char *sentence) DF_RANK_LOCKED;
/* Whether lines wait to be written to the file. */
int df_trace_is_behind(dfcclContext_t context) DF_RANK_LOCKED;
void df_trace_flush(dfcclContext_t context) DF_RANK_LOCKED;
/* Writes the lines if runs have failed, because many programs end at the first failure without
 * dfcclDestroy. Called once after any number of runs, before the lock is released: a thread that
 * receives a failure takes the lock first. */
void df_trace_flush_failures(dfcclContext_t context) DF_RANK_LOCKED;
void df_tracer_close(dfcclContext_t context) DF_RANK_LOCKED;
/* In a forked child: closes the descriptor. The file is the parent's. */
void df_tracer_close_in_child(dfcclContext_t context);

#endif
