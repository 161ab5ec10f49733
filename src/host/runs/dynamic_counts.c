#include "host/runs/dynamic_counts.h"

#include <inttypes.h>
#include <stdlib.h>

/* Finds the counts of a run that has ended, or of a call that was refused; otherwise makes new
 * ones. NULL: no memory. */
static df_pair_counts *take_counts(df_coll *coll) {
  for (uint32_t i = 0; i < coll->runs.n_dynamic_counts; i++) {
    const uint64_t run = coll->runs.dynamic_counts[i]->run;
    if (run < coll->runs.taken || run >= coll->runs.submitted) return coll->runs.dynamic_counts[i];
  }
  df_pair_counts *counts = malloc(sizeof *counts + coll->n * sizeof counts->of[0]);
  df_pair_counts **all = realloc(coll->runs.dynamic_counts, (coll->runs.n_dynamic_counts + 1) *
                                                                sizeof *coll->runs.dynamic_counts);
  if (all) coll->runs.dynamic_counts = all;
  if (counts == NULL || all == NULL) {
    free(counts);
    return NULL;
  }
  all[coll->runs.n_dynamic_counts++] = counts;
  return counts;
}

static dfcclResult_t refuse_count(const df_coll *coll, const char *what, uint32_t i, uint64_t value,
                                  uint64_t most) {
  return df_fail(dfcclInvalidArgument,
                 "%s[%u] is %" PRIu64 " in a run of collective %" PRIu64 "; at most %" PRIu64
                 " is possible",
                 what, i, value, coll->id, most);
}

static dfcclResult_t fill_counts(const df_coll *coll, const df_given_counts *given,
                                 df_pair_counts *counts, uint64_t *sent) {
  for (uint32_t i = 0; i < coll->n; i++) {
    const uint64_t count = given->send_counts[i];
    const uint64_t send_at = given->send_displs ? given->send_displs[i] : *sent;
    const uint64_t recv_at = given->recv_displs ? given->recv_displs[i] : i * coll->count;
    if (count > coll->count) return refuse_count(coll, "sendCounts", i, count, coll->count);
    if (send_at > DF_MAX_COUNT) return refuse_count(coll, "sendDispls", i, send_at, DF_MAX_COUNT);
    if (recv_at > DF_MAX_COUNT) return refuse_count(coll, "recvDispls", i, recv_at, DF_MAX_COUNT);
    *sent += count;
    counts->of[i] = (df_peer_count){.sends = count,
                                    .send_at = send_at,
                                    .recv_at = recv_at,
                                    .receives = i == coll->position ? count : DF_COUNT_UNKNOWN};
  }
  return dfcclSuccess;
}

dfcclResult_t df_pair_counts_take(df_coll *coll, df_run *run) {
  const df_given_counts *given = run->given;
  uint64_t sent = 0;
  if (given->send_counts == NULL)
    return df_fail(dfcclInvalidArgument, "sendCounts is NULL for a run of collective %" PRIu64,
                   coll->id);
  df_pair_counts *counts = take_counts(coll);
  if (counts == NULL)
    return df_fail(dfcclOutOfMemory,
                   "no memory for the counts of run %" PRIu64 " of collective %" PRIu64,
                   coll->runs.submitted, coll->id);
  counts->run = coll->runs.submitted;
  dfcclResult_t result = fill_counts(coll, given, counts, &sent);
  if (result != dfcclSuccess) return result;
  if (sent > 0 && (run->send == NULL || (uintptr_t)run->send & coll->element_mask))
    return df_fail(dfcclInvalidArgument,
                   "sendBuf is %p for a run of collective %" PRIu64 " that sends %" PRIu64
                   " elements; it must be aligned to the element",
                   run->send, coll->id, sent);
  counts->recv_counts = given->recv_counts;
  if (given->recv_counts) {
    given->recv_counts[coll->position] = given->send_counts[coll->position];
    for (uint32_t i = 0; coll->count == 0 && i < coll->n; i++) given->recv_counts[i] = 0;
  }
  run->pair_counts = counts;
  return dfcclSuccess;
}
