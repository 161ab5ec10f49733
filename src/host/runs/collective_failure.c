/*
 * Failure of a collective or of the whole context. The runs of a failed collective complete with
 * its status: in the daemon when a block sees the cancellation, on the host when a thread reaps.
 * Nothing here waits.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mutex.h"
#include "bootstrap/net/sockets.h"
#include "control/messenger.h"
#include "control/service.h"
#include "host/state/context.h"
#include "host/runs/collective_failure.h"
#include "host/runs/recall.h"
#include "host/observe/flight.h"
#include "host/observe/trace.h"
#include "host/runs/user_memory.h"
#include "host/state/registry.h"
#include "host/runs/runs.h"
#include "host/state/switch_hooks.h"

DF_COLD dfcclResult_t df_say_why_broken(dfcclContext_t context) {
  df_rank_lock(&context->lock);
  df_fail_again(context->failure.broken, context->failure.broken_sentence);
  df_rank_unlock(&context->lock);
  return context->failure.broken;
}

DF_COLD dfcclResult_t df_remember_failure(dfcclContext_t context, dfcclResult_t result) {
  df_rank_lock(&context->lock);
  snprintf(context->failure.sentence, sizeof context->failure.sentence, "%s", df_last_sentence());
  df_rank_unlock(&context->lock);
  df_flight_await(context);
  return result;
}

void df_break(dfcclContext_t context, dfcclResult_t status, const char *sentence) {
  DF_ASSERT_RANK_LOCKED(&context->lock);
  if (context->failure.broken != dfcclSuccess) return;
  df_store_relaxed_u32((uint32_t *)&context->failure.broken, (uint32_t)status);
  context->failure.failure_reason =
      (df_failure_reason){.lost = DF_NOBODY, .witness = context->rank};
  snprintf(context->failure.failure_reason.why, sizeof context->failure.failure_reason.why, "%s",
           sentence);
  snprintf(context->failure.broken_sentence, sizeof context->failure.broken_sentence, "%s",
           sentence);
  snprintf(context->failure.sentence, sizeof context->failure.sentence, "%s", sentence);
  df_log(DF_LOG_ERROR, "rank %u: %s: %s", context->rank, df_result_name(status), sentence);
  if (context->tracer) df_trace_broken(context, status, sentence);
  df_flight_fail(context, status, sentence);
  df_service_wake(&context->control); /* The service thread then calls df_report_broken. */
}

df_message df_failure_message(const df_coll *coll) {
  return (df_message){.kind = DF_MESSAGE_FAIL,
                      .payload_bytes = (uint32_t)strlen(coll->failure.sentence) + 1,
                      .id = coll->id,
                      .a = (uint64_t)coll->failure.failed,
                      .b = coll->failure.is_alone ? 1 : coll->failure.first_differing,
                      .variant = coll->home};
}

void df_fail_collective(dfcclContext_t context, df_coll *coll, dfcclResult_t status, int notifies,
                        const char *sentence) {
  DF_ASSERT_RANK_LOCKED(&context->lock);
  /* A variant in use keeps its links and descriptor, but its runs are the registered collective's,
   * so that is the collective that fails. */
  if (coll->registered && (coll->is_successor || df_switch_is_agreed(coll)))
    coll = coll->registered;
  if (coll->failure.failed != dfcclSuccess) return;
  coll->failure.failed = status;
  coll->references++; /* the failure of a variant may free it */
  df_memory_keep_lent(context, coll);
  snprintf(coll->failure.sentence, sizeof coll->failure.sentence, "%s", sentence);
  if (coll->registered) {
    df_log(DF_LOG_INFO, "a plan variant has failed, and its switch is cancelled: %s: %s",
           df_result_name(status), sentence);
  } else {
    snprintf(context->failure.sentence, sizeof context->failure.sentence, "%s", sentence);
    /* A broken context ends all its collectives, and its own failure is logged already. */
    df_log(context->failure.broken == dfcclSuccess ? DF_LOG_ERROR : DF_LOG_INFO, "rank %u: %s: %s",
           context->rank, df_result_name(status), sentence);
    if (context->tracer) df_trace_failure(context, coll, status, sentence);
    df_flight_fail(context, status, sentence);
  }
  if (coll->runs.is_recalled) df_recall_abandon(context, coll);
  if (coll->survival && coll->survival->successor) context->home_progress(context, coll);
  df_publish_u32(&coll->exec.device.descriptor->words->cancel, (uint32_t)status);
  df_publish_u32(&context->device.shared->failures, context->device.shared->failures + 1);
  if (notifies) {
    df_message message = df_failure_message(coll);
    df_coll_send(context, coll, &message, coll->failure.sentence);
  }
  if (coll->registered) df_switch_lost(context, coll);
  df_list(context, coll);
  if (coll->runs.taken < coll->runs.submitted) {
    context->device.executor->submitted(&context->device, 1, 0);
    df_ring_poller(context);
  }
  df_coll_unreference(context, coll);
}

void df_fail_differing(dfcclContext_t context, df_coll *coll, uint64_t run) {
  char sentence[DF_SENTENCE_BYTES], label[DF_MAX_NAME + 40];
  const df_run_counters *found = coll->exec.device.descriptor->counters;
  const uint64_t count = coll->runs.in_device[df_slot_of(coll, run)].count;
  if (coll->operation == DF_OP_ALL_TO_ALL_DYNAMIC)
    snprintf(sentence, sizeof sentence,
             "%s: in run %" PRIu64 " rank %u sends %" PRIu64 " elements; at most %" PRIu64
             " are registered",
             df_coll_label(coll, label, sizeof label), run, found->differing_rank,
             found->differing_count, coll->count);
  else
    snprintf(sentence, sizeof sentence,
             "%s: run %" PRIu64 " has %" PRIu64 " elements on rank %u and %" PRIu64 " on rank %u",
             df_coll_label(coll, label, sizeof label), run, count ? count : coll->count,
             context->rank, found->differing_count, found->differing_rank);
  coll->failure.first_differing = run;
  df_fail_collective(context, coll, dfcclMismatch, 1, sentence);
}

void df_fail_unread(dfcclContext_t context, df_coll *coll, uint64_t run) {
  char sentence[DF_SENTENCE_BYTES], label[DF_MAX_NAME + 40], why[DF_WHY_BYTES];
  const df_run_counters *found = coll->exec.device.descriptor->counters;
  snprintf(sentence, sizeof sentence,
           "%s: in run %" PRIu64 " rank %u cannot read the buffer that rank %u lent at 0x%" PRIx64
           ": %s",
           df_coll_label(coll, label, sizeof label), run, context->rank, found->unread_rank,
           found->unread_address, df_why((int)found->unread_error, why));
  coll->failure.is_alone = 1;
  if (coll->registered) coll->registered->failure.is_alone = 1;
  df_fail_collective(context, coll, dfcclRemoteError, 1, sentence);
}

/* The lost message may have reported the failure of a collective, so the failures of failed
 * collectives are sent again. */
void df_give_up(dfcclContext_t context, dfcclResult_t status, const char *sentence) {
  DF_ASSERT_RANK_LOCKED(&context->lock);
  df_break(context, status, sentence);
  if (context->failure.given_up) return;
  context->failure.given_up = 1;
  for (uint32_t i = 0; i < context->registry.n_indices; i++) {
    df_coll *coll = df_registered(context, i);
    if (coll == NULL || coll->registered)
      continue; /* a variant ends with its registered collective */
    if (coll->failure.failed != dfcclSuccess) {
      df_message message = df_failure_message(coll);
      df_coll_send(context, coll, &message, coll->failure.sentence);
    }
    df_fail_collective(context, coll, status, 1, sentence);
  }
}

dfcclResult_t df_describe_limit(dfcclContext_t context, const df_coll *coll, char *text,
                                size_t bytes) {
  const df_peer *peer = &context->control.peers[coll->members.limit_rank];
  if (coll->members.limit_sentence) {
    snprintf(text, bytes, "%s", coll->members.limit_sentence);
    return dfcclMismatch;
  }
  char label[DF_MAX_NAME + 40];
  int because = coll->members.limit_rank_leaves && peer->failure_reason != NULL;
  const char *did = "deregistered it";
  if (coll->members.limit_rank_leaves) did = because || peer->broken ? "gave up" : "left the job";
  snprintf(text, bytes,
           "%s: rank %u %s after %" PRIu64 " run%s; run %" PRIu64
           " of rank %u can never complete%s%.390s",
           df_coll_label(coll, label, sizeof label), coll->members.limit_rank, did,
           coll->members.run_limit, coll->members.run_limit == 1 ? "" : "s",
           coll->members.run_limit, context->rank, because ? "; because: " : "",
           because ? peer->failure_reason : "");
  return because ? peer->failure_reason_status : dfcclRemoteError;
}

dfcclResult_t df_describe_failure(dfcclContext_t context, const df_coll *coll, char *text,
                                  size_t bytes) {
  if (coll->failure.failed == dfcclSuccess && coll->survival && coll->survival->n_failed > 0 &&
      coll->members.run_limit == UINT64_MAX) {
    df_recall_describe(coll, &coll->survival->failed[coll->survival->n_failed - 1], text, bytes);
    return dfcclRemoteError;
  }
  if (coll->failure.failed == dfcclSuccess) return df_describe_limit(context, coll, text, bytes);
  snprintf(text, bytes, "%s", coll->failure.sentence);
  return coll->failure.failed;
}

/* Ends the collective when all runs that all members can complete have retired: a member
 * deregistered it, the member's context is broken, or it found that counts differ. */
void df_check_run_limit(dfcclContext_t context, df_coll *coll) {
  if (coll->runs.submitted <= coll->members.run_limit ||
      coll->runs.retired < coll->members.run_limit)
    return;
  if (coll->runs.is_recalled && !df_recall_is_decided(coll)) return;
  char sentence[DF_SENTENCE_BYTES];
  dfcclResult_t status = df_describe_limit(context, coll, sentence, sizeof sentence);
  /* Leaving the job breaks the context; deregistering does not. */
  if (coll->members.limit_rank_leaves) df_break(context, status, sentence);
  df_fail_collective(context, coll, status, 0, sentence);
}

void df_fail_unannounced(dfcclContext_t context, df_coll *coll, uint32_t peer) {
  char sentence[DF_SENTENCE_BYTES], label[DF_MAX_NAME + 40];
  const df_peer *p = &context->control.peers[peer];
  snprintf(sentence, sizeof sentence, "%s on rank %u: its member rank %u has %s%s%.300s",
           df_coll_label(coll, label, sizeof label), context->rank, peer,
           p->state == DF_PEER_ALIVE ? "given up" : "left the job",
           p->failure_reason ? ", because: " : "", p->failure_reason ? p->failure_reason : "");
  dfcclResult_t status = p->failure_reason ? p->failure_reason_status : dfcclRemoteError;
  if (p->broken) df_break(context, status, sentence);
  df_fail_collective(context, coll, status, 0, sentence);
}
