/* Which algorithm a collective uses, and how it is cut: by name, by the user's table, by the
 * built-in one. Every member must answer alike; they compare what follows from it. */
#ifndef DF_TUNING_CHOICE_H
#define DF_TUNING_CHOICE_H

#include "tuning/table.h"

typedef struct df_question {
  const char *name; /* NULL, "auto", or an algorithm's */
  df_operation operation;
  uint32_t n;
  uint64_t bytes;        /* of the larger of a rank's two buffers */
  df_memory_kind memory; /* DF_MEMORY_PROCESS or DF_MEMORY_HOST */
  uint32_t crowded;      /* 1: two members or more for each core that the context's ranks may use */
  uint32_t split;        /* as configured; 0: the library's choice */
} df_question;

typedef struct df_choice {
  int algorithm;
  uint32_t split;      /* of a plan's key */
  uint32_t blocks;     /* most blocks; 0: no other than configured */
  uint32_t slot_bytes; /* most payload of a slot; 0: as configured */
  const df_rule *rule; /* that fits, of the table or of the built-in one; NULL: named, no rule */
  int is_named;
} df_choice;

/* 0: the operation has no algorithm of that name. */
int df_choose(const df_tuning *tuning, const df_question *question, df_choice *choice);

/* The larger of a rank's buffers for `count`, as registered. */
uint64_t df_larger_buffer(df_operation operation, uint32_t n, uint64_t count,
                          uint32_t element_bytes);

/* Limits with what the choice says about them. */
df_shape_limits df_choice_limits(const df_choice *choice, df_shape_limits limits);

#endif
