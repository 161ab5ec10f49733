/*
 * A thread that waits makes progress: it executes the daemon's blocks, takes CQEs and runs awaited
 * callbacks. It sleeps only when no block can progress.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/cpu.h"
#include "base/mutex.h"
#include "host/state/context.h"
#include "host/runs/collective_failure.h"
#include "host/runs/recall.h"
#include "host/runs/run_failures.h"
#include "host/observe/record.h"
#include "host/state/registry.h"
#include "host/runs/runs.h"
#include "host/observe/trace.h"
#include "host/observe/wait_graph.h"

enum {
  DF_VISIT_TURNS = 16, /* turns until a progress thread counts as a waiter */
  DF_FEW_AWAITED = 16  /* up to this many collectives dfcclWaitAll needs no allocation */
};

typedef struct df_condition {
  dfcclContext_t context;
  df_call call;
  df_awaited *awaited; /* [n], fewer as they complete; NULL: no collectives */
  uint32_t n;
  int leaves_callbacks; /* to the poller */
  uint64_t target;
  uint64_t deadline_ns; /* 0: none */
} df_condition;

static int coll_done(df_condition *condition) {
  const df_awaited *awaited = condition->awaited;
  /* The order of the two loads matters: if the count belongs to a new owner of the record, the
   * registration read next differs. A collective is removed only after its last callback has
   * returned. */
  return df_observe_u64(&awaited->words->completed) >= awaited->target ||
         df_observe_u64(&awaited->words->registration) != awaited->registration;
}

static int coll_done_or_late(df_condition *condition) {
  return coll_done(condition) || df_clock_ns() > condition->deadline_ns;
}

static int all_done(df_condition *condition) {
  while (condition->n > 0 && coll_done(condition)) {
    condition->awaited++;
    condition->n--;
  }
  return condition->n == 0;
}

static int is_settled(df_condition *condition) { return !df_has_outstanding(condition->context); }

static int is_decided(df_condition *condition) {
  return df_observe_u64(&condition->context->runs.taken) >= condition->target ||
         df_clock_ns() > condition->deadline_ns;
}

/* Whether the sleeper has CQEs to take or callbacks to run. */
static int has_news(const df_condition *condition) {
  dfcclContext_t context = condition->context;
  return df_cq_has_entry(&context->device.shared->cq) ||
         (!condition->leaves_callbacks &&
          df_awaits_callbacks(context, condition->awaited, condition->n));
}

static uint64_t time_left(const df_condition *condition) {
  uint64_t now = df_clock_ns();
  return condition->deadline_ns > now ? condition->deadline_ns - now : 0;
}

static void sleep_until_news(df_progress_thread *progress, int (*is_true)(df_condition *),
                             df_condition *condition) {
  dfcclContext_t context = condition->context;
  df_bell *bell = context->device.work_bell;
  uint64_t nap = context->device.executor->nap_ns; /* other threads execute some of the blocks */
  uint64_t most = DF_LONGEST_SLEEP_NS;
  if (condition->deadline_ns) most = DF_MIN(most, time_left(condition));
  uint64_t limit =
      context->device.executor->progress_holds_all(&context->device, progress) ? most : nap;
  const df_carrier *carrier = context->device.host.carrier;
  if (carrier) carrier->carry(carrier->who, DF_CARRY_SLEEPS);
  df_system_add_u32(&context->runs.sleeping_waiters, 1); /* before the fence of df_bell_prepare */
  uint32_t sequence = df_bell_prepare(bell);
  if (is_true(condition) ||
      context->device.executor->progress_has_reason(&context->device, progress) ||
      has_news(condition))
    df_bell_cancel(bell);
  else
    df_bell_sleep(bell, sequence, limit);
  df_system_sub_u32(&context->runs.sleeping_waiters, 1);
}

/* The context may be freed as soon as its count of waiters is lowered. */
static dfcclResult_t leave(dfcclContext_t context, uint32_t visits, dfcclResult_t result) {
  df_remember(context, result);
  if (visits > 0) df_system_sub_u32(&context->runs.waiters, visits);
  return result;
}

void df_become_waiter(dfcclContext_t context, df_progress_thread *progress) {
  if (progress->visits) return;
  progress->visits = 1;
  df_system_add_u32(&context->runs.waiters, 1);
}

/* Executes the daemon's next step, because it is often the one that the caller waits for. Returns
 * whether the step's run has ended and no work of it is left, callbacks included. */
static inline int take_last_turn(dfcclContext_t context) {
  df_borrowed_turn turn;
  return context->device.executor->last_turn &&
         context->device.executor->last_turn(&context->device, &turn) &&
         df_complete_borrowed(context, &turn);
}

/* Returns the number of counts in runs.waiters that the caller must remove. It is 0 if the
 * condition was true without delay and the thread ran no callback. Then no other thread could
 * observe that this thread was inside, so none may destroy the context before it returns
 * (dfcclDestroy). */
static uint32_t progress_until(int (*is_true)(df_condition *), df_condition *condition) {
  dfcclContext_t context = condition->context;
  df_rank_device *device = &context->device;
  const df_executor_ops *executor = device->executor;
  df_progress_thread progress;
  uint32_t yields = 0, turns = 0;
  if (is_true(condition)) return 0;
  while (turns++ < DF_VISIT_TURNS && take_last_turn(context))
    if (is_true(condition)) return 0;
  turns = 0;
  progress.visits = 0;
  uint32_t sleeper = 0;
  executor->progress_begin(device, &progress);
  for (;;) {
    int happened = executor->progress_turn(device, &progress, 1);
    uint32_t completed = 0;
    if (condition->leaves_callbacks)
      df_reap_and_ring(context);
    else
      completed = df_complete(context, &progress, condition->awaited, condition->n);
    if (is_true(condition)) break;
    int idle = !happened && !completed;
    if (idle || ++turns == DF_VISIT_TURNS) df_become_waiter(context, &progress);
    if (!idle) {
      yields = 0;
    } else if (!executor->progress_holds_all(device, &progress) &&
               yields < executor->yields_before_nap) {
      yields++;
      df_cpu_yield();
    } else {
      if (sleeper == 0) sleeper = df_sleeper_enter(context, &condition->call);
      sleep_until_news(&progress, is_true, condition);
    }
  }
  df_sleeper_leave(sleeper);
  executor->progress_end(device, &progress);
  if (df_completion_is_due(context)) df_ring_poller(context); /* progress_end may leave work */
  if (df_load_relaxed_u32(&context->runs.sleeping_waiters)) df_bell_ring(context->device.work_bell);
  return progress.visits;
}

static dfcclResult_t refuse_in_callback(dfcclContext_t context, const char *function) {
  df_fail(dfcclInvalidUsage, "%s was called from a callback; it would wait for the callback itself",
          function);
  return df_remember(context, dfcclInvalidUsage);
}

static const char *sentence_of_gone(dfcclContext_t context, uint64_t registration) DF_RANK_LOCKED {
  const df_kept_failure *kept = df_find_failure(context, registration);
  return kept ? kept->sentence : context->failure.sentence;
}

/* Returns each failure once, also that of a collective that its callback has deregistered. */
static dfcclResult_t take_status(dfcclContext_t context, dfcclCollId_t id,
                                 const df_awaited *awaited) {
  dfcclResult_t status = dfcclSuccess;
  df_rank_lock(&context->lock);
  df_wait_words *words =
      &context->registry.wait_words[awaited->words - context->registry.wait_words];
  if (words->latest == awaited->registration) {
    const df_coll *coll = words->registration ? df_find(context, id) : NULL;
    status = (dfcclResult_t)words->status;
    df_store_relaxed_u32(&words->status, dfcclSuccess);
    if (status != dfcclSuccess) {
      char sentence[DF_SENTENCE_BYTES];
      if (coll) df_describe_failure(context, coll, sentence, sizeof sentence);
      df_fail_again(status, coll ? sentence : sentence_of_gone(context, awaited->registration));
    }
  }
  df_rank_unlock(&context->lock);
  return status;
}

static DF_COLD dfcclResult_t refuse_unknown(dfcclContext_t context, dfcclCollId_t id) {
  df_fail(dfcclInvalidArgument, "collective %" PRIu64 " is not registered on rank %u", id,
          context->rank);
  return df_remember(context, dfcclInvalidArgument);
}

static DF_APART dfcclResult_t wait_for(dfcclContext_t context, dfcclCollId_t id,
                                       const df_wait_words *words, uint64_t registration,
                                       uint64_t target) {
  df_awaited awaited = {.words = words, .registration = registration, .target = target};
  df_condition condition = {.context = context,
                            .call = {.name = "dfcclWait", .is_of_one = 1, .id = id},
                            .awaited = &awaited,
                            .n = 1};
  uint32_t visits = progress_until(coll_done, &condition);
  dfcclResult_t result = dfcclSuccess;
  if (DF_UNLIKELY(df_load_relaxed_u32(&words->status) != dfcclSuccess))
    result = take_status(context, id, &awaited);
  if (result == dfcclSuccess) result = df_say_broken(context);
  return leave(context, visits, result);
}

/* Once the record has a new owner, it holds another collective's numbers. */
static dfcclResult_t status_of_run(dfcclContext_t context, const df_awaited *awaited) {
  dfcclResult_t status = dfcclSuccess;
  const df_wait_words *words = awaited->words;
  df_rank_lock(&context->lock);
  int is_known = words->latest == awaited->registration;
  const df_coll *coll = context->registry.by_line[words - context->registry.wait_words];
  const df_failed_range *range =
      is_known && coll ? df_coll_failed_range(coll, awaited->target - 1) : NULL;
  if (range) {
    char sentence[DF_SENTENCE_BYTES];
    df_recall_describe(coll, range, sentence, sizeof sentence);
    status = df_fail_again(dfcclRemoteError, sentence);
  } else if (is_known && awaited->target > words->first_failed) {
    status = (dfcclResult_t)words->failed;
    df_fail_again(status,
                  coll ? coll->failure.sentence : sentence_of_gone(context, awaited->registration));
  }
  df_rank_unlock(&context->lock);
  if (is_known) return status;
  return df_fail(dfcclInvalidArgument,
                 "the collective was deregistered, and its record was reused, while run %" PRIu64
                 " was awaited",
                 awaited->target - 1);
}

static dfcclResult_t refuse_unknown_run(dfcclContext_t context, dfcclCollId_t id, uint64_t run,
                                        uint64_t submitted) {
  if (run == DF_REFUSED_RUN)
    df_fail(dfcclInvalidArgument,
            "dfcclRun refused the run of collective %" PRIu64
            " on rank %u, so dfcclWaitRun has no run to wait for",
            id, context->rank);
  else
    df_fail(dfcclInvalidArgument,
            "run %" PRIu64 " of collective %" PRIu64 " was not submitted on rank %u; %" PRIu64
            " runs were, numbered from 0",
            run, id, context->rank, submitted);
  return df_remember(context, dfcclInvalidArgument);
}

dfcclResult_t df_wait_run(dfcclContext_t context, dfcclCollId_t id, uint64_t run, int timeout_ms) {
  if (df_in_callback()) return refuse_in_callback(context, "dfcclWaitRun");
  df_awaited awaited = {.target = run + 1};
  awaited.words = df_find_words(context, id, &awaited.registration);
  if (awaited.words == NULL) return refuse_unknown(context, id);
  uint64_t submitted = df_observe_u64(&awaited.words->submitted);
  if (run >= submitted) return refuse_unknown_run(context, id, run, submitted);
  df_condition condition = {.context = context,
                            .call = {.name = "dfcclWaitRun", .is_of_one = 1, .id = id},
                            .awaited = &awaited,
                            .n = 1};
  uint32_t visits = 0;
  if (timeout_ms > 0) {
    condition.deadline_ns = df_clock_ns() + (uint64_t)timeout_ms * 1000000u;
    visits = progress_until(coll_done_or_late, &condition);
  } else if (timeout_ms < 0) {
    visits = progress_until(coll_done, &condition);
  }
  dfcclResult_t result = dfcclInProgress;
  if (coll_done(&condition)) result = df_remember(context, status_of_run(context, &awaited));
  if (visits > 0) df_system_sub_u32(&context->runs.waiters, visits);
  return result;
}

dfcclResult_t df_wait(dfcclContext_t context, dfcclCollId_t id) {
  if (df_in_callback()) return refuse_in_callback(context, "dfcclWait");
  uint64_t registration;
  const df_wait_words *words = df_find_words(context, id, &registration);
  if (words == NULL) return refuse_unknown(context, id);
  uint64_t target = df_observe_u64(&words->submitted);
  if (df_observe_u64(&words->completed) >= target &&
      DF_LIKELY(df_load_relaxed_u32(&words->status) == dfcclSuccess))
    return df_say_broken(context);
  return wait_for(context, id, words, registration, target);
}

/* Lists the collectives with incomplete runs, in the order of their records. */
static uint32_t list_outstanding(dfcclContext_t context, df_awaited *awaited,
                                 uint32_t most) DF_RANK_LOCKED {
  uint32_t n = 0;
  for (uint32_t i = 0; i < context->registry.n_lines; i++) {
    const df_coll *coll = context->registry.by_line[i];
    if (coll == NULL || coll->runs.words->completed == coll->runs.submitted) continue;
    if (n < most)
      awaited[n] = (df_awaited){.words = coll->runs.words,
                                .registration = coll->runs.words->registration,
                                .target = coll->runs.submitted};
    n++;
  }
  return n;
}

/* Waits for the runs that were submitted before this call, not for later ones. */
static dfcclResult_t wait_for_outstanding(dfcclContext_t context, uint32_t *visits) {
  df_awaited few[DF_FEW_AWAITED], *awaited = few;
  df_rank_lock(&context->lock);
  uint32_t n = list_outstanding(context, few, DF_FEW_AWAITED);
  if (n > DF_FEW_AWAITED && (awaited = malloc(n * sizeof *awaited)) != NULL)
    list_outstanding(context, awaited, n);
  df_rank_unlock(&context->lock);
  if (awaited == NULL) return df_fail(dfcclOutOfMemory, "no memory to wait for %u collectives", n);
  if (n > 0)
    *visits += progress_until(all_done, &(df_condition){.context = context,
                                                        .call = {.name = "dfcclWaitAll"},
                                                        .awaited = awaited,
                                                        .n = n});
  if (awaited != few) free(awaited);
  return dfcclSuccess;
}

dfcclResult_t df_wait_all(dfcclContext_t context) {
  if (df_in_callback()) return refuse_in_callback(context, "dfcclWaitAll");
  uint32_t visits = 0;
  dfcclResult_t status = wait_for_outstanding(context, &visits);
  if (status != dfcclSuccess) return leave(context, visits, status);
  df_rank_lock(&context->lock);
  status = context->runs.wait_all_status;
  context->runs.wait_all_status = dfcclSuccess;
  if (status != dfcclSuccess) df_fail_again(status, context->failure.sentence);
  df_rank_unlock(&context->lock);
  if (status == dfcclSuccess) status = df_say_broken(context);
  return leave(context, visits, status);
}

void df_wait_quiescent(dfcclContext_t context) {
  uint32_t visits = progress_until(
      is_settled, &(df_condition){.context = context, .call = {.name = "dfcclDestroy"}});
  leave(context, visits, dfcclSuccess);
  /* Each waiter's condition is true by now. */
  while (df_observe_u32(&context->runs.waiters) != 0) df_cpu_yield();
}

void df_wait_decided(dfcclContext_t context, uint64_t most_ns) {
  df_condition condition = {.context = context,
                            .call = {.name = "dfcclAbort"},
                            .leaves_callbacks = 1,
                            .target = df_observe_u64(&context->runs.accepted),
                            .deadline_ns = df_clock_ns() + most_ns};
  leave(context, progress_until(is_decided, &condition), dfcclSuccess);
}

/* ---- device synchronisation ---- */

dfcclResult_t df_device_synchronize(dfcclContext_t context) {
  if (df_in_callback()) return refuse_in_callback(context, "dfcclDeviceSynchronize");
  dfcclResult_t broken = df_say_broken(context);
  if (broken != dfcclSuccess) return broken;
  uint32_t holds = (uint32_t)context->device.executor->holds_while_synchronizing;
  df_system_add_u32(&context->runs.waiters, 1);
  df_rank_lock(&context->lock);
  context->runs.held += holds; /* from here on submitted runs wait on the host */
  if (context->recorder) df_record_sync(context);
  df_rank_unlock(&context->lock);
  const uint64_t from_ns = context->tracer ? df_clock_ns() : 0;
  uint32_t sleeper = df_sleeper_enter(context, &(df_call){.name = "dfcclDeviceSynchronize"});
  dfcclResult_t result = context->device.executor->synchronize(&context->device);
  df_sleeper_leave(sleeper);
  df_rank_lock(&context->lock);
  if (from_ns) df_trace_synchronisation(context, from_ns);
  context->runs.held -= holds;
  df_admit_listed(context);
  df_rank_unlock(&context->lock);
  /* The daemon may have stopped with work left. */
  if (df_has_outstanding(context)) context->device.executor->submitted(&context->device, 0, 1);
  return leave(context, 1, result);
}
