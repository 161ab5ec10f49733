/*
 * Profiler plugins made for NCCL (DFCCL_PROFILER_PLUGIN). A run's event starts before its
 * submission, in the thread that submits, and stops before its callback. If no plugin is loaded, a
 * run only costs one load of context->profiler.
 *
 * Threads: at most one call of any profiler plugin is in progress in a process. The plugin lock is
 * held meanwhile, and no other lock, except for a message's step: there the network's lock is held
 * too, and was taken before. A plugin must not call this library.
 */
#ifndef DF_HOST_OBSERVE_PROFILER_H
#define DF_HOST_OBSERVE_PROFILER_H

#include "host/state/context.h"

/* The events that df_profiler_submitted stops. */
typedef struct df_profiled_call {
  void *group, *group_api, *call;
} df_profiled_call;

/* context->profiler stays NULL if the settings name no plugin. dfcclInvalidUsage: no such plugin.
 */
dfcclResult_t df_profiler_open(dfcclContext_t context);
/* Messages are no longer carried for this context. */
void df_profiler_close(dfcclContext_t context);
/* The receivers of message events: the plugin if it requests them, and `other` (NULL: none). */
const df_message_watch *df_profiler_watch(const dfcclContext_t context,
                                          const df_message_watch *other);

/* Without the lock. Replaces the run's callback. `has_counts`: the run has counts for
 * each peer (run->given), not one count. */
df_profiled_call df_profiler_begin(dfcclContext_t context, dfcclCollId_t id, df_run *run,
                                   int has_counts);
/* Without the lock. If the run was refused, it gets its own callback back. */
void df_profiler_submitted(dfcclContext_t context, const df_profiled_call *call, df_run *run,
                           int accepted);

#endif
