/*
 * Promises of the collectives that NCCL's first versions do not have:
 *   - The runs of a barrier complete after all members have submitted theirs, and not before.
 *   - A SendRecv is a channel of two members among any number of ranks, in both directions, in any
 *     order. Its sender waits for no rank.
 *   - A Scan combines the contributions of the group's positions up to its own one. Position 0 of
 *     an exclusive Scan keeps its output as it is. No Scan has dfcclAvg.
 *   - Members that registered another root, direction or kind get dfcclMismatch.
 */
#include "support/buffers.h"
#include "support/processes.h"

#include <stdlib.h>
#include <string.h>

enum { RANKS = 5 };

DF_TEST(every_kind, a_barrier_waits_for_all, 60) {
  static const char *const algorithms[] = {NULL, "dissemination", "direct", "flat", "twolevel"};
  dfcclContext_t ctxs[RANKS];
  df_make_contexts(ctxs, RANKS, NULL);
  for (size_t a = 0; a < sizeof algorithms / sizeof algorithms[0]; a++) {
    dfcclCollOptions_t options = DFCCL_COLL_OPTIONS_INITIALIZER;
    options.algorithm = algorithms[a];
    for (int rank = 0; rank < RANKS; rank++) OK(dfcclRegisterBarrier(ctxs[rank], a, &options));
    for (int last = 0; last < RANKS; last++) {
      for (int rank = 0; rank < RANKS; rank++)
        if (rank != last) OK(dfcclRunBarrier(ctxs[rank], a, NULL, NULL));
      for (int rank = 0; rank < RANKS; rank++)
        if (rank != last) RESULT(dfcclWaitRun(ctxs[rank], a, (uint64_t)last, 3), dfcclInProgress);
      OK(dfcclRunBarrier(ctxs[last], a, NULL, NULL));
      for (int rank = 0; rank < RANKS; rank++) OK(dfcclWait(ctxs[rank], a));
    }
  }
  df_free_contexts(ctxs, RANKS);
}

static void barriers(int rank, int ranks, const dfcclUniqueId *id, void *net) {
  setenv("DFCCL_NET", net, 1);
  dfcclContext_t ctx = df_init(rank, ranks, id, NULL);
  dfcclRun_t run = DFCCL_RUN_INITIALIZER;
  OK(dfcclRegisterBarrier(ctx, 1, NULL));
  for (int i = 0; i < 200; i++) {
    OK(dfcclRun(ctx, 1, &run));
    CHECK(run.run == (uint64_t)i, "run %d is %llu", i, (unsigned long long)run.run);
    if (i % 3 == 0) OK(dfcclWait(ctx, 1));
  }
  OK(dfcclWait(ctx, 1));
  df_finish(ctx);
}

DF_TEST(every_kind, barriers_among_processes, 120) {
  static char *const nets[] = {"auto", "tcp"};
  for (int i = 0; i < 2; i++) {
    df_family family;
    df_fork(&family, 3, 50, barriers, nets[i]);
    df_join(&family);
  }
}

/* All pairs exchange in both directions, each rank in another order. */
DF_TEST(every_kind, channels_between_all, 60) {
  enum { COUNT = 700 };
  static int32_t from[RANKS][RANKS][COUNT], to[RANKS][RANKS][COUNT];
  dfcclContext_t ctxs[RANKS];
  df_make_contexts(ctxs, RANKS, NULL);
  for (int pair = 0; pair < RANKS * RANKS; pair++) {
    const int a = pair / RANKS, b = pair % RANKS;
    OK(dfcclRegisterSendRecv(ctxs[a], (dfcclCollId_t)pair, COUNT, dfcclInt32, a, b, NULL));
    if (a != b)
      OK(dfcclRegisterSendRecv(ctxs[b], (dfcclCollId_t)pair, COUNT, dfcclInt32, a, b, NULL));
    for (int i = 0; i < COUNT; i++) from[a][b][i] = pair * 1000 + i;
  }
  df_random random = {5};
  for (int rank = 0; rank < RANKS; rank++) {
    int order[2 * RANKS];
    for (int i = 0; i < 2 * RANKS; i++) order[i] = i;
    df_random_shuffle(&random, order, 2 * RANKS);
    for (int i = 0; i < 2 * RANKS; i++) {
      const int other = order[i] % RANKS, sends = order[i] < RANKS;
      const int a = sends ? rank : other, b = sends ? other : rank;
      if (!sends && a == b) continue;
      OK(dfcclRunSendRecv(ctxs[rank], (dfcclCollId_t)(a * RANKS + b), rank == a ? from[a][b] : NULL,
                          rank == b ? to[a][b] : NULL, NULL, NULL));
    }
  }
  for (int rank = 0; rank < RANKS; rank++) OK(dfcclWaitAll(ctxs[rank]));
  CHECK(memcmp(from, to, sizeof from) == 0, "something else was received");
  df_free_contexts(ctxs, RANKS);
}

/* Short messages wait in the ring. */
DF_TEST(every_kind, a_sender_waits_for_nobody, 30) {
  dfcclContext_t ctxs[2];
  int32_t sent = 7, received[3] = {0};
  df_make_contexts(ctxs, 2, NULL);
  for (int rank = 0; rank < 2; rank++)
    OK(dfcclRegisterSendRecv(ctxs[rank], 1, 1, dfcclInt32, 1, 0, NULL));
  OK(dfcclRunSendRecv(ctxs[0], 1, NULL, &received[0], NULL,
                      NULL)); /* the links are connected from here on */
  OK(dfcclRunSendRecv(ctxs[1], 1, &sent, NULL, NULL, NULL));
  for (int rank = 0; rank < 2; rank++) OK(dfcclWait(ctxs[rank], 1));
  for (int i = 1; i < 3; i++) {
    sent = 7 + i;
    OK(dfcclRunSendRecv(ctxs[1], 1, &sent, NULL, NULL, NULL));
    OK(dfcclWait(ctxs[1], 1));
  }
  for (int i = 1; i < 3; i++) OK(dfcclRunSendRecv(ctxs[0], 1, NULL, &received[i], NULL, NULL));
  OK(dfcclWait(ctxs[0], 1));
  CHECK(received[0] == 7 && received[1] == 8 && received[2] == 9, "%d %d %d", received[0],
        received[1], received[2]);
  df_free_contexts(ctxs, 2);
}

DF_TEST(every_kind, counts_of_sends, 60) {
  static const size_t counts[] = {0, 1, 7, 1000, 70000, 3000000};
  static const int group[] = {2, 0};
  dfcclContext_t ctxs[3];
  df_make_contexts(ctxs, 3, NULL);
  for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
    for (int flags = 0; flags <= DF_ZERO_COPY; flags += DF_ZERO_COPY) {
      df_collective coll = {.kind = DF_SEND_RECV,
                            .type = dfcclInt16,
                            .count = counts[i],
                            .members = 2,
                            .group = i % 2 ? group : NULL,
                            .seed = i};
      df_once(ctxs, i % 2, &coll, flags);
    }
  df_free_contexts(ctxs, 3);
}

/* Each contribution is another power of two. That operands keep their order is proven for each plan
 * by unit/test_plan_check.c. */
DF_TEST(every_kind, scans_follow_the_group, 60) {
  static const char *const algorithms[] = {"ring", "doubling"};
  static const int group[] = {3, 1, 4, 0, 2};
  dfcclContext_t ctxs[RANKS];
  df_make_contexts(ctxs, RANKS, NULL);
  for (int a = 0; a < 2; a++)
    for (int exclusive = 0; exclusive < 2; exclusive++) {
      float in[RANKS], out[RANKS];
      dfcclCollOptions_t options = DFCCL_COLL_OPTIONS_INITIALIZER;
      options.algorithm = algorithms[a];
      options.ranks = group;
      options.nRanks = RANKS;
      for (int position = 0; position < RANKS; position++) {
        const int rank = group[position];
        in[rank] = (float)(1 << position);
        out[rank] = -1;
        OK(dfcclRegisterScan(ctxs[rank], 1, 1, dfcclFloat32, dfcclSum, exclusive, &options));
        OK(dfcclRunScan(ctxs[rank], 1, &in[rank], exclusive && position == 0 ? NULL : &out[rank],
                        NULL, NULL));
      }
      for (int position = 0; position < RANKS; position++) {
        const int rank = group[position];
        OK(dfcclWait(ctxs[rank], 1));
        OK(dfcclDeregister(ctxs[rank], 1));
        const int members = exclusive ? position : position + 1;
        const float right = members == 0 ? -1 : (float)((1 << members) - 1);
        CHECK(out[rank] == right, "%s, exclusive %d, position %d: %g instead of %g", algorithms[a],
              exclusive, position, (double)out[rank], (double)right);
      }
    }
  df_free_contexts(ctxs, RANKS);
}

static void expect_mismatch(dfcclContext_t *ctxs, dfcclCollId_t id, const char *word) {
  char buffer[2][64];
  for (int rank = 0; rank < 2; rank++) {
    dfcclRun_t run = DFCCL_RUN_INITIALIZER;
    run.sendBuf = run.recvBuf = buffer[rank];
    dfcclResult_t result = dfcclRun(ctxs[rank], id, &run);
    if (result == dfcclSuccess) result = dfcclWait(ctxs[rank], id);
    CHECK(result == dfcclMismatch, "rank %d: %s", rank, df_test_result_name(result));
    CHECK(df_mentions(dfcclGetLastError(ctxs[rank]), word), "rank %d: \"%s\" lacks \"%s\"", rank,
          dfcclGetLastError(ctxs[rank]), word);
  }
}

DF_TEST(every_kind, differences_are_a_mismatch, 30) {
  dfcclContext_t ctxs[2];
  df_make_contexts(ctxs, 2, NULL);
  for (int rank = 0; rank < 2; rank++) {
    OK(dfcclRegisterGather(ctxs[rank], 1, 1, dfcclInt32, rank, NULL));
    OK(dfcclRegisterScatter(ctxs[rank], 2, (size_t)rank + 1, dfcclInt32, 0, NULL));
    OK(dfcclRegisterSendRecv(ctxs[rank], 3, 1, dfcclInt32, rank, 1 - rank, NULL));
    OK(dfcclRegisterScan(ctxs[rank], 4, 1, dfcclInt32, dfcclSum, rank, NULL));
    OK(dfcclRegisterScan(ctxs[rank], 5, 1, dfcclInt32, rank ? dfcclBor : dfcclBxor, 0, NULL));
  }
  OK(dfcclRegisterBarrier(ctxs[0], 6, NULL));
  OK(dfcclRegisterAllReduce(ctxs[1], 6, 1, dfcclUint8, dfcclSum, NULL));
  expect_mismatch(ctxs, 1, "root");
  expect_mismatch(ctxs, 2, "registered 1 elements, rank 1 registered 2");
  expect_mismatch(ctxs, 3, "position 0");
  expect_mismatch(ctxs, 4, "ExclusiveScan");
  expect_mismatch(ctxs, 5, "bxor");
  expect_mismatch(ctxs, 6, "Barrier");
  df_free_contexts(ctxs, 2);
}

#define REFUSED(call, word)                                                                        \
  do {                                                                                             \
    RESULT(call, dfcclInvalidArgument);                                                            \
    CHECK(df_mentions(dfcclGetLastError(NULL), word), "\"%s\" lacks \"%s\"",                       \
          dfcclGetLastError(NULL), word);                                                          \
  } while (0)

DF_TEST(every_kind, invalid_arguments_are_refused, 30) {
  dfcclContext_t ctxs[3];
  dfcclCollOptions_t varying = DFCCL_COLL_OPTIONS_INITIALIZER;
  varying.varying = 1;
  df_make_contexts(ctxs, 3, NULL);
  dfcclContext_t c = ctxs[2];
  REFUSED(dfcclRegisterGather(c, 1, 1, dfcclInt8, 3, NULL), "root is 3");
  REFUSED(dfcclRegisterScatter(c, 1, 1, (dfcclDataType_t)14, 0, NULL), "14");
  REFUSED(dfcclRegisterSendRecv(c, 1, 1, dfcclInt8, 0, 3, NULL), "to is 3");
  REFUSED(dfcclRegisterSendRecv(c, 1, 1, dfcclInt8, -1, 0, NULL), "from is -1");
  REFUSED(dfcclRegisterSendRecv(c, 1, 1, dfcclInt8, 0, 1, NULL), "rank 2 is neither");
  REFUSED(dfcclRegisterScan(c, 1, 1, dfcclInt8, dfcclAvg, 0, NULL), "dfcclAvg");
  REFUSED(dfcclRegisterScan(c, 1, 1, dfcclInt8, dfcclSum, 2, NULL), "exclusive is 2");
  REFUSED(dfcclRegisterScan(c, 1, 1, dfcclFloat32, dfcclBand, 0, NULL), "bits");
  if (df_config().backend != dfcclBackendCuda)
    REFUSED(dfcclRegisterBarrier(c, 1, &varying), "varying");
  varying.varying = 0;
  varying.algorithm = "ring";
  REFUSED(dfcclRegisterBarrier(c, 1, &varying), "ring");
  df_free_contexts(ctxs, 3);
}
