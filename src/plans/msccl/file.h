/*
 * Algorithms from files in MSCCL's XML. A file is read, ordered into one list per rank, and proved
 * by the checker (plans/check/check.h) before a collective may use it. Then it is an algorithm like
 * any other: for any count and root, in place or not, and for dfcclAvg.
 */
#ifndef DF_PLANS_MSCCL_FILE_H
#define DF_PLANS_MSCCL_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "plans/operation.h"

struct df_plan;
typedef struct df_plan_file df_plan_file;

enum { DF_FILE_NAME_BYTES = 64 };

/* The facts about a file that the checker has found. */
typedef struct df_plan_file_facts {
  const char *name, *title; /* name of the file, and the name inside the file */
  uint64_t hash;            /* hash of its bytes, so that different files are never mixed */
  df_operation operation;
  uint32_t n, chunks, channels, steps;
  uint32_t slots;      /* least number of slots of a link */
  uint32_t primitives; /* largest number of a rank in one loop, with one chunk per message */
  uint32_t links;      /* largest number of a rank, in both directions */
  uint32_t scratch_chunks;
  uint64_t least_bytes, most_bytes; /* sizes for which the file is meant; 0: no limit */
  int ordered;                      /* operands are combined in the group's order */
  int same_bits;                    /* all ranks combine in one order */
  int lends, lends_in_place;
  uint32_t row_slots; /* least number of slots if a message has several chunks */
  int has_rows;       /* 1: there is a list whose messages have several chunks */
} df_plan_file_facts;

/* NULL: *sentence gives the reason, as "NAME:LINE: ...". The caller frees the result. */
df_plan_file *df_plan_file_make(const char *name, const char *text, size_t bytes, char *sentence,
                                size_t sentence_bytes);
void df_plan_file_free(df_plan_file *file);

df_plan_file_facts df_plan_file_facts_of(const df_plan_file *file);

/* The file NAME or NAME.xml of the directory. It is kept until the process ends, once for the same
 * bytes. NULL: *sentence gives the reason. The call reads files and may take a second. */
const df_plan_file *df_plan_file_find(const char *directory, const char *name, char *sentence,
                                      size_t sentence_bytes);
/* A file by its path. The caller frees the result. */
df_plan_file *df_plan_file_read(const char *path, char *sentence, size_t sentence_bytes);

#endif
