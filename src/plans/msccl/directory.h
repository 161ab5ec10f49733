/* The files of a directory in MSCCL's XML, for callers that try all of them. */
#ifndef DF_PLANS_MSCCL_DIRECTORY_H
#define DF_PLANS_MSCCL_DIRECTORY_H

#include "plans/msccl/file.h"

enum { DF_DIRECTORY_FILES = 32 };

typedef struct df_file_directory {
  uint32_t n;
  const df_plan_file *files[DF_DIRECTORY_FILES]; /* each file once; kept until the process ends */
} df_file_directory;

/* Reads the files that are named *.xml and that can be proved, in the order of their names.
 * left_out receives the reason for each other file, and for the files beyond DF_DIRECTORY_FILES.
 * Reading may take a second for each file. */
void df_file_directory_read(df_file_directory *all, const char *path,
                            void (*left_out)(const char *sentence));
/* A digest of all files, equal on ranks with the same files. 0: no files. */
uint64_t df_file_directory_digest(const df_file_directory *all);
/* NULL: there is no such file. */
const df_plan_file *df_file_directory_find(const df_file_directory *all, uint64_t hash);
/* The file NAME or NAME.xml. */
const df_plan_file *df_file_directory_named(const df_file_directory *all, const char *name);

#endif
