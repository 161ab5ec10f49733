/*
 * Promises of src/devices/cpu/executor.c: submitters that execute first turns leave room for the
 * task queue, however often they submit. A block leaves for a synchronisation, whichever thread
 * drives it and whatever its patience.
 */
#include <stdlib.h>

#include "devices/cpu/executor.h"
#include "host/state/context.h"
#include "two_ranks.h"

enum { RANKS = 2, SHARED = 1, ALONE = 2, COUNT = 4 };

static int32_t shared[RANKS][COUNT], alone[COUNT];

static void run_shared(dfcclContext_t *ctxs, int rank) {
  OK(dfcclRunAllReduce(ctxs[rank], SHARED, shared[rank], shared[rank], NULL, NULL));
}

static void run_alone(dfcclContext_t ctx) {
  OK(dfcclRunAllReduce(ctx, ALONE, alone, alone, NULL, NULL));
  OK(dfcclWait(ctx, ALONE));
}

/* Rank 0's part of a collective is in its task queue, and its message has arrived. The background
 * threads do nothing, as if they had tried to take the block in vain. The thread that submits short
 * runs of its own repeatedly, each of which ends in its first turn, must execute the collective
 * eventually. */
DF_TEST(executor, first_turns_leave_room_for_others, 30) {
  enum { MOST_RUNS = 10000 };
  dfcclContext_t ctxs[RANKS];
  df_progress_thread request;
  int done = 0, runs = 0, zero = 0;
  dfcclCollOptions_t of_rank_0 = DFCCL_COLL_OPTIONS_INITIALIZER;
  of_rank_0.ranks = &zero;
  of_rank_0.nRanks = 1;
  df_tune("quit_polls", "1000000000");
  two_ranks_open(ctxs);
  for (int r = 0; r < RANKS; r++)
    OK(dfcclRegisterAllReduce(ctxs[r], SHARED, COUNT, dfcclInt32, dfcclSum, NULL));
  OK(dfcclRegisterAllReduce(ctxs[0], ALONE, COUNT, dfcclInt32, dfcclSum, &of_rank_0));
  for (int r = 0; r < RANKS; r++) run_shared(ctxs, r);
  for (int r = 0; r < RANKS; r++) OK(dfcclWait(ctxs[r], SHARED));
  run_alone(ctxs[0]);
  ctxs[0]->device.executor->progress_begin(&ctxs[0]->device, &request);
  while (!ctxs[0]->device.executor->progress_holds_all(&ctxs[0]->device, &request))
    ctxs[0]->device.executor->progress_turn(&ctxs[0]->device, &request, 1);
  request.held = 0; /* unlock the blocks, but keep them requested */
  for (uint32_t b = 0; b < request.executor->n_blocks; b++)
    df_publish_u32(&request.executor->blocks[b].owner, 0);
  run_shared(ctxs, 0);
  run_shared(ctxs, 1);
  OK(dfcclWait(ctxs[1], SHARED));
  for (; !done && runs < MOST_RUNS; runs++) {
    run_alone(ctxs[0]);
    OK(dfcclTest(ctxs[0], SHARED, &done));
  }
  CHECK(done, "not executed beside %d short runs", runs);
  ctxs[0]->device.executor->progress_end(&ctxs[0]->device, &request);
  two_ranks_close(ctxs);
}

static void *wait_for_shared(void *ctx) {
  OK(dfcclWait(ctx, SHARED));
  return NULL;
}

/* Rank 0's run is blocked until its peer submits, a waiting thread drives the block, and the
 * block's patience has no end. The peer submits only after the synchronisation. */
DF_TEST(executor, a_block_that_a_waiter_drives_leaves_for_a_synchronisation, 30) {
  dfcclContext_t ctxs[RANKS];
  pthread_t waiter;
  df_tune("quit_polls", "1000000000");
  df_tune("spin_front", "1000000000");
  two_ranks_open(ctxs);
  for (int r = 0; r < RANKS; r++)
    OK(dfcclRegisterAllReduce(ctxs[r], SHARED, COUNT, dfcclInt32, dfcclSum, NULL));
  for (int round = 0; round < 10; round++) {
    run_shared(ctxs, 0);
    CHECK(pthread_create(&waiter, NULL, wait_for_shared, ctxs[0]) == 0, "no thread");
    for (int i = 0; i < 20; i++) df_nap(); /* usually the thread drives by now */
    OK(dfcclDeviceSynchronize(ctxs[0]));
    run_shared(ctxs, 1);
    OK(dfcclWait(ctxs[1], SHARED));
    pthread_join(waiter, NULL);
  }
  two_ranks_close(ctxs);
}
