/*
 * Promise: dfcclDeviceSynchronize blocks until the device is idle. Nothing that is submitted after
 * the call starts on this context's device before the daemon has left it. A daemon that cannot
 * progress leaves by itself and is started again, so synchronisations in any order on any rank,
 * between disordered collectives, make no rank hang.
 */
#include "support/buffers.h"

enum { RANKS = 4 };

/* Every rank synchronises at another place among collectives that it submits in another order. The
 * submitting thread itself synchronises, so the later collectives are not submitted meanwhile. */
static void synchronise_among_runs(int rank, void *arg) {
  enum { ROUNDS = 40, COLLECTIVES = 4 };
  dfcclContext_t *ctxs = arg;
  df_collective colls[COLLECTIVES];
  df_random random = {(uint64_t)rank + 9};
  for (int c = 0; c < COLLECTIVES; c++) {
    colls[c] = df_simple(700 * (size_t)(c + 1), RANKS);
    OK(df_register(ctxs[rank], (dfcclCollId_t)c, &colls[c]));
  }
  df_take_part_in_disorder(ctxs[rank], colls, COLLECTIVES, rank, ROUNDS, &random,
                           dfcclDeviceSynchronize);
}

DF_TEST(device_synchronize, between_disordered_runs, 60) {
  dfcclContext_t ctxs[RANKS];
  df_make_contexts(ctxs, RANKS, NULL);
  df_in_threads(RANKS, synchronise_among_runs, ctxs);
  dfcclStats_t stats = df_stats(ctxs[0]);
  CHECK(stats.voluntaryQuits >= 1 && stats.daemonStarts >= 1, "%llu quits, %llu starts",
        (unsigned long long)stats.voluntaryQuits, (unsigned long long)stats.daemonStarts);
  df_free_contexts(ctxs, RANKS);
}

/* The daemon holds a run that cannot complete. It must leave the device nevertheless, and the run
 * completes afterwards, once. */
DF_TEST(device_synchronize, returns_while_a_run_is_stuck, 30) {
  dfcclContext_t ctxs[2];
  df_tally tally = {0};
  df_make_contexts(ctxs, 2, NULL);
  df_collective coll = df_simple(5000, 2);
  df_register_all(ctxs, 1, &coll);
  df_buffers buffers[2];
  for (int rank = 0; rank < 2; rank++) df_buffers_make(&buffers[rank], NULL, &coll, rank, 0, 0);
  OK(df_run(ctxs[0], 1, coll.kind, buffers[0].send, buffers[0].recv, df_tally_callback, &tally));
  for (int i = 0; i < 20; i++) OK(dfcclDeviceSynchronize(ctxs[0]));
  CHECK(atomic_load(&tally.calls) == 0, "completed without its peer");
  OK(df_run(ctxs[1], 1, coll.kind, buffers[1].send, buffers[1].recv, df_tally_callback, &tally));
  EVENTUALLY(atomic_load(&tally.calls) == 2);
  for (int rank = 0; rank < 2; rank++) {
    df_buffers_check(&buffers[rank]);
    df_buffers_free(&buffers[rank]);
  }
  df_free_contexts(ctxs, 2);
}

DF_TEST(device_synchronize, at_rest_and_before_anything, 30) {
  dfcclContext_t ctxs[2];
  df_make_contexts(ctxs, 2, NULL);
  for (int i = 0; i < 100; i++)
    for (int rank = 0; rank < 2; rank++) OK(dfcclDeviceSynchronize(ctxs[rank]));
  df_free_contexts(ctxs, 2);
}

typedef struct {
  dfcclContext_t *ctxs;
  atomic_int stop;
  df_tally tally;
  int submitted;
} busy;

static void keep_busy(int role, void *arg) {
  busy *b = arg;
  static int32_t send[500], recv[2][500];
  if (role == 2) { /* this thread synchronises all the time, while two threads submit */
    for (int i = 0; i < 200; i++) OK(dfcclDeviceSynchronize(b->ctxs[i % 2]));
    atomic_store(&b->stop, 1);
    return;
  }
  if (role == 1) return;
  do { /* one thread submits both ranks' runs, so that their numbers agree */
    for (int rank = 0; rank < 2; rank++)
      OK(dfcclRunAllReduce(b->ctxs[rank], 1, send, recv[rank], df_tally_callback, &b->tally));
    b->submitted += 2;
    for (int rank = 0; rank < 2; rank++) OK(dfcclWait(b->ctxs[rank], 1));
  } while (!atomic_load(&b->stop));
}

/* Quits under load: the daemon is asked to leave repeatedly while runs arrive. */
DF_TEST(device_synchronize, while_runs_arrive, 60) {
  dfcclContext_t ctxs[2];
  busy b = {.ctxs = ctxs};
  df_make_contexts(ctxs, 2, NULL);
  df_collective coll = df_simple(500, 2);
  df_register_all(ctxs, 1, &coll);
  df_in_threads(3, keep_busy, &b);
  CHECK(atomic_load(&b.tally.calls) == b.submitted && atomic_load(&b.tally.failures) == 0,
        "%d callbacks for %d runs", atomic_load(&b.tally.calls), b.submitted);
  df_free_contexts(ctxs, 2);
}

typedef struct {
  dfcclContext_t *ctxs;
  atomic_int synchronising, returned, started_too_early;
} barrier_case;

static void watch_the_barrier(int role, void *arg) {
  barrier_case *b = arg;
  if (role == 0) {
    atomic_store(&b->synchronising, 1);
    OK(dfcclDeviceSynchronize(b->ctxs[0]));
    atomic_store(&b->returned, 1);
    return;
  }
  /* During the synchronisation the daemon must not fetch an entry that was submitted after the
   * call. If the number of fetched entries grows, the synchronisation must have returned. */
  static int32_t send[10], recv[10];
  EVENTUALLY(atomic_load(&b->synchronising));
  uint64_t before = df_stats(b->ctxs[0]).daemonStarts;
  OK(dfcclRunAllReduce(b->ctxs[0], 2, send, recv, NULL, NULL));
  while (!atomic_load(&b->returned)) {
    uint64_t starts = df_stats(b->ctxs[0]).daemonStarts;
    /* A restart before the return is legal only if the call was already returning. The check is
     * therefore repeated for a long time, because the returning thread may get no processor. */
    if (starts > before + 1) {
      for (int i = 0; i < 20000 && !atomic_load(&b->returned); i++) df_sleep_ms(1);
      if (!atomic_load(&b->returned)) atomic_store(&b->started_too_early, 1);
      return;
    }
    df_nap();
  }
}

DF_TEST(device_synchronize, the_daemon_does_not_come_back_before_it_returns, 60) {
  dfcclContext_t ctxs[2];
  static int32_t send[10], recv[3][10];
  df_make_contexts(ctxs, 2, NULL);
  df_collective coll = df_simple(10, 2);
  df_register_all(ctxs, 1, &coll);
  df_register_all(ctxs, 2, &coll);
  for (int i = 0; i < 20; i++) {
    barrier_case b = {.ctxs = ctxs};
    OK(dfcclRunAllReduce(ctxs[0], 1, send, recv[0], NULL, NULL)); /* the run is blocked for now */
    df_in_threads(2, watch_the_barrier, &b);
    CHECK(!atomic_load(&b.started_too_early), "the daemon restarted during a synchronisation");
    OK(dfcclRunAllReduce(ctxs[1], 1, send, recv[1], NULL, NULL));
    OK(dfcclRunAllReduce(ctxs[1], 2, send, recv[2], NULL, NULL));
    OK(dfcclWaitAll(ctxs[0]));
    OK(dfcclWaitAll(ctxs[1]));
  }
  df_free_contexts(ctxs, 2);
}
