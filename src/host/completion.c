/*
 * Completion, in two stages. Reaping takes CQEs, gives the daemon its next runs and is done by
 * whoever comes by: a thread inside dfcclWait*, the background threads between two turns, the
 * poller. Callbacks are run by one thread at a time, the completer (the poller, or a thread inside
 * dfcclWait*), in the order in which the runs were reaped. No lock is held while user code runs,
 * and a driver lets go of its blocks first, so that a callback that blocks delays other callbacks
 * only: not the daemon, not a later run, not a peer.
 */
#include <stdlib.h>
#include <string.h>

#include "host/context.h"
#include "host/failure.h"
#include "host/registry.h"
#include "host/runs.h"

enum {
  DF_POLLER_STACK_BYTES = 1024 * 1024,
  DF_CALLBACKS_AT_ONCE = 16 /* of others, that a waiter runs before it looks for its own */
};

static _Thread_local int callback_depth;

int df_in_callback(void) { return callback_depth; }

int df_has_outstanding(void *host) {
  dfcclContext_t context = host;
  /* In this order: a callback submits before it is complete, so that a chain is never missed. */
  uint64_t completed = df_observe_u64(&context->runs.completed);
  return df_observe_u64(&context->runs.accepted) != completed;
}

void df_ring_poller(void *host) {
  dfcclContext_t context = host;
  df_bell_ring(&context->runs.poller_bell);
}

/* [lock] A failed collective's run that never went to the daemon; only after those that did have
 * come back. */
static df_coll *failed_waiting(dfcclContext_t context) {
  for (df_coll *coll = context->runs.listed_first; coll; coll = coll->next_listed)
    if (coll->failed != dfcclSuccess && df_runs_in_device(coll) == 0 && coll->backlog_length > 0)
      return coll;
  return NULL;
}

/* [lock] A failed collective with a run in a daemon that will not complete it. */
static df_coll *stranded(dfcclContext_t context) {
  for (uint32_t i = 0; i < context->registry.n_indices; i++) {
    df_coll *coll = context->registry.by_index[i];
    if (coll && coll->failed != dfcclSuccess && df_runs_in_device(coll) > 0) return coll;
  }
  return NULL;
}

/* [lock] The daemon is through with the oldest run that it holds of this collective. Inline, so
 * that of the run's record only what is needed is read. */
static inline df_run retire(dfcclContext_t context, df_coll *coll) {
  DF_ASSERT(coll->retired < coll->admitted);
  df_run run = coll->in_device[coll->retired % DF_RUNS_AHEAD];
  if (df_runs_in_device(coll) > 1) context->runs.surplus--;
  coll->retired++;
  if (DF_UNLIKELY(coll->submitted > coll->run_limit)) df_check_run_limit(context, coll);
  if (coll->backlog_length > 0) {
    df_list(context, coll);
    df_admit_listed(context);
  }
  return run;
}

/* [lock] */
static inline void note_taken(dfcclContext_t context, df_coll *coll, const df_run *run,
                              dfcclResult_t status) {
  if (run->ticket) context->device.streams->release(&context->device, run->ticket);
  coll->taken++;
  df_publish_u64(&context->runs.taken, context->runs.taken + 1);
  if (DF_LIKELY(status == dfcclSuccess)) return;
  if (coll->words->status == dfcclSuccess)
    df_store_relaxed_u32(&coll->words->status, (uint32_t)status);
  if (context->runs.wait_all_status == dfcclSuccess) context->runs.wait_all_status = status;
}

/* [lock] The next CQE. A device that counts as lost may still write some: it was an error that made
 * it count so, and its kernel may run on. The host completes its runs, and only once. */
static int pop(dfcclContext_t context, df_cqe *cqe) {
  while (df_cq_pop_mpsc(&context->device.shared->cq, cqe)) {
    df_store_relaxed_u64(&context->runs.cqes_seen, context->runs.cqes_seen + 1);
    if (!context->runs.device_lost) return 1;
  }
  return 0;
}

/* [lock] The run's callback, if any, has returned. The context's count goes first: a thread that
 * sees its collective complete, without the lock, finds the context no busier than that. */
static inline void finish(dfcclContext_t context, df_coll *coll) {
  df_publish_u64(&context->runs.completed, context->runs.completed + 1);
  df_publish_u64(&coll->words->completed, coll->words->completed + 1);
}

DF_APART dfcclResult_t df_grow_callbacks(dfcclContext_t context) {
  df_callback_queue *queue = &context->runs.callbacks;
  uint64_t capacity = queue->capacity ? queue->capacity * 2 : 64;
  df_pending_callback *larger = malloc(capacity * sizeof *larger);
  if (larger == NULL)
    return df_fail(dfcclOutOfMemory, "no memory for the callbacks of %llu outstanding runs",
                   (unsigned long long)(context->runs.accepted - context->runs.completed));
  for (uint64_t i = queue->head; i != queue->tail; i++)
    larger[i % capacity] = queue->entries[i % queue->capacity];
  free(queue->entries);
  queue->entries = larger;
  queue->capacity = capacity;
  return dfcclSuccess;
}

/* [lock] Behind those that wait already. */
static DF_APART void defer_callback(dfcclContext_t context, df_coll *coll, dfcclCallback_t callback,
                                    void *argument, dfcclResult_t status) {
  df_callback_queue *queue = &context->runs.callbacks;
  DF_ASSERT(queue->tail - queue->head < queue->capacity);
  coll->references++; /* the callback may deregister it */
  queue->entries[queue->tail % queue->capacity] = (df_pending_callback){
      .coll = coll, .callback = callback, .argument = argument, .status = status};
  df_publish_u64(&queue->tail, queue->tail + 1);
}

/*
 * [lock] A run that was taken. Without a callback it is finished on the spot, unless earlier ones
 * still wait for theirs: a count of finished runs must never run ahead of an unfinished one.
 * Returns 1 if it was finished.
 */
static inline uint32_t conclude(dfcclContext_t context, df_coll *coll, const df_run *run,
                                dfcclResult_t status) {
  df_callback_queue *queue = &context->runs.callbacks;
  if (run->callback == NULL && queue->head == queue->tail && !queue->running) {
    finish(context, coll);
    return 1;
  }
  defer_callback(context, coll, run->callback, run->argument, status);
  return 0;
}

/* [lock] The oldest run that the daemon holds of this collective is through. Returns 1 if it was
 * finished. */
static inline uint32_t end_oldest(dfcclContext_t context, df_coll *coll, dfcclResult_t status) {
  df_run run = retire(context, coll);
  note_taken(context, coll, &run, status);
  return conclude(context, coll, &run, status);
}

/* [lock] Runs that the daemon gave up follow those that succeeded: they are through when all before
 * them are. */
static DF_APART uint32_t end_given_up(dfcclContext_t context, df_coll *coll) {
  uint32_t finished = 0;
  while (coll->n_given_up > 0 && coll->retired >= coll->first_given_up) {
    coll->n_given_up--;
    finished += end_oldest(context, coll, coll->failed);
  }
  return finished;
}

/*
 * [lock] The daemon tells of a run. Runs end in order, and once one was given up all later ones
 * are. But their CQEs, of two blocks or of a block and a borrowed turn, come in any order. So a
 * success is the oldest run's, whichever run it tells of, and a failure has to wait for its turn.
 */
static inline uint32_t end_success(dfcclContext_t context, df_coll *coll) {
  uint32_t finished = end_oldest(context, coll, dfcclSuccess);
  if (DF_UNLIKELY(coll->n_given_up > 0)) finished += end_given_up(context, coll);
  return finished;
}

static DF_APART uint32_t end_failure(dfcclContext_t context, df_coll *coll, const df_cqe *cqe) {
  uint64_t ahead = (cqe->run + DF_RUNS_AHEAD - coll->retired % DF_RUNS_AHEAD) % DF_RUNS_AHEAD;
  uint64_t run = coll->retired + ahead;
  DF_ASSERT(run < coll->admitted);
  DF_ASSERT(coll->failed != dfcclSuccess);
  if (coll->n_given_up++ == 0 || run < coll->first_given_up) coll->first_given_up = run;
  return end_given_up(context, coll);
}

/* [lock] The next thing that tells of runs. Returns 0 when there is none. */
static int take(dfcclContext_t context, uint32_t *finished) {
  df_cqe cqe;
  df_coll *coll;
  if (pop(context, &cqe)) {
    coll = context->registry.by_index[cqe.collective];
    DF_ASSERT(coll != NULL);
    *finished +=
        DF_LIKELY(cqe.status == 0) ? end_success(context, coll) : end_failure(context, coll, &cqe);
  } else if (context->runs.device_lost && (coll = stranded(context)) != NULL) {
    *finished += end_oldest(context, coll, coll->failed);
  } else if (context->runs.has_listed && (coll = failed_waiting(context)) != NULL) {
    df_run run = df_backlog_pop(context, coll);
    note_taken(context, coll, &run, coll->failed);
    *finished += conclude(context, coll, &run, coll->failed);
  } else {
    return 0;
  }
  return 1;
}

/* Takes everything that is through. Returns how many runs were finished. */
static uint32_t reap(dfcclContext_t context) {
  uint32_t finished = 0;
  if (!df_cq_has_entry(&context->device.shared->cq) &&
      !df_load_relaxed_u32(&context->runs.has_listed) &&
      !df_load_relaxed_u32(&context->runs.device_lost))
    return 0;
  pthread_mutex_lock(&context->lock);
  while (take(context, &finished)) continue;
  pthread_mutex_unlock(&context->lock);
  return finished;
}

static int has_callbacks(const dfcclContext_t context) {
  return df_observe_u64(&context->runs.callbacks.head) !=
         df_observe_u64(&context->runs.callbacks.tail);
}

static void wake_waiters(dfcclContext_t context) {
  df_wake_fence();
  if (df_load_relaxed_u32(&context->runs.sleeping_waiters)) df_bell_wake(context->device.work_bell);
}

/* The same by a thread that has let go of the lock since. */
static void wake_waiters_unlocked(dfcclContext_t context) {
  df_wake_fence_unlocked();
  if (df_load_relaxed_u32(&context->runs.sleeping_waiters)) df_bell_wake(context->device.work_bell);
}

int df_complete_borrowed(dfcclContext_t context, const df_borrowed_turn *turn) {
  pthread_mutex_lock(&context->lock);
  df_store_relaxed_u64(&context->runs.cqes_seen, context->runs.cqes_seen + 1);
  uint32_t finished = end_success(context, context->registry.by_index[turn->collective]);
  pthread_mutex_unlock(&context->lock);
  df_wake_fence_unlocked(); /* before the looks at who sleeps: reaping has let go of the lock */
  df_ring_borrowed(turn);
  if (finished > 0 && df_load_relaxed_u32(&context->runs.sleeping_waiters))
    df_bell_wake(context->device.work_bell);
  /* Runs of a failed collective may have waited for this one: listed, or given up. */
  return finished > 0 && !df_load_relaxed_u32(&context->runs.has_listed) && !has_callbacks(context);
}

/* The completer only: runs the oldest callback. Returns 0 when there is none. */
static int run_callback(dfcclContext_t context, df_driver *driver) {
  df_callback_queue *queue = &context->runs.callbacks;
  pthread_mutex_lock(&context->lock);
  if (queue->head == queue->tail) {
    pthread_mutex_unlock(&context->lock);
    return 0;
  }
  df_pending_callback next = queue->entries[queue->head % queue->capacity];
  df_publish_u64(&queue->head, queue->head + 1);
  queue->running = 1;
  dfcclCollId_t id = next.coll->id;
  pthread_mutex_unlock(&context->lock);

  if (next.callback) {
    if (driver) {
      context->device.executor->drive_release(&context->device, driver);
      df_visit(context, driver); /* the callback may tell others where it is */
    }
    callback_depth++;
    next.callback(id, next.status, next.argument);
    callback_depth--;
  }

  pthread_mutex_lock(&context->lock);
  queue->running = 0;
  if (next.callback)
    df_store_relaxed_u64(&context->runs.callbacks_run, context->runs.callbacks_run + 1);
  finish(context, next.coll);
  df_coll_unreference(context, next.coll);
  pthread_mutex_unlock(&context->lock);
  wake_waiters(context); /* now: the next callback may block */
  return 1;
}

uint32_t df_complete(dfcclContext_t context, df_driver *driver) {
  uint32_t n = reap(context), left = driver ? DF_CALLBACKS_AT_ONCE : UINT32_MAX;
  while (left > 0 && has_callbacks(context) &&
         df_system_claim_u32(&context->runs.completer, 0, 1)) {
    while (left > 0 && run_callback(context, driver)) {
      left--;
      n++;
      n += reap(context);
    }
    df_publish_u32(&context->runs.completer, 0);
    df_wake_fence(); /* before the next look: the poller may have left a callback to us (store
                        buffering) */
  }
  if (n > 0) wake_waiters_unlocked(context);
  return n;
}

/* Background threads, between two turns: never runs user code. */
void df_reap_and_ring(void *host) {
  dfcclContext_t context = host;
  uint32_t finished = reap(context);
  if (finished > 0) wake_waiters(context);
  if (has_callbacks(context)) df_bell_ring(&context->runs.poller_bell);
}

int df_completion_is_due(dfcclContext_t context) {
  return df_cq_has_entry(&context->device.shared->cq) ||
         (has_callbacks(context) && !df_load_relaxed_u32(&context->runs.completer));
}

static void *poller(void *argument) {
  dfcclContext_t context = argument;
  uint32_t spins = 0;
  while (!df_load_relaxed_u32(&context->runs.stopping)) {
    if (df_complete(context, NULL) > 0) {
      spins = 0;
      continue;
    }
    if (++spins < DF_POLLER_SPINS) {
      df_pause();
      continue;
    }
    uint32_t ticket = df_bell_prepare(&context->runs.poller_bell);
    /* The last look reaps: runs of a failed collective that wait on the host have no CQE. */
    uint32_t finished = reap(context);
    if (finished > 0) wake_waiters(context);
    if (finished > 0 || df_completion_is_due(context) ||
        df_load_relaxed_u32(&context->runs.stopping))
      df_bell_cancel(&context->runs.poller_bell);
    else
      df_bell_sleep(&context->runs.poller_bell, ticket, UINT64_MAX);
    spins = 0;
  }
  return NULL;
}

dfcclResult_t df_poller_start(dfcclContext_t context) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, DF_POLLER_STACK_BYTES);
  int error = pthread_create(&context->runs.poller, &attributes, poller, context);
  pthread_attr_destroy(&attributes);
  if (error)
    return df_fail(dfcclOutOfMemory, "could not start the poller's thread: %s", strerror(error));
  context->runs.poller_started = 1;
  return dfcclSuccess;
}

void df_poller_stop(dfcclContext_t context) {
  if (!context->runs.poller_started) return;
  df_publish_u32(&context->runs.stopping, 1);
  df_bell_wake(&context->runs.poller_bell);
  pthread_join(context->runs.poller, NULL);
  context->runs.poller_started = 0;
}
