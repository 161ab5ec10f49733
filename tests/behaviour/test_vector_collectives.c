/*
 * Promises of the vector collectives (V). Whatever the counts, zeros among them, each member gets
 * the data that each other member sends to it, at its displacement. The gaps between pieces and the
 * buffers that are sent keep their contents. The same holds in place where that is defined, for
 * runs that overlap, between processes and over TCP. Members that disagree about a pair's count
 * fail with both counts.
 */
#include "support/processes.h"
#include "support/ranks.h"
#include "support/vector_collectives.h"

#include <stdlib.h>

enum { RANKS_MOST = 6, ID = 1 };

/* All ranks run in this thread, with two runs. */
static void play(dfcclContext_t *ctxs, const df_vector_coll *coll, bool in_place) {
  df_vector_part parts[RANKS_MOST];
  for (uint64_t run = 0; run < 2; run++) {
    for (int rank = 0; rank < coll->members; rank++) {
      df_vector_make(&parts[rank], coll, rank, run, in_place);
      if (run == 0) OK(df_vector_register(ctxs[rank], ID, &parts[rank]));
      OK(df_vector_run(ctxs[rank], ID, coll->kind, parts[rank].send, parts[rank].recv, NULL, NULL));
    }
    for (int rank = 0; rank < coll->members; rank++) OK(dfcclWait(ctxs[rank], ID));
    for (int rank = 0; rank < coll->members; rank++) {
      df_vector_check(&parts[rank]);
      df_vector_free(&parts[rank]);
    }
  }
  for (int rank = 0; rank < coll->members; rank++) OK(dfcclDeregister(ctxs[rank], ID));
}

static void play_many(size_t most, int rounds, bool in_place) {
  df_random random = {most + in_place};
  for (int ranks = 1; ranks <= RANKS_MOST; ranks += ranks < 4 ? 1 : 2) {
    dfcclContext_t ctxs[RANKS_MOST];
    df_make_contexts(ctxs, ranks, NULL);
    for (df_vector_kind kind = 0; kind < DF_VECTOR_KINDS; kind++)
      for (int round = 0; round < rounds && (!in_place || df_vector_has_in_place(kind)); round++) {
        df_vector_coll coll;
        df_vector_draw(&coll, kind, round % 2 ? dfcclInt16 : dfcclInt32, ranks, most, &random);
        play(ctxs, &coll, in_place);
      }
    df_free_contexts(ctxs, ranks);
  }
}

DF_TEST(vector, short_pieces, 60) { play_many(40, 12, false); }
DF_TEST(vector, short_pieces_in_place, 60) { play_many(40, 12, true); }
DF_TEST(vector, long_pieces, 120) { play_many(60000, df_slowdown() == 1 ? 3 : 1, false); }
DF_TEST(vector, long_pieces_in_place, 120) { play_many(60000, df_slowdown() == 1 ? 3 : 1, true); }
DF_TEST(vector, nothing_at_all, 30) { play_many(1, 1, false); }

/* ---- between processes */

static void play_as(int rank, int ranks, const dfcclUniqueId *id, void *net) {
  setenv("DFCCL_NET", net, 1);
  dfcclContext_t ctx = df_init(rank, ranks, id, NULL);
  df_random random = {77};
  for (df_vector_kind kind = 0; kind < DF_VECTOR_KINDS; kind++)
    for (int round = 0; round < 4; round++) {
      df_vector_coll coll;
      df_vector_draw(&coll, kind, dfcclInt32, ranks, round < 2 ? 50 : 50000, &random);
      for (uint64_t run = 0; run < 3; run++) {
        df_vector_part part;
        df_vector_make(&part, &coll, rank, run, false);
        if (run == 0) OK(df_vector_register(ctx, ID, &part));
        OK(df_vector_run(ctx, ID, kind, part.send, part.recv, NULL, NULL));
        OK(dfcclWait(ctx, ID));
        df_vector_check(&part);
        df_vector_free(&part);
      }
      OK(dfcclDeregister(ctx, ID));
    }
  df_finish(ctx);
}

DF_TEST(vector, among_processes, 120) {
  static char *const nets[] = {"auto", "tcp"};
  for (int i = 0; i < 2; i++) {
    df_family family;
    df_fork(&family, 4, 100, play_as, nets[i]);
    df_join(&family);
  }
}

/* ---- refusals and mismatches */

static const size_t one_two[2] = {1, 2}, two_one[2] = {2, 1}, two_two[2] = {2, 2};

static void expect_mismatch(dfcclContext_t *ctxs, df_vector_kind kind, const char *words) {
  int32_t buffer[2][8] = {{0}};
  dfcclResult_t results[2];
  for (int rank = 0; rank < 2; rank++)
    results[rank] = df_vector_run(ctxs[rank], ID, kind, buffer[rank], buffer[rank] + 4, NULL, NULL);
  for (int rank = 0; rank < 2; rank++) {
    if (results[rank] == dfcclSuccess) results[rank] = dfcclWait(ctxs[rank], ID);
    CHECK(results[rank] == dfcclMismatch, "rank %d: %s", rank, df_test_result_name(results[rank]));
    CHECK(df_mentions(dfcclGetLastError(ctxs[rank]), words), "rank %d: \"%s\" lacks \"%s\"", rank,
          dfcclGetLastError(ctxs[rank]), words);
    OK(dfcclDeregister(ctxs[rank], ID));
  }
}

DF_TEST(vector, a_pair_that_differs_is_a_mismatch, 30) {
  dfcclContext_t ctxs[2];
  df_make_contexts(ctxs, 2, NULL);
  OK(dfcclRegisterAllToAllV(ctxs[0], ID, two_two, NULL, two_one, NULL, dfcclInt32, NULL));
  OK(dfcclRegisterAllToAllV(ctxs[1], ID, one_two, NULL, one_two, NULL, dfcclInt32, NULL));
  expect_mismatch(ctxs, DF_ALL_TO_ALL_V, "elements");
  OK(dfcclRegisterAllGatherV(ctxs[0], ID, one_two, NULL, dfcclInt32, NULL));
  OK(dfcclRegisterAllGatherV(ctxs[1], ID, two_two, NULL, dfcclInt32, NULL));
  expect_mismatch(ctxs, DF_ALL_GATHER_V, "elements");
  OK(dfcclRegisterGatherV(ctxs[0], ID, 1, one_two, NULL, dfcclInt32, 0, NULL));
  OK(dfcclRegisterGatherV(ctxs[1], ID, 3, NULL, NULL, dfcclInt32, 0, NULL));
  expect_mismatch(ctxs, DF_GATHER_V, "3");
  df_free_contexts(ctxs, 2);
}

#define REFUSED(call, word)                                                                        \
  do {                                                                                             \
    RESULT(call, dfcclInvalidArgument);                                                            \
    CHECK(df_mentions(dfcclGetLastError(NULL), word), "\"%s\" lacks \"%s\"",                       \
          dfcclGetLastError(NULL), word);                                                          \
  } while (0)

DF_TEST(vector, invalid_arguments_are_refused, 30) {
  dfcclContext_t ctxs[2];
  df_make_contexts(ctxs, 2, NULL);
  dfcclContext_t c = ctxs[0];
  const size_t huge[2] = {(size_t)1 << 50, 1}, many[2] = {(size_t)1 << 40, 0};
  const int twice[2] = {1, 1}, beyond[1] = {2};
  dfcclCollOptions_t options = DFCCL_COLL_OPTIONS_INITIALIZER;
  options.varying = 1;
  REFUSED(dfcclRegisterAllGatherV(NULL, ID, one_two, NULL, dfcclInt8, NULL), "NULL");
  REFUSED(dfcclRegisterAllGatherV(c, ID, NULL, NULL, dfcclInt8, NULL), "recvCounts is NULL");
  REFUSED(dfcclRegisterAllGatherV(c, ID, huge, NULL, dfcclInt8, NULL), "recvCounts[0]");
  REFUSED(dfcclRegisterAllGatherV(c, ID, many, NULL, dfcclInt8, NULL), "messages");
  REFUSED(dfcclRegisterReduceScatterV(c, ID, one_two, dfcclFloat32, dfcclBand, NULL), "bits");
  REFUSED(dfcclRegisterGatherV(c, ID, 1, one_two, NULL, dfcclInt8, 2, NULL), "root is 2");
  REFUSED(dfcclRegisterGatherV(c, ID, 5, one_two, NULL, dfcclInt8, 0, NULL), "to itself");
  REFUSED(dfcclRegisterScatterV(c, ID, NULL, NULL, 1, dfcclInt8, 0, NULL), "sendCounts is NULL");
  REFUSED(dfcclRegisterAllToAllV(c, ID, one_two, NULL, two_one, NULL, dfcclInt8, NULL),
          "to itself");
  REFUSED(dfcclRegisterNeighbours(c, ID, 2, twice, one_two, 0, NULL, NULL, dfcclInt8, NULL),
          "second time");
  REFUSED(dfcclRegisterNeighbours(c, ID, 0, NULL, NULL, 1, beyond, one_two, dfcclInt8, NULL),
          "recvFrom[0] is 2");
  if (df_config().backend != dfcclBackendCuda)
    REFUSED(dfcclRegisterAllGatherV(c, ID, one_two, NULL, dfcclInt8, &options), "varying");
  options.varying = 0;
  options.algorithm = "ring";
  REFUSED(dfcclRegisterAllGatherV(c, ID, one_two, NULL, dfcclInt8, &options), "ring");
  options.algorithm = "direct";
  OK(dfcclRegisterAllGatherV(c, ID, one_two, NULL, dfcclInt8, &options));
  df_free_contexts(ctxs, 2);
}
