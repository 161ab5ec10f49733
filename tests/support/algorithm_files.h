/* Generates algorithms in MSCCL's XML for the tests of such files. */
#ifndef DF_TESTS_SUPPORT_ALGORITHM_FILES_H
#define DF_TESTS_SUPPORT_ALGORITHM_FILES_H

#include <stdio.h>

#include "support/reference.h"

typedef struct {
  const char *name; /* name of the file, without ".xml" */
  df_kind kind;
  void (*write)(FILE *out, int ranks);
} df_algorithm_file;

extern const df_algorithm_file df_algorithm_files[];
extern const int df_algorithm_files_count;

/* Writes all of them for that many ranks to a new directory, sets DFCCL_ALGORITHMS, and returns the
 * directory; the string is never freed. */
const char *df_algorithm_directory(int ranks);
/* Writes one file's text to the directory. */
void df_algorithm_write(const char *directory, const char *name, const char *text);
void df_algorithm_directory_remove(const char *directory);

#endif
