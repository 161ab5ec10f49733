/*
 * Profiler plugins made for NCCL (DFCCL_PROFILER_PLUGIN). A run's event starts before its submission,
 * in the thread that submits, and stops before its callback. Nothing of this happens, but one look at
 * context->profiler, if no plugin is loaded.
 *
 * Threads: at most one call of any profiler plugin is in progress in a process. Its lock is held
 * meanwhile, and no other; for a message's step the network's, too, which is taken before. A plugin
 * must not call this library.
 */
#ifndef DF_HOST_OBSERVE_PROFILER_H
#define DF_HOST_OBSERVE_PROFILER_H

#include "host/state/context.h"

/* What is to be stopped when the submission is over. */
typedef struct df_profiled_call {
  void *group, *group_api, *call;
} df_profiled_call;

/* context->profiler stays NULL if none is named. dfcclInvalidUsage: no such plugin. */
dfcclResult_t df_profiler_open(dfcclContext_t context);
/* Nobody carries messages any more. */
void df_profiler_close(dfcclContext_t context);
/* Hears of messages; NULL: the plugin does not ask for them. */
const df_message_watch *df_profiler_watch(const dfcclContext_t context);

/* Without the lock. Takes the place of the run's callback. */
df_profiled_call df_profiler_begin(dfcclContext_t context, dfcclCollId_t id, df_run *run);
/* Without the lock. If it was refused, the run has its own callback again. */
void df_profiler_submitted(dfcclContext_t context, const df_profiled_call *call, df_run *run,
                           int accepted);

#endif
