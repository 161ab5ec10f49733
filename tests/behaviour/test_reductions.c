/*
 * Promise: results do not depend on scheduling. For the same plan they are bit-identical with and
 * without preemption. On arbitrary numbers the error of floats is within the limit of one rounding
 * for each step. Max and Min of a NaN and a number give the number, 8-bit results saturate, and
 * integer averages are truncated toward zero.
 */
#include "support/buffers.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS = 4, COUNT = 5000 };

static const dfcclDataType_t floats[] = {dfcclFloat16,  dfcclFloat32,    dfcclFloat64,
                                         dfcclBfloat16, dfcclFloat8e4m3, dfcclFloat8e5m2};
enum { FLOATS = sizeof floats / sizeof floats[0] };

/* A random number of moderate size, already rounded to the type. */
static uint64_t random_number(dfcclDataType_t type, df_random *random) {
  double value = (double)(int64_t)(df_random_next(random) >> 11) / 9007199254740992.0 * 4 - 2;
  return df_float_encode(type, value);
}

static _Alignas(8) unsigned char send_memory[RANKS][COUNT * 8], recv_memory[RANKS][COUNT * 8];

static void fill_random(dfcclDataType_t type, uint64_t seed) {
  for (int rank = 0; rank < RANKS; rank++) {
    df_random random = {seed * 100 + (uint64_t)rank};
    for (size_t i = 0; i < COUNT; i++)
      df_element_store(type, send_memory[rank], i, random_number(type, &random));
  }
}

static void all_reduce(dfcclContext_t *ctxs, dfcclDataType_t type, dfcclRedOp_t op) {
  for (int rank = 0; rank < RANKS; rank++) {
    OK(dfcclRegisterAllReduce(ctxs[rank], 1, COUNT, type, op, NULL));
    OK(dfcclRunAllReduce(ctxs[rank], 1, send_memory[rank], recv_memory[rank], NULL, NULL));
  }
  for (int rank = 0; rank < RANKS; rank++) {
    OK(dfcclWait(ctxs[rank], 1));
    OK(dfcclDeregister(ctxs[rank], 1));
  }
}

/* Each of the RANKS - 1 additions (and a division) may be off by half a unit of its result, which
 * is at most the sum of the absolute values. */
static void expect_close(dfcclDataType_t type, dfcclRedOp_t op, int rank) {
  for (size_t i = 0; i < COUNT; i++) {
    double sum = 0, magnitude = 0;
    for (int from = 0; from < RANKS; from++) {
      double value = df_float_decode(type, df_element_load(type, send_memory[from], i));
      sum += value;
      magnitude += fabs(value);
    }
    double divisor = op == dfcclAvg ? RANKS : 1;
    double got = df_float_decode(type, df_element_load(type, recv_memory[rank], i));
    double smallest = type == dfcclFloat8e4m3 ? 0x1p-9 : type == dfcclFloat8e5m2 ? 0x1p-16 : 0;
    double allowed = RANKS * df_type_epsilon(type) * magnitude / divisor + smallest;
    CHECK(fabs(got - sum / divisor) <= allowed,
          "%s %s, rank %d, element %zu: %.17g instead of %.17g", df_type_name(type),
          df_redop_name(op), rank, i, got, sum / divisor);
  }
}

DF_TEST(reductions, random_numbers, 60) {
  dfcclContext_t ctxs[RANKS];
  df_make_contexts(ctxs, RANKS, NULL);
  for (int t = 0; t < FLOATS; t++)
    for (int average = 0; average < 2; average++) {
      fill_random(floats[t], (uint64_t)t);
      all_reduce(ctxs, floats[t], average ? dfcclAvg : dfcclSum);
      for (int rank = 0; rank < RANKS; rank++) {
        expect_close(floats[t], average ? dfcclAvg : dfcclSum, rank);
        CHECK(memcmp(recv_memory[rank], recv_memory[0], COUNT * df_type_bytes(floats[t])) == 0,
              "%s: ranks 0 and %d have different bits", df_type_name(floats[t]), rank);
      }
    }
  df_free_contexts(ctxs, RANKS);
}

/* ---- the same bits whatever the schedule */

static void results_under(int blocks, unsigned char *results) {
  dfcclContext_t ctxs[RANKS];
  dfcclConfig_t config = df_config();
  config.maxBlocks = blocks;
  df_make_contexts(ctxs, RANKS, &config);
  for (int t = 0; t < FLOATS; t++) {
    fill_random(floats[t], 7 + (uint64_t)t);
    all_reduce(ctxs, floats[t], dfcclSum);
    memcpy(results + (size_t)t * COUNT * 8, recv_memory[1], COUNT * df_type_bytes(floats[t]));
  }
  df_free_contexts(ctxs, RANKS);
}

/* A variable, or a number of the tuning table. value NULL: the library's default. */
static void set(const char *name, const char *value) {
  if (strncmp(name, "DFCCL_", 6) != 0)
    df_tune(name, value);
  else if (value != NULL)
    setenv(name, value, 1);
  else
    unsetenv(name);
}

DF_TEST(reductions, do_not_depend_on_scheduling, 120) {
  static const struct {
    const char *settings[3], *values[3];
  } schedules[] = {
      {{"preempt_every"}, {"1"}},
      {{"spin_front", "spin_min", "spin_boost"}, {"1", "1", "1"}},
      {{"quit_polls", "DFCCL_CONTEXT_SLOTS"}, {"1", "1"}},
      {{"yield_polls", "fetch_polls"}, {"1", "0"}},
  };
  unsigned char *plain = calloc(FLOATS, COUNT * 8), *other = calloc(FLOATS, COUNT * 8);
  for (int blocks = 1; blocks <= 2; blocks++) {
    results_under(blocks, plain);
    for (size_t s = 0; s < sizeof schedules / sizeof schedules[0]; s++) {
      for (int v = 0; v < 3 && schedules[s].settings[v] != NULL; v++)
        set(schedules[s].settings[v], schedules[s].values[v]);
      results_under(blocks, other);
      CHECK(memcmp(plain, other, FLOATS * COUNT * 8) == 0,
            "with %s=%s and %d blocks other bits come out", schedules[s].settings[0],
            schedules[s].values[0], blocks);
      for (int v = 0; v < 3 && schedules[s].settings[v] != NULL; v++)
        set(schedules[s].settings[v], NULL);
    }
  }
  free(plain);
  free(other);
}

/* ---- the corners of the number formats */

static double two_ranks(dfcclContext_t *ctxs, dfcclDataType_t type, dfcclRedOp_t op, double a,
                        double b) {
  uint64_t send[2] = {df_float_encode(type, a), df_float_encode(type, b)}, recv[2] = {0, 0};
  for (int rank = 0; rank < 2; rank++) {
    OK(dfcclRegisterAllReduce(ctxs[rank], 1, 1, type, op, NULL));
    OK(dfcclRunAllReduce(ctxs[rank], 1, &send[rank], &recv[rank], NULL, NULL));
  }
  for (int rank = 0; rank < 2; rank++) {
    OK(dfcclWait(ctxs[rank], 1));
    OK(dfcclDeregister(ctxs[rank], 1));
  }
  double results[2] = {df_float_decode(type, recv[0]), df_float_decode(type, recv[1])};
  CHECK(recv[0] == recv[1] || (isnan(results[0]) && isnan(results[1])), "ranks differ: %g and %g",
        results[0], results[1]);
  return results[0];
}

DF_TEST(reductions, not_a_number, 30) {
  dfcclContext_t ctxs[2];
  df_make_contexts(ctxs, 2, NULL);
  for (int t = 0; t < FLOATS; t++) {
    for (int flip = 0; flip < 2; flip++) {
      double a = flip ? NAN : 3, b = flip ? 3 : NAN;
      double largest = two_ranks(ctxs, floats[t], dfcclMax, a, b);
      double least = two_ranks(ctxs, floats[t], dfcclMin, a, b);
      CHECK(largest == 3 && least == 3, "%s: max %g, min %g of 3 and NaN", df_type_name(floats[t]),
            largest, least);
      CHECK(isnan(two_ranks(ctxs, floats[t], dfcclSum, a, b)), "%s: 3 + NaN is a number",
            df_type_name(floats[t]));
    }
    CHECK(isnan(two_ranks(ctxs, floats[t], dfcclMax, NAN, NAN)), "%s: max of NaNs is a number",
          df_type_name(floats[t]));
  }
  df_free_contexts(ctxs, 2);
}

DF_TEST(reductions, overflow, 30) {
  dfcclContext_t ctxs[2];
  df_make_contexts(ctxs, 2, NULL);
  static const struct {
    dfcclDataType_t type;
    dfcclRedOp_t op;
    double a, b, result;
  } table[] = {
      {dfcclFloat8e4m3, dfcclSum, 448, 448, 448},
      {dfcclFloat8e4m3, dfcclProd, -448, 2, -448},
      {dfcclFloat8e5m2, dfcclSum, 57344, 57344, 57344},
      {dfcclFloat8e4m3, dfcclSum, 448, 16, 448},
      {dfcclFloat16, dfcclSum, 65504, 65504, INFINITY},
      {dfcclFloat16, dfcclSum, 2048, 1, 2048},
      {dfcclFloat16, dfcclSum, 2050, 1, 2052},
      {dfcclBfloat16, dfcclSum, 256, 1, 256},
      {dfcclBfloat16, dfcclSum, 258, 1, 260},
      {dfcclFloat8e4m3, dfcclSum, 16, 1, 16},
      {dfcclFloat8e4m3, dfcclSum, 18, 1, 20},
      {dfcclFloat8e5m2, dfcclSum, 8, 1, 8},
      {dfcclFloat8e5m2, dfcclAvg, 1, 2, 1.5},
      {dfcclFloat16, dfcclAvg, 0x1p-24, 0, 0},
      {dfcclFloat16, dfcclProd, 0x1p-14, 0.5, 0x1p-15},
      {dfcclFloat32, dfcclSum, 1e38, 1e38, 0x1.2ced32p127},
  };
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
    double got = two_ranks(ctxs, table[i].type, table[i].op, table[i].a, table[i].b);
    CHECK(got == table[i].result, "%s of %s: %g and %g gave %g instead of %g",
          df_redop_name(table[i].op), df_type_name(table[i].type), table[i].a, table[i].b, got,
          table[i].result);
  }
  df_free_contexts(ctxs, 2);
}

DF_TEST(reductions, integer_average_truncates, 30) {
  dfcclContext_t ctxs[2];
  int32_t send[2][4] = {{-7, 7, 1, -1}, {4, -4, 2, -2}}, recv[2][4];
  df_make_contexts(ctxs, 2, NULL);
  for (int rank = 0; rank < 2; rank++) {
    OK(dfcclRegisterAllReduce(ctxs[rank], 1, 4, dfcclInt32, dfcclAvg, NULL));
    OK(dfcclRunAllReduce(ctxs[rank], 1, send[rank], recv[rank], NULL, NULL));
  }
  for (int rank = 0; rank < 2; rank++) {
    OK(dfcclWait(ctxs[rank], 1));
    const int32_t *r = recv[rank];
    CHECK(r[0] == -1 && r[1] == 1 && r[2] == 1 && r[3] == -1, "%d %d %d %d", r[0], r[1], r[2],
          r[3]);
  }
  df_free_contexts(ctxs, 2);
}
