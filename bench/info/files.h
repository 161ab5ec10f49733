/* dfccl-info files, plan: algorithms from files, and as files. */
#ifndef DF_BENCH_INFO_FILES_H
#define DF_BENCH_INFO_FILES_H

#include <stdbool.h>

/* NULL: of DFCCL_ALGORITHMS. false: a file was refused, or there is no such directory. */
bool df_info_files(const char *directory, bool json);

typedef struct df_info_plan_question {
  const char *operation, *algorithm;
  long ranks, root, split;
} df_info_plan_question;
/* Prints XML. */
bool df_info_plan(const df_info_plan_question *question);

#endif
