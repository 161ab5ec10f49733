/*
 * Advice of a tuner plugin made for NCCL, or of a file in such a plugin's form: which of NCCL's
 * algorithms and protocols a collective should take, in the terms of this library. Pure: the input
 * is a table that the plugin has filled (tuner_plugin.h), or lines of a file.
 *
 *   tree, ring, pat      doubletree, ring, pat; the others cannot be chosen
 *   LL, Simple           flagged messages, which lend nothing; staged messages, or lent buffers
 *   LL128                messages by lines: no device has them yet, so it cannot be chosen
 *   channels, chunk size blocks, slot bytes
 */
#ifndef DF_TUNING_ADVICE_H
#define DF_TUNING_ADVICE_H

#include "base/text.h"
#include "plans/plan.h"

enum { DF_NCCL_ALGORITHMS = 7, DF_NCCL_PROTOCOLS = 3, DF_NCCL_CHANNELS = 64 };
enum { DF_NCCL_TREE = 0, DF_NCCL_RING = 1, DF_NCCL_PAT = 6 };
enum { DF_NCCL_LL = 0, DF_NCCL_LL128 = 1, DF_NCCL_SIMPLE = 2 };

typedef struct df_cost_table {
  float us[DF_NCCL_ALGORITHMS][DF_NCCL_PROTOCOLS]; /* -1: none */
} df_cost_table;

typedef enum { DF_FORM_AS_CONFIGURED, DF_FORM_FLAGGED, DF_FORM_STAGED } df_form_choice;

typedef enum {
  DF_ADVICE_NONE,      /* no plugin was asked */
  DF_ADVICE_TAKEN,     /* an algorithm */
  DF_ADVICE_NOT_GIVEN, /* blocks at most */
  DF_ADVICE_FAILED,    /* a call; `value`: its result */
  DF_ADVICE_ABSENT,    /* a cost of an absent choice; value: algorithm * 3 + protocol */
  DF_ADVICE_NO_COST,   /* not a number; value: likewise */
  DF_ADVICE_NO_CHOICE, /* invalid numbers; value: the algorithm's */
  DF_ADVICE_HALF,      /* an algorithm without a protocol, or a protocol without an algorithm */
  DF_ADVICE_CHANNELS,  /* value: how many */
  DF_ADVICE_CHUNK      /* value: bytes */
} df_advice_kind;

typedef struct df_advice {
  df_advice_kind kind;
  const char *source; /* name of the plugin or file; lives as long as the context */
  uint32_t line;      /* line of the file; 0: the advice of a plugin */
  int algorithm;      /* df_algorithm; -1: as without it */
  uint8_t nccl_algorithm, nccl_protocol;
  df_form_choice form;
  uint32_t blocks, slot_bytes; /* 0: as configured */
  long long value;
} df_advice;

typedef struct df_advice_question {
  df_operation operation;
  uint32_t n, n_hosts;
  uint64_t bytes; /* bytes of a rank's larger buffer */
  int reaches_buffers;
  uint32_t slot_bytes;             /* without advice */
  double tree_us, ring_us, pat_us; /* predicted; negative: no such plan */
} df_advice_question;

/* NCCL's number of the operation; -1: its plugins are not asked about it. */
int df_advice_function(df_operation operation);
int df_advice_algorithm(int nccl_algorithm); /* -1: the library has none */
const char *df_nccl_algorithm_name(int nccl_algorithm);
const char *df_nccl_protocol_name(int nccl_protocol);

/* A choice that the library has gets its predicted cost; all others get -1. */
void df_advice_fill(df_cost_table *table, const df_advice_question *question);
/* The least cost of what can be chosen, if the plugin changed any. `given`: what df_advice_fill
 * wrote. Fills kind, value, algorithm, form. */
void df_advice_choose(df_advice *advice, const df_cost_table *given, const df_cost_table *table);
/* Version 2 of the plugins names its choice; -1 of both: none. */
void df_advice_name(df_advice *advice, const df_cost_table *given, int algorithm, int protocol);
/* 0: as without a plugin. Refused unless from 0 to DF_NCCL_CHANNELS. */
void df_advice_channels(df_advice *advice, int channels);
void df_advice_chunk(df_advice *advice, size_t before, size_t after);

/* Why the algorithm, or what was refused: "since ..., which ...". */
void df_advice_say(const df_advice *advice, df_text *text);

/* ---- a file: collective,min,max,algorithm,protocol,channels,nNodes,nRanks,numPipeOps,regBuff */

enum { DF_MAX_CSV_LINES = 4096 };

typedef struct df_csv_line {
  uint32_t line;
  int function, algorithm, protocol, channels;  /* channels -1: as configured */
  int n_nodes, n_ranks, n_operations, reg_buff; /* -1: any */
  uint64_t least, most;
} df_csv_line;

typedef struct df_csv {
  uint32_t n;
  df_csv_line *lines;
} df_csv;

/* Returns 0 if the text is malformed; *sentence then says why, as "NAME:LINE: ...". The caller
 * calls df_csv_free in either case. */
int df_csv_parse(df_csv *csv, const char *text, size_t bytes, const char *name, char *sentence,
                 size_t sentence_bytes);
void df_csv_free(df_csv *csv);
/* The first line that fits and can be chosen. */
void df_csv_advise(const df_csv *csv, const df_advice_question *question, df_advice *advice);

#endif
