/*
 * Completion: CQE -> callback, once. One thread at a time is the completer, so callbacks of a
 * context neither overlap nor overtake each other: the poller, or a thread inside dfcclWait*. No
 * lock is held while user code runs, and a driver lets go of its blocks first, so that a callback
 * that blocks delays other callbacks only.
 */
#include <string.h>

#include "host/context.h"

enum { DF_POLLER_SPINS = 200, DF_POLLER_STACK_BYTES = 1024 * 1024 };

static _Thread_local int callback_depth;

int df_in_callback(void) { return callback_depth; }

int df_has_outstanding(void *host) {
  dfcclContext_t context = host;
  return df_observe_u64(&context->runs_accepted) != df_observe_u64(&context->runs_completed);
}

void df_ring_poller(void *host) {
  dfcclContext_t context = host;
  df_bell_ring(&context->poller_bell);
}

/* [lock] A failed collective's run that never went to the daemon; only after those that did have
 * come back. */
static df_coll *failed_waiting(dfcclContext_t context) {
  for (df_coll *coll = context->listed_first; coll; coll = coll->next_listed)
    if (coll->failed != dfcclSuccess && df_runs_in_device(coll) == 0 && coll->backlog_length > 0)
      return coll;
  return NULL;
}

/* [lock] The daemon is through with the oldest run that it holds of this collective. */
static df_run retire(dfcclContext_t context, df_coll *coll) {
  DF_ASSERT(coll->retired < coll->admitted);
  df_run run = coll->in_device[coll->retired % DF_RUNS_AHEAD];
  if (df_runs_in_device(coll) > 1) context->surplus--;
  coll->retired++;
  df_check_run_limit(context, coll);
  if (coll->backlog_length > 0) {
    df_list(context, coll);
    df_admit_listed(context);
  }
  return run;
}

/* [lock] The next run to complete, with its status. Returns NULL when there is none. */
static df_coll *take(dfcclContext_t context, df_run *run, dfcclResult_t *status) {
  df_cqe cqe;
  df_coll *coll;
  if (df_cq_pop_mpsc(&context->device.cq, &cqe)) {
    coll = context->by_index[cqe.collective];
    DF_ASSERT(coll != NULL);
    *status = (dfcclResult_t)cqe.status;
    *run = retire(context, coll);
  } else if (context->has_listed && (coll = failed_waiting(context)) != NULL) {
    *status = coll->failed;
    *run = df_backlog_pop(context, coll);
  } else {
    return NULL;
  }
  coll->taken++;
  if (*status != dfcclSuccess) {
    if (coll->wait_status == dfcclSuccess) coll->wait_status = *status;
    if (context->wait_all_status == dfcclSuccess) context->wait_all_status = *status;
  }
  return coll;
}

/* The completer only. The run's callback, if any, has returned. */
static void finish(dfcclContext_t context, df_coll *coll) {
  df_publish_u64(&coll->completed, coll->completed + 1);
  df_publish_u64(&context->runs_completed, context->runs_completed + 1);
}

/* Completes one run. Returns 0 when there is none. */
static int complete_one(dfcclContext_t context, df_driver *driver) {
  df_run run;
  dfcclResult_t status;
  pthread_mutex_lock(&context->lock);
  df_coll *coll = take(context, &run, &status);
  if (coll == NULL || run.callback == NULL) {
    if (coll) finish(context, coll);
    pthread_mutex_unlock(&context->lock);
    return coll != NULL;
  }
  coll->references++; /* the callback may deregister it */
  dfcclCollId_t id = coll->id;
  pthread_mutex_unlock(&context->lock);

  if (driver) df_driver_release(driver);
  callback_depth++;
  run.callback(id, status, run.argument);
  callback_depth--;

  pthread_mutex_lock(&context->lock);
  df_store_relaxed_u64(&context->callbacks_run, context->callbacks_run + 1);
  finish(context, coll);
  df_coll_unreference(context, coll);
  pthread_mutex_unlock(&context->lock);
  return 1;
}

uint32_t df_complete(dfcclContext_t context, df_driver *driver) {
  uint32_t n = 0;
  while (df_cq_has_entry(&context->device.cq) || df_load_relaxed_u32(&context->has_listed)) {
    uint32_t before = n;
    if (!df_system_claim_u32(&context->completer, 0, 1)) break;
    while (complete_one(context, driver)) n++;
    df_publish_u32(&context->completer, 0);
    df_wake_fence(); /* before the next look: the poller may have left a CQE to us (store buffering)
                      */
    if (n == before && !df_cq_has_entry(&context->device.cq)) break;
  }
  if (n > 0) {
    df_wake_fence();
    if (df_load_relaxed_u32(&context->sleeping_waiters)) df_bell_wake(context->executor.work_bell);
  }
  return n;
}

static void *poller(void *argument) {
  dfcclContext_t context = argument;
  uint32_t spins = 0;
  while (!df_load_relaxed_u32(&context->stopping)) {
    if (df_complete(context, NULL) > 0) {
      spins = 0;
      continue;
    }
    if (++spins < DF_POLLER_SPINS) {
      df_pause();
      continue;
    }
    uint32_t ticket = df_bell_prepare(&context->poller_bell);
    /* While somebody else completes, what is in the CQ is theirs; they look again after they have
     * let go. */
    int busy = df_load_relaxed_u32(&context->completer);
    if ((df_cq_has_entry(&context->device.cq) && !busy) || df_load_relaxed_u32(&context->stopping))
      df_bell_cancel(&context->poller_bell);
    else
      df_bell_sleep(&context->poller_bell, ticket, UINT64_MAX);
    spins = 0;
  }
  return NULL;
}

dfcclResult_t df_poller_start(dfcclContext_t context) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, DF_POLLER_STACK_BYTES);
  int error = pthread_create(&context->poller, &attributes, poller, context);
  pthread_attr_destroy(&attributes);
  if (error)
    return df_fail(dfcclOutOfMemory, "could not start the poller's thread: %s", strerror(error));
  context->poller_started = 1;
  return dfcclSuccess;
}

void df_poller_stop(dfcclContext_t context) {
  if (!context->poller_started) return;
  df_publish_u32(&context->stopping, 1);
  df_bell_wake(&context->poller_bell);
  pthread_join(context->poller, NULL);
  context->poller_started = 0;
}
