/* The operations: which members send and receive which data. A *wide* buffer has a piece for each
 * member. */
#ifndef DF_PLANS_OPERATION_H
#define DF_PLANS_OPERATION_H

#include "base/attributes.h"

/* Members compare these numbers. */
typedef enum {
#define DF_OPERATION(id, ...) DF_OP_##id,
#define DF_VECTOR_OPERATION(id, ...) DF_OP_##id,
#include "plans/operations.def"
  DF_OP_ALL,
  DF_OP_COUNT = DF_OP_ALL_GATHER_V /* the first vector operation */
} df_operation;

/* The words of operations.def have these values. */
typedef enum {
  DF_MEMBERS_NONE,
  DF_MEMBERS_ALL,
  DF_MEMBERS_ROOT,
  DF_MEMBERS_SENDER,
  DF_MEMBERS_RECEIVER,
  DF_MEMBERS_LATER
} df_operation_members;
enum { DF_PIECES_ONE, DF_PIECES_EACH };
typedef enum {
  DF_COMBINES_NONE,
  DF_COMBINES_ALL,
  DF_COMBINES_UP_TO,
  DF_COMBINES_BEFORE
} df_operation_combines;
enum { DF_ONE_WAY = 1, DF_COPIES = 2 };

const char *df_operation_name(df_operation operation); /* "AllReduce" */
const char *df_operation_word(df_operation operation); /* "allreduce" */
/* -1: unknown word. Rules of the tuning table exist only for the operations below DF_OP_COUNT. */
int df_operation_by_word(const char *word);

int df_operation_has_piece_table(df_operation operation);
int df_operation_reduces(df_operation operation);
int df_operation_is_scan(df_operation operation);
/* Number of inputs that a result at `position` of n combines: those of the first positions. 1: the
 * result is a copy. */
uint32_t df_operation_operands(df_operation operation, uint32_t position, uint32_t n);
/* Returns 1 if all members receive the same result of a reduction. */
int df_operation_has_one_result(df_operation operation);
/* For a vector operation, the operation that has the same buffers if all pieces are equal. For
 * others, the operation itself. */
df_operation df_operation_even(df_operation operation);
/* Returns 1 if the position `root` has a special role. */
int df_operation_has_root(df_operation operation);
/* Returns 1 if a member's data does not depend on all members, so that varying runs need an
 * agreement. */
int df_operation_needs_agreement(df_operation operation);
/* Returns 1 if some members wait for no other member; these may be many runs ahead. */
int df_operation_runs_ahead(df_operation operation);
/* Returns 1 if results are only received, and never combined with the former contents. */
int df_operation_only_overwrites(df_operation operation);
int df_operation_is_wide(df_operation operation, int output);
/* Returns 1 if the member at `position` uses its input or output buffer. */
int df_operation_uses(df_operation operation, int output, uint32_t position, uint32_t root,
                      uint32_t n);

#endif
