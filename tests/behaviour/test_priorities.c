/*
 * Promise: priority orders the work of one device (larger values first) and never changes results.
 * Collectives of any priorities, submitted in any order, all complete. A stream of high-priority
 * runs does not starve a low-priority run that could complete.
 */
#include "support/buffers.h"

enum { RANKS = 4, COLLECTIVES = 6 };

static void mixed(int rank, void *arg) {
  dfcclContext_t *ctxs = arg;
  df_collective colls[COLLECTIVES];
  df_random random = {(uint64_t)rank * 31};
  for (int c = 0; c < COLLECTIVES; c++) {
    colls[c] = df_simple(800, RANKS);
    colls[c].priority = (c * 7 + rank) % 5 - 2; /* different on each rank, some negative */
    OK(df_register(ctxs[rank], (dfcclCollId_t)c, &colls[c]));
  }
  df_take_part_in_disorder(ctxs[rank], colls, COLLECTIVES, rank, 30, &random, NULL);
}

DF_TEST(priorities, any_mixture_completes, 60) {
  dfcclContext_t ctxs[RANKS];
  df_make_contexts(ctxs, RANKS, NULL);
  df_in_threads(RANKS, mixed, ctxs);
  df_free_contexts(ctxs, RANKS);
}

typedef struct {
  dfcclContext_t ctx;
  atomic_int stop, running;
  int32_t send[16], recv[16];
} urgent;

static void again(dfcclCollId_t coll, dfcclResult_t status, void *arg) {
  urgent *self = arg;
  if (status != dfcclSuccess || atomic_load(&self->stop) ||
      dfcclRunAllReduce(self->ctx, coll, self->send, self->recv, again, self) != dfcclSuccess)
    atomic_store(&self->running, 0);
}

/* An endless chain of urgent runs of one rank with itself, and a low-priority run that both ranks
 * have submitted. The latter must complete while the chain continues. */
DF_TEST(priorities, the_low_one_is_not_starved, 60) {
  static const int alone[1] = {0};
  dfcclContext_t ctxs[2];
  static urgent chain;
  df_make_contexts(ctxs, 2, NULL);
  df_collective high = df_simple(16, 1), low = df_simple(10000, 2);
  high.group = alone;
  high.priority = 100;
  low.priority = -100;
  OK(df_register(ctxs[0], 1, &high));
  df_register_all(ctxs, 2, &low);
  chain.ctx = ctxs[0];
  atomic_store(&chain.running, 1);
  OK(dfcclRunAllReduce(ctxs[0], 1, chain.send, chain.recv, again, &chain));
  for (uint64_t run = 0; run < 20; run++) df_exchange(ctxs, 2, &low, run, 0);
  CHECK(atomic_load(&chain.running), "the chain of urgent runs broke");
  atomic_store(&chain.stop, 1);
  EVENTUALLY(!atomic_load(&chain.running));
  df_free_contexts(ctxs, 2);
}
