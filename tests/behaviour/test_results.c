/*
 * Promise: every collective delivers the right bits: for every data type and operator, out of place
 * and in place, from user memory and from dfcclMemAlloc memory, aligned to the element and no
 * further, for counts of 0, 1, odd, and not divisible by the number of ranks. Nothing but the
 * receive buffer is written.
 */
#include <stdlib.h>

#include "support/buffers.h"

enum { RANKS = 4, ID = 1 };

/* Every kind, type and (where one applies) operator, with one count, among `ranks` ranks. A
 * sanitizer build has half of the types for each kind; other kinds have the rest. */
static void all_combinations(dfcclContext_t *ctxs, int ranks, size_t count, int flags) {
  const bool slow = df_slowdown() > 1;
  for (int kind = 0; kind < DF_KIND_COUNT; kind++)
    for (int type = slow ? kind % 2 : 0; type < DF_DATA_TYPES; type += slow ? 2 : 1) {
      int operators = df_kind_reduces((df_kind)kind) ? DF_REDUCE_OPERATORS : 1;
      for (int op = 0; op < operators; op++) {
        if (df_kind_operator((df_kind)kind, (dfcclDataType_t)type, (dfcclRedOp_t)op) !=
            (dfcclRedOp_t)op)
          continue;
        df_collective coll = {.kind = (df_kind)kind,
                              .type = (dfcclDataType_t)type,
                              .op = (dfcclRedOp_t)op,
                              .root = (type + op) % ranks,
                              .count = count,
                              .members = ranks,
                              .seed = (uint64_t)(kind * 1000 + type * 10 + op)};
        df_once(ctxs, ID, &coll, flags);
      }
    }
}

static void play(int ranks, size_t count, int flags) {
  dfcclContext_t ctxs[RANKS];
  df_make_contexts(ctxs, ranks, NULL);
  all_combinations(ctxs, ranks, count, flags);
  df_free_contexts(ctxs, ranks);
}

DF_TEST(results, every_type_and_operator, 120) { play(4, 1000, 0); }
DF_TEST(results, every_type_and_operator_in_place, 120) { play(4, 1000, DF_IN_PLACE); }
DF_TEST(results, three_ranks_odd_count, 120) { play(3, 331, DF_ODD_OFFSET); }
DF_TEST(results, three_ranks_odd_count_in_place, 120) { play(3, 331, DF_ODD_OFFSET | DF_IN_PLACE); }
DF_TEST(results, zero_copy_memory, 120) { play(4, 1000, DF_ZERO_COPY); }
DF_TEST(results, zero_copy_memory_in_place, 120) { play(4, 1000, DF_ZERO_COPY | DF_IN_PLACE); }
DF_TEST(results, unused_buffers_are_null, 120) { play(4, 100, DF_UNUSED_NULL); }
DF_TEST(results, two_ranks, 120) { play(2, 129, 0); }
DF_TEST(results, one_rank, 60) { play(1, 100, 0); }
DF_TEST(results, one_rank_in_place, 60) { play(1, 100, DF_IN_PLACE); }

/* Counts around the sizes at which the code may branch: words, lines, slots, chunks. */
static void all_counts(int flags) {
  static const size_t counts[] = {0,    1,    2,    3,    5,     7,     8,     15,    16,    17,
                                  31,   63,   64,   65,   127,   255,   257,   511,   1023,  1025,
                                  4095, 4096, 4097, 9999, 16383, 16385, 32769, 65537, 100003};
  dfcclContext_t ctxs[RANKS];
  df_make_contexts(ctxs, RANKS, NULL);
  for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
    for (int kind = 0; kind < DF_KIND_COUNT; kind++) {
      static const dfcclDataType_t types[] = {dfcclFloat32, dfcclInt8, dfcclBfloat16, dfcclUint64};
      df_collective coll = {.kind = (df_kind)kind,
                            .type = types[(i + (size_t)kind) % 4],
                            .op = dfcclSum,
                            .root = (int)i % RANKS,
                            .count = counts[i],
                            .members = RANKS,
                            .seed = i};
      df_once(ctxs, ID, &coll, flags);
    }
  df_free_contexts(ctxs, RANKS);
}

DF_TEST(results, counts, 120) { all_counts(0); }
DF_TEST(results, counts_in_place, 120) { all_counts(DF_IN_PLACE); }
DF_TEST(results, counts_zero_copy_odd_offset, 120) { all_counts(DF_ZERO_COPY | DF_ODD_OFFSET); }

DF_TEST(results, large, 120) {
  dfcclContext_t ctxs[2];
  df_make_contexts(ctxs, 2, NULL);
  for (int kind = 0; kind < DF_KIND_COUNT; kind++)
    for (int flags = 0; flags <= DF_ZERO_COPY; flags += DF_ZERO_COPY) {
      df_collective coll = {.kind = (df_kind)kind,
                            .type = dfcclFloat32,
                            .op = dfcclSum,
                            .count = (4 << 20) / (size_t)df_slowdown() + 13,
                            .members = 2,
                            .seed = 3};
      df_once(ctxs, ID, &coll, flags);
    }
  df_free_contexts(ctxs, 2);
}

/* A run of count zero completes, with a callback, without a message, and with NULL buffers. */
DF_TEST(results, zero_elements, 30) {
  dfcclContext_t ctxs[2];
  df_tally tally = {0};
  df_make_contexts(ctxs, 2, NULL);
  for (int kind = 0; kind < DF_KIND_COUNT; kind++) {
    df_collective coll = {.kind = (df_kind)kind, .type = dfcclInt32, .members = 2};
    df_register_all(ctxs, (dfcclCollId_t)kind, &coll);
    for (int rank = 0; rank < 2; rank++)
      OK(df_run(ctxs[rank], (dfcclCollId_t)kind, coll.kind, NULL, NULL, df_tally_callback, &tally));
  }
  EVENTUALLY(atomic_load(&tally.calls) == 2 * DF_KIND_COUNT);
  CHECK(atomic_load(&tally.failures) == 0, "a run of nothing failed");
  df_free_contexts(ctxs, 2);
}

/* The algorithms that a user may name give the same results as the library's choice: every type and
 * operator, a power of two and another number of ranks, with one loop and with many. */
static void one_algorithm(dfcclContext_t *ctxs, int ranks, const char *name, df_kind kind,
                          int *accepted) {
  int slow =
      df_slowdown() > 1; /* a third of the types for each operation; all types have their turn */
  for (int type = slow ? (int)kind % 3 : 0; type < DF_DATA_TYPES; type += slow ? 3 : 1)
    for (int round = 0; round < 3; round += slow ? 2 : 1) {
      df_collective coll = {
          .kind = kind,
          .type = (dfcclDataType_t)type,
          .op = df_kind_operator(kind, (dfcclDataType_t)type,
                                 (dfcclRedOp_t)((type + round) % DF_REDUCE_OPERATORS)),
          .root = (type + round) % ranks,
          .count = round == 0   ? 7
                   : round == 1 ? 133
                                : 12007,
          .members = ranks,
          .algorithm = name,
          .seed = (uint64_t)(type * 10 + round)};
      dfcclResult_t result = df_register(ctxs[0], ID, &coll);
      if (result == dfcclInvalidArgument) { /* "where they apply" */
        CHECK(df_mentions(dfcclGetLastError(NULL), name), "\"%s\"", dfcclGetLastError(NULL));
        return;
      }
      OK(result);
      ++*accepted;
      for (int rank = 1; rank < ranks; rank++) OK(df_register(ctxs[rank], ID, &coll));
      df_exchange(ctxs, ID, &coll, 0, 0);
      df_exchange(ctxs, ID, &coll, 1, DF_IN_PLACE);
      df_exchange(ctxs, ID, &coll, 2, DF_ZERO_COPY | DF_UNUSED_NULL);
      df_deregister_all(ctxs, ID, &coll);
    }
}

static void named_algorithms(int ranks, const char *slot_bytes) {
  dfcclContext_t ctxs[RANKS + 1];
  if (slot_bytes) df_tune("slot_bytes", slot_bytes);
  df_make_contexts(ctxs, ranks, NULL);
  for (int a = 0; a < df_algorithm_names_count; a++) {
    int accepted = 0;
    for (int kind = 0; kind < DF_ALL_KINDS; kind++)
      if (kind != DF_SEND_RECV)
        one_algorithm(ctxs, ranks, df_algorithm_names[a], (df_kind)kind, &accepted);
    CHECK(accepted > 0, "\"%s\" applies to nothing", df_algorithm_names[a]);
  }
  df_free_contexts(ctxs, ranks);
  df_tune("slot_bytes", NULL);
}

DF_TEST(results, named_algorithms, 120) { named_algorithms(4, NULL); }
DF_TEST(results, named_algorithms_in_many_loops, 120) { named_algorithms(5, "2048"); }
