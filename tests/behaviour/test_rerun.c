/*
 * Promise: a collective may be run again before its earlier runs complete. The i-th run on one rank
 * is matched with the i-th run on each other rank, from whichever thread and however late they are
 * submitted.
 */
#include "support/buffers.h"

#include <stdlib.h>

enum { RUNS = 300, RANKS = 4 };

typedef struct {
  dfcclContext_t *ctxs;
  const df_collective *coll;
} job;

static void submit_all_then_check(int rank, void *arg) {
  job *jobs = arg;
  const df_collective *coll = jobs->coll;
  df_random random = {(uint64_t)rank + 77};
  df_buffers *buffers = calloc(RUNS, sizeof *buffers);
  df_tally tally = {0};
  for (int i = 0; i < RUNS; i++) {
    if (df_random_chance(&random, 5)) df_sleep_ms(df_random_below(&random, 3));
    df_buffers_make(&buffers[i], jobs->ctxs[rank], coll, rank, (uint64_t)i,
                    df_random_chance(&random, 50) ? DF_IN_PLACE : 0);
    OK(df_run(jobs->ctxs[rank], 3, coll->kind, buffers[i].send, buffers[i].recv, df_tally_callback,
              &tally));
  }
  OK(dfcclWait(jobs->ctxs[rank], 3));
  CHECK(atomic_load(&tally.calls) == RUNS && atomic_load(&tally.failures) == 0,
        "%d callbacks, %d failures", atomic_load(&tally.calls), atomic_load(&tally.failures));
  for (int i = 0; i < RUNS; i++) {
    df_buffers_check(&buffers[i]);
    df_buffers_free(&buffers[i]);
  }
  free(buffers);
}

static void play(df_kind kind, size_t count) {
  dfcclContext_t ctxs[RANKS];
  df_make_contexts(ctxs, RANKS, NULL);
  df_collective coll = {.kind = kind,
                        .type = dfcclFloat32,
                        .op = dfcclSum,
                        .root = 1,
                        .count = count,
                        .members = RANKS,
                        .seed = 5};
  df_register_all(ctxs, 3, &coll);
  job all = {.ctxs = ctxs, .coll = &coll};
  df_in_threads(RANKS, submit_all_then_check, &all);
  df_free_contexts(ctxs, RANKS);
}

DF_TEST(rerun, all_reduce, 60) { play(DF_ALL_REDUCE, 100); }
DF_TEST(rerun, reduce, 60) { play(DF_REDUCE, 100); }
DF_TEST(rerun, broadcast, 60) { play(DF_BROADCAST, 100); }
DF_TEST(rerun, all_gather, 60) { play(DF_ALL_GATHER, 100); }
DF_TEST(rerun, reduce_scatter, 60) { play(DF_REDUCE_SCATTER, 100); }
DF_TEST(rerun, all_to_all, 60) { play(DF_ALL_TO_ALL, 100); }
DF_TEST(rerun, many_chunks, 60) { play(DF_ALL_REDUCE, 20000); }

/* Without data that flows back to the root, it could get far ahead of slow members. */
DF_TEST(rerun, the_root_is_far_ahead, 60) {
  enum { AHEAD = 2000 };
  dfcclContext_t ctxs[2];
  df_make_contexts(ctxs, 2, NULL);
  df_collective coll = {
      .kind = DF_BROADCAST, .type = dfcclInt32, .count = 64, .members = 2, .seed = 5};
  df_register_all(ctxs, 3, &coll);
  df_buffers *buffers = calloc(2 * AHEAD, sizeof *buffers);
  df_tally tally = {0};
  for (int rank = 0; rank < 2; rank++) {
    for (int i = 0; i < AHEAD; i++) {
      df_buffers *mine = &buffers[rank * AHEAD + i];
      df_buffers_make(mine, ctxs[rank], &coll, rank, (uint64_t)i, 0);
      OK(df_run(ctxs[rank], 3, coll.kind, mine->send, mine->recv, df_tally_callback, &tally));
    }
    df_sleep_ms(30);
  }
  EVENTUALLY(atomic_load(&tally.calls) == 2 * AHEAD);
  for (int i = 0; i < 2 * AHEAD; i++) {
    df_buffers_check(&buffers[i]);
    df_buffers_free(&buffers[i]);
  }
  free(buffers);
  df_free_contexts(ctxs, 2);
}
