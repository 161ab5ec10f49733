/*
 * Any thread that passes reaps: it takes CQEs and gives the daemon its next runs. Callbacks wait in
 * their collective's list, in the order of runs. One thread at a time runs the callbacks of a
 * collective: the poller, or a thread in dfcclWait* that waits for them. A waiter runs no other
 * callbacks, because one that blocks would delay it. User code runs without locks and without
 * blocks of the device, so a callback that blocks delays only callbacks.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/thread.h"
#include "control/service.h"
#include "host/state/context.h"
#include "host/runs/collective_failure.h"
#include "host/runs/recall.h"
#include "host/runs/run_failures.h"
#include "host/state/registry.h"
#include "host/runs/runs.h"
#include "host/state/switch_hooks.h"
#include "host/observe/flight.h"
#include "host/observe/metrics.h"
#include "host/observe/trace.h"

enum { DF_POLLER_STACK_BYTES = 1024 * 1024 }; /* dfccl.h documents this size */

int df_has_outstanding(void *host) {
  dfcclContext_t context = host;
  /* The order of the two loads matters: a callback submits before it is counted as completed, so a
   * chain of runs is never missed. */
  uint64_t completed = df_observe_u64(&context->runs.completed);
  return df_observe_u64(&context->runs.accepted) != completed;
}

void df_ring_poller(void *host) {
  dfcclContext_t context = host;
  df_bell_ring(&context->runs.poller_bell);
}

/* A failed collective with runs that wait on the host. Its runs in the daemon end first. */
static df_coll *failed_waiting(dfcclContext_t context) DF_RANK_LOCKED {
  for (df_coll *coll = context->runs.listed_first; coll; coll = coll->runs.next_listed)
    if (coll->failure.failed != dfcclSuccess && df_runs_in_device(coll) == 0 &&
        coll->runs.backlog_length > 0)
      return coll;
  return NULL;
}

/* A failed collective some of whose runs are in the lost daemon. */
static df_coll *stranded(dfcclContext_t context) DF_RANK_LOCKED {
  for (uint32_t i = 0; i < context->registry.n_indices; i++) {
    df_coll *coll = context->registry.by_index[i];
    if (coll && coll->failure.failed != dfcclSuccess && df_runs_in_device(coll) > 0) return coll;
  }
  return NULL;
}

static DF_APART void end_watched(dfcclContext_t context, df_coll *coll,
                                 const df_run *run) DF_RANK_LOCKED {
  if (coll->exec.pages == DF_PAGES_LATER) {
    coll->exec.pages = DF_PAGES_DUE;
    if (coll->plan_switch == NULL) coll->runs.watched_from = UINT64_MAX;
    df_store_relaxed_u32(&context->links_due, 1);
    df_service_wake(&context->control);
  }
  df_switch_timed(context, coll, run);
}

/* The daemon has ended the oldest run. Inline, so that callers copy only the members that they use.
 */
static inline df_run retire(dfcclContext_t context, df_coll *coll) DF_RANK_LOCKED {
  DF_ASSERT(coll->runs.retired < coll->runs.admitted);
  const df_run *slot = df_run_in_device(coll, coll->runs.retired);
  df_run run = *slot;
  if (df_runs_in_device(coll) > 1) context->runs.surplus--;
  coll->runs.retired++;
  if (DF_UNLIKELY(coll->runs.retired > coll->runs.watched_from)) end_watched(context, coll, slot);
  if (DF_UNLIKELY(coll->runs.submitted > coll->members.run_limit))
    df_check_run_limit(context, coll);
  if (coll->runs.backlog_length > 0) {
    df_list(context, coll);
    df_admit_listed(context);
  }
  return run;
}

void df_note_failure(dfcclContext_t context, df_coll *coll, dfcclResult_t status) {
  if (coll->runs.words->status == dfcclSuccess)
    df_store_relaxed_u32(&coll->runs.words->status, (uint32_t)status);
  if (context->runs.wait_all_status == dfcclSuccess) context->runs.wait_all_status = status;
}

/* The submission is passed by value: a pointer to the run would make its callers copy all of it.
 * 0: the run was submitted before runs were timed. */
static DF_APART void note_timed(dfcclContext_t context, df_coll *coll, uint64_t submitted_ns,
                                uint64_t count, dfcclResult_t status) DF_RANK_LOCKED {
  if (context->metrics != NULL) df_metrics_run(context, coll, submitted_ns, count, status);
  if (context->tracer != NULL) df_trace_run(context, coll, submitted_ns, status);
  if (!context->runs.is_watched || status != dfcclSuccess || submitted_ns == 0) return;
  coll->watch.timed_runs++;
  coll->watch.timed_ns += df_clock_ns() - submitted_ns;
  if (--context->runs.timed_left > 0) return;
  df_store_relaxed_u32(&context->runs.is_watched, 0);
  df_store_relaxed_u32(&context->runs.timing, context->runs.timing - 1);
}

static inline void note_taken(dfcclContext_t context, df_coll *coll, const df_run *run,
                              dfcclResult_t status, uint64_t begun_ticks) DF_RANK_LOCKED {
  if (run->stream_event) context->device.streams->release(&context->device, run->stream_event);
  coll->runs.taken++;
  if (DF_LIKELY(context->flight != NULL))
    df_flight_note(context->flight, coll, run, status, begun_ticks);
  if (DF_UNLIKELY(context->runs.timing != 0))
    note_timed(context, coll, run->submitted_ns, run->count, status);
  df_publish_u64(&context->runs.taken, context->runs.taken + 1);
  if (DF_LIKELY(status == dfcclSuccess)) return;
  if (coll->runs.words->first_failed == UINT64_MAX && coll->failure.failed != dfcclSuccess) {
    df_store_relaxed_u32(&coll->runs.words->failed, (uint32_t)status);
    df_store_relaxed_u64(&coll->runs.words->first_failed, coll->runs.taken - 1);
    df_keep_failure(context, coll, coll->runs.taken - 1, status);
  }
  df_note_failure(context, coll, status);
}

/* Takes a CQE. A lost device may still write CQEs; they are ignored, because the host completes the
 * device's runs, and each run completes only once. */
static int pop(dfcclContext_t context, df_cqe *cqe) DF_RANK_LOCKED {
  while (df_cq_pop_mpsc(&context->device.shared->cq, cqe)) {
    df_store_relaxed_u64(&context->runs.cqes_seen, context->runs.cqes_seen + 1);
    if (!context->runs.device_lost) return 1;
  }
  return 0;
}

/* The context's count is published first: a thread that sees without the lock that the collective
 * is complete then also sees this run counted in the context. */
static inline void finish(dfcclContext_t context, df_coll *coll) DF_RANK_LOCKED {
  df_publish_u64(&context->runs.completed, context->runs.completed + 1);
  df_publish_u64(&coll->runs.words->completed, coll->runs.words->completed + 1);
}

static void note_due(dfcclContext_t context, df_coll *coll) DF_RANK_LOCKED {
  TAILQ_INSERT_TAIL(&context->runs.due, coll, runs.next_due);
  df_publish_u32(&coll->runs.words->due, 1);
  df_publish_u32(&context->runs.n_due, context->runs.n_due + 1);
}

static void note_not_due(dfcclContext_t context, df_coll *coll) DF_RANK_LOCKED {
  TAILQ_REMOVE(&context->runs.due, coll, runs.next_due);
  df_publish_u32(&coll->runs.words->due, 0);
  df_publish_u32(&context->runs.n_due, context->runs.n_due - 1);
}

static DF_APART void defer_callback(dfcclContext_t context, df_coll *coll, dfcclCallback_t callback,
                                    void *argument, dfcclResult_t status) DF_RANK_LOCKED {
  df_callback_pool *pool = &context->runs.callbacks;
  uint32_t number = pool->first_free;
  if (number == 0) {
    DF_ASSERT(pool->used < pool->capacity);
    number = ++pool->used;
  } else {
    pool->first_free = pool->entries[number - 1].next;
  }
  pool->entries[number - 1] =
      (df_pending_callback){.callback = callback, .argument = argument, .status = status};
  coll->references++; /* the callback may deregister the collective */
  if (coll->runs.first_callback == 0) {
    coll->runs.first_callback = number;
    if (!coll->runs.calls_back) note_due(context, coll);
  } else {
    pool->entries[coll->runs.last_callback - 1].next = number;
  }
  coll->runs.last_callback = number;
}

/*
 * Without a callback the run finishes at once, unless earlier runs of its collective wait for their
 * callbacks: counts must not pass an unfinished run. Returns 1 if the run finished.
 */
static inline uint32_t conclude_run(dfcclContext_t context, df_coll *coll, const df_run *run,
                                    dfcclResult_t status) DF_RANK_LOCKED {
  if (run->callback == NULL && coll->runs.words->completed + 1 == coll->runs.taken) {
    finish(context, coll);
    return 1;
  }
  defer_callback(context, coll, run->callback, run->argument, status);
  return 0;
}

/* Waiters must be woken, because the poller may be inside a callback that blocks. */
static void wake_waiters(dfcclContext_t context) {
  df_wake_fence();
  if (df_load_relaxed_u32(&context->runs.sleeping_waiters)) df_bell_wake(context->device.work_bell);
}

void df_end_taken_back(dfcclContext_t context, df_coll *coll, const df_run *run,
                       dfcclResult_t status) {
  note_taken(context, coll, run, status, 0);
  if (conclude_run(context, coll, run, status)) wake_waiters(context);
}

static DF_APART uint32_t hold_oldest(dfcclContext_t context, df_coll *coll,
                                     int has_data) DF_RANK_LOCKED {
  const uint32_t slot = df_slot_of(coll, coll->runs.retired);
  const df_run run = retire(context, coll);
  df_recall_hold(context, coll, &run, slot, has_data);
  return 0;
}

/* Returns 1 if the run finished. */
static inline uint32_t end_oldest(dfcclContext_t context, df_coll *coll,
                                  dfcclResult_t status) DF_RANK_LOCKED {
  if (DF_UNLIKELY(coll->runs.is_recalled))
    return hold_oldest(context, coll, status == dfcclSuccess);
  /* A block counts a run that is taken back as complete if it has its data here. The other members
   * may not have theirs. */
  if (DF_UNLIKELY(coll->runs.is_abandoned)) status = coll->failure.failed;
  const uint64_t begun_ticks = df_flight_begun(coll, coll->runs.retired);
  df_run run = retire(context, coll);
  note_taken(context, coll, &run, status, begun_ticks);
  return conclude_run(context, coll, &run, status);
}

/* A run that was given up ends when all runs before it have ended. */
static DF_APART uint32_t end_given_up(dfcclContext_t context, df_coll *coll) DF_RANK_LOCKED {
  uint32_t finished = 0;
  while (coll->runs.n_given_up > 0 && coll->runs.retired >= coll->runs.first_given_up) {
    coll->runs.n_given_up--;
    finished +=
        end_oldest(context, coll, coll->runs.is_recalled ? dfcclRemoteError : coll->failure.failed);
  }
  return finished;
}

/*
 * Runs end in order, and after a run that was given up all later ones are given up too. But the
 * CQEs of two blocks, or of a block and a borrowed turn, arrive in any order. So a success ends the
 * oldest run, and a failure waits until its run is the oldest.
 */
static inline uint32_t end_success(dfcclContext_t context, df_coll *coll) DF_RANK_LOCKED {
  uint32_t finished = end_oldest(context, coll, dfcclSuccess);
  if (DF_UNLIKELY(coll->runs.n_given_up > 0)) finished += end_given_up(context, coll);
  return finished;
}

/* A block could not read a lent buffer. The process that lent it may have ended: then the end of
 * its connection follows, and the next view decides about the run. */
static void end_unread(dfcclContext_t context, df_coll *coll, uint64_t run) DF_RANK_LOCKED {
  if (context->survival && coll->exec.device.descriptor->counters->unread_error == ESRCH)
    df_recall_begin(context, coll);
  else
    df_fail_unread(context, coll, run);
}

static DF_APART uint32_t end_failure(dfcclContext_t context, df_coll *coll,
                                     const df_cqe *cqe) DF_RANK_LOCKED {
  uint64_t ahead =
      (cqe->run + DF_RUNS_AHEAD - df_slot_of(coll, coll->runs.retired)) % DF_RUNS_AHEAD;
  uint64_t run = coll->runs.retired + ahead;
  DF_ASSERT(run < coll->runs.admitted);
  if (coll->failure.failed == dfcclSuccess && cqe->status == dfcclMismatch)
    df_fail_differing(context, coll, run);
  else if (coll->failure.failed == dfcclSuccess && cqe->status != DF_CANCEL_RECALLED)
    end_unread(context, coll, run);
  if (coll->runs.n_given_up++ == 0 || run < coll->runs.first_given_up)
    coll->runs.first_given_up = run;
  return end_given_up(context, coll);
}

/* Returns 0 when no CQE and no failed collective has a run to end. */
static int end_next_run(dfcclContext_t context) DF_RANK_LOCKED {
  df_cqe cqe;
  df_coll *coll;
  if (pop(context, &cqe)) {
    coll = context->registry.by_index[cqe.collective];
    DF_ASSERT(coll != NULL);
    if (DF_LIKELY(cqe.status == 0))
      end_success(context, coll);
    else
      end_failure(context, coll, &cqe);
  } else if (context->runs.device_lost && (coll = stranded(context)) != NULL) {
    end_oldest(context, coll, coll->failure.failed);
  } else if (context->runs.has_listed && (coll = failed_waiting(context)) != NULL) {
    df_run run = df_backlog_pop(context, coll);
    note_taken(context, coll, &run, coll->failure.failed, 0);
    conclude_run(context, coll, &run, coll->failure.failed);
  } else {
    return 0;
  }
  return 1;
}

/* Returns how many runs it ended. */
static uint32_t reap(dfcclContext_t context) {
  uint32_t taken = 0;
  if (!df_cq_has_entry(&context->device.shared->cq) &&
      !df_load_relaxed_u32(&context->runs.has_listed) &&
      !df_load_relaxed_u32(&context->runs.device_lost))
    return 0;
  df_rank_lock(&context->lock);
  while (end_next_run(context)) taken++;
  if (DF_UNLIKELY(context->tracer != NULL)) df_trace_flush_failures(context);
  df_rank_unlock(&context->lock);
  return taken;
}

static int has_callbacks(const dfcclContext_t context) {
  return df_observe_u32(&context->runs.n_due) != 0;
}

/* For a thread that has released the lock since it changed the counts. */
static void wake_waiters_unlocked(dfcclContext_t context) {
  df_wake_fence_unlocked();
  if (df_load_relaxed_u32(&context->runs.sleeping_waiters)) df_bell_wake(context->device.work_bell);
}

int df_complete_borrowed(dfcclContext_t context, const df_borrowed_turn *turn) {
  df_rank_lock(&context->lock);
  df_store_relaxed_u64(&context->runs.cqes_seen, context->runs.cqes_seen + 1);
  uint32_t finished = end_success(context, context->registry.by_index[turn->collective]);
  if (DF_UNLIKELY(context->tracer != NULL)) df_trace_flush_failures(context);
  df_rank_unlock(&context->lock);
  df_wake_fence_unlocked(); /* before the loads of sleepers' flags: the lock is released already */
  df_ring_borrowed(turn, context->device.host.carrier);
  if (df_load_relaxed_u32(&context->runs.sleeping_waiters)) df_bell_wake(context->device.work_bell);
  /* Runs of a failed collective on the host may have waited for the end of this one. */
  return finished > 0 && !df_load_relaxed_u32(&context->runs.has_listed) && !has_callbacks(context);
}

/* Whether the thread waits for the run of the collective's oldest callback. */
static int is_awaited(const df_coll *coll, const df_awaited *awaited, uint32_t n) DF_RANK_LOCKED {
  uint32_t first = 0;
  while (n > 1) { /* by the order of the records */
    uint32_t half = n / 2;
    if (awaited[first + half].words <= coll->runs.words) first += half;
    n -= half;
  }
  return n > 0 && awaited[first].words == coll->runs.words &&
         awaited[first].registration == coll->runs.words->registration &&
         coll->runs.words->completed < awaited[first].target;
}

/* NULL: no collective has callbacks that the caller may run. */
static df_coll *find_due(dfcclContext_t context, const df_awaited *awaited,
                         uint32_t n) DF_RANK_LOCKED {
  df_coll *coll;
  if (awaited == NULL) return TAILQ_FIRST(&context->runs.due);
  if (n == 1) {
    if (!awaited->words->due) return NULL;
    coll = context->registry.by_line[awaited->words - context->registry.wait_words];
    return is_awaited(coll, awaited, 1) ? coll : NULL;
  }
  TAILQ_FOREACH(coll, &context->runs.due, runs.next_due)
  if (is_awaited(coll, awaited, n)) return coll;
  return NULL;
}

static df_pending_callback take_callback(dfcclContext_t context, df_coll *coll) DF_RANK_LOCKED {
  df_callback_pool *pool = &context->runs.callbacks;
  uint32_t number = coll->runs.first_callback;
  df_pending_callback taken = pool->entries[number - 1];
  coll->runs.first_callback = taken.next;
  pool->entries[number - 1].next = pool->first_free;
  pool->first_free = number;
  note_not_due(context, coll);
  coll->runs.calls_back = 1;
  return taken;
}

static void give_back_turn(dfcclContext_t context, df_coll *coll) DF_RANK_LOCKED {
  coll->runs.calls_back = 0;
  if (coll->runs.first_callback != 0) note_due(context, coll);
  finish(context, coll);
  /* The application learns of a view after the runs that ended before it. */
  if (DF_UNLIKELY(context->survival && context->survival->told != context->survival->view))
    df_ring_poller(context);
  df_coll_unreference(context, coll);
}

/* Returns 0 when there is no callback that the caller may run. */
static int run_callback(dfcclContext_t context, df_progress_thread *progress,
                        const df_awaited *awaited, uint32_t n) {
  df_rank_lock(&context->lock);
  df_coll *coll = find_due(context, awaited, n);
  if (coll == NULL) {
    df_rank_unlock(&context->lock);
    return 0;
  }
  df_pending_callback next = take_callback(context, coll);
  uint64_t from_ns = 0;
  df_rank_unlock(&context->lock);

  if (next.callback) {
    if (progress) {
      context->device.executor->progress_release(&context->device, progress);
      df_become_waiter(context,
                       progress); /* the callback may let another thread destroy the context */
    }
    if (next.status != dfcclSuccess) df_flight_await(context);
    if (context->tracer) from_ns = df_clock_ns();
    df_enter_callback(coll->runs.words);
    next.callback(coll->id, next.status, next.argument);
    df_leave_callback();
  }

  df_rank_lock(&context->lock);
  if (next.callback)
    df_store_relaxed_u64(&context->runs.callbacks_run, context->runs.callbacks_run + 1);
  if (from_ns) df_trace_callback(context, coll, from_ns);
  give_back_turn(context, coll);
  df_rank_unlock(&context->lock);
  wake_waiters(context); /* not later: the next callback may block */
  return 1;
}

uint32_t df_complete(dfcclContext_t context, df_progress_thread *progress,
                     const df_awaited *awaited, uint32_t n_awaited) {
  uint32_t n = reap(context);
  while (has_callbacks(context) && run_callback(context, progress, awaited, n_awaited)) {
    n++;
    n += reap(context);
  }
  if (awaited && has_callbacks(context)) df_bell_ring(&context->runs.poller_bell);
  if (n > 0) wake_waiters_unlocked(context);
  return n;
}

/* For background threads, which never run user code. */
void df_reap_and_ring(void *host) {
  dfcclContext_t context = host;
  if (reap(context) > 0) wake_waiters(context);
  if (has_callbacks(context)) df_bell_ring(&context->runs.poller_bell);
}

int df_completion_is_due(dfcclContext_t context) {
  return df_cq_has_entry(&context->device.shared->cq) || has_callbacks(context);
}

int df_awaits_callbacks(dfcclContext_t context, const df_awaited *awaited, uint32_t n) {
  if (!has_callbacks(context)) return 0;
  for (uint32_t i = 0; i < n; i++)
    if (df_observe_u32(&awaited[i].words->due)) return 1;
  return awaited == NULL;
}

static void *poller(void *argument) {
  dfcclContext_t context = argument;
  uint32_t spins = 0;
  while (!df_load_relaxed_u32(&context->runs.stopping)) {
    if (df_complete(context, NULL, NULL, 0) > 0) {
      spins = 0;
      continue;
    }
    if (DF_UNLIKELY(context->survival != NULL) && context->tell_view(context)) continue;
    if (++spins < DF_POLLER_SPINS) {
      df_pause();
      continue;
    }
    uint32_t sequence = df_bell_prepare(&context->runs.poller_bell);
    /* This check reaps, because a failed collective's runs on the host have no CQE. */
    uint32_t taken = reap(context);
    if (taken > 0) wake_waiters(context);
    const int told = context->survival && context->tell_view(context);
    if (taken > 0 || told || df_completion_is_due(context) ||
        df_load_relaxed_u32(&context->runs.stopping))
      df_bell_cancel(&context->runs.poller_bell);
    else
      df_bell_sleep(&context->runs.poller_bell, sequence, UINT64_MAX);
    spins = 0;
  }
  return NULL;
}

dfcclResult_t df_poller_start(dfcclContext_t context) {
  int error = df_thread_create(&context->runs.poller, DF_POLLER_STACK_BYTES, 0, poller, context);
  if (error)
    return df_fail(dfcclOutOfMemory, "cannot start the poller thread: %s", strerror(error));
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
