/* The operations: who sends and who receives what. A *wide* buffer has a piece for each member. */
#ifndef DF_PLANS_OPERATION_H
#define DF_PLANS_OPERATION_H

#include "base/attributes.h"

/* Members compare these numbers. */
typedef enum {
  DF_OP_ALL_REDUCE,
  DF_OP_REDUCE,
  DF_OP_BROADCAST,
  DF_OP_ALL_GATHER,
  DF_OP_REDUCE_SCATTER,
  DF_OP_ALL_TO_ALL,
  DF_OP_GATHER,
  DF_OP_SCATTER,
  DF_OP_SEND_RECV, /* from position 0 of a group of two, or of one that copies */
  DF_OP_BARRIER,   /* of one byte, which nobody looks at */
  DF_OP_SCAN,
  DF_OP_EXCLUSIVE_SCAN, /* position 0 has no result */
  DF_OP_COUNT,
  /* Of uneven pieces: their plans are made from lists (plans/algorithms/piece_tables.h). */
  DF_OP_ALL_GATHER_V = DF_OP_COUNT,
  DF_OP_REDUCE_SCATTER_V,
  DF_OP_GATHER_V,
  DF_OP_SCATTER_V,
  DF_OP_ALL_TO_ALL_V,
  DF_OP_NEIGHBOURS,
  DF_OP_ALL_TO_ALL_DYNAMIC, /* AllToAll's plan; each pair has a count in each run */
  DF_OP_ALL
} df_operation;

const char *df_operation_name(df_operation operation); /* "AllReduce" */
const char *df_operation_word(df_operation operation); /* "allreduce" */
/* -1: no such word. Rules of the tuning table know the operations below DF_OP_COUNT. */
int df_operation_by_word(const char *word);

int df_operation_has_piece_table(df_operation operation);
int df_operation_reduces(df_operation operation);
int df_operation_is_scan(df_operation operation);
/* Position `root` is not like the others. */
int df_operation_has_root(df_operation operation);
/* A member's data need not come from all members. */
int df_operation_needs_agreement(df_operation operation);
/* Some members wait for nobody: these may be many runs ahead. */
int df_operation_runs_ahead(df_operation operation);
/* Its results are received, and never combined with what was there. */
int df_operation_only_overwrites(df_operation operation);
int df_operation_is_wide(df_operation operation, int output);
/* Does the buffer of the member at `position` matter? */
int df_operation_uses(df_operation operation, int output, uint32_t position, uint32_t root,
                      uint32_t n);

#endif
