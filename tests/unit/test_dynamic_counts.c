/* The counts of a run with counts of its own: a refused call leaves nothing behind. */
#include "host/runs/dynamic_counts.h"

#include <stdlib.h>

#include "support/harness.h"

enum { MEMBERS = 3, COUNT = 8 };

DF_TEST(pair_counts, refused_calls_use_one_record, 30) {
  df_coll coll = {.n = MEMBERS, .count = COUNT, .id = 5};
  size_t counts[MEMBERS] = {1, COUNT + 1, 0};
  const df_given_counts given = {.send_counts = counts};
  for (int call = 0; call < 100; call++) {
    df_run run = {.count = (uint64_t)(uintptr_t)&given};
    RESULT(df_pair_counts_take(&coll, &run), dfcclInvalidArgument);
  }
  CHECK(coll.runs.n_dynamic_counts == 1, "%u records", coll.runs.n_dynamic_counts);
  free(coll.runs.dynamic_counts[0]);
  free(coll.runs.dynamic_counts);
}
