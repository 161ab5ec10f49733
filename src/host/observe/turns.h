/* The turns of the daemon in the trace of this rank (DFCCL_TRACE_TURNS). */
#ifndef DF_HOST_OBSERVE_TURNS_H
#define DF_HOST_OBSERVE_TURNS_H

#include "base/mutex.h"
#include "host/state/context.h"

/* Traces all records that the blocks have logged since. */
void df_trace_turns(dfcclContext_t context) DF_RANK_LOCKED;
/* Does so if they fill a good part of a log, so that none is lost. */
void df_trace_many_turns(dfcclContext_t context) DF_RANK_LOCKED;
int df_trace_has_turns(const dfcclContext_t context) DF_RANK_LOCKED;

#endif
