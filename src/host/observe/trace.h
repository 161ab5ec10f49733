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
void df_trace_flush(dfcclContext_t context) DF_RANK_LOCKED;
void df_tracer_close(dfcclContext_t context) DF_RANK_LOCKED;
/* In a forked child: closes the descriptor. The file is the parent's. */
void df_tracer_close_in_child(dfcclContext_t context);

#endif
