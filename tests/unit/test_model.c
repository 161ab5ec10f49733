/*
 * Promises of src/tuning/model.c:
 *   - Predictions are the survey's formulas: their terms for messages, bytes and combined bytes
 *     have the factors that are printed there.
 *   - Ranks that share cores take that many times as long. An algorithm without a formula is
 *     reported as such.
 *   - The bound counts the bytes that a rank must receive, and those of all ranks on all cores. No
 *     prediction at the bound's rate is below it.
 */
#include "tuning/model.h"

#include <math.h>

#include "support/harness.h"

static double us(df_operation operation, int algorithm, uint32_t n, uint64_t bytes) {
  const df_model_question question = {.operation = operation,
                                      .n = n,
                                      .bytes = bytes,
                                      .slot_bytes = 1 << 20,
                                      .split = 2,
                                      .ranks_on_a_core = 1,
                                      .distance = DF_NEAR_PROCESS};
  return df_model_us(&question, algorithm);
}

/* A run takes messages * alpha + bytes * beta + combined * gamma. The byte count separates the
 * terms. */
static void expect(df_operation operation, int algorithm, uint32_t n, double messages, double bytes,
                   double combined) {
  enum { FEW = 1 << 10, MANY = 1 << 19 };
  static const double alpha = 0.25, beta = 1.3e-4, gamma = 0.65e-4; /* as in model.c */
  const double slope =
      (us(operation, algorithm, n, MANY) - us(operation, algorithm, n, FEW)) / (MANY - FEW);
  const double start = us(operation, algorithm, n, FEW) - FEW * slope;
  CHECK(fabs(start - messages * alpha) < 1e-9, "%s %s, %u ranks: %f messages, not %f",
        df_algorithm_name(algorithm), df_operation_name(operation), n, start / alpha, messages);
  CHECK(fabs(slope - bytes * beta - combined * gamma) < 1e-12, "%s %s, %u ranks: %g us a byte",
        df_algorithm_name(algorithm), df_operation_name(operation), n, slope);
}

DF_TEST(model, has_the_surveys_formulas, 30) {
  for (uint32_t n = 2; n <= 64; n *= 2) {
    const double all = n - 1, part = all / n, rounds = log2(n);
    expect(DF_OP_ALL_REDUCE, DF_RING, n, 2 * all, 2 * part, part);
    expect(DF_OP_ALL_GATHER, DF_RING, n, all, part, 0);
    expect(DF_OP_REDUCE_SCATTER, DF_RING, n, all, part, part);
    expect(DF_OP_ALL_GATHER, DF_DOUBLING, n, rounds, part, 0);
    expect(DF_OP_ALL_REDUCE, DF_DOUBLING, n, rounds, rounds, rounds);
    expect(DF_OP_REDUCE_SCATTER, DF_HALVING, n, rounds, part, part);
    expect(DF_OP_BROADCAST, DF_BINOMIAL, n, rounds, rounds, 0);
    expect(DF_OP_ALL_REDUCE, DF_RABENSEIFNER, n, 2 * rounds, 2 * part, part);
    expect(DF_OP_ALL_GATHER, DF_PAT, n, rounds, part, 0);
    expect(DF_OP_ALL_TO_ALL, DF_PAIRWISE, n, all, part, 0);
  }
}

/* Digits of 2 (split): each round has one partner, as in Rabenseifner's algorithm. */
DF_TEST(model, bcube_has_rounds_for_each_digit, 30) {
  for (uint32_t n = 2; n <= 64; n *= 2) {
    const double part = (n - 1.0) / n;
    expect(DF_OP_ALL_REDUCE, DF_BCUBE, n, 2 * log2(n), 2 * part, part);
  }
}

/* Between hosts 2(h - 1) messages of an h-th of each rank's share; within a host the others'
 * shares. */
DF_TEST(model, hierarchies_add_what_is_near_and_what_is_far, 30) {
  for (uint32_t hosts = 2; hosts <= 8; hosts *= 2)
    for (uint32_t near = 1; near <= 8; near *= 2) {
      const double bytes = 1 << 20, share = bytes / near, inner = bytes * (near - 1) / near;
      const double paths = (hosts - 1.0) / hosts * share;
      const df_model_question q = {.operation = DF_OP_ALL_REDUCE,
                                   .n = hosts * near,
                                   .bytes = 1 << 20,
                                   .slot_bytes = 1 << 20,
                                   .hosts = hosts,
                                   .ranks_on_a_core = 1,
                                   .distance = DF_FAR};
      const double far_us = 2 * (hosts - 1.0) * 30 + 2 * paths * 1e-3 + paths * 1e-4;
      const double near_us = 2 * (near - 1.0) * 0.5 + 2 * inner * 1.8e-4 + inner * 0.9e-4;
      CHECK(fabs(df_model_us(&q, DF_HIERARCHICAL) - far_us - near_us) < 1e-6,
            "%u hosts of %u: %f us, not %f", hosts, near, df_model_us(&q, DF_HIERARCHICAL),
            far_us + near_us);
    }
}

/* (d + M/C)(alpha + C beta), where the first chunk is one of the d. */
DF_TEST(model, pipelines_fill_and_run, 30) {
  enum { CHUNK = 1 << 20, CHUNKS = 8, RANKS = 5 };
  const double turns = RANKS - 2 + CHUNKS;
  const double expected = turns * (0.25 + CHUNK * 1.3e-4);
  const double found = us(DF_OP_BROADCAST, DF_RING, RANKS, (uint64_t)CHUNKS * CHUNK);
  CHECK(fabs(found - expected) < 1e-6, "%f us, not %f", found, expected);
}

DF_TEST(model, shared_cores_take_longer_and_unknown_is_reported, 30) {
  df_model_question q = {.operation = DF_OP_ALL_REDUCE,
                         .n = 8,
                         .bytes = 4096,
                         .slot_bytes = 65536,
                         .ranks_on_a_core = 1,
                         .distance = DF_FAR};
  const double alone = df_model_us(&q, DF_RING);
  q.ranks_on_a_core = 4;
  CHECK(df_model_us(&q, DF_RING) == 4 * alone, "four ranks on a core");
  CHECK(df_model_us(&q, DF_ALGORITHMS) < 0, "an algorithm that is none");
  q.n = 1;
  CHECK(df_model_us(&q, DF_RING) == 0, "one rank");
}

DF_TEST(model, no_prediction_is_below_the_bound, 30) {
  static const double rate = 1 / 1.3e-4;
  for (df_operation operation = 0; operation < DF_OP_COUNT; operation++)
    for (int algorithm = 0; algorithm < DF_ALGORITHMS; algorithm++)
      for (uint32_t n = 2; n <= 33; n++) {
        const double bound = df_model_bound_us(operation, n, 1 << 20, n, rate);
        if (!df_algorithm_has(algorithm, operation)) continue;
        const double found = us(operation, algorithm, n, 1 << 20);
        CHECK(found < 0 || found >= bound, "%s %s, %u ranks: %f us, bound %f",
              df_algorithm_name(algorithm), df_operation_name(operation), n, found, bound);
      }
  CHECK(df_model_bound_us(DF_OP_BARRIER, 4, 1, 2, rate) == 0, "a barrier");
  CHECK(df_model_bound_us(DF_OP_ALL_GATHER, 4, 4096, 1, 4096.0) == 3, "three pieces of each of 4");
}
