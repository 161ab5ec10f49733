/*
 * Submission. A run goes to the daemon when its links are connected, the daemon holds few enough
 * runs of its collective, and the SQ has room. Until then it waits in its collective's own list, so
 * that no collective delays another.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mutex.h"
#include "control/service.h"
#include "host/state/context.h"
#include "host/runs/collective_failure.h"
#include "host/settings/abi_struct.h"
#include "host/runs/user_memory.h"
#include "host/runs/dynamic_counts.h"
#include "host/runs/recall.h"
#include "host/observe/profiler.h"
#include "host/observe/record.h"
#include "host/state/registry.h"
#include "host/runs/runs.h"
#include "host/state/switch_hooks.h"

/* ---- lists ---- */

/* Makes room for one more run. */
static dfcclResult_t reserve_backlog(df_coll *coll) {
  if (coll->runs.backlog_length < coll->runs.backlog_capacity) return dfcclSuccess;
  uint32_t capacity = coll->runs.backlog_capacity ? coll->runs.backlog_capacity * 2 : 8;
  df_run *larger = malloc(capacity * sizeof *larger);
  if (larger == NULL)
    return df_fail(dfcclOutOfMemory, "no memory to queue run %" PRIu64 " of collective %" PRIu64,
                   coll->runs.submitted, coll->id);
  for (uint32_t i = 0; i < coll->runs.backlog_length; i++)
    larger[i] = coll->runs.backlog[(coll->runs.backlog_head + i) % coll->runs.backlog_capacity];
  free(coll->runs.backlog);
  coll->runs.backlog = larger;
  coll->runs.backlog_capacity = capacity;
  coll->runs.backlog_head = 0;
  return dfcclSuccess;
}

static dfcclResult_t backlog_push(dfcclContext_t context, df_coll *coll, const df_run *run) {
  const dfcclResult_t result = reserve_backlog(coll);
  if (result != dfcclSuccess) return result;
  coll->runs.backlog[(coll->runs.backlog_head + coll->runs.backlog_length++) %
                     coll->runs.backlog_capacity] = *run;
  context->runs.backlog_length++;
  return dfcclSuccess;
}

int df_backlog_push_front(dfcclContext_t context, df_coll *coll, const df_run *run) {
  if (reserve_backlog(coll) != dfcclSuccess) return 0;
  const uint32_t capacity = coll->runs.backlog_capacity;
  coll->runs.backlog_head = (coll->runs.backlog_head + capacity - 1) % capacity;
  coll->runs.backlog[coll->runs.backlog_head] = *run;
  coll->runs.backlog_length++;
  context->runs.backlog_length++;
  return 1;
}

df_run df_backlog_pop(dfcclContext_t context, df_coll *coll) {
  df_run run = coll->runs.backlog[coll->runs.backlog_head];
  coll->runs.backlog_head = (coll->runs.backlog_head + 1) % coll->runs.backlog_capacity;
  coll->runs.backlog_length--;
  context->runs.backlog_length--;
  return run;
}

void df_list(dfcclContext_t context, df_coll *coll) {
  DF_ASSERT_RANK_LOCKED(&context->lock);
  if (coll->runs.listed || coll->runs.backlog_length == 0) return;
  coll->runs.listed = 1;
  coll->runs.next_listed = NULL;
  *context->runs.listed_last = coll;
  context->runs.listed_last = &coll->runs.next_listed;
  df_store_relaxed_u32(&context->runs.has_listed, 1);
}

static df_coll *unlist_first(dfcclContext_t context) {
  df_coll *coll = context->runs.listed_first;
  context->runs.listed_first = coll->runs.next_listed;
  if (context->runs.listed_first == NULL) context->runs.listed_last = &context->runs.listed_first;
  coll->runs.listed = 0;
  return coll;
}

void df_unlist(dfcclContext_t context, df_coll *coll) {
  if (!coll->runs.listed) return;
  df_coll **at = &context->runs.listed_first;
  while (*at != coll) at = &(*at)->runs.next_listed;
  *at = coll->runs.next_listed;
  if (*at == NULL) context->runs.listed_last = at;
  if (context->runs.listed_first == NULL) df_store_relaxed_u32(&context->runs.has_listed, 0);
  coll->runs.listed = 0;
}

/* ---- admission ---- */

/* True if links are connected and no agreement about a variant is awaited. */
static inline int may_admit(const df_coll *coll) {
  return coll->runs.admitted < coll->runs.admit_below;
}

/* The first run always has room, so that no collective waits for the completion of another. */
static inline int has_room(const dfcclContext_t context, const df_coll *coll) DF_RANK_LOCKED {
  uint32_t in_device = df_runs_in_device(coll);
  return in_device == 0 ||
         (in_device < DF_RUNS_AHEAD && context->runs.surplus < DF_RUNS_AHEAD_POOL);
}

/* Writes the run's arguments before the daemon can see the run. */
static inline void record_admission(const dfcclContext_t context, df_coll *coll,
                                    const df_run *run) DF_RANK_LOCKED {
  const uint32_t slot = df_slot_of(coll, coll->runs.admitted);
  if (DF_UNLIKELY(context->survival != NULL)) df_recall_admit(context, coll, run, slot);
  coll->runs.in_device[slot] = *run;
  coll->exec.device.descriptor->words->runs[slot] =
      (df_run_arguments){.send = run->send,
                         .recv = run->recv,
                         .send_mapping = run->send_mapping,
                         .recv_mapping = run->recv_mapping,
                         .stream_event = run->stream_event};
}

static inline void count_admission(dfcclContext_t context, df_coll *coll) DF_RANK_LOCKED {
  if (df_runs_in_device(coll) > 0) context->runs.surplus++;
  coll->runs.admitted++;
  df_store_relaxed_u64(&context->runs.sqes_submitted, context->runs.sqes_submitted + 1);
}

static DF_APART int push_to_relay(df_sq *sq, df_sqe sqe, const df_coll *coll) {
  const uint32_t run = df_slot_of(coll, coll->runs.admitted);
  const df_sq_carried carried = {
      .arguments = coll->exec.device.descriptor->words->runs[run], .run = run, .near = 1};
  return df_sq_push_spsc(sq, sqe, &carried);
}

/* Returns 0 when the SQ is full. */
static inline int push(dfcclContext_t context, df_coll *coll) DF_RANK_LOCKED {
  df_sq *sq = &context->device.shared->sq;
  const df_sqe sqe = {.collective = coll->index, .blocks = coll->exec.configuration.shape.n_blocks};
  if (DF_UNLIKELY(sq->records != NULL) ? !push_to_relay(sq, sqe, coll) : !df_sq_push_spmc(sq, sqe))
    return 0;
  count_admission(context, coll);
  return 1;
}

/* The submitter of a short run executes its first turn, after it has released the lock. The run
 * then needs no SQE, and no CQE if it ends without waiting. Runs with a callback go to the SQ,
 * because the thread that takes the CQE runs the callback. Returns 1 if the submitter has the
 * block. */
static inline int claim_first_turn(dfcclContext_t context, df_coll *coll,
                                   int has_callback) DF_RANK_LOCKED {
  if (!coll->exec.first_turn || has_callback ||
      !context->device.executor->claim_first_turn(&context->device, coll->index))
    return 0;
  count_admission(context, coll);
  return 1;
}

/* The claimed run keeps the collective alive. The application may begin dfcclDestroy only after
 * dfcclRun* has returned. */
static inline void take_first_turn(dfcclContext_t context, df_coll *coll) {
  df_borrowed_turn turn;
  turn.collective = coll->index;
  if (!context->device.executor->first_turn(&context->device, &turn)) {
    df_wake_fence(); /* after the publication, before the loads of sleepers' flags */
    df_ring_borrowed(&turn, context->device.host.carrier);
    /* df_wake_fence is as good a fence as an unlock. */
    context->device.executor->submitted(&context->device, 0, 1);
    return;
  }
  if (!df_complete_borrowed(context, &turn)) df_ring_poller(context);
}

/*
 * Admits runs in the order of the list, and leaves failed collectives to the next thread that
 * reaps. has_listed stays set meanwhile: the block that reads the last SQE loads has_listed after
 * its read. Either the block sees it set, or push finds the room that the block made
 * (df_sq_push_spmc).
 */
void df_admit_listed(dfcclContext_t context) {
  uint32_t admitted = 0;
  df_coll *kept_first = NULL, **kept_last = &kept_first;
  int sq_full = 0;
  while (context->runs.listed_first) {
    df_coll *coll = unlist_first(context);
    /* A switch is performed in any case, since no other thread lists the runs that wait for it. */
    while (coll->failure.failed == dfcclSuccess && coll->runs.backlog_length > 0 &&
           !coll->runs.is_recalled && (may_admit(coll) || df_switch_perform(context, coll)) &&
           has_room(context, coll) && !sq_full && !context->runs.held) {
      record_admission(context, coll, &coll->runs.backlog[coll->runs.backlog_head]);
      if (!push(context, coll)) {
        sq_full = 1;
        break;
      }
      df_flight_begin(context->flight, coll, coll->runs.admitted - 1);
      df_backlog_pop(context, coll);
      admitted++;
    }
    /* The collective stays listed if it waits for the SQ or for the end of a synchronisation, or
     * must be failed. Otherwise a run that retires, connected links, or an agreement lists it
     * again. */
    int stays = coll->runs.backlog_length > 0 && (coll->failure.failed != dfcclSuccess ||
                                                  (may_admit(coll) && has_room(context, coll)));
    if (stays) {
      coll->runs.listed = 1;
      coll->runs.next_listed = NULL;
      *kept_last = coll;
      kept_last = &coll->runs.next_listed;
    }
  }
  if (kept_first) {
    context->runs.listed_first = kept_first;
    context->runs.listed_last = kept_last;
  } else if (df_load_relaxed_u32(&context->runs.has_listed)) {
    df_store_relaxed_u32(&context->runs.has_listed, 0);
  }
  if (admitted > 0 || sq_full) context->device.executor->submitted(&context->device, 0, 0);
}

void df_between_turns(void *host) {
  dfcclContext_t context = host;
  if (DF_LIKELY(!df_load_relaxed_u32(&context->runs.has_listed))) return;
  df_rank_lock(&context->lock); /* no trylock: this may be the last turn after the last fetch */
  df_admit_listed(context);
  df_rank_unlock(&context->lock);
}

/* ---- one request ---- */

static DF_COLD dfcclResult_t refuse_buffer(const df_coll *coll, const char *what,
                                           const void *buffer) {
  if (buffer == NULL)
    return df_fail(dfcclInvalidArgument,
                   "%s is NULL for collective %" PRIu64 " of %" PRIu64 " elements", what, coll->id,
                   coll->count);
  return df_fail(dfcclInvalidArgument,
                 "%s is %p, which is not aligned to the element's %zu bytes (collective %" PRIu64
                 ")",
                 what, buffer, df_type_size(coll->type), coll->id);
}

static inline int is_buffer(const df_coll *coll, const void *buffer) {
  return buffer != NULL && ((uintptr_t)buffer & coll->element_mask) == 0;
}

static DF_COLD dfcclResult_t check_count(df_coll *coll, df_run *run) DF_RANK_LOCKED {
  if (coll->operation == DF_OP_ALL_TO_ALL_DYNAMIC) return df_pair_counts_take(coll, run);
  if (run->count == coll->count) return dfcclSuccess;
  if (coll->varying && run->count < coll->count) return dfcclSuccess;
  if (coll->varying)
    return df_fail(dfcclInvalidArgument,
                   "run.count is %" PRIu64 ", but runs of collective %" PRIu64
                   " have at most %" PRIu64 " elements",
                   run->count, coll->id, coll->count);
  return df_fail(dfcclInvalidArgument,
                 "run.count is %" PRIu64 ", but collective %" PRIu64 " is registered with %" PRIu64
                 " elements and without options.varying; use 0 for the registered count",
                 run->count, coll->id, coll->count);
}

static inline dfcclResult_t check_arguments(df_coll *coll, df_run *run) DF_RANK_LOCKED {
  if (DF_UNLIKELY(coll->reads_input && !is_buffer(coll, run->send)))
    return refuse_buffer(coll, "sendBuf", run->send);
  if (DF_UNLIKELY(coll->writes_output && !is_buffer(coll, run->recv)))
    return refuse_buffer(coll, "recvBuf", run->recv);
  if (DF_UNLIKELY(run->count != 0)) return check_count(coll, run);
  return dfcclSuccess;
}

/* The operation of a call that runs one kind. */
static df_operation kind_of(uint32_t kinds) { return (df_operation)__builtin_ctz(kinds); }

/* Whether a run is refused or fails depends on the moment when this rank receives the failure, so
 * dfcclWait reports it in both cases. */
static dfcclResult_t refuse_failed(dfcclContext_t context, df_coll *coll) DF_RANK_LOCKED {
  char sentence[DF_SENTENCE_BYTES];
  const dfcclResult_t status = df_describe_failure(context, coll, sentence, sizeof sentence);
  const int is_limited = coll->failure.failed == dfcclSuccess;
  if (is_limited && coll->members.limit_rank_leaves) df_break(context, status, sentence);
  df_note_failure(context, coll, status);
  return is_limited ? df_fail(status, "%s", sentence) : df_fail_again(status, sentence);
}

static DF_COLD dfcclResult_t refuse_run(dfcclContext_t context, df_coll *coll, uint32_t kinds,
                                        dfcclCollId_t id) DF_RANK_LOCKED {
  if (context->failure.broken != dfcclSuccess)
    return df_fail_again(context->failure.broken, context->failure.broken_sentence);
  if (coll == NULL)
    return df_fail(dfcclInvalidArgument, "collective %" PRIu64 " is not registered on rank %u", id,
                   context->rank);
  if (kinds == DF_OF_KIND(DF_OP_ALL_TO_ALL_DYNAMIC) && coll->operation != DF_OP_ALL_TO_ALL_DYNAMIC)
    return df_fail(dfcclInvalidArgument,
                   "collective %" PRIu64
                   " is registered as %s: only an AllToAllDynamic's runs have "
                   "run.sendCounts, sendDispls, recvCounts and recvDispls",
                   id, df_operation_name(coll->operation));
  if (kinds == DF_WITHOUT_COUNTS && coll->operation == DF_OP_ALL_TO_ALL_DYNAMIC)
    return df_fail(dfcclInvalidArgument,
                   "collective %" PRIu64 " is an AllToAllDynamic: each run needs run.sendCounts",
                   id);
  if (!(kinds >> coll->operation & 1))
    return df_fail(dfcclInvalidArgument,
                   "collective %" PRIu64 " is registered as %s, and was run as %s", id,
                   df_operation_name(coll->operation), df_operation_name(kind_of(kinds)));
  return refuse_failed(context, coll);
}

static inline dfcclResult_t check_run(dfcclContext_t context, df_coll *coll, uint32_t kinds,
                                      dfcclCollId_t id) DF_RANK_LOCKED {
  if (DF_LIKELY(context->failure.broken == dfcclSuccess && coll != NULL &&
                kinds >> coll->operation & 1 && coll->failure.failed == dfcclSuccess &&
                coll->runs.submitted < coll->members.run_limit))
    return dfcclSuccess;
  return refuse_run(context, coll, kinds, id);
}

/* The work of a submitter after the unlock. */
typedef enum {
  DF_AFTER_NOTHING,
  DF_AFTER_PUSH, /* notify the executors */
  DF_AFTER_FIRST_TURN
} df_aftermath;

/* The first run of a collective may always wait here: runs that fill other lists may wait for peers
 * that wait for this one. */
static DF_APART dfcclResult_t keep_waiting(dfcclContext_t context, df_coll *coll,
                                           const df_run *run) DF_RANK_LOCKED {
  if (coll->runs.backlog_length > 0 &&
      context->runs.backlog_length >= (uint64_t)context->settings.backlog)
    return df_fail(dfcclInvalidUsage,
                   "%" PRIu64
                   " requests wait on rank %u already (DFCCL_BACKLOG is %lld): run %" PRIu64
                   " of collective %" PRIu64 " was refused",
                   context->runs.backlog_length, context->rank, context->settings.backlog,
                   coll->runs.submitted, coll->id);
  return backlog_push(context, coll, run);
}

/* The run is accepted, and may be admitted at once. */
static DF_APART void admit_waiting(dfcclContext_t context, df_coll *coll) DF_RANK_LOCKED {
  if (DF_UNLIKELY(coll->runs.is_recalled)) {
    df_recall_submitted(context, coll);
    context->home_progress(context, coll);
  } else if (!coll->exec.ready) {
    context->links_progress(context, coll);
  } else {
    df_list(context, coll);
    df_admit_listed(context);
  }
}

static inline dfcclResult_t submit(dfcclContext_t context, df_coll *coll, const df_run *run,
                                   df_aftermath *after, uint64_t *number) DF_RANK_LOCKED {
  dfcclResult_t result = df_reserve_callback(context);
  if (DF_UNLIKELY(context->survival != NULL) && result == dfcclSuccess)
    result = df_recall_prepare_copy(context, coll, run);
  if (result != dfcclSuccess) return result;
  int straight = may_admit(coll) && coll->runs.backlog_length == 0 && !context->runs.held &&
                 has_room(context, coll) && !context->runs.has_listed;
  if (DF_LIKELY(straight)) {
    record_admission(context, coll, run);
    if (claim_first_turn(context, coll, run->callback != NULL))
      *after = DF_AFTER_FIRST_TURN;
    else if (push(context, coll))
      *after = DF_AFTER_PUSH;
    else
      straight = 0;
  }
  if (!straight && (result = keep_waiting(context, coll, run)) != dfcclSuccess) return result;
  df_publish_u64(&context->runs.accepted, context->runs.accepted + 1);
  *number = coll->runs.submitted++;
  df_publish_u64(&coll->runs.words->submitted, coll->runs.submitted);
  if (context->recorder) df_record_run(context, coll, *number);
  if (!straight) admit_waiting(context, coll);
  return dfcclSuccess;
}

/* Inlined into both of its callers: a call would add 2 % to the instructions of a short run. */
static DF_INLINE dfcclResult_t submit_run(dfcclContext_t context, uint32_t kinds, dfcclCollId_t id,
                                          df_run *run, uint64_t *number) {
  df_aftermath after = DF_AFTER_NOTHING;
  if (context->settings.timeout_ms || df_load_relaxed_u32(&context->runs.timing))
    run->submitted_ns = df_clock_ns();
  df_rank_lock(&context->lock);
  df_coll *coll = df_find(context, id);
  dfcclResult_t result = check_run(context, coll, kinds, id);
  if (DF_LIKELY(result == dfcclSuccess)) result = check_arguments(coll, run);
  if (DF_LIKELY(result == dfcclSuccess)) {
    if (context->memory.in_use) {
      run->send_mapping = (uint16_t)df_memory_mapping(context, run->send);
      run->recv_mapping = (uint16_t)df_memory_mapping(context, run->recv);
    }
    if (DF_LIKELY(context->flight != NULL)) run->submitted_ticks = df_flight_now(context->flight);
    result = submit(context, coll, run, &after, number);
  }
  df_rank_unlock(&context->lock);
  if (after == DF_AFTER_FIRST_TURN)
    take_first_turn(context, coll);
  else if (after == DF_AFTER_PUSH)
    context->device.executor->submitted(&context->device, 0, 1);
  if (run->submitted_ns) {
    df_wake_fence(); /* after the store of runs.accepted, before the load: as in deadline_tick */
    if (df_load_relaxed_u32(&context->runs.deadlines_idle)) df_service_wake(&context->control);
  }
  return result;
}

static DF_APART dfcclResult_t submit_profiled(dfcclContext_t context, uint32_t kinds,
                                              dfcclCollId_t id, df_run *run, uint64_t *number) {
  const int has_counts = kinds == DF_OF_KIND(DF_OP_ALL_TO_ALL_DYNAMIC);
  const df_profiled_call call = df_profiler_begin(context, id, run, has_counts);
  const dfcclResult_t result = submit_run(context, kinds, id, run, number);
  df_profiler_submitted(context, &call, run, result == dfcclSuccess);
  return result;
}

dfcclResult_t df_submit_run(dfcclContext_t context, uint32_t kinds, dfcclCollId_t id, df_run *run,
                            uint64_t *number) {
  return DF_LIKELY(context->profiler == NULL) ? submit_run(context, kinds, id, run, number)
                                              : submit_profiled(context, kinds, id, run, number);
}

/* A run with wrong arguments, or of a collective that has failed, must neither write to the stream
 * nor keep daemons on the device. The submission checks again, since the collective may fail
 * meanwhile. Only the submission takes the counts of dynamic runs and finds a full backlog. */
static dfcclResult_t check_on_stream(dfcclContext_t context, uint32_t kinds, dfcclCollId_t id,
                                     df_run *run) {
  df_rank_lock(&context->lock);
  df_coll *coll = df_find(context, id);
  dfcclResult_t result = check_run(context, coll, kinds, id);
  if (result == dfcclSuccess && coll->operation != DF_OP_ALL_TO_ALL_DYNAMIC)
    result = check_arguments(coll, run);
  df_rank_unlock(&context->lock);
  return result;
}

dfcclResult_t df_submit_on_stream(dfcclContext_t context, uint32_t kinds, dfcclCollId_t id,
                                  df_run *run, void *stream, uint64_t *number) {
  df_rank_device *device = &context->device;
  const df_stream_ops *streams = device->streams;
  df_stream_run on_stream = {0};
  if (streams == NULL)
    return df_fail(dfcclInvalidUsage, "rank %u uses the %s device, which has no streams",
                   context->rank, device->kind->name);
  dfcclResult_t result = check_on_stream(context, kinds, id, run);
  if (result == dfcclSuccess) result = streams->begin(device, stream, &on_stream);
  if (result != dfcclSuccess) return result;
  run->stream_event = on_stream.stream_event;
  result = df_submit_run(context, kinds, id, run, number);
  if (result != dfcclSuccess) {
    streams->release(device, on_stream.stream_event);
    return result;
  }
  if (streams->end(device, stream, &on_stream) == dfcclSuccess) return dfcclSuccess;
  /* The run is accepted, so its callback must report the failure: the stream will not wait for the
   * run. */
  df_rank_lock(&context->lock);
  df_coll *coll = df_find(context, id);
  df_break(context, dfcclUnhandledCudaError, df_last_sentence());
  if (coll) df_fail_collective(context, coll, dfcclUnhandledCudaError, 1, df_last_sentence());
  df_rank_unlock(&context->lock);
  return dfcclSuccess;
}

/* ---- dfcclRun ---- */

static int has_counts(const dfcclRun_t *given) {
  return given->sendCounts || given->sendDispls || given->recvCounts || given->recvDispls;
}

static dfcclResult_t check_given(const dfcclRun_t *given) {
  if (given->flags & ~DFCCL_RUN_ON_STREAM)
    return df_fail(dfcclInvalidArgument,
                   "run.flags is 0x%x; the only valid flag is DFCCL_RUN_ON_STREAM (0x%x)",
                   given->flags, DFCCL_RUN_ON_STREAM);
  if (given->stream != NULL && !(given->flags & DFCCL_RUN_ON_STREAM))
    return df_fail(dfcclInvalidArgument,
                   "run.stream is %p, but run.flags lacks DFCCL_RUN_ON_STREAM", given->stream);
  if (has_counts(given) && (given->count != 0 || given->flags & DFCCL_RUN_ON_STREAM))
    return df_fail(dfcclInvalidArgument,
                   "run.count is %zu and run.flags is 0x%x; both must be 0 with counts of peers",
                   given->count, given->flags);
  return dfcclSuccess;
}

dfcclResult_t df_submit_given(dfcclContext_t context, dfcclCollId_t id, dfcclRun_t *given) {
  dfcclRun_t whole = DFCCL_RUN_INITIALIZER;
  dfcclResult_t result = df_growing_read(&df_growing_run, given, &whole);
  if (result != dfcclSuccess) return result;
  given->run = DF_REFUSED_RUN;
  result = check_given(&whole);
  if (result != dfcclSuccess) return result;
  uint64_t number = 0;
  df_run run = {.send = whole.sendBuf,
                .recv = whole.recvBuf,
                .count = whole.count,
                .callback = whole.callback,
                .argument = whole.arg};
  const df_given_counts counts = {whole.sendCounts, whole.sendDispls, whole.recvCounts,
                                  whole.recvDispls};
  if (has_counts(&whole)) run.given = &counts;
  const uint32_t kinds =
      has_counts(&whole) ? DF_OF_KIND(DF_OP_ALL_TO_ALL_DYNAMIC) : DF_WITHOUT_COUNTS;
  result = whole.flags & DFCCL_RUN_ON_STREAM
               ? df_submit_on_stream(context, kinds, id, &run, whole.stream, &number)
               : df_submit_run(context, kinds, id, &run, &number);
  if (result == dfcclSuccess) given->run = number;
  return result;
}
