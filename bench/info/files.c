#include "info/files.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/escape.h"
#include "base/limits.h"
#include "base/result.h"
#include "common/cli.h"
#include "plans/msccl/file.h"
#include "plans/msccl/export.h"

static int is_shown(const struct dirent *entry) {
  const size_t length = strlen(entry->d_name);
  return entry->d_name[0] != '.' && length > 4 && strcmp(entry->d_name + length - 4, ".xml") == 0;
}

static void print_fine(const df_plan_file_facts *f, const char *name, double ms) {
  printf("%-40s %-13s %3u ranks, %u chunks, %u channels; %u slots; at most %u primitives and %u "
         "links of a rank, %u scratch chunks; %s%s%s%s; proved in %.0f ms\n",
         name, df_operation_word(f->operation), f->n, f->chunks, f->channels, f->slots,
         f->primitives, f->links, f->scratch_chunks,
         f->has_rows ? "several chunks a message if short, " : "",
         f->lends ? f->lends_in_place ? "lends" : "lends out of place" : "lends nothing",
         df_operation_reduces(f->operation) && f->ordered ? ", in the group's order" : "",
         f->same_bits ? "" : ", ranks combine in different orders", ms);
}

static cJSON *fine_as_json(const df_plan_file_facts *f, double ms) {
  char hash[20];
  cJSON *one = cJSON_CreateObject();
  snprintf(hash, sizeof hash, "%016llx", (unsigned long long)f->hash);
  cJSON_AddStringToObject(one, "file", f->name);
  cJSON_AddStringToObject(one, "title", f->title);
  cJSON_AddStringToObject(one, "hash", hash);
  cJSON_AddStringToObject(one, "operation", df_operation_word(f->operation));
  const struct {
    const char *name;
    double value;
  } numbers[] = {{"ranks", f->n},
                 {"chunks", f->chunks},
                 {"channels", f->channels},
                 {"steps", f->steps},
                 {"slots", f->slots},
                 {"row_slots", f->row_slots},
                 {"primitives", f->primitives},
                 {"links", f->links},
                 {"scratch_chunks", f->scratch_chunks},
                 {"least_bytes", (double)f->least_bytes},
                 {"most_bytes", (double)f->most_bytes},
                 {"ms", ms}};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    cJSON_AddNumberToObject(one, numbers[i].name, numbers[i].value);
  const struct {
    const char *name;
    int value;
  } facts[] = {{"several_chunks", f->has_rows},
               {"ordered", f->ordered},
               {"same_bits", f->same_bits},
               {"lends", f->lends},
               {"lends_in_place", f->lends_in_place}};
  for (size_t i = 0; i < sizeof facts / sizeof *facts; i++)
    cJSON_AddBoolToObject(one, facts[i].name, facts[i].value);
  return one;
}

static bool show(const char *directory, const char *name, cJSON *fine, cJSON *refused) {
  char path[4096], sentence[DF_SENTENCE_BYTES], shown[512];
  snprintf(path, sizeof path, "%s/%s", directory, name);
  df_escape(shown, sizeof shown, name);
  const uint64_t before = df_clock_ns();
  df_plan_file *file = df_plan_file_read(path, sentence, sizeof sentence);
  const double ms = (double)(df_clock_ns() - before) / 1e6;
  if (file == NULL && refused) {
    cJSON *one = cJSON_CreateObject();
    cJSON_AddStringToObject(one, "file", name);
    cJSON_AddStringToObject(one, "why", sentence);
    cJSON_AddItemToArray(refused, one);
  } else if (file == NULL) {
    printf("%-40s refused: %s\n", shown, sentence);
  } else {
    const df_plan_file_facts facts = df_plan_file_facts_of(file);
    if (fine)
      cJSON_AddItemToArray(fine, fine_as_json(&facts, ms));
    else
      print_fine(&facts, shown, ms);
  }
  const bool is_fine = file != NULL;
  df_plan_file_free(file);
  return is_fine;
}

bool df_info_files(const char *directory, bool json) {
  if (directory == NULL) directory = getenv("DFCCL_ALGORITHMS");
  if (directory == NULL || *directory == '\0') {
    df_tool_error("name a directory, or set DFCCL_ALGORITHMS");
    return false;
  }
  struct dirent **entries = NULL;
  const int n = scandir(directory, &entries, is_shown, alphasort);
  if (n < 0) {
    df_tool_error("%s: %s", directory, strerror(errno));
    return false;
  }
  cJSON *object = json ? cJSON_CreateObject() : NULL;
  cJSON *fine = json ? cJSON_AddArrayToObject(object, "files") : NULL;
  cJSON *refused = json ? cJSON_AddArrayToObject(object, "refused") : NULL;
  int n_refused = 0;
  for (int i = 0; i < n; i++) {
    n_refused += !show(directory, entries[i]->d_name, fine, refused);
    free(entries[i]);
  }
  free(entries);
  if (json) return df_tool_print_json(object) && n_refused == 0;
  printf("%d files, %d refused\n", n, n_refused);
  return n_refused == 0;
}

bool df_info_plan(const df_info_plan_question *q) {
  char sentence[DF_SENTENCE_BYTES];
  const int operation = df_operation_by_word(q->operation);
  const int algorithm = df_algorithm_by_name(q->algorithm);
  if (operation < 0 || algorithm < 0 || !df_algorithm_has(algorithm, (df_operation)operation)) {
    char why[DF_ALGORITHM_SENTENCE_BYTES];
    if (operation < 0)
      df_tool_error("unknown operation '%s'", q->operation);
    else
      df_tool_error("%s", df_algorithm_explain(q->algorithm, operation, q->operation, why));
    return false;
  }
  if (q->root >= q->ranks) {
    df_tool_error("--root is %ld; it must be less than -n, %ld", q->root, q->ranks);
    return false;
  }
  const df_plan_key key = {.operation = (df_operation)operation,
                           .algorithm = algorithm,
                           .n = (uint32_t)q->ranks,
                           .root = (uint32_t)q->root,
                           .split = algorithm == DF_TWO_LEVEL || algorithm == DF_HIERARCHICAL ||
                                            algorithm == DF_BCUBE
                                        ? (uint32_t)q->split
                                        : 0};
  if (df_plan_export(&key, stdout, sentence, sizeof sentence) == dfcclSuccess) return true;
  df_tool_error("%s", sentence);
  return false;
}
