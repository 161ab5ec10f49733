/* Collectives that a program's slots do not have: vector collectives, barriers, sends and receives,
 * and reductions by a user-defined operator. They exist for one phase. */
#ifndef DF_TESTS_PROPERTY_EXTRAS_H
#define DF_TESTS_PROPERTY_EXTRAS_H

#include "program.h"
#include "support/buffers.h"
#include "support/vector_collectives.h"

typedef struct extra extra;

typedef struct {
  extra *owner;
  df_vector_part part;        /* the vector collective */
  size_t got[DF_VECTOR_MOST]; /* the counts that a run of DYNAMIC gets */
  df_buffers buffers;         /* the collective of another kind */
  bool with_callback;
  atomic_int calls;
} extra_run;

struct extra {
  const program_extra *shared; /* NULL: this rank is no member */
  dfcclContext_t ctx;
  int submitted;
  dfcclCollId_t id;
  df_collective local; /* as this rank registers it */
  extra_run runs[RUNS_MAX];
};

/* Registers the collective, and allocates the buffers of its runs. */
void extra_begin(extra *e, const program *p, int phase, int which, dfcclContext_t ctx, int rank,
                 df_random *random);
void extra_submit(extra *e);
/* Waits, checks every element, and deregisters. */
void extra_end(extra *e);

#endif
