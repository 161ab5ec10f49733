/*
 * Promise: dfcclDeregister removes a collective and returns its memory. Its id may be registered
 * again at once, as another collective: the i-th registration of an id is matched with the i-th one
 * of each other member, however far apart in time. The call is refused while runs of the collective
 * are outstanding. Runs that peers have submitted beyond this rank's last run end there with
 * dfcclRemoteError.
 */
#include "support/buffers.h"

#include <stdio.h>
#include "support/leftovers.h"

enum { RANKS = 3 };

static df_collective variant(int i) {
  static const df_kind kinds[] = {DF_ALL_REDUCE, DF_ALL_GATHER, DF_BROADCAST, DF_REDUCE_SCATTER};
  static const dfcclDataType_t types[] = {dfcclInt32, dfcclFloat64, dfcclUint8};
  return (df_collective){.kind = kinds[i % 4],
                         .type = types[i % 3],
                         .op = dfcclMax,
                         .root = i % RANKS,
                         .count = 10 + (size_t)(i * 37 % 500),
                         .members = RANKS,
                         .seed = (uint64_t)i};
}

static void one_life_after_another(int rank, void *arg) {
  dfcclContext_t *ctxs = arg;
  for (int i = 0; i < 150; i++) { /* without a barrier, ranks may be several registrations apart */
    df_collective coll = variant(i);
    OK(df_register(ctxs[rank], 6, &coll));
    for (uint64_t run = 0; run < 2; run++)
      df_take_part(ctxs[rank], 6, &coll, rank, run, i % 2 ? DF_IN_PLACE : 0);
    OK(dfcclDeregister(ctxs[rank], 6));
  }
}

DF_TEST(deregister, the_same_id_lives_many_times, 60) {
  dfcclContext_t ctxs[RANKS];
  df_make_contexts(ctxs, RANKS, NULL);
  df_in_threads(RANKS, one_life_after_another, ctxs);
  df_free_contexts(ctxs, RANKS);
}

/* Registrations without any run are counted too. */
DF_TEST(deregister, lives_without_runs_count, 30) {
  dfcclContext_t ctxs[2];
  df_make_contexts(ctxs, 2, NULL);
  df_collective unused = df_simple(10, 2), used = df_simple(999, 2);
  for (int rank = 0; rank < 2; rank++) {
    for (int i = 0; i < 3; i++) {
      OK(df_register(ctxs[rank], 8, &unused));
      OK(dfcclDeregister(ctxs[rank], 8));
    }
    OK(df_register(ctxs[rank], 8, &used));
  }
  df_exchange(ctxs, 8, &used, 0, 0);
  df_free_contexts(ctxs, 2);
}

DF_TEST(deregister, not_while_a_run_is_outstanding, 30) {
  dfcclContext_t ctxs[2];
  int32_t send[4] = {0}, recv[2][4];
  df_make_contexts(ctxs, 2, NULL);
  df_collective coll = df_simple(4, 2);
  df_register_all(ctxs, 1, &coll);
  OK(dfcclRunAllReduce(ctxs[0], 1, send, recv[0], NULL, NULL));
  RESULT(dfcclDeregister(ctxs[0], 1), dfcclInvalidUsage);
  RESULT(dfcclRegisterAllReduce(ctxs[0], 1, 4, dfcclInt32, dfcclSum, NULL), dfcclInvalidUsage);
  CHECK(df_mentions(dfcclGetLastError(NULL), "1"), "\"%s\"", dfcclGetLastError(NULL));
  OK(dfcclRunAllReduce(ctxs[1], 1, send, recv[1], NULL, NULL));
  OK(dfcclWait(ctxs[0], 1));
  OK(dfcclWait(ctxs[1], 1));
  OK(dfcclDeregister(ctxs[0], 1));
  RESULT(dfcclDeregister(ctxs[0], 1), dfcclInvalidArgument);
  df_free_contexts(ctxs, 2);
}

DF_TEST(deregister, a_peer_beyond_it_gets_a_remote_error, 30) {
  dfcclContext_t ctxs[2];
  int32_t send[4] = {0}, recv[4];
  df_tally tally = {0};
  df_make_contexts(ctxs, 2, NULL);
  df_collective coll = df_simple(4, 2), other = df_simple(100, 2);
  df_register_all(ctxs, 1, &coll);
  df_register_all(ctxs, 2, &other);
  df_exchange(ctxs, 1, &coll, 0, 0);
  OK(dfcclRunAllReduce(ctxs[1], 1, send, recv, df_tally_callback, &tally));
  OK(dfcclDeregister(ctxs[0], 1));
  EVENTUALLY(atomic_load(&tally.calls) == 1);
  CHECK(atomic_load(&tally.status) == dfcclRemoteError, "%s",
        df_test_result_name((dfcclResult_t)atomic_load(&tally.status)));
  df_exchange(ctxs, 2, &other, 0, 0); /* the contexts themselves are not broken */
  df_free_contexts(ctxs, 2);
}

static void submit_two(dfcclContext_t ctx, df_tally *first, df_tally *second) {
  static int32_t send[4], recv[2][4];
  OK(dfcclRunAllReduce(ctx, 1, send, recv[0], df_tally_callback, first));
  OK(dfcclRunAllReduce(ctx, 1, send, recv[1], df_tally_callback, second));
}

/* This also holds when this rank receives the deregistration before it has seen the completion of
 * its last run that can complete. */
DF_TEST(deregister, a_peer_that_is_just_completing_gets_its_error_too, 60) {
  dfcclContext_t ctxs[2];
  int32_t send[4] = {0}, recv[4];
  df_make_contexts(ctxs, 2, NULL);
  df_collective coll = df_simple(4, 2);
  for (int life = 0; life < 400 / df_slowdown(); life++) {
    df_tally first = {0}, second = {0};
    df_register_all(ctxs, 1, &coll);
    submit_two(ctxs[1], &first, &second);
    OK(dfcclRunAllReduce(ctxs[0], 1, send, recv, NULL, NULL));
    OK(dfcclWait(ctxs[0], 1));
    OK(dfcclDeregister(ctxs[0], 1));
    EVENTUALLY(atomic_load(&second.calls) == 1);
    CHECK(atomic_load(&first.calls) == 1 && atomic_load(&first.status) == dfcclSuccess, "%s",
          df_test_result_name((dfcclResult_t)atomic_load(&first.status)));
    CHECK(atomic_load(&second.status) == dfcclRemoteError, "%s",
          df_test_result_name((dfcclResult_t)atomic_load(&second.status)));
    dfcclWait(ctxs[1], 1);
    OK(dfcclDeregister(ctxs[1], 1));
  }
  df_free_contexts(ctxs, 2);
}

/* Memory is returned: many registrations do not make the process grow. */
DF_TEST(deregister, returns_memory, 60) {
  dfcclContext_t ctxs[2];
  df_make_contexts(ctxs, 2, NULL);
  df_collective coll = df_simple(100000, 2);
  long early = 0;
  int lives = 300 / df_slowdown();
  for (int i = 0; i < lives; i++) {
    df_once(ctxs, (dfcclCollId_t)i, &coll, 0);
    if (i == lives / 10) early = df_resident_kb();
  }
  long late = df_resident_kb();
  fprintf(stderr, "deregister: %ld KB after a tenth of %d lives, %ld KB after all\n", early, lives,
          late);
  if (df_slowdown() == 1) /* sanitizers keep freed memory on purpose */
    CHECK(late < early + 16384, "%ld KB grew to %ld KB", early, late);
  df_free_contexts(ctxs, 2);
}
