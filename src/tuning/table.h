/*
 * Which algorithm, and how to cut, by operation, group size and bytes. The first rule that fits
 * counts. DFCCL_TUNING names a file whose rules come before the built-in ones, and may give numbers
 * that count more than those of the file (docs/TUNING.md).
 */
#ifndef DF_TUNING_TABLE_H
#define DF_TUNING_TABLE_H

#include "plans/msccl/file.h"
#include "plans/plan.h"
#include "tuning/policy.h"

typedef enum {
  DF_MEMORY_ANY,
  DF_MEMORY_PROCESS,        /* one process: any buffer may be lent */
  DF_MEMORY_HOST,           /* several processes */
  DF_MEMORY_OVERSUBSCRIBED, /* rules only: HOST, two members or more for each core */
  DF_MEMORY_CUDA            /* rules only: the members' devices are GPUs */
} df_memory_kind;

typedef struct df_rule {
  df_operation operation;
  df_algorithm algorithm;
  df_memory_kind memory;
  uint32_t ranks_least, ranks_most;
  uint64_t bytes_least, bytes_most; /* range of bytes of a rank's larger buffer */
  uint32_t blocks;                  /* 0: as many as the settings allow */
  uint32_t slot_bytes;              /* most payload; 0: as configured */
  uint32_t split;                   /* neighbours in a subgroup; 0: as configured */
  uint32_t file;              /* for DF_FROM_FILE: 1 + the index among the files of the table */
  const df_plan_file *loaded; /* NULL: not yet, and the rule never fits */
  uint32_t slots;             /* least of a link; 0: as configured */
  uint32_t copies;            /* 1: lends nothing */
} df_rule;

enum { DF_MAX_TUNING_RULES = 256, DF_MAX_TUNING_FILES = 32, DF_MAX_TUNING_BYTES = 1 << 20 };

typedef struct df_tuning {
  df_policy policy;
  uint32_t n_rules;      /* the user's table has so many */
  uint32_t n_calibrated; /* behind those, from the machine's calibration */
  df_rule rules[DF_MAX_TUNING_RULES];
  uint32_t lines[DF_MAX_TUNING_RULES]; /* line number of each rule in its file, from 1 on */
  uint32_t n_files;
  char files[DF_MAX_TUNING_FILES][DF_FILE_NAME_BYTES];
} df_tuning;

extern const df_rule df_built_in_rules[];
extern const uint32_t df_n_built_in_rules;

/* No rules, the library's numbers. */
void df_tuning_default(df_tuning *tuning);

/* 0: the text is not a valid table. Then *tuning is the default, and *sentence says why, as
 * "NAME:LINE: ...". */
int df_tuning_parse(df_tuning *tuning, const char *text, size_t bytes, const char *name,
                    char *sentence, size_t sentence_bytes);

/* Changes numbers of the table: "set:NAME=VALUE,NAME=VALUE,...", of which the last one of a name
 * counts. 0: one is not valid. Then *tuning is unchanged, and *sentence says why, as
 * "NUMBERS:WHICH: ...". */
#define DF_TUNING_NUMBERS "set:"
int df_tuning_set(df_tuning *tuning, const char *numbers, char *sentence, size_t sentence_bytes);

/* Reads the options of a rule, "slot=256K slots=8", to the rule's members; others stay as they are.
 * 0: one is not valid, and *sentence says why. */
int df_rule_read_options(df_rule *rule, const char *options, char *sentence, size_t sentence_bytes);

/* Reads and proves the files of all rules. 0: a file is wrong, and *sentence says why. */
int df_tuning_load_files(df_tuning *tuning, const char *directory, char *sentence,
                         size_t sentence_bytes);

/* No newline; returns what snprintf would. */
int df_rule_print(const df_rule *rule, char *line, size_t bytes);

/* The first line of every table. */
#define DF_TUNING_HEADER "dfccl-tuning 1"

#endif
