/* Algorithms in MSCCL's XML, generated: what tests of such files run. */
#ifndef DF_TESTS_SUPPORT_ALGORITHM_FILES_H
#define DF_TESTS_SUPPORT_ALGORITHM_FILES_H

#include <stdio.h>

#include "support/reference.h"

typedef struct {
  const char *name; /* of the file, without ".xml" */
  df_kind kind;
  void (*write)(FILE *out, int ranks);
} df_algorithm_file;

extern const df_algorithm_file df_algorithm_files[];
extern const int df_algorithm_files_count;

/* All of them for so many ranks, in a new directory, which it returns; never freed. Sets
 * DFCCL_ALGORITHMS. */
const char *df_algorithm_directory(int ranks);
/* Writes one file's text there. */
void df_algorithm_write(const char *directory, const char *name, const char *text);
void df_algorithm_directory_remove(const char *directory);

#endif
