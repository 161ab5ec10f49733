/* Runs: submission (submit.c), completion (completion.c) and waiting (wait.c). */
#ifndef DF_HOST_RUNS_RUNS_H
#define DF_HOST_RUNS_RUNS_H

#include "base/mutex.h"
#include "host/state/context.h"

/* ---- submission ---- */

/* Sets of operations, one bit each: the kinds of collective that a call may run. */
#define DF_OF_KIND(operation) (1u << (operation))
#define DF_WITHOUT_COUNTS (~DF_OF_KIND(DF_OP_ALL_TO_ALL_DYNAMIC))
/* Completes *run with the submission time, and submits it. *number: the number of the accepted run.
 */
dfcclResult_t df_submit_run(dfcclContext_t context, uint32_t kinds, dfcclCollId_t id, df_run *run,
                            uint64_t *number);
static inline dfcclResult_t df_submit(dfcclContext_t context, df_operation operation,
                                      dfcclCollId_t id, const void *send, void *recv,
                                      dfcclCallback_t callback, void *argument) {
  df_run run = {.send = send, .recv = recv, .callback = callback, .argument = argument};
  uint64_t number;
  return df_submit_run(context, DF_OF_KIND(operation), id, &run, &number);
}
/* Submits a run that begins when the stream reaches this call. The stream waits for the run's end.
 */
dfcclResult_t df_submit_on_stream(dfcclContext_t context, uint32_t kinds, dfcclCollId_t id,
                                  df_run *run, void *stream, uint64_t *number);
/* The number of a run that dfcclRun refused, so that dfcclWaitRun does not wait for another run. */
#define DF_REFUSED_RUN UINT64_MAX
/* Checks *given, and sets given->run to the number of the accepted run, or to DF_REFUSED_RUN. */
dfcclResult_t df_submit_given(dfcclContext_t context, dfcclCollId_t id, dfcclRun_t *given);
/* Lists the collective: it has runs to admit or to fail. */
void df_list(dfcclContext_t context, df_coll *coll) DF_RANK_LOCKED;
void df_unlist(dfcclContext_t context, df_coll *coll) DF_RANK_LOCKED;
void df_admit_listed(dfcclContext_t context) DF_RANK_LOCKED;
void df_between_turns(void *context);
df_run df_backlog_pop(dfcclContext_t context, df_coll *coll) DF_RANK_LOCKED;
/* Puts a run back that was submitted before all runs of the backlog. 0: no memory, with a sentence.
 */
int df_backlog_push_front(dfcclContext_t context, df_coll *coll, const df_run *run) DF_RANK_LOCKED;

/* ---- completion ---- */

dfcclResult_t df_poller_start(dfcclContext_t context);
void df_poller_stop(dfcclContext_t context);
typedef struct df_awaited {
  const df_wait_words *words;
  uint64_t registration, target;
} df_awaited;
/* Reaps, runs awaited callbacks that no other thread runs, and rings the poller for the rest.
 * awaited: in the order of the records; NULL: all. progress (or NULL) is released around user code.
 * Returns the number of runs that ended and callbacks that ran. */
uint32_t df_complete(dfcclContext_t context, df_progress_thread *progress,
                     const df_awaited *awaited, uint32_t n);
void df_reap_and_ring(void *context);             /* leaves callbacks to the poller */
int df_completion_is_due(dfcclContext_t context); /* whether the poller has work */
/* Whether df_complete has a callback for this waiter. */
int df_awaits_callbacks(dfcclContext_t context, const df_awaited *awaited, uint32_t n);
/* Ends the borrowed turn's run as its CQE would, and rings the turn's bells. 0: df_complete has
 * work left, such as a callback. */
int df_complete_borrowed(dfcclContext_t context, const df_borrowed_turn *turn);
/* Ends a run that was taken back, or that waited behind one. */
void df_end_taken_back(dfcclContext_t context, df_coll *coll, const df_run *run,
                       dfcclResult_t status) DF_RANK_LOCKED;
/* The next dfcclWait of the collective and the next dfcclWaitAll return the failure, unless an
 * earlier one is noted. */
void df_note_failure(dfcclContext_t context, df_coll *coll, dfcclResult_t status) DF_RANK_LOCKED;
dfcclResult_t df_grow_callbacks(dfcclContext_t context) DF_RANK_LOCKED;
/* Reserves room for the callback before a run is accepted, so that completion needs no memory. */
static inline dfcclResult_t df_reserve_callback(dfcclContext_t context) DF_RANK_LOCKED {
  uint64_t outstanding = context->runs.accepted - context->runs.completed;
  if (DF_LIKELY(outstanding < context->runs.callbacks.capacity)) return dfcclSuccess;
  return df_grow_callbacks(context);
}
int df_has_outstanding(void *context);
void df_ring_poller(void *context);
int df_in_callback(void); /* whether the calling thread is inside a callback */
int df_in_callback_of(const df_wait_words *words);
/* The calling thread is about to call a function of the application, which must not wait. words:
 * of the collective; NULL: of none. */
void df_enter_callback(const df_wait_words *words);
void df_leave_callback(void); /* also in a forked child, which may wait for contexts of its own */
/* Number of runs whose callbacks have not returned, without the run whose callback the caller is
 * inside. */
static inline uint64_t df_runs_unfinished(const df_coll *coll) DF_RANK_LOCKED {
  return coll->runs.submitted - coll->runs.words->completed -
         (uint64_t)df_in_callback_of(coll->runs.words);
}

/* ---- waiting ---- */

dfcclResult_t df_wait(dfcclContext_t context, dfcclCollId_t id);
/* timeout_ms 0: checks once; negative: no limit. */
dfcclResult_t df_wait_run(dfcclContext_t context, dfcclCollId_t id, uint64_t run, int timeout_ms);
dfcclResult_t df_wait_all(dfcclContext_t context);
dfcclResult_t df_device_synchronize(dfcclContext_t context);
/* Waits until no run is outstanding and no thread is in a call that waits. */
void df_wait_quiescent(dfcclContext_t context);
/* Counts the progress thread as a waiter of the context from here on. */
void df_become_waiter(dfcclContext_t context, df_progress_thread *progress);
/* Waits until every run's status is known, but at most most_ns. Leaves callbacks to the poller. */
void df_wait_decided(dfcclContext_t context, uint64_t most_ns);

#endif
