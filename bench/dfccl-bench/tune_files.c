/* Algorithms from files are ways like others: those of DFCCL_ALGORITHMS. */
#include <stdio.h>
#include <stdlib.h>

#include "common/cli.h"
#include "tune.h"

static df_file_directory all;
static char names[DF_TUNE_FILES][DF_FILE_NAME_BYTES + 8];

static void left_out(const char *sentence) { df_tool_error("left out: %s", sentence); }

void df_tune_read_files(void) {
  const char *directory = getenv("DFCCL_ALGORITHMS");
  if (directory && *directory) df_file_directory_read(&all, directory, left_out);
  for (uint32_t i = 0; i < all.n; i++)
    snprintf(names[i], sizeof names[i], "file:%s", df_plan_file_facts_of(all.files[i]).name);
}

const df_plan_file *df_tune_file(int way) {
  return way < DF_ALGORITHMS ? NULL : all.files[way - DF_ALGORITHMS];
}

bool df_tune_has(int way, df_operation operation, int n_ranks) {
  if (way < DF_ALGORITHMS) return df_algorithm_has(way, operation);
  if (way - DF_ALGORITHMS >= (int)all.n) return false;
  const df_plan_file_facts facts = df_plan_file_facts_of(df_tune_file(way));
  return facts.operation == operation && facts.n == (uint32_t)n_ranks;
}

const char *df_tune_name(int way) {
  return way < DF_ALGORITHMS ? df_algorithm_name(way) : names[way - DF_ALGORITHMS];
}
