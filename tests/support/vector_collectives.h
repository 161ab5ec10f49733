/* Vector collectives (V), for tests: the counts of each pair, the buffers with gaps that must not
 * change, and the result that each member must receive. */
#ifndef DF_TESTS_SUPPORT_VECTOR_COLLECTIVES_H
#define DF_TESTS_SUPPORT_VECTOR_COLLECTIVES_H

#include "dfccl.h"
#include "support/harness.h"
#include "support/numbers.h"

enum { DF_VECTOR_MOST = 12 }; /* members */

typedef enum {
  DF_ALL_GATHER_V,
  DF_REDUCE_SCATTER_V, /* reductions: a sum of integers */
  DF_GATHER_V,
  DF_SCATTER_V,
  DF_ALL_TO_ALL_V,
  DF_NEIGHBOURS,
  DF_VECTOR_KINDS
} df_vector_kind;

/* All members have the same values. */
typedef struct {
  df_vector_kind kind;
  dfcclDataType_t type;
  int members, root;
  const int *group; /* NULL: ranks 0 to members - 1 */
  uint64_t seed;
  size_t counts[DF_VECTOR_MOST][DF_VECTOR_MOST]; /* from, to; by position */
} df_vector_coll;

/* Counts below `most`; a quarter of them are 0. */
void df_vector_draw(df_vector_coll *coll, df_vector_kind kind, dfcclDataType_t type, int members,
                    size_t most, df_random *random);

/* One member's buffers of one run. The collective must not move in memory while they exist. */
typedef struct {
  const df_vector_coll *coll;
  int position;
  bool in_place;
  uint64_t run;
  size_t sends[DF_VECTOR_MOST], send_at[DF_VECTOR_MOST];
  size_t receives[DF_VECTOR_MOST], recv_at[DF_VECTOR_MOST];
  size_t send_bytes, recv_bytes;
  char *send_area, *recv_area;
  void *send, *recv; /* for dfcclRun */
} df_vector_part;

bool df_vector_has_in_place(df_vector_kind kind);
/* Allocates and fills the buffers. */
void df_vector_make(df_vector_part *part, const df_vector_coll *coll, int position, uint64_t run,
                    bool in_place);
void df_vector_check(const df_vector_part *part); /* fails the test */
void df_vector_free(df_vector_part *part);

dfcclResult_t df_vector_register(dfcclContext_t ctx, dfcclCollId_t id, const df_vector_part *part);
dfcclResult_t df_vector_run(dfcclContext_t ctx, dfcclCollId_t id, df_vector_kind kind,
                            const void *send, void *recv, dfcclCallback_t callback, void *arg);

#endif
