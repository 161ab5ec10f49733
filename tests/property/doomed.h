/* A collective of all ranks that one of them aborts (dfcclAbortCollectives), in some phases, while
 * all other collectives continue. */
#ifndef DF_TESTS_PROPERTY_DOOMED_H
#define DF_TESTS_PROPERTY_DOOMED_H

#include "program.h"
#include "support/buffers.h"

typedef struct {
  df_buffers buffers;
  bool accepted;
  dfcclResult_t status;
  atomic_int calls;
} doomed_run;

typedef struct {
  const program_phase *phase; /* NULL: this phase has no such collective */
  dfcclContext_t ctx;
  int rank, submitted;
  dfcclCollId_t id;
  df_collective coll;
  doomed_run runs[RUNS_MAX];
} doomed;

/* Registers the collective, and allocates the buffers of its runs. */
void doomed_begin(doomed *d, const program *p, int phase, dfcclContext_t ctx, int rank);
void doomed_submit(doomed *d);
void doomed_abort(doomed *d); /* owned by the rank that aborts */
/* Checks that each run has ended, with its result if it succeeded, otherwise with the abort's
 * status. */
void doomed_end(doomed *d);

/* Whether a call that waits for all runs may return this status. */
bool doomed_explains(const doomed *d, dfcclResult_t result);

#endif
