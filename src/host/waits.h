/* Who waits for whom: threads that sleep inside calls of the library, and the circles that they
 * form over the ranks of this process. */
#ifndef DF_HOST_WAITS_H
#define DF_HOST_WAITS_H

#include "host/context.h"

/* What a call waits for. */
typedef struct df_call {
  const char *name; /* dfcclWait; a literal */
  int is_of_one;    /* only for collective id; 0: for all runs */
  dfcclCollId_t id;
} df_call;

/* The calling thread is about to sleep in the call. Returns what df_sleeper_leave needs; 0: there
 * are too many sleepers, and a dump leaves this one out. Without a lock. */
uint32_t df_sleeper_enter(dfcclContext_t context, const df_call *call);
void df_sleeper_leave(uint32_t sleeper);

/* Between both, circles over the context are looked for. The leave waits for who looks. */
void df_waits_enter(dfcclContext_t context);
void df_waits_leave(dfcclContext_t context);

/* Writes a line for each sleeper of the context, and one for each circle or chain of waits that
 * begins at it. Takes the locks of the job's contexts in this process: the caller holds none. */
void df_waits_describe(dfcclContext_t context, char *text, size_t bytes);

#endif
