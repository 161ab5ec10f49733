/*
 * Promises of bench/dfccl-bench/tune_table.c about rules between two measured sizes of which the
 * best algorithms differ:
 *   - Each algorithm is used half way to the other size, if it is not much slower there.
 *   - An algorithm that is much slower at the other size is not used in between.
 *   - If both are, a third algorithm that is good at both sizes is used in between.
 *   - All sizes have a rule, whatever was measured.
 */
#include "dfccl-bench/tune.h"

#include <stdlib.h>

#include "support/harness.h"

/* Without files. */
bool df_tune_has(int way, df_operation operation, int n_ranks) {
  (void)n_ranks;
  return way < DF_ALGORITHMS && df_algorithm_has(way, operation);
}
const char *df_tune_label(int way) { return df_algorithm_name(way); }
int df_tune_algorithm(int way) { return way < DF_ALGORITHMS ? way : DF_FROM_FILE; }
uint32_t df_tune_slot_bytes(int way) {
  (void)way;
  return 0;
}
const df_plan_file *df_tune_file(int way) {
  (void)way;
  return NULL;
}

enum { SMALL = 1024, LARGE = 16384 };

/* Times of ring, direct and flat, at both sizes. */
static df_tune_series series_of(const double us[2][3]) {
  static const int paths[] = {DF_RING, DF_DIRECT, DF_FLAT};
  df_tune_series series = {.operation = DF_OP_ALL_REDUCE, .n_ranks = 4, .n_sizes = 2};
  for (int size = 0; size < 2; size++) {
    series.sizes[size].bytes = size ? LARGE : SMALL;
    for (int i = 0; i < 3; i++) series.sizes[size].us[paths[i]] = us[size][i];
  }
  return series;
}

/* The algorithm for a message of that size. */
static int way_at(const df_tune_series *series, uint64_t bytes) {
  static df_tuning tuning;
  char *text = NULL, sentence[300] = "";
  size_t length = 0;
  FILE *file = open_memstream(&text, &length);
  CHECK(file != NULL, "no memory");
  fprintf(file, "%s\n", DF_TUNING_HEADER);
  df_tune_write_rules(file, series, 1, DF_MAX_RANKS);
  fclose(file);
  CHECK(df_tuning_parse(&tuning, text, length, "table", sentence, sizeof sentence), "%s: %s",
        sentence, text);
  for (uint32_t i = 0; i < tuning.n_rules; i++)
    if (bytes >= tuning.rules[i].bytes_least && bytes <= tuning.rules[i].bytes_most) {
      free(text);
      return tuning.rules[i].algorithm;
    }
  CHECK(0, "no rule for %llu bytes: %s", (unsigned long long)bytes, text);
  return -1;
}

DF_TEST(tune_table, ways_share_what_lies_between, 30) {
  const df_tune_series series = series_of((const double[2][3]){{1, 1.2, 2}, {1.2, 1, 2}});
  CHECK(way_at(&series, 0) == DF_RING && way_at(&series, SMALL) == DF_RING, "the smaller size");
  CHECK(way_at(&series, 4096) == DF_RING && way_at(&series, 4097) == DF_DIRECT, "half way");
  CHECK(way_at(&series, LARGE) == DF_DIRECT && way_at(&series, UINT64_MAX) == DF_DIRECT,
        "the larger size");
}

DF_TEST(tune_table, a_way_keeps_from_where_it_is_slow, 30) {
  df_tune_series series = series_of((const double[2][3]){{1, 1.2, 2}, {5, 1, 2}});
  CHECK(way_at(&series, SMALL) == DF_RING && way_at(&series, SMALL + 1) == DF_DIRECT,
        "the ring goes on");
  series = series_of((const double[2][3]){{1, 5, 2}, {1.2, 1, 2}});
  CHECK(way_at(&series, LARGE - 1) == DF_RING && way_at(&series, LARGE) == DF_DIRECT,
        "direct begins early");
}

DF_TEST(tune_table, a_third_one_is_good_at_both, 30) {
  df_tune_series series = series_of((const double[2][3]){{1, 5, 1.2}, {5, 1, 1.2}});
  CHECK(way_at(&series, SMALL) == DF_RING && way_at(&series, SMALL + 1) == DF_FLAT &&
            way_at(&series, LARGE - 1) == DF_FLAT && way_at(&series, LARGE) == DF_DIRECT,
        "%d, %d", way_at(&series, SMALL + 1), way_at(&series, LARGE - 1));
  series = series_of((const double[2][3]){{1, 0, 0}, {0, 1, 0}});
  for (uint64_t bytes = 1; bytes < 2 * LARGE; bytes++)
    CHECK(way_at(&series, bytes) == (bytes <= SMALL ? DF_RING : DF_DIRECT),
          "nothing is good at both");
}
