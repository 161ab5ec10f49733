#include "plans/msccl/directory.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/result.h"

static int is_file(const struct dirent *entry) {
  const size_t length = strlen(entry->d_name);
  return entry->d_name[0] != '.' && length > 4 && strcmp(entry->d_name + length - 4, ".xml") == 0;
}

static void add(df_file_directory *all, const char *path, const char *name,
                void (*left_out)(const char *sentence)) {
  char sentence[DF_SENTENCE_BYTES];
  if (all->n == DF_DIRECTORY_FILES) {
    snprintf(sentence, sizeof sentence, "%.64s: %d files are before it", name, DF_DIRECTORY_FILES);
    left_out(sentence);
    return;
  }
  if (name[strcspn(name, " \t\n\r#")] != '\0') {
    snprintf(sentence, sizeof sentence, "%.64s: a rule cannot name a file with a blank or \"#\"",
             name);
    left_out(sentence);
    return;
  }
  const df_plan_file *file = df_plan_file_find(path, name, sentence, sizeof sentence);
  if (file == NULL)
    left_out(sentence);
  else if (df_file_directory_find(all, df_plan_file_facts_of(file).hash) == NULL)
    all->files[all->n++] = file;
}

void df_file_directory_read(df_file_directory *all, const char *path,
                            void (*left_out)(const char *sentence)) {
  struct dirent **entries = NULL;
  *all = (df_file_directory){.n = 0};
  const int n = scandir(path, &entries, is_file, alphasort);
  if (n < 0) {
    char sentence[DF_SENTENCE_BYTES];
    snprintf(sentence, sizeof sentence, "%.200s: %s", path, strerror(errno));
    left_out(sentence);
    return;
  }
  for (int i = 0; i < n; i++) {
    add(all, path, entries[i]->d_name, left_out);
    free(entries[i]);
  }
  free(entries);
}

uint64_t df_file_directory_digest(const df_file_directory *all) {
  uint64_t sum = 0; /* names may differ between ranks, and therefore the order */
  for (uint32_t i = 0; i < all->n; i++) sum += df_plan_file_facts_of(all->files[i]).hash;
  return sum;
}

const df_plan_file *df_file_directory_find(const df_file_directory *all, uint64_t hash) {
  for (uint32_t i = 0; i < all->n; i++)
    if (df_plan_file_facts_of(all->files[i]).hash == hash) return all->files[i];
  return NULL;
}

const df_plan_file *df_file_directory_named(const df_file_directory *all, const char *name) {
  const size_t length = strlen(name);
  for (uint32_t i = 0; i < all->n; i++) {
    const char *own = df_plan_file_facts_of(all->files[i]).name;
    if (strncmp(own, name, length) == 0 && (!own[length] || strcmp(own + length, ".xml") == 0))
      return all->files[i];
  }
  return NULL;
}
