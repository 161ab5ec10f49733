/* The calls that ranks make while something fails. */
#ifndef DF_TESTS_FAULTS_PLAY_H
#define DF_TESTS_FAULTS_PLAY_H

#include "support/harness.h"

enum { DF_PLAY_RANKS = 3 };

/*
 * A rank's whole life after it has a context: it registers every operation and a group, runs them
 * with callbacks from its own memory and from dfcclMemAlloc memory, waits, synchronises, queries,
 * frees and deregisters everything, and destroys the context. At the first call that fails it does
 * what an application would do: dfcclAbort, dfcclDestroy. The function checks that a failing call
 * has a sentence, that successful runs are right, that abort and destroy work, and that each
 * accepted run has had one callback. It returns the first error.
 */
dfcclResult_t df_play(dfcclContext_t ctx, int rank, int ranks);

/* A failing call must leave a sentence. */
void df_play_failed(const char *call, dfcclResult_t result);

#endif
