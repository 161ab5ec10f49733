/* Promise of src/host/runs/submit.c: runs of one collective reach the daemon in the order of their
 * submission. A run that could start at once does not overtake one that waits on the host for a
 * place. */
#include "base/mutex.h"
#include "host/state/context.h"
#include "two_ranks.h"

enum { RANKS = 2, COLL = 7, COUNT = 4, RUNS = 3 };

static int32_t inputs[RANKS][RUNS][COUNT], results[RANKS][RUNS][COUNT];

static void run(dfcclContext_t ctx, int rank, int number) {
  for (int i = 0; i < COUNT; i++) inputs[rank][number][i] = 10 * number + rank;
  OK(dfcclRunAllReduce(ctx, COLL, inputs[rank][number], results[rank][number], NULL, NULL));
}

/* Pretends that that many more runs of other collectives are ahead in the daemon. Returns the
 * number of runs that wait on the host. */
static uint64_t use_pool(dfcclContext_t ctx, int64_t more) {
  df_rank_lock(&ctx->lock);
  ctx->runs.surplus += (uint64_t)more;
  uint64_t waiting = ctx->runs.backlog_length;
  df_rank_unlock(&ctx->lock);
  return waiting;
}

DF_TEST(submit, a_run_does_not_overtake_one_that_waits_for_room, 30) {
  dfcclContext_t ctxs[RANKS];
  two_ranks_open(ctxs);
  for (int r = 0; r < RANKS; r++)
    OK(dfcclRegisterAllReduce(ctxs[r], COLL, COUNT, dfcclInt32, dfcclSum, NULL));
  for (int r = 0; r < RANKS; r++) run(ctxs[r], r, 0);
  for (int r = 0; r < RANKS; r++) OK(dfcclWait(ctxs[r], COLL)); /* its links are connected */
  run(ctxs[0], 0, 0); /* the first run is always admitted */
  use_pool(ctxs[0], DF_RUNS_AHEAD_POOL);
  run(ctxs[0], 0, 1);
  CHECK(use_pool(ctxs[0], -DF_RUNS_AHEAD_POOL) == 1, "it does not wait on the host");
  run(ctxs[0], 0, 2);
  for (int number = 0; number < RUNS; number++) run(ctxs[1], 1, number);
  for (int r = 0; r < RANKS; r++) OK(dfcclWait(ctxs[r], COLL));
  for (int r = 0; r < RANKS; r++)
    for (int number = 0; number < RUNS; number++)
      CHECK(results[r][number][0] == 20 * number + 1, "rank %d: the result of run %d is %d", r,
            number, results[r][number][0]);
  two_ranks_close(ctxs);
}
