/* Runs: submission (submit.c), completion (completion.c) and waiting (wait.c). [lock]: the caller
 * holds context->lock. */
#ifndef DF_HOST_RUNS_H
#define DF_HOST_RUNS_H

#include "host/context.h"

/* ---- submission ---- */

/* Kinds of collectives that a call may run: a bit each. */
#define DF_OF_KIND(operation) (1u << (operation))
#define DF_OF_ANY_KIND (~0u)
/* Fills in what the run's record lacks. *number: of the accepted run. */
dfcclResult_t df_submit_run(dfcclContext_t context, uint32_t kinds, dfcclCollId_t id, df_run *run,
                            uint64_t *number);
static inline dfcclResult_t df_submit(dfcclContext_t context, df_operation operation,
                                      dfcclCollId_t id, const void *send, void *recv,
                                      dfcclCallback_t callback, void *argument) {
  df_run run = {.send = send, .recv = recv, .callback = callback, .argument = argument};
  uint64_t number;
  return df_submit_run(context, DF_OF_KIND(operation), id, &run, &number);
}
/* Begins when the stream comes to this call; the stream then waits until it is through. */
dfcclResult_t df_submit_on_stream(dfcclContext_t context, uint32_t kinds, dfcclCollId_t id,
                                  df_run *run, void *stream, uint64_t *number);
/* Checks what the caller has filled in, and sets given->run. */
dfcclResult_t df_submit_given(dfcclContext_t context, dfcclCollId_t id, dfcclRun_t *given);
void df_list(dfcclContext_t context, df_coll *coll); /* [lock] has something to admit or to fail */
void df_unlist(dfcclContext_t context, df_coll *coll); /* [lock] */
void df_admit_listed(dfcclContext_t context);          /* [lock] */
void df_between_turns(void *context);
/* [lock] */
static inline uint32_t df_runs_in_device(const df_coll *coll) {
  return (uint32_t)(coll->admitted - coll->retired);
}
df_run df_backlog_pop(dfcclContext_t context, df_coll *coll); /* [lock] */

/* ---- completion ---- */

dfcclResult_t df_poller_start(dfcclContext_t context);
void df_poller_stop(dfcclContext_t context);
/* Runs of one collective that a thread waits for. */
typedef struct df_awaited {
  const df_wait_words *words;
  uint64_t registration, target;
} df_awaited;
/* Reaps, and runs callbacks of these collectives (in the order of their lines) that nobody else
 * runs; the poller is rung for others. NULL: all callbacks are the caller's. driver (may be NULL)
 * is released around user code. Returns how much happened. */
uint32_t df_complete(dfcclContext_t context, df_driver *driver, const df_awaited *awaited,
                     uint32_t n);
void df_reap_and_ring(void *context);             /* reaps, and leaves callbacks to the poller */
int df_completion_is_due(dfcclContext_t context); /* would the poller find something? */
/* Would df_complete find a callback for this waiter? */
int df_awaits_callbacks(dfcclContext_t context, const df_awaited *awaited, uint32_t n);
/* A borrowed turn has done a run: ends it as its CQE would, and rings the turn's bells. Returns
 * whether the run was finished and nothing is left to do; 0: df_complete will find something, as
 * its callback. */
int df_complete_borrowed(dfcclContext_t context, const df_borrowed_turn *turn);
dfcclResult_t df_grow_callbacks(dfcclContext_t context); /* [lock] */
/* [lock] Room for one more outstanding run's callback, made before the run is accepted: completing
 * needs no memory. */
static inline dfcclResult_t df_reserve_callback(dfcclContext_t context) {
  uint64_t outstanding = context->runs.accepted - context->runs.completed;
  if (DF_LIKELY(outstanding < context->runs.callbacks.capacity)) return dfcclSuccess;
  return df_grow_callbacks(context);
}
int df_has_outstanding(void *context);
void df_ring_poller(void *context);
int df_in_callback(void); /* the calling thread is inside a callback */
int df_in_callback_of(const df_wait_words *words);
/* [lock] Runs that are not complete, or whose callbacks have not returned. The callback that the
 * calling thread is inside does not count. */
static inline uint64_t df_runs_unfinished(const df_coll *coll) {
  return coll->submitted - coll->words->completed - (uint64_t)df_in_callback_of(coll->words);
}

/* ---- waiting ---- */

dfcclResult_t df_wait(dfcclContext_t context, dfcclCollId_t id);
/* timeout_ms 0: looks once; negative: no limit. */
dfcclResult_t df_wait_run(dfcclContext_t context, dfcclCollId_t id, uint64_t run, int timeout_ms);
dfcclResult_t df_wait_all(dfcclContext_t context);
dfcclResult_t df_device_synchronize(dfcclContext_t context);
/* Until nothing is outstanding and nobody is inside a call that waits. */
void df_wait_settled(dfcclContext_t context);
/* The driving thread counts among the context's visitors from here on. */
void df_visit(dfcclContext_t context, df_driver *driver);
/* Until every run's status is known, or so long; callbacks are left to the poller. */
void df_wait_decided(dfcclContext_t context, uint64_t most_ns);

#endif
