/*
 * Promise: a run that is refused because its collective has failed is reported by the next
 * dfcclWait on the collective, and by the next dfcclWaitAll, with the same code and sentence. A
 * program that checks only its waits never continues with the data of a run that did not take
 * place. Each wait reports once. A collective without a refused run, and a new registration, have
 * nothing to report.
 */
#include "support/buffers.h"

#include <string.h>

enum { RANKS = 3, ID = 40, NEIGHBOUR = 41, ODD_ONE = 1, MOST = 121 };

typedef struct {
  dfcclContext_t ctxs[RANKS];
  df_collective right;
  int32_t send[RANKS * MOST], recv[RANKS * MOST];
} job;

static df_collective of_kind(df_kind kind) {
  df_collective coll = df_simple(120, RANKS);
  coll.kind = kind;
  return coll;
}

/* Messages of one rank to another arrive in order. So after a run of another collective, which all
 * ranks register now, each rank has received what the others reported about ID before. */
static void let_all_know(job *j) {
  df_collective neighbour = df_simple(10, RANKS);
  df_once(j->ctxs, NEIGHBOUR, &neighbour, 0);
}

static dfcclResult_t run(job *j, int rank, df_kind kind) {
  return df_run(j->ctxs[rank], ID, kind, j->send, j->recv, NULL, NULL);
}

static void expect_reports(job *j, int rank, df_kind kind, dfcclResult_t status,
                           const char *reason) {
  dfcclContext_t ctx = j->ctxs[rank];
  OK(dfcclWait(ctx, ID)); /* the collective has failed, but no run of it was lost */
  OK(dfcclWaitAll(ctx));
  for (int round = 0; round < 2; round++) {
    for (int i = 0; i <= round; i++) RESULT(run(j, rank, kind), status);
    RESULT(dfcclWait(ctx, ID), status);
    CHECK(df_mentions(dfcclGetLastError(NULL), reason), "\"%s\"", dfcclGetLastError(NULL));
    OK(dfcclWait(ctx, ID));
    RESULT(dfcclWaitAll(ctx), status);
    CHECK(df_mentions(dfcclGetLastError(NULL), reason), "\"%s\"", dfcclGetLastError(NULL));
    OK(dfcclWaitAll(ctx));
  }
  int done = 0;
  OK(dfcclTest(ctx, ID, &done));
  CHECK(done, "a refused run is outstanding");
}

static void start(job *j) {
  memset(j->send, 0, sizeof j->send);
  df_make_contexts(j->ctxs, RANKS, NULL);
}

/* The id works again after its registration by all ranks. A refusal that no wait has reported does
 * not belong to the new registration. */
static void start_again(job *j, const df_collective *right, dfcclResult_t status) {
  for (int rank = 0; rank < RANKS; rank++) {
    if (status != dfcclSuccess) RESULT(run(j, rank, right->kind), status);
    OK(dfcclDeregister(j->ctxs[rank], ID));
  }
  df_once(j->ctxs, ID, right, 0);
  df_free_contexts(j->ctxs, RANKS);
}

static void play_mismatch(df_collective others, df_collective odd, const char *reason) {
  static job j;
  start(&j);
  for (int rank = 0; rank < RANKS; rank++)
    OK(df_register(j.ctxs[rank], ID, rank == ODD_ONE ? &odd : &others));
  let_all_know(&j);
  for (int rank = 0; rank < RANKS; rank++)
    expect_reports(&j, rank, rank == ODD_ONE ? odd.kind : others.kind, dfcclMismatch, reason);
  start_again(&j, &others, odd.kind == others.kind ? dfcclMismatch : dfcclSuccess);
}

DF_TEST(refused, counts_that_differ, 60) {
  df_collective odd = of_kind(DF_ALL_REDUCE);
  odd.count = 119;
  play_mismatch(of_kind(DF_ALL_REDUCE), odd, "119");
}

DF_TEST(refused, roots_that_differ, 60) {
  df_collective odd = of_kind(DF_BROADCAST);
  odd.root = 2;
  play_mismatch(of_kind(DF_BROADCAST), odd, "root");
}

DF_TEST(refused, operations_that_differ, 60) {
  play_mismatch(of_kind(DF_ALL_GATHER), of_kind(DF_ALL_TO_ALL), "AllToAll");
}

DF_TEST(refused, operators_that_differ, 60) {
  df_collective odd = of_kind(DF_REDUCE_SCATTER);
  odd.op = dfcclMax;
  play_mismatch(of_kind(DF_REDUCE_SCATTER), odd, "max");
}

DF_TEST(refused, groups_that_differ, 60) {
  static const int turned[RANKS] = {2, 1, 0};
  df_collective odd = of_kind(DF_ALL_GATHER);
  odd.group = turned;
  play_mismatch(of_kind(DF_ALL_GATHER), odd, "group");
}

/* The counts of one run differ, which a member finds only while it executes the run. */
DF_TEST(refused, counts_of_one_run_that_differ, 60) {
  static job j;
  df_collective coll = of_kind(DF_ALL_REDUCE);
  coll.varying = true;
  start(&j);
  df_register_all(j.ctxs, ID, &coll);
  df_exchange(j.ctxs, ID, &coll, 0, 0);
  static int32_t recv[RANKS][MOST];
  for (int rank = 0; rank < RANKS; rank++) {
    dfcclRun_t differing = DFCCL_RUN_INITIALIZER;
    differing.sendBuf = j.send;
    differing.recvBuf = recv[rank];
    differing.count = rank == ODD_ONE ? 7 : 8;
    const dfcclResult_t result = dfcclRun(j.ctxs[rank], ID, &differing);
    CHECK(result == dfcclSuccess || result == dfcclMismatch, "%s", df_test_result_name(result));
    CHECK(differing.run == (result == dfcclSuccess ? 1 : UINT64_MAX), "%llu",
          (unsigned long long)differing.run);
  }
  for (int rank = 0; rank < RANKS; rank++) { /* accepted or refused */
    RESULT(dfcclWait(j.ctxs[rank], ID), dfcclMismatch);
    RESULT(dfcclWaitAll(j.ctxs[rank]), dfcclMismatch);
  }
  for (int rank = 0; rank < RANKS; rank++)
    expect_reports(&j, rank, DF_ALL_REDUCE, dfcclMismatch, "run 1 has");
  start_again(&j, &coll, dfcclMismatch);
}

DF_TEST(refused, after_a_member_has_deregistered, 60) {
  static job j;
  df_collective coll = of_kind(DF_ALL_REDUCE);
  start(&j);
  df_register_all(j.ctxs, ID, &coll);
  df_exchange(j.ctxs, ID, &coll, 0, 0);
  OK(dfcclDeregister(j.ctxs[ODD_ONE], ID));
  let_all_know(&j);
  for (int rank = 0; rank < RANKS; rank++) {
    if (rank == ODD_ONE) continue;
    expect_reports(&j, rank, DF_ALL_REDUCE, dfcclRemoteError, "rank 1 deregistered it");
    OK(dfcclDeregister(j.ctxs[rank], ID));
  }
  df_once(j.ctxs, ID, &coll, 0);
  df_free_contexts(j.ctxs, RANKS);
}

DF_TEST(refused, after_an_abort_of_the_collective, 60) {
  static job j;
  static const dfcclCollId_t ids[] = {ID};
  df_collective coll = of_kind(DF_ALL_REDUCE);
  start(&j);
  df_register_all(j.ctxs, ID, &coll);
  df_exchange(j.ctxs, ID, &coll, 0, 0);
  OK(dfcclAbortCollectives(j.ctxs[ODD_ONE], ids, 1));
  let_all_know(&j);
  for (int rank = 0; rank < RANKS; rank++)
    expect_reports(&j, rank, DF_ALL_REDUCE, rank == ODD_ONE ? dfcclAborted : dfcclRemoteError,
                   "dfcclAbortCollectives");
  start_again(&j, &coll, dfcclSuccess);
}

/* A refused run has no number, so a wait for it does not return the status of an earlier run. */
DF_TEST(refused, a_run_without_a_number, 60) {
  static job j;
  df_collective coll = of_kind(DF_ALL_REDUCE);
  start(&j);
  df_register_all(j.ctxs, ID, &coll);
  df_exchange(j.ctxs, ID, &coll, 0, 0);
  dfcclRun_t refused = DFCCL_RUN_INITIALIZER;
  refused.sendBuf = j.send;
  RESULT(dfcclRun(j.ctxs[0], ID, &refused), dfcclInvalidArgument);
  RESULT(dfcclWaitRun(j.ctxs[0], ID, refused.run, -1), dfcclInvalidArgument);
  CHECK(df_mentions(dfcclGetLastError(NULL), "refused"), "\"%s\"", dfcclGetLastError(NULL));
  OK(dfcclWaitRun(j.ctxs[0], ID, 0, -1));
  OK(dfcclWait(j.ctxs[0], ID)); /* the arguments were refused, the collective has not failed */
  OK(dfcclWaitAll(j.ctxs[0]));
  df_exchange(j.ctxs, ID, &coll, 1, 0);
  start_again(&j, &coll, dfcclSuccess);
}
