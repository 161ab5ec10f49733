/*
 * Promise: a device that is lost ends every run, once, with an error; dfcclAbort and dfcclDestroy
 * return.
 */
#include <stdatomic.h>
#include <time.h>

#include "calls.h"
#include "support/buffers.h"
#include "support/rounds.h"

enum { RANKS = 2, COLLECTIVES = 3, COUNT = 700, BYTES = COUNT * sizeof(uint32_t) };

static _Atomic int calls;
static _Atomic int successes;

static void count_call(dfcclCollId_t coll, dfcclResult_t status, void *arg) {
  (void)coll;
  (void)arg;
  atomic_fetch_add(&successes, status == dfcclSuccess);
  atomic_fetch_add(&calls, 1);
}

/* Rank 0 has runs, and no other rank has any. */
static void lose_device(dfcclContext_t *ctxs, void *memory) {
  const struct timespec moment = {.tv_nsec = 100 * 1000 * 1000};
  for (int c = 0; c < COLLECTIVES; c++)
    OK(dfcclRunAllReduce(ctxs[0], (dfcclCollId_t)c, memory, (char *)memory + BYTES, count_call,
                         NULL));
  nanosleep(&moment, NULL); /* most likely rank 0 has set up by now all that it can set up alone */
  cuda_emulator_lose_device(0);
  EVENTUALLY(atomic_load(&calls) == COLLECTIVES);
  CHECK(atomic_load(&successes) == 0, "%d runs succeeded alone", atomic_load(&successes));
  CHECK(dfcclRunAllReduce(ctxs[0], 0, memory, (char *)memory + BYTES, NULL, NULL) != dfcclSuccess,
        "a run on a lost device was accepted");
  for (int rank = 0; rank < RANKS; rank++) {
    df_unwatch(ctxs[rank]);
    df_waiting_for("dfcclAbort and dfcclDestroy with a lost device");
    OK(dfcclAbort(ctxs[rank]));
    (void)dfcclDestroy(ctxs[rank]);
    df_waiting_for(NULL);
  }
  CHECK(atomic_load(&calls) == COLLECTIVES, "%d callbacks of %d runs", atomic_load(&calls),
        (int)COLLECTIVES);
}

DF_TEST(emulated_lost_device, ends_every_run, 120) {
  void *memory;
  dfcclContext_t ctxs[RANKS];
  df_collective coll = df_simple(COUNT, RANKS);
  df_make_contexts(ctxs, RANKS, NULL);
  for (int c = 0; c < COLLECTIVES; c++) df_register_all(ctxs, (dfcclCollId_t)c, &coll);
  CUDA(cudaMalloc(&memory, (size_t)2 * RANKS * BYTES));
  for (int rank = 0; rank < RANKS;
       rank++) { /* the links are connected; otherwise runs would wait for them */
    char *input = (char *)memory + (size_t)2 * rank * BYTES;
    for (int c = 0; c < COLLECTIVES; c++)
      OK(dfcclRunAllReduce(ctxs[rank], (dfcclCollId_t)c, input, input + BYTES, NULL, NULL));
  }
  df_waiting_for("dfcclWaitAll");
  for (int rank = 0; rank < RANKS; rank++) OK(dfcclWaitAll(ctxs[rank]));
  df_waiting_for(NULL);
  lose_device(ctxs, memory); /* the runs are in the daemon */
}

DF_TEST(emulated_lost_device, ends_runs_that_wait_for_a_peer_outside_of_it, 120) {
  void *memory;
  dfcclContext_t ctxs[RANKS];
  df_collective coll = df_simple(COUNT, RANKS);
  df_make_contexts(ctxs, RANKS, NULL);
  for (int c = 0; c < COLLECTIVES; c++) OK(df_register(ctxs[0], (dfcclCollId_t)c, &coll));
  CUDA(cudaMalloc(&memory, (size_t)2 * BYTES));
  lose_device(ctxs, memory);
}
