/* The files of a directory in MSCCL's XML, for who tries them all. */
#ifndef DF_PLANS_MSCCL_DIRECTORY_H
#define DF_PLANS_MSCCL_DIRECTORY_H

#include "plans/msccl/file.h"

enum { DF_DIRECTORY_FILES = 32 };

typedef struct df_file_directory {
  uint32_t n;
  const df_plan_file *files[DF_DIRECTORY_FILES]; /* each once; kept until the process ends */
} df_file_directory;

/* Those that are named *.xml, and proved, in the order of their names. Of any other left_out hears
 * why, and of those after DF_DIRECTORY_FILES. Reads files, and may take a second for each. */
void df_file_directory_read(df_file_directory *all, const char *path,
                            void (*left_out)(const char *sentence));
/* Of all of them: equal where they are the same. 0: none. */
uint64_t df_file_directory_digest(const df_file_directory *all);
/* NULL: there is none. */
const df_plan_file *df_file_directory_find(const df_file_directory *all, uint64_t hash);
/* NAME or NAME.xml. */
const df_plan_file *df_file_directory_named(const df_file_directory *all, const char *name);

#endif
