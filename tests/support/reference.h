/*
 * The reference: the result that a collective must deliver, with which every suite compares.
 *
 * Each element of each rank's contribution is a function of (seed, run, position, index), so each
 * rank can compute what it must receive without another rank's data. Copying collectives carry
 * random bit patterns. Reductions of integers use the whole range (they wrap). Reductions of floats
 * use small integers, chosen so that every partial result is exact in the type. The expected value
 * therefore does not depend on the order in which the library reduces, and is compared bit for bit.
 */
#ifndef DF_TESTS_SUPPORT_REFERENCE_H
#define DF_TESTS_SUPPORT_REFERENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dfccl.h"
#include "support/numbers.h"

/* First the kinds that allow a group of any size, then the others. */
typedef enum {
#define DF_KIND_ANY(id) DF_##id,
#define DF_KIND_OWN(id)
#define DF_OPERATION(id, name, word, family, inputs, outputs, input, output, combines, traits,     \
                     groups)                                                                       \
  DF_KIND_##groups(id)
#include "plans/operations.def"
  DF_KIND_COUNT,
  DF_BEFORE_OWN_KINDS = DF_KIND_COUNT - 1,
#undef DF_KIND_ANY
#undef DF_KIND_OWN
#define DF_KIND_ANY(id)
#define DF_KIND_OWN(id) DF_##id,
#define DF_OPERATION(id, name, word, family, inputs, outputs, input, output, combines, traits,     \
                     groups)                                                                       \
  DF_KIND_##groups(id)
#include "plans/operations.def"
#undef DF_KIND_ANY
#undef DF_KIND_OWN
  DF_ALL_KINDS
} df_kind;

/* A collective, for a test. group has members entries; NULL: ranks 0 to members - 1. */
typedef struct {
  df_kind kind;
  dfcclDataType_t type;
  dfcclRedOp_t op;
  int root; /* position in the group */
  size_t count;
  int members;
  const int *group;
  int priority;
  const char *algorithm, *name;
  bool varying; /* count is the largest one */
  uint64_t seed;
} df_collective;

/* Every name that options.algorithm may have. Not every algorithm has every kind
 * (dfcclInvalidArgument). */
extern const char *const df_algorithm_names[];
extern const int df_algorithm_names_count;

const char *df_kind_name(df_kind kind);
bool df_kind_reduces(df_kind kind);
bool df_kind_has_root(df_kind kind);
/* op, or an operator that the type and the kind have. */
dfcclRedOp_t df_kind_operator(df_kind kind, dfcclDataType_t type, dfcclRedOp_t op);

/* The group's member at a position, and the reverse (-1: not a member). */
int df_member(const df_collective *coll, int position);
int df_position(const df_collective *coll, int rank);

/* The number of elements of every member's send and receive buffer. */
size_t df_send_elements(const df_collective *coll);
size_t df_recv_elements(const df_collective *coll);
/* Whether the collective uses this member's buffer. */
bool df_sends(const df_collective *coll, int position);
bool df_receives(const df_collective *coll, int position);

/* Writes elements first to first + count - 1 of the member's contribution to a run. */
void df_contribution(const df_collective *coll, int position, uint64_t run, size_t first,
                     size_t count, void *out);
/* Writes elements first to first + count - 1 of the result that the member must receive. */
void df_expected(const df_collective *coll, int position, uint64_t run, size_t first, size_t count,
                 void *out);

/* Compares a received buffer with the expected one. On a difference returns false and writes the
 * place, both values, and the number of different elements. */
bool df_matches(const df_collective *coll, int position, uint64_t run, const void *received,
                char *sentence, size_t sentence_bytes);

/* "AllReduce of 100 float32 (sum) among 4 [3 1 0 2]" */
void df_describe(const df_collective *coll, char *text, size_t bytes);

#endif
