/*
 * The model of an algorithm in an MSCCL file: blocks of steps that run concurrently on each rank.
 * The reader makes it, and all later passes rely on the invariants that are given here.
 */
#ifndef DF_PLANS_MSCCL_MODEL_H
#define DF_PLANS_MSCCL_MODEL_H

#include "base/attributes.h"
#include "context/descriptor.h"
#include "plans/operation.h"

/* The limits of one file. */
enum {
  DF_FILE_MOST_BYTES = 64 << 20,
  DF_FILE_MOST_RANKS = 64, /* the checker's limit */
  DF_FILE_MOST_BLOCKS = 4096,
  DF_FILE_MOST_CHANNELS = DF_MAX_CHANNELS,
  DF_FILE_MOST_STEPS = 1 << 18,
  DF_FILE_MOST_CHUNKS = 16384
};

typedef enum {
  DF_FILE_SEND,         /* s */
  DF_FILE_RECV,         /* r */
  DF_FILE_RECV_SEND,    /* rcs: also stores */
  DF_FILE_REDUCE_SEND,  /* rrs */
  DF_FILE_REDUCE_STORE, /* rrc */
  DF_FILE_REDUCE_BOTH,  /* rrcs */
  DF_FILE_COPY,         /* cpy */
  DF_FILE_REDUCE,       /* re: destination (op) source */
  DF_FILE_NOTHING,      /* nop: only waits */
  DF_FILE_KINDS
} df_file_kind;

static inline int df_file_receives(df_file_kind kind) {
  return kind >= DF_FILE_RECV && kind <= DF_FILE_REDUCE_BOTH;
}
static inline int df_file_sends(df_file_kind kind) {
  return kind == DF_FILE_SEND || kind == DF_FILE_RECV_SEND || kind == DF_FILE_REDUCE_SEND ||
         kind == DF_FILE_REDUCE_BOTH;
}
static inline int df_file_reads(df_file_kind kind) {
  return kind != DF_FILE_RECV && kind != DF_FILE_RECV_SEND && kind != DF_FILE_NOTHING;
}
static inline int df_file_reduces(df_file_kind kind) {
  return (kind >= DF_FILE_REDUCE_SEND && kind <= DF_FILE_REDUCE_BOTH) || kind == DF_FILE_REDUCE;
}
static inline int df_file_stores(df_file_kind kind) {
  return kind != DF_FILE_SEND && kind != DF_FILE_REDUCE_SEND && kind != DF_FILE_NOTHING;
}

typedef struct df_file_place {
  df_buffer buffer;
  uint32_t chunk;
} df_file_place;

typedef struct df_file_step {
  uint32_t line;
  df_file_kind kind;
  df_file_place source, destination; /* places that the step reads and stores */
  uint32_t count;                    /* number of chunks, side by side; at least 1 */
  int32_t after_block, after_step; /* the step waits until that block has executed that step; -1: no
                                      wait */
  int32_t order; /* the rank executes steps with lesser numbers first; -1: in any order */
} df_file_step;

typedef struct df_file_block {
  uint32_t line;
  int32_t id;
  int32_t send_to, recv_from; /* peer ranks; -1: none */
  uint32_t channel;
  uint32_t first, n_steps; /* range in `steps` */
} df_file_block;

typedef struct df_file_rank {
  uint32_t line; /* 0: the file has no <gpu> for this rank */
  uint32_t scratch_chunks, output_chunks;
  uint32_t first, n_blocks; /* range in `blocks`, by id */
} df_file_rank;

typedef struct df_file_model {
  char name[64];
  uint32_t line; /* line of <algo> */
  df_operation operation;
  uint32_t n, root;
  uint32_t chunks;      /* number of chunks of the larger buffer in one loop */
  uint32_t pieces;      /* number of chunks of each rank's part of it; not wide: equal to chunks */
  int in_place;         /* 1: input and output are one buffer */
  uint64_t least, most; /* sizes in bytes; most 0: no limit */
  df_file_rank *ranks;  /* [n] */
  df_file_block *blocks;
  df_file_step *steps;
  uint32_t n_blocks, n_steps, n_channels;
} df_file_model;

/* The diagnostic of a file: "FILE:LINE: why". The first one is kept. */
typedef struct df_file_diagnostic {
  const char *file;
  char *sentence;
  size_t bytes;
  int is_made;
  int no_memory; /* 1: out of memory, so the file has not been checked */
} df_file_diagnostic;

/* Records a diagnostic and returns 0. line 0: it concerns the file as a whole. */
int df_file_complain(df_file_diagnostic *diagnostic, uint32_t line, const char *format, ...)
    DF_PRINTF(3, 4);
int df_file_no_memory(df_file_diagnostic *diagnostic);

/* Returns 0 if the text is not such a file. Reads by libxml2, one call at a time. */
int df_file_parse(df_file_model *model, const char *text, size_t bytes,
                  df_file_diagnostic *diagnostic);
/* Called by the reader: sorts blocks, and checks the rules that involve several elements. Returns 0
 * if it has recorded a diagnostic. */
int df_file_model_finish(df_file_model *model, df_file_diagnostic *diagnostic);
void df_file_model_free(df_file_model *model);

/* The number of chunks of a buffer that steps may name. */
uint32_t df_file_chunks(const df_file_model *model, uint32_t rank, df_buffer buffer);

#endif
