/*
 * Promise: buffers belong to the library until the run's callback, and no longer, whatever the
 * status. Once a run has failed on this rank, no peer accesses its buffers any more, and they may
 * be unmapped.
 */
#include "support/buffers.h"
#include "support/memory.h"
#include "support/processes.h"

#include <sys/mman.h>

enum { RUNS = 3, RANKS = 4 };
static const size_t elements = 1 << 20;

typedef struct {
  void *send, *recv;
} pair;

static void unmap(dfcclCollId_t coll, dfcclResult_t status, void *arg) {
  (void)coll;
  (void)status;
  pair *p = arg;
  munmap(p->send, elements * 4);
  munmap(p->recv, elements * 4);
}

static void *map(void) {
  void *memory =
      mmap(NULL, elements * 4, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(memory != MAP_FAILED, "no memory");
  return memory;
}

typedef struct {
  dfcclContext_t ctxs[RANKS];
  pair pairs[RANKS][RUNS];
  int delay_us, aborts;
} job;

static void run_or_abort(int rank, void *arg) {
  job *j = arg;
  if (rank == RANKS) {
    double start = df_seconds();
    while (df_seconds() - start < 1e-6 * j->delay_us) {
    }
    OK(dfcclAbort(j->ctxs[1]));
    return;
  }
  for (int i = 0; i < RUNS; i++) {
    pair *p = &j->pairs[rank][i];
    *p = (pair){map(), map()};
    dfcclResult_t result = dfcclRunAllReduce(j->ctxs[rank], 1, p->send, p->recv, unmap, p);
    if (result != dfcclSuccess) unmap(1, result, p);
  }
  dfcclWait(j->ctxs[rank], 1);
}

DF_TEST(lent_buffers, are_left_alone_after_an_abort, 120) {
  if (df_on_cuda()) DF_SKIP("a GPU reaches no memory that is mapped and unmapped at any time");
  int times = df_slowdown() == 1 ? 60 : 15;
  for (int i = 0; i < times; i++) {
    static job j;
    df_make_contexts(j.ctxs, RANKS, NULL);
    df_collective coll = df_simple(elements, RANKS);
    df_register_all(j.ctxs, 1, &coll);
    j.delay_us = 1000 + 200 * i;
    df_in_threads(RANKS + 1, run_or_abort, &j);
    df_free_contexts(j.ctxs, RANKS);
  }
}

/* The same between processes, with memory that peers have mapped. */
static void run_and_free(int rank, int ranks, const dfcclUniqueId *id, void *arg) {
  int delay_ms = *(int *)arg;
  dfcclContext_t ctx = df_init(rank, ranks, id, NULL);
  df_collective coll = df_simple(elements, ranks);
  void *send, *recv;
  OK(dfcclMemAlloc(ctx, &send, elements * 4));
  OK(dfcclMemAlloc(ctx, &recv, elements * 4));
  OK(df_register(ctx, 1, &coll));
  double start = 0; /* the first run is complete, so all ranks have registered */
  int given_up = 0;
  dfcclResult_t result = dfcclSuccess;
  while (result == dfcclSuccess) {
    result = dfcclRunAllReduce(ctx, 1, send, recv, NULL, NULL);
    if (rank == 1 && start != 0 && df_seconds() - start > 1e-3 * delay_ms) {
      OK(dfcclAbort(ctx));
      given_up = 1;
    }
    if (result == dfcclSuccess) result = dfcclWait(ctx, 1);
    if (start == 0) start = df_seconds();
  }
  CHECK(result == (given_up ? dfcclAborted : dfcclRemoteError), "%s", df_test_result_name(result));
  OK(dfcclMemFree(ctx, send));
  OK(dfcclMemFree(ctx, recv));
  df_finish(ctx);
}

DF_TEST(lent_buffers, of_processes, 120) {
  for (int i = 0; i < 8; i++) {
    df_family family;
    int delay_ms = 20 + i;
    df_fork(&family, 3, 60, run_and_free, &delay_ms);
    df_join(&family);
  }
}
