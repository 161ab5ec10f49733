/* Bodies shared by test_endurance.c and test_endurance_long.c. */
#ifndef DF_TESTS_BEHAVIOUR_ENDURANCE_H
#define DF_TESTS_BEHAVIOUR_ENDURANCE_H

#include "support/buffers.h"
#include "support/leftovers.h"

#include <stdio.h>

typedef struct {
  long kb;
  int descriptors, threads;
} footprint;

static footprint measure(void) {
  return (footprint){df_resident_kb(), df_descriptor_count(), df_thread_count()};
}

typedef struct {
  dfcclContext_t ctx;
  atomic_long left, calls, failures;
  atomic_uint started;
  int32_t send[32], recv[16][32]; /* more than are in flight at one time */
} runner;

static dfcclResult_t submit(runner *r, dfcclCollId_t coll, dfcclCallback_t callback) {
  unsigned slot = atomic_fetch_add(&r->started, 1) % 16;
  return dfcclRunAllReduce(r->ctx, coll, r->send, r->recv[slot], callback, r);
}

static void next(dfcclCollId_t coll, dfcclResult_t status, void *arg) {
  runner *r = arg;
  if (status != dfcclSuccess) atomic_fetch_add(&r->failures, 1);
  if (atomic_fetch_sub(&r->left, 1) > 0 && submit(r, coll, next) != dfcclSuccess)
    atomic_fetch_add(&r->failures, 1);
  atomic_fetch_add(&r->calls, 1);
}

/* Submits each next run in a callback; several runs are in flight at one time. */
static void chain(runner *runners, long runs) {
  enum { IN_FLIGHT = 8 };
  for (int rank = 0; rank < 2; rank++) {
    atomic_store(&runners[rank].left, runs - IN_FLIGHT);
    atomic_store(&runners[rank].calls, 0);
  }
  for (int i = 0; i < IN_FLIGHT; i++)
    for (int rank = 0; rank < 2; rank++) OK(submit(&runners[rank], 1, next));
  for (int rank = 0; rank < 2; rank++) {
    EVENTUALLY(atomic_load(&runners[rank].calls) == runs);
    CHECK(atomic_load(&runners[rank].failures) == 0, "%ld runs failed",
          atomic_load(&runners[rank].failures));
  }
}

/* Submits one run and waits for it, many times. The waiting threads drive the device. */
static void submit_and_wait(int rank, void *arg) {
  runner *r = (runner *)arg + rank;
  long runs = atomic_load(&r->left);
  for (long i = 0; i < runs; i++) {
    OK(submit(r, 1, NULL));
    OK(dfcclWait(r->ctx, 1));
  }
}

static void wait_loop(runner *runners, long runs) {
  for (int rank = 0; rank < 2; rank++) atomic_store(&runners[rank].left, runs);
  df_in_threads(2, submit_and_wait, runners);
}

static void endure(void (*work)(runner *, long), long runs) {
  static runner runners[2];
  dfcclContext_t ctxs[2];
  df_make_contexts(ctxs, 2, NULL);
  df_collective coll = df_simple(32, 2);
  df_register_all(ctxs, 1, &coll);
  for (int rank = 0; rank < 2; rank++) runners[rank].ctx = ctxs[rank];
  work(runners, runs / 10);
  footprint early = measure();
  double start = df_seconds();
  work(runners, runs);
  double took = df_seconds() - start;
  footprint late = measure();
  fprintf(stderr, "%ld runs in %.2f s: %ld KB -> %ld KB, %d -> %d descriptors, %d -> %d threads\n",
          runs, took, early.kb, late.kb, early.descriptors, late.descriptors, early.threads,
          late.threads);
  CHECK(late.descriptors <= early.descriptors, "descriptors grew from %d to %d", early.descriptors,
        late.descriptors);
  CHECK(late.threads <= early.threads, "threads grew from %d to %d", early.threads, late.threads);
  if (df_slowdown() == 1)
    CHECK(late.kb < early.kb + 4096, "%ld KB grew to %ld KB", early.kb, late.kb);
  df_free_contexts(ctxs, 2);
}

#endif
