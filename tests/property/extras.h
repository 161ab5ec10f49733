/* Collectives that the slots of a program do not have: of uneven pieces, barriers, sends and
 * receives, and reductions by an operator of one's own. They live for one phase. */
#ifndef DF_TESTS_PROPERTY_EXTRAS_H
#define DF_TESTS_PROPERTY_EXTRAS_H

#include "program.h"
#include "support/buffers.h"
#include "support/vector_collectives.h"

typedef struct extra extra;

typedef struct {
  extra *owner;
  df_vector_part part;        /* of uneven pieces */
  size_t got[DF_VECTOR_MOST]; /* as a run of DYNAMIC is told */
  df_buffers buffers;         /* of others */
  bool with_callback;
  atomic_int calls;
} extra_run;

struct extra {
  const program_extra *shared; /* NULL: this rank does not take part */
  dfcclContext_t ctx;
  int submitted;
  dfcclCollId_t id;
  df_collective local; /* as this rank registers it */
  extra_run runs[RUNS_MAX];
};

/* Registers it, and makes the buffers of its runs. */
void extra_begin(extra *e, const program *p, int phase, int which, dfcclContext_t ctx, int rank,
                 df_random *random);
void extra_submit(extra *e);
/* Waits, checks every element, and deregisters. */
void extra_end(extra *e);

#endif
