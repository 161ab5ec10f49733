/*
 * Promises of operators that applications define. A function combines the members' contributions,
 * on every plan, in place or not, short or in many chunks; if it does not commute, in the order of
 * the group. dfcclRedOpCreatePreMulSum multiplies each member's input once by the member's own
 * scalar. Operators outlive dfcclRedOpDestroy in the collectives that use them. Wrong uses are
 * refused, and members with different kinds of operators have a mismatch.
 */
#include "support/buffers.h"
#include "support/processes.h"

#include <stdlib.h>
#include <string.h>

enum { RANKS = 5, MOST = 30000, ID = 1 };

/* An element is a 2 x 2 matrix of 16-bit numbers. Their products are associative, and do not
 * commute. */
static uint64_t product(uint64_t x, uint64_t y) {
  uint64_t result = 0;
  for (int row = 0; row < 2; row++)
    for (int column = 0; column < 2; column++) {
      uint16_t sum = 0;
      for (int k = 0; k < 2; k++) {
        const uint16_t a = (uint16_t)(x >> (16 * (2 * row + k)));
        const uint16_t b = (uint16_t)(y >> (16 * (2 * k + column)));
        sum = (uint16_t)(sum + (uint16_t)((uint32_t)a * b));
      }
      result |= (uint64_t)sum << (16 * (2 * row + column));
    }
  return result;
}

static void multiply(void *inout, const void *in, size_t count, dfcclDataType_t type, void *arg) {
  CHECK(type == dfcclUint64 && *(const int *)arg == 42, "type %d", (int)type);
  uint64_t *left = inout;
  const uint64_t *right = in;
  for (size_t i = 0; i < count; i++) left[i] = product(left[i], right[i]);
}

/* A commutative operator that the library does not have: a sum of complements. */
static void add_not(void *inout, const void *in, size_t count, dfcclDataType_t type, void *arg) {
  (void)arg;
  CHECK(type == dfcclUint64, "type %d", (int)type);
  uint64_t *left = inout;
  const uint64_t *right = in;
  for (size_t i = 0; i < count; i++) left[i] = ~(~left[i] + ~right[i]);
}

static uint64_t add_not_one(uint64_t x, uint64_t y) { return ~(~x + ~y); }

static uint64_t input_of(int position, size_t i) {
  return ((uint64_t)position + 3) * 0x9E3779B97F4A7C15u + i * 0xD6E8FEB86659FD93u;
}

typedef uint64_t (*combine_fn)(uint64_t, uint64_t);

static uint64_t expected(const df_collective *coll, combine_fn combine, int position, size_t i) {
  const size_t at = coll->kind == DF_REDUCE_SCATTER ? (size_t)position * coll->count + i : i;
  const int members = coll->kind == DF_SCAN             ? position + 1
                      : coll->kind == DF_EXCLUSIVE_SCAN ? position
                                                        : coll->members;
  uint64_t result = input_of(0, at);
  for (int p = 1; p < members; p++) result = combine(result, input_of(p, at));
  return result;
}

static uint64_t send[RANKS][RANKS * MOST], recv[RANKS][RANKS * MOST];

/* All members run in this thread. */
static bool play(dfcclContext_t *ctxs, const df_collective *coll, combine_fn combine,
                 int in_place) {
  dfcclResult_t result = df_register(ctxs[0], ID, coll);
  if (result == dfcclInvalidArgument) return false; /* the algorithm does not apply */
  OK(result);
  for (int rank = 1; rank < coll->members; rank++) OK(df_register(ctxs[rank], ID, coll));
  for (int rank = 0; rank < coll->members; rank++) {
    uint64_t *into = recv[rank];
    for (size_t i = 0; i < df_send_elements(coll); i++) send[rank][i] = input_of(rank, i);
    if (in_place)
      into = coll->kind == DF_REDUCE_SCATTER ? send[rank] + (size_t)rank * coll->count : send[rank];
    OK(df_run(ctxs[rank], ID, coll->kind, send[rank], into, NULL, NULL));
  }
  for (int rank = 0; rank < coll->members; rank++) {
    OK(dfcclWait(ctxs[rank], ID));
    const uint64_t *got = recv[rank];
    if (in_place)
      got = coll->kind == DF_REDUCE_SCATTER ? send[rank] + (size_t)rank * coll->count : send[rank];
    for (size_t i = 0; df_receives(coll, rank) && i < coll->count; i++)
      CHECK(got[i] == expected(coll, combine, rank, i),
            "%s by %s of %d, %zu, in place %d: rank %d, element %zu is %llx instead of %llx",
            df_kind_name(coll->kind), coll->algorithm ? coll->algorithm : "auto", coll->members,
            coll->count, in_place, rank, i, (unsigned long long)got[i],
            (unsigned long long)expected(coll, combine, rank, i));
  }
  for (int rank = 0; rank < coll->members; rank++) OK(dfcclDeregister(ctxs[rank], ID));
  return true;
}

static const df_kind kinds[] = {DF_ALL_REDUCE, DF_REDUCE, DF_REDUCE_SCATTER, DF_SCAN,
                                DF_EXCLUSIVE_SCAN};

/* Returns the number of plans that were tried. */
static int play_all(dfcclRedOp_t op, combine_fn combine, dfcclContext_t *ctxs, int ranks) {
  static const size_t counts[] = {1, 40, 3000, MOST};
  int played = 0;
  for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++)
    for (int a = -1; a < df_algorithm_names_count; a++)
      for (size_t c = 0; c < 4; c++)
        for (int in_place = 0; in_place < 2; in_place++) {
          df_collective coll = {.kind = kinds[k],
                                .type = dfcclUint64,
                                .op = op,
                                .root = (int)c % ranks,
                                .count = counts[c],
                                .members = ranks};
          coll.algorithm = a < 0 ? NULL : df_algorithm_names[a];
          const bool is_played = play(ctxs, &coll, combine, in_place);
          CHECK(a >= 1 || is_played, "the library has no plan for %s", df_kind_name(kinds[k]));
          played += is_played;
        }
  return played;
}

DF_TEST(user_operators, functions_on_every_plan, 120) {
  for (int ranks = 1; ranks <= RANKS; ranks++) {
    int argument = 42;
    dfcclContext_t ctxs[RANKS];
    dfcclRedOp_t ordered, commutes;
    df_make_contexts(ctxs, ranks, NULL);
    OK(dfcclRedOpCreate(ctxs[0], &ordered, multiply, &argument, 0));
    OK(dfcclRedOpCreate(ctxs[0], &commutes, add_not, NULL, 1));
    const int few = play_all(ordered, product, ctxs, ranks);
    const int more = play_all(commutes, add_not_one, ctxs, ranks);
    CHECK(few < more, "%d plans keep the order, of %d", few, more);
    OK(dfcclRedOpDestroy(ctxs[0], ordered));
    OK(dfcclRedOpDestroy(ctxs[0], commutes));
    df_free_contexts(ctxs, ranks);
  }
}

/* ---- multiplied sums */

static int32_t scalar_of(int rank) { return rank * 3 - 4; }

static void multiplied(dfcclContext_t ctx, int rank, int ranks) {
  static const size_t counts[] = {1, 100, 20000, 200000};
  dfcclRedOp_t op;
  const int32_t scalar = scalar_of(rank);
  OK(dfcclRedOpCreatePreMulSum(ctx, &op, &scalar, dfcclInt32, 0));
  for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++)
    for (size_t c = 0; c < 4; c++) {
      df_collective coll = {.kind = kinds[k],
                            .type = dfcclInt32,
                            .op = op,
                            .root = ranks - 1,
                            .count = counts[c],
                            .members = ranks};
      const size_t sent = df_send_elements(&coll), at = (size_t)rank * coll.count;
      int32_t *in = NULL, *out = malloc(coll.count * sizeof *out);
      OK(dfcclMemAlloc(ctx, (void **)&in, sent * sizeof *in)); /* large enough to be lent */
      for (size_t i = 0; i < sent; i++) in[i] = (int32_t)(i * 7 + (size_t)rank);
      OK(df_register(ctx, ID + c, &coll));
      for (int run = 0; run < 2; run++) {
        OK(df_run(ctx, ID + c, coll.kind, in, out, NULL, NULL));
        OK(dfcclWait(ctx, ID + c));
      }
      OK(dfcclDeregister(ctx, ID + c));
      const int members = kinds[k] == DF_SCAN             ? rank + 1
                          : kinds[k] == DF_EXCLUSIVE_SCAN ? rank
                                                          : ranks;
      for (size_t i = 0; df_receives(&coll, rank) && i < coll.count; i++) {
        const size_t from = kinds[k] == DF_REDUCE_SCATTER ? at + i : i;
        int32_t right = 0;
        for (int r = 0; r < members; r++) right += scalar_of(r) * (int32_t)(from * 7 + (size_t)r);
        CHECK(out[i] == right, "%s of %zu: rank %d, element %zu is %d instead of %d",
              df_kind_name(kinds[k]), coll.count, rank, i, out[i], right);
      }
      OK(dfcclMemFree(ctx, in));
      free(out);
    }
  OK(dfcclRedOpDestroy(ctx, op));
}

static void multiplied_as(int rank, int ranks, const dfcclUniqueId *id, void *net) {
  setenv("DFCCL_NET", net, 1);
  dfcclContext_t ctx = df_init(rank, ranks, id, NULL);
  multiplied(ctx, rank, ranks);
  df_finish(ctx);
}

DF_TEST(user_operators, multiplied_sums_among_processes, 120) {
  static char *const nets[] = {"auto", "tcp"};
  for (int ranks = 1; ranks <= 4; ranks += ranks == 1 ? 2 : 1)
    for (int i = 0; i < 2; i++) {
      df_family family;
      df_fork(&family, ranks, 100, multiplied_as, nets[i]);
      df_join(&family);
    }
}

typedef struct job {
  dfcclContext_t ctxs[3];
} job;

static void multiplied_in_thread(int rank, void *argument) {
  multiplied(((job *)argument)->ctxs[rank], rank, 3);
}

DF_TEST(user_operators, multiplied_sums_among_threads, 60) {
  job j;
  df_make_contexts(j.ctxs, 3, NULL);
  df_in_threads(3, multiplied_in_thread, &j);
  df_free_contexts(j.ctxs, 3);
}

DF_TEST(user_operators, floats_are_rounded_once_before_the_sum, 30) {
  dfcclContext_t ctxs[2];
  float in[2] = {3, 5}, out[2] = {0, 0};
  const float scalars[2] = {0.1f, -2};
  df_make_contexts(ctxs, 2, NULL);
  for (int rank = 0; rank < 2; rank++) {
    dfcclRedOp_t op;
    OK(dfcclRedOpCreatePreMulSum(ctxs[rank], &op, &scalars[rank], dfcclFloat32, 0));
    OK(dfcclRegisterAllReduce(ctxs[rank], 1, 1, dfcclFloat32, op, NULL));
    OK(dfcclRedOpDestroy(ctxs[rank], op)); /* the collective keeps the operator */
    OK(dfcclRunAllReduce(ctxs[rank], 1, &in[rank], &out[rank], NULL, NULL));
  }
  for (int rank = 0; rank < 2; rank++) OK(dfcclWait(ctxs[rank], 1));
  const float first = 0.1f * 3;
  CHECK(out[0] == first - 10 && out[1] == out[0], "%g and %g", (double)out[0], (double)out[1]);
  df_free_contexts(ctxs, 2);
}

/* Each algorithm, in place and not: a contribution that a plan forwards was scaled exactly once. */
static void multiplied_scan(int rank, void *argument) {
  enum { COUNT = 3000 };
  static const char *const algorithms[] = {"ring", "doubling"};
  dfcclContext_t ctx = ((dfcclContext_t *)argument)[rank];
  const int64_t scalar = 2 + rank;
  dfcclRedOp_t op;
  dfcclCollOptions_t options = DFCCL_COLL_OPTIONS_INITIALIZER;
  int64_t *in = malloc(COUNT * sizeof *in), *out = malloc(COUNT * sizeof *out);
  OK(dfcclRedOpCreatePreMulSum(ctx, &op, &scalar, dfcclInt64, 0));
  for (dfcclCollId_t id = 0; id < 8; id++) {
    const int in_place = id & 1, exclusive = (int)id >> 1 & 1;
    int64_t *result = in_place ? in : out;
    options.algorithm = algorithms[id >> 2];
    for (int i = 0; i < COUNT; i++) in[i] = 100 + 1000 * rank + i;
    OK(dfcclRegisterScan(ctx, id, COUNT, dfcclInt64, op, exclusive, &options));
    OK(dfcclRunScan(ctx, id, in, result, NULL, NULL));
    OK(dfcclWait(ctx, id));
    for (int i = 0; i < COUNT && !(exclusive && rank == 0); i++) {
      int64_t expected = 0;
      for (int m = 0; m < rank + !exclusive; m++)
        expected += (2 + m) * (int64_t)(100 + 1000 * m + i);
      CHECK(result[i] == expected,
            "rank %d, %s, in place %d, exclusive %d, element %d: %lld, not %lld", rank,
            options.algorithm, in_place, exclusive, i, (long long)result[i], (long long)expected);
    }
  }
  free(in);
  free(out);
}

DF_TEST(user_operators, scans_scale_each_input_once, 60) {
  dfcclContext_t ctxs[4];
  df_make_contexts(ctxs, 4, NULL);
  df_in_threads(4, multiplied_scan, ctxs);
  df_free_contexts(ctxs, 4);
}

/* ---- refusals */

static void expect_refused(dfcclResult_t result, const char *word) {
  CHECK(result == dfcclInvalidArgument, "%s instead of refusing \"%s\"",
        df_test_result_name(result), word);
  CHECK(df_mentions(dfcclGetLastError(NULL), word), "\"%s\" lacks \"%s\"", dfcclGetLastError(NULL),
        word);
}

DF_TEST(user_operators, wrong_uses_are_refused, 30) {
  static const size_t counts[2] = {1, 1};
  dfcclContext_t ctxs[2];
  dfcclRedOp_t ordered, scaled;
  const float scalar = 2;
  df_make_contexts(ctxs, 2, NULL);
  dfcclContext_t c = ctxs[0];
  expect_refused(dfcclRedOpCreate(c, NULL, multiply, NULL, 0), "op is NULL");
  expect_refused(dfcclRedOpCreate(c, &ordered, NULL, NULL, 0), "fn is NULL");
  expect_refused(dfcclRedOpCreatePreMulSum(c, &scaled, NULL, dfcclInt8, 0), "scalar is NULL");
  expect_refused(dfcclRedOpCreatePreMulSum(c, &scaled, &scalar, dfcclFloat32, 1), "host memory");
  expect_refused(dfcclRedOpCreatePreMulSum(c, &scaled, &scalar, (dfcclDataType_t)14, 0), "14");
  OK(dfcclRedOpCreate(c, &ordered, multiply, NULL, 0));
  OK(dfcclRedOpCreatePreMulSum(c, &scaled, &scalar, dfcclFloat32, 0));
  expect_refused(dfcclRegisterAllReduce(c, 1, 1, dfcclFloat64, scaled, NULL), "data type");
  expect_refused(dfcclRegisterReduceScatterV(c, 1, counts, dfcclInt32, ordered, NULL), "commute");
  dfcclCollOptions_t options = DFCCL_COLL_OPTIONS_INITIALIZER;
  options.algorithm = "ring";
  expect_refused(dfcclRegisterAllReduce(c, 1, 1, dfcclInt32, ordered, &options), "commute");
  OK(dfcclRedOpDestroy(c, ordered));
  expect_refused(dfcclRedOpDestroy(c, ordered), "destroyed");
  expect_refused(dfcclRedOpDestroy(c, dfcclSum), "was not made");
  expect_refused(dfcclRegisterAllReduce(c, 1, 1, dfcclInt32, ordered, NULL), "destroyed");
  OK(dfcclRedOpDestroy(c, scaled));
  df_free_contexts(ctxs, 2);
}

DF_TEST(user_operators, other_kinds_of_operators_are_a_mismatch, 30) {
  dfcclContext_t ctxs[2];
  dfcclRedOp_t ops[2];
  int32_t buffer[2][2];
  const int32_t scalar = 2;
  df_make_contexts(ctxs, 2, NULL);
  OK(dfcclRedOpCreate(ctxs[0], &ops[0], add_not, NULL, 1));
  OK(dfcclRedOpCreatePreMulSum(ctxs[1], &ops[1], &scalar, dfcclInt32, 0));
  dfcclResult_t results[2];
  for (int rank = 0; rank < 2; rank++) {
    OK(dfcclRegisterAllReduce(ctxs[rank], 1, 1, dfcclInt32, ops[rank], NULL));
    results[rank] = dfcclRunAllReduce(ctxs[rank], 1, buffer[rank], buffer[rank] + 1, NULL, NULL);
  }
  for (int rank = 0; rank < 2; rank++) {
    if (results[rank] == dfcclSuccess) results[rank] = dfcclWait(ctxs[rank], 1);
    CHECK(results[rank] == dfcclMismatch, "%s", df_test_result_name(results[rank]));
    CHECK(df_mentions(dfcclGetLastError(ctxs[rank]), "premulsum"), "\"%s\"",
          dfcclGetLastError(ctxs[rank]));
  }
  df_free_contexts(ctxs, 2);
}
