/* What ranks do while something fails. */
#ifndef DF_TESTS_FAULTS_PLAY_H
#define DF_TESTS_FAULTS_PLAY_H

#include "support/harness.h"

enum { DF_PLAY_RANKS = 3 };

/*
 * A rank's whole life from its context on: registers every operation and a group, runs them with
 * callbacks from its own memory and from dfcclMemAlloc memory, waits, synchronises, looks, takes
 * everything back, destroys. At the first call that fails it gives up as an application would:
 * dfcclAbort, dfcclDestroy. Checks that a failing call has a sentence, that what succeeded is
 * right, that abort and destroy work, and that each accepted run has had one callback. Returns the
 * first error.
 */
dfcclResult_t df_play(dfcclContext_t ctx, int rank, int ranks);

/* A failing call must leave a sentence. */
void df_play_failed(const char *call, dfcclResult_t result);

#endif
