/* Ways of carrying a collective out, by numbers: the library's algorithms, files of
 * DFCCL_ALGORITHMS, algorithms with another slot size, and the library's own choice. */
#include <stdio.h>
#include <stdlib.h>

#include "common/cli.h"
#include "tune.h"

static df_file_directory all;
static char names[DF_TUNE_WAYS][DF_FILE_NAME_BYTES + 16], labels[DF_TUNE_WAYS][sizeof names[0]];

static void left_out(const char *sentence) { df_tool_error("left out: %s", sentence); }

/* Every algorithm is named with its slot size: a name alone would take the one of its built-in
 * rule, which a rule in a table does not have. */
static void name_algorithm(int way, uint32_t slot_bytes, bool is_usual) {
  const char *name = df_algorithm_name(df_tune_algorithm(way));
  snprintf(names[way], sizeof names[way], "%s slot=%uK", name, slot_bytes >> 10);
  if (is_usual)
    snprintf(labels[way], sizeof labels[way], "%s", name);
  else
    snprintf(labels[way], sizeof labels[way], "%s/%uK", name, slot_bytes >> 10);
}

void df_tune_name_ways(void) {
  const char *directory = getenv("DFCCL_ALGORITHMS");
  df_tuning standard;
  df_tuning_default(&standard);
  if (directory && *directory) df_file_directory_read(&all, directory, left_out);
  for (int way = 0; way < DF_TUNE_CHOICE; way++)
    if (df_tune_algorithm(way) < DF_ALGORITHMS)
      name_algorithm(way,
                     df_tune_slot_bytes(way) ? df_tune_slot_bytes(way)
                                             : (uint32_t)standard.policy.slot_bytes,
                     way < DF_ALGORITHMS);
  for (uint32_t i = 0; i < all.n; i++) {
    const int way = DF_ALGORITHMS + (int)i;
    snprintf(names[way], sizeof names[way], "file:%s", df_plan_file_facts_of(all.files[i]).name);
    snprintf(labels[way], sizeof labels[way], "%s", names[way]);
  }
  snprintf(names[DF_TUNE_CHOICE], sizeof names[0], "auto");
  snprintf(labels[DF_TUNE_CHOICE], sizeof labels[0], "auto");
}

int df_tune_algorithm(int way) {
  if (way < DF_ALGORITHMS) return way;
  return way < DF_TUNE_NAMED || way == DF_TUNE_CHOICE ? DF_FROM_FILE
                                                      : (way - DF_TUNE_NAMED) % DF_ALGORITHMS;
}

uint32_t df_tune_slot_bytes(int way) {
  static const uint32_t sizes[DF_TUNE_SLOT_SIZES] = {32 << 10, 64 << 10, 256 << 10, 512 << 10};
  if (way < DF_TUNE_NAMED || way == DF_TUNE_CHOICE) return 0;
  return sizes[(way - DF_TUNE_NAMED) / DF_ALGORITHMS];
}

int df_tune_with_slot(int algorithm, int i) {
  return DF_TUNE_NAMED + i * DF_ALGORITHMS + algorithm;
}

const df_plan_file *df_tune_file(int way) {
  const int file = way - DF_ALGORITHMS;
  return file < 0 || file >= (int)all.n ? NULL : all.files[file];
}

bool df_tune_has(int way, df_operation operation, int n_ranks) {
  if (way == DF_TUNE_CHOICE) return true;
  if (df_tune_algorithm(way) < DF_ALGORITHMS)
    return df_algorithm_has(df_tune_algorithm(way), operation);
  if (way - DF_ALGORITHMS >= (int)all.n) return false;
  const df_plan_file_facts facts = df_plan_file_facts_of(df_tune_file(way));
  return facts.operation == operation && facts.n == (uint32_t)n_ranks;
}

const char *df_tune_name(int way) { return names[way]; }
const char *df_tune_label(int way) { return labels[way]; }
