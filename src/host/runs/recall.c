#include "host/runs/recall.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "host/runs/collective_failure.h"
#include "host/runs/runs.h"
#include "host/runs/user_memory.h"
#include "host/state/registry.h"
#include "host/state/switch_hooks.h"
#include "primitives/keep.h"

/* ---- copies of inputs */

static uint64_t hull(const df_list_item *items, uint32_t n) {
  uint64_t end = 0;
  for (uint32_t i = 0; i < n; i++) end = DF_MAX(end, items[i].at + items[i].count);
  return end;
}

/* Number of elements of a row of the run's buffers: with wide ones, of a piece. */
static uint64_t count_of(const df_coll *coll, const df_run *run) {
  return run->count ? run->count : coll->survival->count;
}

/* Number of elements of a run's buffer, in the layout of the registration. */
static uint64_t elements_of(const df_coll *coll, const df_run *run, int output) {
  const df_coll_survival *survival = coll->survival;
  if (survival->has_lists)
    return output ? hull(survival->lists.receives, survival->lists.n_receives)
                  : hull(survival->lists.sends, survival->lists.n_sends);
  return count_of(coll, run) *
         (df_operation_is_wide(coll->operation, output) ? (uint64_t)survival->n : 1u);
}

/* In place, these write what is there already. */
static int leaves_input(df_operation operation) {
  const df_operation even = df_operation_even(operation);
  return even == DF_OP_BROADCAST || even == DF_OP_ALL_GATHER || even == DF_OP_GATHER ||
         even == DF_OP_SCATTER;
}

static int overwrites_input(const dfcclContext_t context, const df_coll *coll,
                            const df_run *run) DF_RANK_LOCKED {
  if (!context->survival->reruns || !coll->reads_input || !coll->writes_output ||
      leaves_input(coll->operation))
    return 0;
  const uint64_t element_bytes = df_type_size(coll->type);
  const uintptr_t input = (uintptr_t)run->send, output = (uintptr_t)run->recv;
  return input < output + elements_of(coll, run, 1) * element_bytes &&
         output < input + elements_of(coll, run, 0) * element_bytes;
}

/* Bytes of the longest input. */
static uint64_t longest_input(const df_coll *coll) {
  return elements_of(coll, &(df_run){.count = 0}, 0) * df_type_size(coll->type);
}

/* Runs ahead have copies of their own. Pages that are never written cost nothing. */
dfcclResult_t df_recall_prepare_copy(dfcclContext_t context, df_coll *coll, const df_run *run) {
  df_coll_survival *survival = coll->survival;
  if (survival->kept || !overwrites_input(context, coll, run)) return dfcclSuccess;
  const uint64_t bytes = longest_input(coll);
  if (bytes <= SIZE_MAX / DF_RUNS_AHEAD) survival->kept = malloc(bytes * DF_RUNS_AHEAD);
  if (survival->kept) return dfcclSuccess;
  return df_fail(dfcclOutOfMemory,
                 "no memory for copies of the inputs of collective %" PRIu64
                 " (config.survive is 1, and its runs are in place)",
                 coll->id);
}

void df_recall_admit(const dfcclContext_t context, df_coll *coll, const df_run *run,
                     uint32_t slot) {
  const df_coll_survival *survival = coll->survival;
  const int is_wide = !survival->has_lists && df_operation_is_wide(coll->operation, 0);
  df_kept_input *kept = &coll->exec.survivors->kept[slot];
  *kept = (df_kept_input){0};
  if (!overwrites_input(context, coll, run)) return;
  kept->rows = is_wide ? survival->n : 1;
  kept->row_bytes = elements_of(coll, run, 0) / kept->rows * df_type_size(coll->type);
  kept->copy = survival->kept + slot * longest_input(coll);
}

/* Each block has copied its own part, if it has begun. */
static void restore_input(df_coll *coll, const df_held_run *held) {
  const df_kept_input *kept = &coll->exec.survivors->kept[held->slot];
  const df_descriptor *descriptor = coll->exec.device.descriptor;
  if (kept->copy == NULL) return;
  for (uint32_t block = 0; block < descriptor->n_blocks; block++) {
    uint32_t chunk = 0;
    if (!(kept->blocks >> block & 1)) continue;
    while (!df_keep_chunk(descriptor, block, held->slot, &chunk,
                          (uint8_t *)(uintptr_t)held->run.send, kept->copy)) {
    }
  }
}

/* ---- taking back */

/* Runs of a plan switch would be those of the old group. Its tuner begins anew. */
static void end_switch(dfcclContext_t context, df_coll *coll) DF_RANK_LOCKED {
  df_switch_end(context, coll);
  df_switch_freed(coll);
  coll->plan_switch = NULL;
  coll->runs.watched_from = UINT64_MAX;
}

static void decide(dfcclContext_t context, df_coll *coll) DF_RANK_LOCKED;

static void become_quiet(dfcclContext_t context, df_coll *coll) DF_RANK_LOCKED {
  df_survival_note_news(context);
  if (coll->survival->has_outcome) decide(context, coll);
}

void df_recall_begin(dfcclContext_t context, df_coll *coll) {
  DF_ASSERT_RANK_LOCKED(&context->lock);
  if (coll->runs.is_recalled || coll->failure.failed != dfcclSuccess) return;
  coll->runs.is_recalled = 1;
  coll->runs.admit_below = 0;
  coll->survival->with_data = coll->runs.taken;
  df_memory_keep_lent(context, coll);
  df_publish_u32(&coll->exec.device.descriptor->words->cancel, DF_CANCEL_RECALLED);
  df_publish_u32(&context->device.shared->failures, context->device.shared->failures + 1);
  df_log(DF_LOG_TRACE, "rank %u takes back %u runs of collective %" PRIu64, context->rank,
         df_runs_in_device(coll), coll->id);
  if (df_runs_in_device(coll) == 0) {
    become_quiet(context, coll);
    return;
  }
  context->device.executor->submitted(&context->device, 1, 0);
  df_ring_poller(context);
}

void df_recall_hold(dfcclContext_t context, df_coll *coll, const df_run *run, uint32_t slot,
                    int has_data) {
  df_coll_survival *survival = coll->survival;
  const uint64_t number = coll->runs.taken + survival->n_held;
  DF_ASSERT(survival->n_held < DF_RUNS_AHEAD);
  survival->held[survival->n_held++] = (df_held_run){.run = *run, .slot = slot};
  if (has_data && survival->with_data == number) survival->with_data++;
  if (df_runs_in_device(coll) == 0) become_quiet(context, coll);
}

/* ---- the view's decision */

static void fail_range(dfcclContext_t context, df_coll *coll, uint64_t from,
                       uint64_t until) DF_RANK_LOCKED {
  df_coll_survival *survival = coll->survival;
  if (from >= until) return;
  df_failed_range *longer =
      realloc(survival->failed, (survival->n_failed + 1) * sizeof *survival->failed);
  if (longer == NULL) {
    df_break(context, dfcclOutOfMemory, "no memory for the failed runs of a collective");
    return;
  }
  survival->failed = longer;
  survival->failed[survival->n_failed++] =
      (df_failed_range){.from = from, .until = until, .view = context->survival->view};
}

/* The first runs of the backlog, as far as the view has decided that they fail. */
static void fail_waiting(dfcclContext_t context, df_coll *coll) DF_RANK_LOCKED {
  int any = 0;
  while (coll->runs.backlog_length > 0 && df_coll_failed_range(coll, coll->runs.taken)) {
    const df_run run = df_backlog_pop(context, coll);
    df_end_taken_back(context, coll, &run, dfcclRemoteError);
    any = 1;
  }
  coll->runs.admitted = coll->runs.retired = coll->runs.taken; /* the device has none */
  coll->survival->with_data = coll->runs.taken;
  if (any) df_ring_poller(context);
}

/* Runs return in reverse order, each as the first one. */
static void return_held(dfcclContext_t context, df_coll *coll, uint32_t from) DF_RANK_LOCKED {
  df_coll_survival *survival = coll->survival;
  for (uint32_t i = survival->n_held; i-- > from;) {
    restore_input(coll, &survival->held[i]);
    if (df_backlog_push_front(context, coll, &survival->held[i].run)) continue;
    df_break(context, dfcclOutOfMemory, df_last_sentence());
    df_end_taken_back(context, coll, &survival->held[i].run, dfcclOutOfMemory);
  }
}

static void decide(dfcclContext_t context, df_coll *coll) {
  df_coll_survival *survival = coll->survival;
  const uint64_t first = coll->runs.taken, base = survival->base;
  uint32_t n = 0;
  survival->has_outcome = 0;
  if (base < first) {
    char sentence[DF_SENTENCE_BYTES], label[DF_MAX_NAME + 40];
    snprintf(sentence, sizeof sentence,
             "%s: view %" PRIu64 " takes back runs from %" PRIu64 " on, but %" PRIu64
             " have ended on rank %u",
             df_coll_label(coll, label, sizeof label), context->survival->view - 1, base, first,
             context->rank);
    df_break(context, dfcclInternalError, sentence);
  }
  for (; n < survival->n_held && first + n < base; n++)
    df_end_taken_back(context, coll, &survival->held[n].run, dfcclSuccess);
  if (!context->survival->reruns) fail_range(context, coll, base, survival->fails_below);
  for (; n < survival->n_held && df_coll_failed_range(coll, first + n); n++)
    df_end_taken_back(context, coll, &survival->held[n].run, dfcclRemoteError);
  return_held(context, coll, n);
  survival->n_held = 0;
  end_switch(context, coll); /* not before: the plan in use has the copies of the inputs */
  fail_waiting(context, coll);
  df_ring_poller(context);
  df_check_run_limit(context, coll);
}

void df_recall_decide(dfcclContext_t context, df_coll *coll, uint64_t base, uint64_t fails_below) {
  DF_ASSERT_RANK_LOCKED(&context->lock);
  df_coll_survival *survival = coll->survival;
  survival->has_outcome = 1;
  survival->base = DF_MIN(base, survival->with_data);
  survival->fails_below = fails_below;
  if (df_recall_is_quiet(coll)) decide(context, coll);
}

void df_recall_submitted(dfcclContext_t context, df_coll *coll) {
  DF_ASSERT_RANK_LOCKED(&context->lock);
  if (df_recall_is_decided(coll)) fail_waiting(context, coll);
}

void df_recall_abandon(dfcclContext_t context, df_coll *coll) {
  df_coll_survival *survival = coll->survival;
  coll->runs.is_recalled = 0;
  coll->runs.is_abandoned = 1;
  survival->has_outcome = 0;
  for (uint32_t i = 0; i < survival->n_held; i++)
    df_end_taken_back(context, coll, &survival->held[i].run, coll->failure.failed);
  survival->n_held = 0;
  df_ring_poller(context);
}

void df_recall_describe(const df_coll *coll, const df_failed_range *range, char *text,
                        size_t bytes) {
  char label[DF_MAX_NAME + 40];
  snprintf(
      text, bytes,
      "%s: runs %" PRIu64 " to %" PRIu64 " were under way when a member was lost (view %" PRIu64
      "); later runs go on among the members that are left",
      df_coll_label(coll, label, sizeof label), range->from, range->until - 1, range->view - 1);
}
