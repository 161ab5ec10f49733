/*
 * Promise: members' registrations are compared: operation, count, type, operator, root, group. A
 * difference gives dfcclMismatch on every member, with a sentence that names the rank and both
 * values. Data is never mixed. The collective can be deregistered and then registered correctly,
 * and the other collectives of the context are not disturbed.
 */
#include "support/buffers.h"

#include <stdlib.h>
#include <string.h>

enum { RANKS = 3, ID = 40, NEIGHBOUR = 41, ODD_ONE = 1 };

/* The text that each sentence must contain: the odd rank's value and the others'. */
typedef struct {
  df_collective others, odd;
  const char *odd_value, *other_value;
} difference;

static bool mentions_either_case(const char *text, const char *words) {
  return strcasestr(text, words) != NULL;
}

static void expect_mismatch(dfcclContext_t *ctxs, const difference *d) {
  df_tally tallies[RANKS] = {0};
  df_buffers buffers[RANKS];
  for (int rank = 0; rank < RANKS; rank++) {
    const df_collective *mine = rank == ODD_ONE ? &d->odd : &d->others;
    OK(df_register(ctxs[rank], ID, mine));
    df_buffers_make(&buffers[rank], ctxs[rank], mine, df_position(mine, rank), 0, 0);
    dfcclResult_t result = df_run(ctxs[rank], ID, mine->kind, buffers[rank].send,
                                  buffers[rank].recv, df_tally_callback, &tallies[rank]);
    /* The comparison may have ended before the run is submitted; the run itself is then refused. */
    if (result == dfcclMismatch) df_tally_callback(ID, result, &tallies[rank]);
    CHECK(result == dfcclSuccess || result == dfcclMismatch, "%s", df_test_result_name(result));
  }
  for (int rank = 0; rank < RANKS; rank++) {
    EVENTUALLY(atomic_load(&tallies[rank].calls) == 1);
    CHECK(atomic_load(&tallies[rank].status) == dfcclMismatch, "rank %d: %s", rank,
          df_test_result_name((dfcclResult_t)atomic_load(&tallies[rank].status)));
    const char *sentence = dfcclGetLastError(ctxs[rank]);
    CHECK(mentions_either_case(sentence, "rank 1"), "rank %d's sentence names no rank: \"%s\"",
          rank, sentence);
    CHECK(mentions_either_case(sentence, d->odd_value) &&
              mentions_either_case(sentence, d->other_value),
          "rank %d's sentence lacks \"%s\" or \"%s\": \"%s\"", rank, d->odd_value, d->other_value,
          sentence);
    const unsigned char *received = buffers[rank].recv;
    for (size_t i = 0; i < buffers[rank].recv_bytes; i++)
      CHECK(received[i] == 0xEE, "data was delivered in spite of the difference");
    /* A later run of it fails the same way. */
    const df_collective *mine = rank == ODD_ONE ? &d->odd : &d->others;
    RESULT(df_run(ctxs[rank], ID, mine->kind, buffers[rank].send, buffers[rank].recv, NULL, NULL),
           dfcclMismatch);
    /* The callback may not have returned yet, and the run is not complete before. */
    RESULT(dfcclWait(ctxs[rank], ID), dfcclMismatch);
    OK(dfcclDeregister(ctxs[rank], ID));
    df_buffers_free(&buffers[rank]);
  }
  df_once(ctxs, ID, &d->others, 0); /* registered correctly now */
}

static void play(df_collective others, df_collective odd, const char *odd_value,
                 const char *other_value) {
  dfcclContext_t ctxs[RANKS];
  df_make_contexts(ctxs, RANKS, NULL);
  df_collective neighbour = df_simple(100, RANKS);
  df_register_all(ctxs, NEIGHBOUR, &neighbour);
  difference d = {others, odd, odd_value, other_value};
  expect_mismatch(ctxs, &d);
  df_exchange(ctxs, NEIGHBOUR, &neighbour, 0, 0);
  df_free_contexts(ctxs, RANKS);
}

static df_collective of_kind(df_kind kind) {
  return (df_collective){.kind = kind,
                         .type = dfcclFloat32,
                         .op = dfcclSum,
                         .count = 120,
                         .members = RANKS,
                         .seed = 3};
}

DF_TEST(mismatch, count, 30) {
  df_collective odd = of_kind(DF_ALL_REDUCE);
  odd.count = 121;
  play(of_kind(DF_ALL_REDUCE), odd, "121", "120");
}

DF_TEST(mismatch, type, 30) {
  df_collective odd = of_kind(DF_ALL_GATHER);
  odd.type = dfcclInt32;
  play(of_kind(DF_ALL_GATHER), odd, "int32", "float32");
}

DF_TEST(mismatch, operator, 30) {
  df_collective odd = of_kind(DF_ALL_REDUCE);
  odd.op = dfcclMax;
  play(of_kind(DF_ALL_REDUCE), odd, "max", "sum");
}

DF_TEST(mismatch, algorithm, 30) {
  df_collective odd = of_kind(DF_ALL_REDUCE), others = of_kind(DF_ALL_REDUCE);
  odd.algorithm = "flat";
  others.algorithm = "doubling";
  play(others, odd, "flat", "doubling");
}

DF_TEST(mismatch, operation, 30) {
  play(of_kind(DF_ALL_REDUCE), of_kind(DF_BROADCAST), "broadcast", "allreduce");
}

DF_TEST(mismatch, root, 30) {
  df_collective odd = of_kind(DF_REDUCE);
  odd.root = 2;
  play(of_kind(DF_REDUCE), odd, "2", "0");
}

DF_TEST(mismatch, order_of_the_group, 30) {
  static const int straight[RANKS] = {0, 1, 2}, turned[RANKS] = {0, 2, 1};
  df_collective others = of_kind(DF_ALL_GATHER), odd = of_kind(DF_ALL_GATHER);
  others.group = straight;
  odd.group = turned;
  play(others, odd, "group", "group");
}

/* The odd rank registers a smaller group, without rank 2. */
DF_TEST(mismatch, members_of_the_group, 30) {
  dfcclContext_t ctxs[RANKS];
  df_make_contexts(ctxs, RANKS, NULL);
  static const int two[2] = {0, 1};
  df_collective others = of_kind(DF_ALL_REDUCE), odd = of_kind(DF_ALL_REDUCE);
  odd.group = two;
  odd.members = 2;
  df_tally tally = {0};
  df_buffers buffers[RANKS];
  int refused = 0;
  for (int rank = 0; rank < RANKS; rank++) {
    const df_collective *mine = rank == ODD_ONE ? &odd : &others;
    OK(df_register(ctxs[rank], ID, mine));
    df_buffers_make(&buffers[rank], ctxs[rank], mine, df_position(mine, rank), 0, 0);
    dfcclResult_t result = df_run(ctxs[rank], ID, mine->kind, buffers[rank].send,
                                  buffers[rank].recv, df_tally_callback, &tally);
    CHECK(result == dfcclSuccess || result == dfcclMismatch, "%s", df_test_result_name(result));
    refused += result == dfcclMismatch;
  }
  EVENTUALLY(atomic_load(&tally.calls) + refused == RANKS);
  CHECK(atomic_load(&tally.failures) + refused == RANKS, "a run succeeded");
  for (int rank = 0; rank < RANKS; rank++) {
    CHECK(mentions_either_case(dfcclGetLastError(ctxs[rank]), "group"), "rank %d: \"%s\"", rank,
          dfcclGetLastError(ctxs[rank]));
    /* The callback may not have returned yet, and the run is not complete before. */
    RESULT(dfcclWait(ctxs[rank], ID), dfcclMismatch);
    OK(dfcclDeregister(ctxs[rank], ID));
    df_buffers_free(&buffers[rank]);
  }
  df_once(ctxs, ID, &others, 0);
  df_free_contexts(ctxs, RANKS);
}

/* Fields that members may choose for themselves are not compared: priority and name. */
DF_TEST(mismatch, priority_and_name_are_local, 30) {
  dfcclContext_t ctxs[RANKS];
  df_make_contexts(ctxs, RANKS, NULL);
  static const char *const names[RANKS] = {"left", NULL, "right"};
  df_collective coll = of_kind(DF_ALL_REDUCE);
  for (int rank = 0; rank < RANKS; rank++) {
    df_collective mine = coll;
    mine.name = names[rank];
    mine.priority = rank;
    OK(df_register(ctxs[rank], ID, &mine));
  }
  df_exchange(ctxs, ID, &coll, 0, 0);
  df_free_contexts(ctxs, RANKS);
}
