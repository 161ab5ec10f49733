/*
 * Promises of simulator/estimate.h:
 *   - The result does not depend on the number of threads.
 *   - Sparse and dense agree round for round on the (4,4,4) rows of Table 1, and so do their
 *     ratios.
 *   - A hundred thousand GPUs and a million collectives are feasible.
 */
#include "estimate.h"

#include <string.h>

#include "support/harness.h"
#include "table1_rows.h"

static df_estimate estimate_with(const df_config *config, const df_layout *layout, df_engine engine,
                                 unsigned threads, uint64_t rounds, uint64_t stream_rounds) {
  df_estimate_options options = {
      .engine = engine, .threads = threads, .rounds = rounds, .stream_rounds = stream_rounds};
  df_estimate estimate;
  OK(df_estimate_run(config, layout, &options, &estimate));
  CHECK(estimate.rounds == rounds, "%llu rounds", (unsigned long long)estimate.rounds);
  return estimate;
}

static const df_table1_row *row_named(const char *id) {
  for (int i = 0; i < DF_TABLE1_ROWS; i++)
    if (strcmp(df_table1_rows[i].id, id) == 0) return &df_table1_rows[i];
  CHECK(false, "no row %s", id);
  return NULL;
}

DF_TEST(estimate, does_not_depend_on_threads, 60) {
  df_config config;
  df_layout layout;
  OK(df_table1_config(row_named("3d-4-4-4-sync-4e-3-4e-3"), DF_ORDER_CONCAT, 5, &config));
  OK(df_config_layout(&config, &layout));
  uint64_t sparse = estimate_with(&config, &layout, DF_ENGINE_SPARSE, 1, 20000, 0).deadlocks;
  uint64_t streams = estimate_with(&config, &layout, DF_ENGINE_REFERENCE, 1, 40, 7).deadlocks;
  CHECK(sparse > 100, "only %llu deadlocks: not telling", (unsigned long long)sparse);
  for (unsigned threads = 2; threads <= 5; threads++) {
    uint64_t again = estimate_with(&config, &layout, DF_ENGINE_SPARSE, threads, 20000, 0).deadlocks;
    CHECK(again == sparse, "%u threads: %llu deadlocks, not %llu", threads,
          (unsigned long long)again, (unsigned long long)sparse);
    again = estimate_with(&config, &layout, DF_ENGINE_REFERENCE, threads, 40, 7).deadlocks;
    CHECK(again == streams, "reference, %u threads: %llu deadlocks, not %llu", threads,
          (unsigned long long)again, (unsigned long long)streams);
  }
  df_layout_destroy(&layout);
  df_config_destroy(&config);
}

enum { COMPARED = 250 };

typedef struct {
  bool verdict[COMPARED];
} verdicts;

static bool keep(void *context, uint64_t round, bool deadlock) {
  ((verdicts *)context)->verdict[round] = deadlock;
  return true;
}

DF_TEST(estimate, sparse_and_dense_agree_on_table_1, 120) {
  static const char *const rows[] = {"3d-4-4-4-single-1e-6", "3d-4-4-4-sync-4e-3-4e-3",
                                     "3d-4-4-4-double-sync-4e-3-4e-3", "free-32-64-single-1e-7"};
  const int compared = COMPARED / df_slowdown();
  int deadlocks = 0;
  for (int i = 0; i < 4; i++)
    for (int order = 0; order < 2; order++) {
      df_config config;
      df_layout layout;
      verdicts sparse, dense;
      OK(df_table1_config(row_named(rows[i]), (df_order)order, 11, &config));
      /* The probabilities are higher than in the table, so that a few rounds are enough. */
      config.disorder_probability *= i == 3 ? 10 : 4;
      OK(df_config_layout(&config, &layout));
      OK(df_estimate_verdicts(&config, &layout, DF_ENGINE_SPARSE, 0, compared, keep, &sparse));
      OK(df_estimate_verdicts(&config, &layout, DF_ENGINE_DENSE, 0, compared, keep, &dense));
      for (int round = 0; round < compared; round++) {
        CHECK(sparse.verdict[round] == dense.verdict[round], "%s, order %d, round %d: sparse %d",
              rows[i], order, round, sparse.verdict[round]);
        deadlocks += dense.verdict[round];
      }
      df_layout_destroy(&layout);
      df_config_destroy(&config);
    }
  CHECK(deadlocks * 20 > 8 * compared, "%d deadlocks in %d rounds: not telling", deadlocks,
        8 * compared);
}

DF_TEST(estimate, a_hundred_thousand_gpus, 120) {
  df_config config = {.model = DF_MODEL_SYNC,
                      .tp_size = 8,
                      .dp_size = 8,
                      .pp_size = 1563,
                      .tp_collectives = 40,
                      .dp_collectives = 40,
                      .disorder_probability = 1e-3,
                      .sync_probability = 1e-3,
                      .seed = 1};
  df_layout layout;
  OK(df_config_group_3d(&config, "test"));
  OK(df_config_layout(&config, &layout));
  CHECK(layout.gpu_count >= 100000 && layout.coll_first[layout.group_count] >= 1000000,
        "%u GPUs, %u collectives", layout.gpu_count, layout.coll_first[layout.group_count]);
  df_estimate estimate = estimate_with(&config, &layout, DF_ENGINE_SPARSE, 2, 2000, 0);
  CHECK(estimate.deadlocks > 10 && estimate.deadlocks < 1990, "%llu deadlocks",
        (unsigned long long)estimate.deadlocks);
  df_layout_destroy(&layout);
  df_config_destroy(&config);
}
