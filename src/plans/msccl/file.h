/*
 * Algorithms from files in MSCCL's XML. A file is read, ordered into one list a rank, and proved by
 * the checker (plans/check/check.h) before a collective may use it. Then it is an algorithm like any
 * other: for any count, any root, in place or not, and dfcclAvg.
 */
#ifndef DF_PLANS_MSCCL_FILE_H
#define DF_PLANS_MSCCL_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "plans/operation.h"

struct df_plan;
typedef struct df_plan_file df_plan_file;

enum { DF_FILE_NAME_BYTES = 64 };

/* What the checker has found. */
typedef struct df_plan_file_facts {
  const char *name, *title; /* of the file; as the file calls itself */
  uint64_t hash;            /* of its bytes: different files are never mixed */
  df_operation operation;
  uint32_t n, chunks, channels, steps;
  uint32_t slots;      /* least slots of a link */
  uint32_t primitives; /* most of a rank in one loop, one chunk a message */
  uint32_t links;      /* most of a rank, both directions */
  uint32_t scratch_chunks;
  uint64_t least_bytes, most_bytes; /* that the file is meant for; 0: no limit */
  int ordered;                      /* operands are combined in the group's order */
  int same_bits;                    /* all ranks combine in one order */
  int lends, lends_in_place;
  uint32_t row_slots; /* least slots if a message has several chunks */
  int has_rows;       /* messages of several chunks */
} df_plan_file_facts;

/* NULL: *sentence says why, as "NAME:LINE: ...". The caller frees it. */
df_plan_file *df_plan_file_make(const char *name, const char *text, size_t bytes, char *sentence,
                                size_t sentence_bytes);
void df_plan_file_free(df_plan_file *file);

df_plan_file_facts df_plan_file_facts_of(const df_plan_file *file);

/* NAME or NAME.xml of the directory. Kept until the process ends, and the same for the same bytes.
 * NULL: *sentence says why. Reads files, and may take a second. */
const df_plan_file *df_plan_file_find(const char *directory, const char *name, char *sentence,
                                      size_t sentence_bytes);
/* A file by its path. The caller frees it. */
df_plan_file *df_plan_file_read(const char *path, char *sentence, size_t sentence_bytes);

#endif
