/*
 * Promise: dfcclAbortCollectives ends the outstanding runs of the named collectives, with
 * dfcclAborted on this rank and with dfcclRemoteError on the other members, and refuses later runs
 * of them. All other collectives continue, and the context stays usable. The call works while the
 * collectives are blocked, from any thread, from a callback, among threads and among processes. An
 * id that is registered again works again.
 */
#include "support/buffers.h"
#include "support/processes.h"

enum { RANKS = 3, COUNT = 100, STUCK = 1, WAITING = 2, OTHER = 3 };

typedef struct {
  dfcclContext_t ctxs[RANKS];
  df_collective coll;
  df_tally stuck[RANKS], waiting[RANKS];
  int32_t send[COUNT], recv[RANKS][4][COUNT];
} job;

static void make(job *j) {
  df_make_contexts(j->ctxs, RANKS, NULL);
  j->coll = df_simple(COUNT, RANKS);
  for (dfcclCollId_t id = STUCK; id <= OTHER; id++) df_register_all(j->ctxs, id, &j->coll);
  for (dfcclCollId_t id = STUCK; id <= OTHER; id++) df_exchange(j->ctxs, id, &j->coll, 0, 0);
}

/* Ranks 0 and 1 have more outstanding runs than a daemon holds; rank 2 has none. */
static void get_stuck(job *j, int runs) {
  for (int rank = 0; rank < 2; rank++)
    for (int i = 0; i < runs; i++) {
      OK(dfcclRunAllReduce(j->ctxs[rank], STUCK, j->send, j->recv[rank][STUCK], df_tally_callback,
                           &j->stuck[rank]));
      OK(dfcclRunAllReduce(j->ctxs[rank], WAITING, j->send, j->recv[rank][WAITING],
                           df_tally_callback, &j->waiting[rank]));
    }
}

static void expect_ended(job *j, int runs) {
  static const dfcclResult_t expected[] = {dfcclAborted, dfcclRemoteError};
  for (int rank = 0; rank < 2; rank++) {
    EVENTUALLY(atomic_load(&j->stuck[rank].calls) == runs);
    EVENTUALLY(atomic_load(&j->waiting[rank].calls) == runs);
    CHECK(atomic_load(&j->stuck[rank].failures) == runs, "a run succeeded");
    CHECK(atomic_load(&j->stuck[rank].status) == (int)expected[rank] &&
              atomic_load(&j->waiting[rank].status) == (int)expected[rank],
          "rank %d: %s", rank,
          df_test_result_name((dfcclResult_t)atomic_load(&j->stuck[rank].status)));
    RESULT(dfcclWait(j->ctxs[rank], STUCK), expected[rank]);
    CHECK(df_mentions(dfcclGetLastError(NULL), "dfcclAbortCollectives") &&
              df_mentions(dfcclGetLastError(NULL), "rank 0"),
          "\"%s\"", dfcclGetLastError(NULL));
    RESULT(dfcclRunAllReduce(j->ctxs[rank], STUCK, j->send, j->recv[rank][STUCK], NULL, NULL),
           expected[rank]);
  }
  /* The member that had no run yet gets the failure too. */
  EVENTUALLY(dfcclRunAllReduce(j->ctxs[2], STUCK, j->send, j->recv[2][STUCK], NULL, NULL) ==
             dfcclRemoteError);
  for (uint64_t run = 1; run < 4; run++) df_exchange(j->ctxs, OTHER, &j->coll, run, 0);
}

static void live_again(job *j) {
  for (int rank = 0; rank < RANKS; rank++)
    for (dfcclCollId_t id = STUCK; id <= WAITING; id++) {
      dfcclWait(j->ctxs[rank], id);
      OK(dfcclDeregister(j->ctxs[rank], id));
      OK(df_register(j->ctxs[rank], id, &j->coll));
    }
  for (dfcclCollId_t id = STUCK; id <= WAITING; id++)
    for (uint64_t run = 0; run < 3; run++) df_exchange(j->ctxs, id, &j->coll, run, 0);
  df_free_contexts(j->ctxs, RANKS);
}

static void abort_both(dfcclContext_t ctx) {
  static const dfcclCollId_t ids[] = {STUCK, WAITING};
  OK(dfcclAbortCollectives(ctx, ids, 2));
}

DF_TEST(abort_collectives, while_stuck, 30) {
  static job j;
  make(&j);
  get_stuck(&j, 10);
  abort_both(j.ctxs[0]);
  expect_ended(&j, 10);
  live_again(&j);
}

static void wait_or_abort(int who, void *arg) {
  job *j = arg;
  if (who == 2) {
    df_sleep_ms(20);
    abort_both(j->ctxs[0]);
  } else {
    RESULT(dfcclWait(j->ctxs[who], STUCK), who == 0 ? dfcclAborted : dfcclRemoteError);
  }
}

DF_TEST(abort_collectives, while_waited_for_by_others, 30) {
  static job j;
  make(&j);
  get_stuck(&j, 1);
  df_in_threads(3, wait_or_abort, &j);
  for (int rank = 0; rank < 2; rank++) CHECK(atomic_load(&j.stuck[rank].calls) == 1, "no callback");
  live_again(&j);
}

static void abort_inside(dfcclCollId_t coll, dfcclResult_t status, void *arg) {
  (void)coll;
  OK(status);
  abort_both(arg);
}

DF_TEST(abort_collectives, from_a_callback, 30) {
  static job j;
  make(&j);
  get_stuck(&j, 2);
  for (int rank = 0; rank < RANKS; rank++)
    OK(dfcclRunAllReduce(j.ctxs[rank], OTHER, j.send, j.recv[rank][OTHER],
                         rank == 0 ? abort_inside : NULL, j.ctxs[0]));
  for (int rank = 0; rank < RANKS; rank++) OK(dfcclWait(j.ctxs[rank], OTHER));
  expect_ended(&j, 2);
  live_again(&j);
}

/* The other members register the id later: the i-th registrations are matched. */
DF_TEST(abort_collectives, before_others_have_registered, 30) {
  dfcclContext_t ctxs[2];
  int32_t send[COUNT] = {0}, recv[COUNT];
  df_make_contexts(ctxs, 2, NULL);
  df_collective coll = df_simple(COUNT, 2), other = df_simple(3, 2);
  dfcclCollId_t id = 7;
  OK(df_register(ctxs[0], 7, &coll));
  OK(dfcclRunAllReduce(ctxs[0], 7, send, recv, NULL, NULL));
  OK(dfcclAbortCollectives(ctxs[0], &id, 1));
  RESULT(dfcclWait(ctxs[0], 7), dfcclAborted);
  df_register_all(ctxs, 8, &other);
  df_exchange(ctxs, 8, &other, 0, 0); /* rank 1 has received the abort by now */
  OK(df_register(ctxs[1], 7, &coll));
  dfcclResult_t result = dfcclRunAllReduce(ctxs[1], 7, send, recv, NULL, NULL);
  if (result == dfcclSuccess) result = dfcclWait(ctxs[1], 7);
  RESULT(result, dfcclRemoteError);
  for (int rank = 0; rank < 2; rank++) {
    OK(dfcclDeregister(ctxs[rank], 7));
    OK(df_register(ctxs[rank], 7, &coll));
  }
  df_exchange(ctxs, 7, &coll, 0, 0);
  df_free_contexts(ctxs, 2);
}

DF_TEST(abort_collectives, all_or_none, 30) {
  static job j;
  static const dfcclCollId_t ids[] = {STUCK, 99};
  make(&j);
  RESULT(dfcclAbortCollectives(j.ctxs[0], ids, 2), dfcclInvalidArgument);
  CHECK(df_mentions(dfcclGetLastError(NULL), "ids[1]") &&
            df_mentions(dfcclGetLastError(NULL), "99"),
        "\"%s\"", dfcclGetLastError(NULL));
  RESULT(dfcclAbortCollectives(j.ctxs[0], NULL, 1), dfcclInvalidArgument);
  RESULT(dfcclAbortCollectives(j.ctxs[0], ids, -1), dfcclInvalidArgument);
  OK(dfcclAbortCollectives(j.ctxs[0], NULL, 0));
  df_exchange(j.ctxs, STUCK, &j.coll, 1, 0);
  df_free_contexts(j.ctxs, RANKS);
}

/* ---- ranks as processes */

static void exchange(dfcclContext_t ctx, int rank, dfcclCollId_t id, const df_collective *coll,
                     uint64_t run) {
  df_buffers buffers;
  df_buffers_make(&buffers, ctx, coll, rank, run, 0);
  OK(df_run(ctx, id, coll->kind, buffers.send, buffers.recv, NULL, NULL));
  OK(dfcclWait(ctx, id));
  df_buffers_check(&buffers);
  df_buffers_free(&buffers);
}

/* Rank 2 may receive the abort before it has any run that could fail. */
static void end_with(dfcclContext_t ctx, int rank, dfcclCollId_t id, dfcclResult_t expected) {
  static int32_t send[COUNT], recv[COUNT];
  if (rank < 2) RESULT(dfcclWait(ctx, id), expected);
  df_waiting_for("a refused run");
  while (dfcclRunAllReduce(ctx, id, send, recv, NULL, NULL) == dfcclSuccess) df_nap();
  df_waiting_for(NULL);
  CHECK(df_mentions(dfcclGetLastError(NULL), "dfcclAbortCollectives") &&
            df_mentions(dfcclGetLastError(NULL), "rank 0"),
        "\"%s\"", dfcclGetLastError(NULL));
  RESULT(dfcclRunAllReduce(ctx, id, send, recv, NULL, NULL), expected);
}

/* Rank 0 aborts when ranks 0 and 1 have runs that rank 2 never joins. */
static void abort_among_processes(int rank, int ranks, const dfcclUniqueId *id, void *arg) {
  static int32_t send[COUNT], recv[COUNT];
  atomic_int *stuck = arg;
  dfcclContext_t ctx = df_init(rank, ranks, id, NULL);
  df_collective coll = df_simple(COUNT, ranks);
  df_tally tally = {0};
  for (dfcclCollId_t c = STUCK; c <= OTHER; c++) OK(df_register(ctx, c, &coll));
  for (dfcclCollId_t c = STUCK; c <= OTHER; c++) exchange(ctx, rank, c, &coll, 0);
  if (rank < 2) {
    for (dfcclCollId_t c = STUCK; c <= WAITING; c++)
      OK(dfcclRunAllReduce(ctx, c, send, recv, df_tally_callback, &tally));
    atomic_fetch_add(stuck, 1);
  }
  if (rank == 0) {
    EVENTUALLY(atomic_load(stuck) == 2);
    abort_both(ctx);
  }
  for (uint64_t run = 1; run < 4; run++) exchange(ctx, rank, OTHER, &coll, run);
  for (dfcclCollId_t c = STUCK; c <= WAITING; c++)
    end_with(ctx, rank, c, rank == 0 ? dfcclAborted : dfcclRemoteError);
  CHECK(atomic_load(&tally.calls) == (rank < 2 ? 2 : 0), "%d callbacks", atomic_load(&tally.calls));
  CHECK(atomic_load(&tally.failures) == atomic_load(&tally.calls), "a run succeeded");
  for (dfcclCollId_t c = STUCK; c <= WAITING; c++) {
    OK(dfcclDeregister(ctx, c));
    OK(df_register(ctx, c, &coll));
  }
  for (dfcclCollId_t c = STUCK; c <= OTHER; c++)
    for (uint64_t run = 4; run < 7; run++) exchange(ctx, rank, c, &coll, run);
  df_finish(ctx);
}

DF_TEST(abort_collectives, among_processes, 60) {
  df_family family;
  df_fork(&family, RANKS, 50, abort_among_processes, df_shared(sizeof(atomic_int)));
  df_join(&family);
}
