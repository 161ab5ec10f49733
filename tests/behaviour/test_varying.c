/*
 * Promises of options.varying: each run may have any count up to the registered one, on every plan,
 * in any order, with runs of several counts in flight. The results are those of a collective of
 * that count. Members' counts of one run are compared. If they differ, that run and later ones end
 * with dfcclMismatch on every member, with a sentence that names both counts and ranks. Earlier
 * runs complete, and so do other collectives.
 */
#include "support/buffers.h"
#include "support/processes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS_MAX = 5, RUNS = 10, ID = 7, NEIGHBOUR = 8 };

static df_collective varying(df_kind kind, size_t count, int members) {
  df_collective coll = df_simple(count, members);
  coll.kind = kind;
  coll.varying = true;
  return coll;
}

/* The collective as it would be registered with this run's count; 0: the registered count. */
static df_collective cut(const df_collective *coll, size_t count) {
  df_collective one = *coll;
  if (count != 0) one.count = count;
  return one;
}

static dfcclResult_t submit(dfcclContext_t ctx, dfcclCollId_t id, const df_buffers *b, size_t count,
                            df_tally *tally) {
  dfcclRun_t run = DFCCL_RUN_INITIALIZER;
  run.sendBuf = b->send;
  run.recvBuf = b->recv;
  run.count = count;
  run.callback = tally ? df_tally_callback : NULL;
  run.arg = tally;
  return dfcclRun(ctx, id, &run);
}

/* Counts: 1, odd ones, some near the registered one, and random ones. */
static size_t pick(size_t most, uint64_t run, df_random *random) {
  const size_t fixed[] = {1, 0, most, most > 1 ? most - 1 : 1, most > 3 ? 3 : 1, most / 2 | 1};
  if (run < sizeof fixed / sizeof *fixed) return fixed[run] > most ? most : fixed[run];
  return 1 + (size_t)df_random_below(random, (int)most);
}

/* All runs are in flight together. */
static void play(dfcclContext_t *ctxs, const df_collective *coll, int flags, uint64_t seed) {
  static df_collective cuts[RUNS];
  static df_buffers buffers[RUNS][RANKS_MAX];
  df_random random = {seed};
  df_register_all(ctxs, ID, coll);
  for (uint64_t run = 0; run < RUNS; run++) {
    const size_t count = pick(coll->count, run, &random);
    cuts[run] = cut(coll, count);
    for (int rank = 0; rank < coll->members; rank++) {
      df_buffers_make(&buffers[run][rank], ctxs[rank], &cuts[run], rank, run, flags);
      OK(submit(ctxs[rank], ID, &buffers[run][rank], count, NULL));
    }
  }
  for (uint64_t run = 0; run < RUNS; run++)
    for (int rank = 0; rank < coll->members; rank++) {
      OK(dfcclWaitRun(ctxs[rank], ID, run, -1));
      df_buffers_check(&buffers[run][rank]);
      df_buffers_free(&buffers[run][rank]);
    }
  for (int rank = 0; rank < coll->members; rank++) OK(dfcclWait(ctxs[rank], ID));
  df_deregister_all(ctxs, ID, coll);
}

static bool has(dfcclContext_t ctx, const df_collective *coll) {
  dfcclResult_t result = df_register(ctx, ID, coll);
  if (result == dfcclSuccess) OK(dfcclDeregister(ctx, ID));
  return result == dfcclSuccess;
}

static void play_all_plans(int ranks, size_t count, int flags) {
  dfcclContext_t ctxs[RANKS_MAX], alone;
  df_make_contexts(ctxs, ranks, NULL);
  df_make_contexts(&alone, 1, NULL);
  for (int kind = 0; kind < DF_KIND_COUNT; kind++)
    for (int a = -1; a < df_algorithm_names_count; a++) {
      df_collective coll = varying((df_kind)kind, count, ranks);
      df_collective one = varying((df_kind)kind, count, 1);
      coll.algorithm = one.algorithm = a < 0 ? NULL : df_algorithm_names[a];
      coll.root = ranks - 1;
      coll.op = kind == DF_ALL_REDUCE ? dfcclAvg : dfcclSum;
      if (has(alone, &one)) play(ctxs, &coll, flags, (uint64_t)(kind * 100 + a));
    }
  df_free_contexts(&alone, 1);
  df_free_contexts(ctxs, ranks);
}

DF_TEST(varying, runs_have_any_count_on_every_plan, 60) {
  play_all_plans(2, 1000, 0);
  play_all_plans(5, 257, DF_IN_PLACE);
  play_all_plans(3, 1, 0);
  play_all_plans(1, 5, 0);
}

/* Several loops, lent buffers, and the least number of slots. */
DF_TEST(varying, runs_have_fewer_loops_on_every_plan, 120) {
  df_tune("slot_bytes", "1024");
  df_tune("lend_min", "512");
  play_all_plans(4, 5000, 0);
  play_all_plans(3, 5000, DF_IN_PLACE | DF_ZERO_COPY);
  df_tune("slots", "2");
  play_all_plans(4, 3000, 0);
  df_tune("slot_bytes", NULL);
  df_tune("lend_min", NULL);
  df_tune("slots", NULL);
}

enum { COLLECTIVES = 6, ROUNDS = 12 };

typedef struct {
  dfcclContext_t ctxs[RANKS_MAX];
  df_collective colls[COLLECTIVES];
  int ranks;
} disorder;

static size_t count_of_round(const df_collective *coll, uint64_t round) {
  if (!coll->varying) return 0;
  df_random random = {coll->seed * 1000 + round};
  return pick(coll->count, round % 8, &random);
}

static void take_part(int rank, void *arg) {
  disorder *d = arg;
  dfcclContext_t ctx = d->ctxs[rank];
  df_random random = {(uint64_t)rank + 17};
  df_collective cuts[COLLECTIVES];
  df_buffers buffers[COLLECTIVES];
  df_tally tallies[COLLECTIVES] = {0};
  int order[COLLECTIVES];
  for (int c = 0; c < COLLECTIVES; c++) {
    order[c] = c;
    OK(df_register(ctx, (dfcclCollId_t)c, &d->colls[c]));
  }
  for (uint64_t round = 0; round < ROUNDS; round++) {
    df_random_shuffle(&random, order, COLLECTIVES);
    for (int i = 0; i < COLLECTIVES; i++) {
      const int c = order[i];
      const size_t count = count_of_round(&d->colls[c], round);
      cuts[c] = cut(&d->colls[c], count);
      df_buffers_make(&buffers[c], ctx, &cuts[c], rank, round, 0);
      OK(submit(ctx, (dfcclCollId_t)c, &buffers[c], count, c % 2 ? &tallies[c] : NULL));
    }
    OK(dfcclWaitAll(ctx));
    for (int c = 0; c < COLLECTIVES; c++) {
      CHECK(atomic_load(&tallies[c].calls) == (c % 2 ? (int)round + 1 : 0), "collective %d", c);
      df_buffers_check(&buffers[c]);
      df_buffers_free(&buffers[c]);
    }
  }
}

static disorder make_disorder(int ranks) {
  disorder d = {.ranks = ranks};
  for (int c = 0; c < COLLECTIVES; c++) {
    d.colls[c] = varying((df_kind)(c % DF_KIND_COUNT), c % 2 ? 3000 : 60, ranks);
    d.colls[c].seed = (uint64_t)c + 1;
    d.colls[c].varying = c != 1;
  }
  d.colls[1].count = 64; /* one of them has runs of equal counts */
  return d;
}

static void play_disorder(void) {
  disorder d = make_disorder(4);
  df_make_contexts(d.ctxs, d.ranks, NULL);
  df_in_threads(d.ranks, take_part, &d);
  df_free_contexts(d.ctxs, d.ranks);
}

DF_TEST(varying, in_any_order, 60) { play_disorder(); }

DF_TEST(varying, in_any_order_preempted_at_every_step, 60) {
  df_tune("preempt_every", "1");
  play_disorder();
  df_tune("preempt_every", NULL);
}

static void join_disorder(int rank, int ranks, const dfcclUniqueId *id, void *net) {
  setenv("DFCCL_NET", net, 1);
  disorder d = make_disorder(ranks);
  d.ctxs[rank] = df_init(rank, ranks, id, NULL);
  take_part(rank, &d);
  df_finish(d.ctxs[rank]);
}

DF_TEST(varying, among_processes, 60) {
  static char *const nets[] = {"auto", "tcp"};
  for (int i = 0; i < 2; i++) {
    df_family family;
    df_fork(&family, 3, 50, join_disorder, nets[i]);
    df_join(&family);
  }
}

/* ---- counts that differ ---- */

enum { GOOD_RUNS = 3, MISMATCH_RANKS = 3, MOST = 4000, HERE = 77, THERE = 3001 };

static void expect_difference(dfcclContext_t ctx, int rank, const df_tally *tally) {
  EVENTUALLY(atomic_load(&tally->calls) == 1);
  CHECK(atomic_load(&tally->status) == dfcclMismatch, "rank %d: %s", rank,
        df_test_result_name((dfcclResult_t)atomic_load(&tally->status)));
  const char *sentence = dfcclGetLastError(ctx);
  CHECK(df_mentions(sentence, "77") && df_mentions(sentence, "3001") &&
            df_mentions(sentence, "run 3"),
        "rank %d: \"%s\"", rank, sentence);
}

/* One rank's part: good runs, a run whose count differs, and a later one. */
static void differ(dfcclContext_t ctx, const df_collective *coll, int rank, int odd) {
  df_collective good[GOOD_RUNS];
  df_buffers buffers[GOOD_RUNS + 1];
  df_tally bad = {0}, later = {0};
  for (int run = 0; run < GOOD_RUNS; run++) {
    good[run] = cut(coll, (size_t)(run * 500 + 1));
    df_buffers_make(&buffers[run], ctx, &good[run], rank, (uint64_t)run, 0);
    OK(submit(ctx, ID, &buffers[run], good[run].count, NULL));
  }
  df_collective mine = cut(coll, rank == odd ? THERE : HERE);
  df_buffers_make(&buffers[GOOD_RUNS], ctx, &mine, rank, GOOD_RUNS, 0);
  /* Other members may have reported it already; the run itself is then refused. */
  dfcclResult_t result = submit(ctx, ID, &buffers[GOOD_RUNS], mine.count, &bad);
  if (result != dfcclSuccess) df_tally_callback(ID, result, &bad);
  result = submit(ctx, ID, &buffers[GOOD_RUNS], mine.count, &later);
  if (result != dfcclSuccess) df_tally_callback(ID, result, &later);
  expect_difference(ctx, rank, &bad);
  expect_difference(ctx, rank, &later);
  for (int run = 0; run < GOOD_RUNS; run++) {
    OK(dfcclWaitRun(ctx, ID, (uint64_t)run, -1));
    df_buffers_check(&buffers[run]);
    df_buffers_free(&buffers[run]);
  }
  RESULT(dfcclWait(ctx, ID), dfcclMismatch);
  df_buffers_free(&buffers[GOOD_RUNS]);
  OK(dfcclDeregister(ctx, ID));
}

typedef struct {
  dfcclContext_t ctxs[MISMATCH_RANKS];
  df_collective coll;
  int odd;
} quarrel;

static void quarrel_as(int rank, void *arg) {
  quarrel *q = arg;
  differ(q->ctxs[rank], &q->coll, rank, q->odd);
}

DF_TEST(varying, a_difference_ends_the_run_on_every_member, 120) {
  df_collective neighbour = df_simple(100, MISMATCH_RANKS);
  quarrel q;
  dfcclContext_t alone;
  df_make_contexts(q.ctxs, MISMATCH_RANKS, NULL);
  df_make_contexts(&alone, 1, NULL);
  df_register_all(q.ctxs, NEIGHBOUR, &neighbour);
  uint64_t rounds = 0;
  for (int kind = 0; kind < DF_KIND_COUNT; kind++)
    for (int a = -1; a < df_algorithm_names_count; a++)
      for (q.odd = 0; q.odd < MISMATCH_RANKS; q.odd++) {
        df_collective one = varying((df_kind)kind, MOST, 1);
        q.coll = varying((df_kind)kind, MOST, MISMATCH_RANKS);
        q.coll.algorithm = one.algorithm = a < 0 ? NULL : df_algorithm_names[a];
        if (!has(alone, &one)) continue;
        df_register_all(q.ctxs, ID, &q.coll);
        df_in_threads(MISMATCH_RANKS, quarrel_as, &q);
        df_exchange(q.ctxs, NEIGHBOUR, &neighbour, rounds++, 0);
      }
  q.coll.algorithm = NULL;
  df_once(q.ctxs, ID, &q.coll, 0);
  df_free_contexts(&alone, 1);
  df_free_contexts(q.ctxs, MISMATCH_RANKS);
}

static void quarrel_in_process(int rank, int ranks, const dfcclUniqueId *id, void *net) {
  setenv("DFCCL_NET", net, 1);
  dfcclContext_t ctx = df_init(rank, ranks, id, NULL);
  df_collective neighbour = df_simple(100, ranks);
  OK(df_register(ctx, NEIGHBOUR, &neighbour));
  for (int round = 0; round < 2 * DF_KIND_COUNT; round++) {
    df_collective coll = varying((df_kind)(round / 2), MOST, ranks);
    OK(df_register(ctx, ID, &coll));
    differ(ctx, &coll, rank, round % ranks);
    df_take_part(ctx, NEIGHBOUR, &neighbour, rank, (uint64_t)round, 0);
  }
  df_finish(ctx);
}

DF_TEST(varying, a_difference_among_processes, 120) {
  static char *const nets[] = {"auto", "tcp"};
  for (int i = 0; i < 2; i++) {
    df_family family;
    df_fork(&family, MISMATCH_RANKS, 50, quarrel_in_process, nets[i]);
    df_join(&family);
  }
}

/* No member can complete before the last one has submitted, because that one might have another
 * count. */
DF_TEST(varying, no_member_completes_before_all_have_submitted, 60) {
  enum { RANKS = 3, LAST = 1 };
  dfcclContext_t ctxs[RANKS];
  df_make_contexts(ctxs, RANKS, NULL);
  for (int kind = 0; kind < DF_KIND_COUNT; kind++) {
    df_collective coll = varying((df_kind)kind, 50, RANKS), one = cut(&coll, 5);
    df_buffers buffers[RANKS];
    df_register_all(ctxs, ID, &coll);
    for (int rank = 0; rank < RANKS; rank++)
      df_buffers_make(&buffers[rank], ctxs[rank], &one, rank, 0, 0);
    for (int rank = 0; rank < RANKS; rank++)
      if (rank != LAST) OK(submit(ctxs[rank], ID, &buffers[rank], 5, NULL));
    for (int rank = 0; rank < RANKS; rank++)
      if (rank != LAST) RESULT(dfcclWaitRun(ctxs[rank], ID, 0, 5), dfcclInProgress);
    OK(submit(ctxs[LAST], ID, &buffers[LAST], 5, NULL));
    for (int rank = 0; rank < RANKS; rank++) {
      OK(dfcclWaitRun(ctxs[rank], ID, 0, -1));
      df_buffers_check(&buffers[rank]);
      df_buffers_free(&buffers[rank]);
    }
    df_deregister_all(ctxs, ID, &coll);
  }
  df_free_contexts(ctxs, RANKS);
}

/* ---- invalid uses ---- */

DF_TEST(varying, more_elements_than_registered_are_refused, 30) {
  dfcclContext_t ctx;
  int32_t send[8] = {0}, recv[8];
  df_make_contexts(&ctx, 1, NULL);
  df_collective coll = varying(DF_ALL_REDUCE, 8, 1);
  df_register_all(&ctx, ID, &coll);
  dfcclRun_t run = DFCCL_RUN_INITIALIZER;
  run.sendBuf = send;
  run.recvBuf = recv;
  run.count = 9;
  RESULT(dfcclRun(ctx, ID, &run), dfcclInvalidArgument);
  CHECK(df_mentions(dfcclGetLastError(ctx), "9") && df_mentions(dfcclGetLastError(ctx), "8"),
        "\"%s\"", dfcclGetLastError(ctx));
  run.count = 8;
  OK(dfcclRun(ctx, ID, &run));
  OK(dfcclWait(ctx, ID));
  coll.varying = false;
  df_deregister_all(&ctx, ID, &coll);
  df_register_all(&ctx, ID, &coll);
  run.count = 7;
  RESULT(dfcclRun(ctx, ID, &run), dfcclInvalidArgument);
  CHECK(df_mentions(dfcclGetLastError(ctx), "options.varying"), "\"%s\"", dfcclGetLastError(ctx));
  dfcclCollOptions_t options = DFCCL_COLL_OPTIONS_INITIALIZER;
  options.varying = 2;
  RESULT(dfcclRegisterAllReduce(ctx, ID + 1, 8, dfcclInt32, dfcclSum, &options),
         dfcclInvalidArgument);
  CHECK(df_mentions(dfcclGetLastError(ctx), "varying is 2"), "\"%s\"", dfcclGetLastError(ctx));
  df_free_contexts(&ctx, 1);
}

DF_TEST(varying, members_must_agree_that_runs_vary, 30) {
  dfcclContext_t ctxs[2];
  int32_t send[8] = {0}, recv[2][8];
  df_make_contexts(ctxs, 2, NULL);
  for (int rank = 0; rank < 2; rank++) {
    df_collective coll = varying(DF_ALL_REDUCE, 8, 2);
    coll.varying = rank == 0;
    OK(df_register(ctxs[rank], ID, &coll));
    dfcclResult_t result = dfcclRunAllReduce(ctxs[rank], ID, send, recv[rank], NULL, NULL);
    if (result == dfcclSuccess) result = dfcclWaitRun(ctxs[rank], ID, 0, rank == 0 ? 0 : -1);
    CHECK(result == dfcclMismatch || (rank == 0 && result == dfcclInProgress), "%s",
          df_test_result_name(result));
  }
  RESULT(dfcclWaitRun(ctxs[0], ID, 0, -1), dfcclMismatch);
  for (int rank = 0; rank < 2; rank++)
    CHECK(df_mentions(dfcclGetLastError(ctxs[rank]), "options.varying"), "\"%s\"",
          dfcclGetLastError(ctxs[rank]));
  df_free_contexts(ctxs, 2);
}

DF_TEST(varying, a_count_of_zero_is_registered, 30) {
  dfcclContext_t ctxs[2];
  df_make_contexts(ctxs, 2, NULL);
  for (int kind = 0; kind < DF_KIND_COUNT; kind++) {
    df_collective coll = varying((df_kind)kind, 0, 2);
    df_once(ctxs, ID, &coll, 0);
  }
  df_free_contexts(ctxs, 2);
}
