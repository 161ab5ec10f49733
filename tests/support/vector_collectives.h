/* Collectives of uneven pieces as a test sees them: who sends how much to whom, the buffers with
 * gaps that must not change, and what each member must receive. */
#ifndef DF_TESTS_SUPPORT_VECTOR_COLLECTIVES_H
#define DF_TESTS_SUPPORT_VECTOR_COLLECTIVES_H

#include "dfccl.h"
#include "support/harness.h"
#include "support/numbers.h"

enum { DF_UNEVEN_MOST = 12 }; /* members */

typedef enum {
  DF_ALL_GATHER_V,
  DF_REDUCE_SCATTER_V, /* sums; of integers */
  DF_GATHER_V,
  DF_SCATTER_V,
  DF_ALL_TO_ALL_V,
  DF_NEIGHBOURS,
  DF_UNEVEN_KINDS
} df_uneven_kind;

/* Known to all members alike. */
typedef struct {
  df_uneven_kind kind;
  dfcclDataType_t type;
  int members, root;
  const int *group; /* NULL: ranks 0 to members - 1 */
  uint64_t seed;
  size_t counts[DF_UNEVEN_MOST][DF_UNEVEN_MOST]; /* from, to; by position */
} df_uneven_coll;

/* Counts below `most`, a quarter of them 0. */
void df_uneven_draw(df_uneven_coll *coll, df_uneven_kind kind, dfcclDataType_t type, int members,
                    size_t most, df_random *random);

/* One member's buffers of one run. The collective must stay where it is as long. */
typedef struct {
  const df_uneven_coll *coll;
  int position;
  bool in_place;
  uint64_t run;
  size_t sends[DF_UNEVEN_MOST], send_at[DF_UNEVEN_MOST];
  size_t receives[DF_UNEVEN_MOST], recv_at[DF_UNEVEN_MOST];
  size_t send_bytes, recv_bytes;
  char *send_area, *recv_area;
  void *send, *recv; /* for dfcclRun */
} df_uneven_part;

bool df_uneven_has_in_place(df_uneven_kind kind);
/* Allocates and fills. */
void df_uneven_make(df_uneven_part *part, const df_uneven_coll *coll, int position, uint64_t run,
                    bool in_place);
void df_uneven_check(const df_uneven_part *part); /* fails the test */
void df_uneven_free(df_uneven_part *part);

dfcclResult_t df_uneven_register(dfcclContext_t ctx, dfcclCollId_t id, const df_uneven_part *part);
dfcclResult_t df_uneven_run(dfcclContext_t ctx, dfcclCollId_t id, df_uneven_kind kind,
                            const void *send, void *recv, dfcclCallback_t callback, void *arg);

#endif
