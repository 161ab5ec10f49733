/* Algorithms from files are ways like others: those of DFCCL_ALGORITHMS. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cli.h"
#include "tune.h"

static df_plan_file *files[DF_TUNE_FILES];
static char names[DF_TUNE_FILES][DF_FILE_NAME_BYTES + 8];
static int n_files;

static int is_file(const struct dirent *entry) {
  const size_t length = strlen(entry->d_name);
  return entry->d_name[0] != '.' && length > 4 && strcmp(entry->d_name + length - 4, ".xml") == 0;
}

static void read_file(const char *directory, const char *name) {
  char path[4096], sentence[DF_SENTENCE_BYTES];
  snprintf(path, sizeof path, "%s/%s", directory, name);
  files[n_files] = df_plan_file_read(path, sentence, sizeof sentence);
  if (files[n_files] == NULL) {
    df_tool_error("left out: %s", sentence);
    return;
  }
  snprintf(names[n_files], sizeof names[n_files], "file:%s",
           df_plan_file_facts_of(files[n_files]).name);
  n_files++;
}

void df_tune_read_files(void) {
  const char *directory = getenv("DFCCL_ALGORITHMS");
  struct dirent **entries = NULL;
  const int n = directory && *directory ? scandir(directory, &entries, is_file, alphasort) : 0;
  for (int i = 0; i < n; i++) {
    if (n_files < DF_TUNE_FILES)
      read_file(directory, entries[i]->d_name);
    else
      df_tool_error("left out: %s: more than %d files", entries[i]->d_name, DF_TUNE_FILES);
    free(entries[i]);
  }
  free(entries);
}

void df_tune_free_files(void) {
  while (n_files > 0) df_plan_file_free(files[--n_files]);
}

const df_plan_file *df_tune_file(int way) {
  return way < DF_ALGORITHMS ? NULL : files[way - DF_ALGORITHMS];
}

bool df_tune_has(int way, df_operation operation, int n_ranks) {
  if (way < DF_ALGORITHMS) return df_algorithm_has(way, operation);
  if (way - DF_ALGORITHMS >= n_files) return false;
  const df_plan_file_facts facts = df_plan_file_facts_of(df_tune_file(way));
  return facts.operation == operation && facts.n == (uint32_t)n_ranks;
}

const char *df_tune_name(int way) {
  return way < DF_ALGORITHMS ? df_algorithm_name(way) : names[way - DF_ALGORITHMS];
}
