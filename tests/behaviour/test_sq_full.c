/*
 * Promise: dfcclRun* never blocks. While the submission queue is full, requests wait in order in a
 * bounded list on the host (of at least 65,536); a further one is refused with dfcclInvalidUsage.
 * Accepted runs are neither lost nor reordered, and refused ones have no callback.
 */
#include "support/buffers.h"

#include <stdlib.h>

enum { PROMISED = 65536, MORE_THAN_ANY_LIMIT = 2 * PROMISED, ORDERED = 5000 };

typedef struct {
  atomic_long calls, failures;
} count_pair;

static void count(dfcclCollId_t coll, dfcclResult_t status, void *arg) {
  (void)coll;
  count_pair *counts = arg;
  if (status != dfcclSuccess) atomic_fetch_add(&counts->failures, 1);
  atomic_fetch_add(&counts->calls, 1);
}

static void until_refused(int queue_depth) {
  static int32_t send[2] = {1, 2}, recv[2][MORE_THAN_ANY_LIMIT][2];
  dfcclContext_t ctxs[2];
  dfcclConfig_t config = df_config();
  config.queueDepth = queue_depth;
  df_make_contexts(ctxs, 2, &config);
  df_collective coll = df_simple(2, 2);
  df_register_all(ctxs, 5, &coll);

  static count_pair counts[2];
  long accepted = 0;
  dfcclResult_t result = dfcclSuccess;
  while (accepted < MORE_THAN_ANY_LIMIT &&
         (result = dfcclRunAllReduce(ctxs[0], 5, send, recv[0][accepted], count, &counts[0])) ==
             dfcclSuccess)
    accepted++;
  CHECK(result == dfcclInvalidUsage, "after %ld runs: %s", accepted, df_test_result_name(result));
  CHECK(accepted >= PROMISED, "only %ld runs were accepted", accepted);
  const char *sentence = dfcclGetLastError(NULL);
  CHECK(df_mentions(sentence, "full") || df_mentions(sentence, "limit") ||
            df_mentions(sentence, "65536"),
        "the sentence does not say what is full: \"%s\"", sentence);
  CHECK(atomic_load(&counts[0].calls) == 0, "a run completed without its peer");

  for (long i = 0; i < accepted;) {
    result = dfcclRunAllReduce(ctxs[1], 5, send, recv[1][i], count, &counts[1]);
    if (result == dfcclInvalidUsage) {
      df_nap();
      continue;
    }
    OK(result);
    i++;
  }
  EVENTUALLY(atomic_load(&counts[0].calls) == accepted &&
             atomic_load(&counts[1].calls) == accepted);
  OK(dfcclWaitAll(ctxs[0]));
  OK(dfcclWaitAll(ctxs[1]));
  CHECK(atomic_load(&counts[0].calls) == accepted, "callbacks for refused runs");
  CHECK(atomic_load(&counts[0].failures) + atomic_load(&counts[1].failures) == 0, "runs failed");
  for (long i = 0; i < accepted; i++)
    for (int rank = 0; rank < 2; rank++)
      CHECK(recv[rank][i][0] == 2 && recv[rank][i][1] == 4, "run %ld: %d %d", i, recv[rank][i][0],
            recv[rank][i][1]);
  df_exchange(ctxs, 5, &coll, 1, 0); /* and the job continues as if no run had been refused */
  df_free_contexts(ctxs, 2);
}

DF_TEST(sq_full, the_list_has_a_limit_and_loses_nothing, 120) { until_refused(0); }

DF_TEST(sq_full, with_the_smallest_queue, 120) { until_refused(1); }

/* Each run has buffers of its own: the i-th run on one rank must be matched with the i-th on the
 * other. */
DF_TEST(sq_full, order_is_kept, 60) {
  dfcclContext_t ctxs[2];
  dfcclConfig_t config = df_config();
  config.queueDepth = 4;
  df_make_contexts(ctxs, 2, &config);
  df_collective coll = df_simple(3, 2);
  df_register_all(ctxs, 9, &coll);
  df_buffers *buffers = calloc(2 * ORDERED, sizeof *buffers);
  df_tally tally = {0};
  for (int rank = 0; rank < 2; rank++)
    for (int i = 0; i < ORDERED; i++) {
      df_buffers *mine = &buffers[rank * ORDERED + i];
      df_buffers_make(mine, ctxs[rank], &coll, rank, (uint64_t)i, 0);
      OK(df_run(ctxs[rank], 9, coll.kind, mine->send, mine->recv, df_tally_callback, &tally));
    }
  EVENTUALLY(atomic_load(&tally.calls) == 2 * ORDERED);
  for (int i = 0; i < 2 * ORDERED; i++) {
    df_buffers_check(&buffers[i]);
    df_buffers_free(&buffers[i]);
  }
  free(buffers);
  df_free_contexts(ctxs, 2);
}

/* Two collectives in opposite orders, with more runs of each than the list holds. A refused run is
 * submitted again after the other collective's. */
enum { EACH = 70000, IDS = 2 };

typedef struct {
  dfcclContext_t *ctxs;
  int32_t send[2], recv[2][IDS][2];
  count_pair counts[2];
} opposite;

static void submit_in_turn(int rank, void *arg) {
  opposite *o = arg;
  long accepted[IDS] = {0};
  while (accepted[0] + accepted[1] < IDS * EACH)
    for (int i = 0; i < IDS; i++) {
      int which = rank == 0 ? i : IDS - 1 - i;
      dfcclResult_t result = dfcclSuccess;
      while (accepted[which] < EACH && result == dfcclSuccess) {
        result = dfcclRunAllReduce(o->ctxs[rank], (dfcclCollId_t)which, o->send,
                                   o->recv[rank][which], count, &o->counts[rank]);
        accepted[which] += result == dfcclSuccess;
      }
      if (result != dfcclSuccess) RESULT(result, dfcclInvalidUsage);
    }
}

DF_TEST(sq_full, opposite_orders_of_more_than_the_list_takes, 120) {
  static opposite o;
  dfcclContext_t ctxs[2];
  o.ctxs = ctxs;
  df_make_contexts(ctxs, 2, NULL);
  df_collective coll = df_simple(2, 2);
  for (dfcclCollId_t id = 0; id < IDS; id++) df_register_all(ctxs, id, &coll);
  df_in_threads(2, submit_in_turn, &o);
  for (int rank = 0; rank < 2; rank++) OK(dfcclWaitAll(ctxs[rank]));
  for (int rank = 0; rank < 2; rank++)
    CHECK(atomic_load(&o.counts[rank].calls) == IDS * EACH &&
              atomic_load(&o.counts[rank].failures) == 0,
          "rank %d: %ld callbacks, %ld failures", rank, atomic_load(&o.counts[rank].calls),
          atomic_load(&o.counts[rank].failures));
  df_free_contexts(ctxs, 2);
}
