/* Threads that sleep inside calls of the library, and circular waits among this process's ranks. */
#ifndef DF_HOST_OBSERVE_WAIT_GRAPH_H
#define DF_HOST_OBSERVE_WAIT_GRAPH_H

#include "host/state/context.h"

typedef struct df_call {
  const char *name; /* a literal */
  int is_of_one;    /* 0: waits for all runs, not only those of `id` */
  dfcclCollId_t id;
} df_call;

/* Before the calling thread sleeps. Returns the argument of df_sleeper_leave; 0: there are too many
 * sleepers, so dumps leave this one out. Takes no lock. */
uint32_t df_sleeper_enter(dfcclContext_t context, const df_call *call);
void df_sleeper_leave(uint32_t sleeper);

/* A thread that sleeps. */
typedef struct df_sleeping_call {
  df_call call;
  uint32_t thread;
  uint64_t since_ns;
} df_sleeping_call;
/* Copies the context's next sleeper; *at is 0 at first. Returns 0 if there is none. Takes no
 * lock. */
int df_sleeper_next(const struct dfcclContext *context, uint32_t *at, df_sleeping_call *call);

/* Between these two calls, dumps include the context in their search for circles. df_waits_leave
 * waits until no dump uses the context. */
void df_waits_enter(dfcclContext_t context);
void df_waits_leave(dfcclContext_t context);

/* Writes a line for each sleeper, circle and chain of waits that begins at the context. Takes the
 * locks of the job's contexts in this process, so the caller holds none. */
void df_waits_describe(dfcclContext_t context, char *text, size_t bytes);

#endif
