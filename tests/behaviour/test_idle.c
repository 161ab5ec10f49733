/*
 * Promise: a daemon without work parks. An idle job uses almost no processor time, also while an
 * outstanding run waits for its peer. The test prints the time; the asserted limit is very loose.
 */
#include "support/buffers.h"

#include <stdio.h>
#include <time.h>

static double processor_seconds(void) {
  struct timespec used;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return (double)used.tv_sec + 1e-9 * (double)used.tv_nsec;
}

/* Processor time within one second; 0.5 would be a quarter of two cores. */
static void expect_quiet(const char *what) {
  df_sleep_ms(300); /* time until the threads sleep */
  double before = processor_seconds();
  df_sleep_ms(1000);
  double used = processor_seconds() - before;
  fprintf(stderr, "idle, %s: %.1f ms of processor time in 1 s\n", what, 1e3 * used);
  CHECK(used < 0.5, "%s: %.3f s of processor time in 1 s", what, used);
}

DF_TEST(idle, uses_no_processor_time, 60) {
  enum { RANKS = 4 };
  dfcclContext_t ctxs[RANKS];
  static int32_t send[100], recv[RANKS][100];
  df_make_contexts(ctxs, RANKS, NULL);
  expect_quiet("nothing registered");
  df_collective coll = df_simple(100, RANKS);
  df_register_all(ctxs, 1, &coll);
  df_exchange(ctxs, 1, &coll, 0, 0);
  expect_quiet("after a run");
  for (int rank = 1; rank < RANKS; rank++)
    OK(dfcclRunAllReduce(ctxs[rank], 1, send, recv[rank], NULL, NULL));
  expect_quiet("with a run that waits for a peer");
  OK(dfcclRunAllReduce(ctxs[0], 1, send, recv[0], NULL, NULL));
  for (int rank = 0; rank < RANKS; rank++) OK(dfcclWaitAll(ctxs[rank]));
  df_free_contexts(ctxs, RANKS);
}
