/* Threads that sleep inside calls of the library, and circles of such waits among this process's
 * ranks. */
#ifndef DF_HOST_OBSERVE_WAIT_GRAPH_H
#define DF_HOST_OBSERVE_WAIT_GRAPH_H

#include "host/state/context.h"

typedef struct df_call {
  const char *name; /* a literal */
  int is_of_one;    /* 0: waits for all runs, not only id's */
  dfcclCollId_t id;
} df_call;

/* The calling thread is about to sleep. Returns what df_sleeper_leave needs; 0: too many sleepers,
 * so dumps leave this one out. Takes no lock. */
uint32_t df_sleeper_enter(dfcclContext_t context, const df_call *call);
void df_sleeper_leave(uint32_t sleeper);

/* In between, dumps look for circles over the context. Leaving waits for those that look. */
void df_waits_enter(dfcclContext_t context);
void df_waits_leave(dfcclContext_t context);

/* A line for each sleeper, circle and chain of waits that begins at the context. Takes locks of
 * the job's contexts in this process: the caller holds none. */
void df_waits_describe(dfcclContext_t context, char *text, size_t bytes);

#endif
