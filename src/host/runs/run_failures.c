#include "host/runs/run_failures.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/mutex.h"
#include "host/runs/collective_failure.h"
#include "host/runs/recall.h"
#include "host/state/registry.h"

void df_keep_failure(dfcclContext_t context, df_coll *coll, uint64_t run, dfcclResult_t status) {
  DF_ASSERT_RANK_LOCKED(&context->lock);
  df_failure *failure = &context->failure;
  df_kept_failure *kept = &failure->kept[failure->n_kept++ % DF_KEPT_FAILURES];
  *kept = (df_kept_failure){
      .id = coll->id, .registration = coll->runs.words->latest, .first = run, .status = status};
  df_describe_failure(context, coll, kept->sentence, sizeof kept->sentence);
}

static const df_kept_failure *find(dfcclContext_t context, uint64_t registration,
                                   dfcclCollId_t id) DF_RANK_LOCKED {
  const df_failure *failure = &context->failure;
  for (uint64_t back = 1; back <= DF_KEPT_FAILURES && back <= failure->n_kept; back++) {
    const df_kept_failure *kept = &failure->kept[(failure->n_kept - back) % DF_KEPT_FAILURES];
    if (registration ? kept->registration == registration : kept->id == id) return kept;
  }
  return NULL;
}

const df_kept_failure *df_find_failure(dfcclContext_t context, uint64_t registration) {
  DF_ASSERT_RANK_LOCKED(&context->lock);
  return find(context, registration, 0);
}

static dfcclResult_t of_registered(dfcclContext_t context, const df_coll *coll, uint64_t run,
                                   dfcclResult_t *status, char *text, size_t bytes) DF_RANK_LOCKED {
  const df_wait_words *words = coll->runs.words;
  if (run >= coll->runs.submitted)
    return df_fail(dfcclInvalidArgument,
                   "run is %" PRIu64 "; %" PRIu64 " runs of collective %" PRIu64
                   " were submitted on rank %u",
                   run, coll->runs.submitted, coll->id, context->rank);
  *status = run < coll->runs.taken ? dfcclSuccess : dfcclInProgress;
  const df_failed_range *range = df_coll_failed_range(coll, run);
  if (range && run < coll->runs.taken) {
    *status = dfcclRemoteError;
    df_recall_describe(coll, range, text, bytes);
    return dfcclSuccess;
  }
  if (run >= coll->runs.taken || run < words->first_failed) return dfcclSuccess;
  *status = (dfcclResult_t)words->failed;
  df_describe_failure(context, coll, text, bytes);
  return dfcclSuccess;
}

static dfcclResult_t of_deregistered(dfcclContext_t context, dfcclCollId_t id, uint64_t run,
                                     dfcclResult_t *status, char *text,
                                     size_t bytes) DF_RANK_LOCKED {
  const df_kept_failure *kept = find(context, 0, id);
  if (kept == NULL)
    return df_fail(dfcclInvalidArgument,
                   "collective %" PRIu64
                   " is not registered on rank %u, and is none of the last %d that failed there",
                   id, context->rank, DF_KEPT_FAILURES);
  *status = run < kept->first ? dfcclSuccess : kept->status;
  if (run >= kept->first) snprintf(text, bytes, "%s", kept->sentence);
  return dfcclSuccess;
}

dfcclResult_t df_run_error(dfcclContext_t context, dfcclCollId_t id, uint64_t run,
                           dfcclResult_t *status, char *text, size_t bytes) {
  char sentence[DF_SENTENCE_BYTES] = "";
  dfcclResult_t found = dfcclSuccess;
  df_rank_lock(&context->lock);
  const df_coll *coll = df_find(context, id);
  const dfcclResult_t result =
      coll ? of_registered(context, coll, run, &found, sentence, sizeof sentence)
           : of_deregistered(context, id, run, &found, sentence, sizeof sentence);
  df_rank_unlock(&context->lock);
  if (result != dfcclSuccess) return result;
  if (status) *status = found;
  if (bytes > 0) snprintf(text, bytes, "%s", sentence);
  return dfcclSuccess;
}
