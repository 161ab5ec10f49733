/* The oracle: the paper's definition to the letter, for small configurations and tests.
 *
 * A collective part is one collective on one GPU. A part is invoked once the GPU submits it, and
 * executing once the GPU's queue lets it run. The collective is successful once it executes on
 * every member. Two kinds of edge: an executing part depends on those parts of the same collective
 * that do not execute yet; an invoked part depends on the executing parts ahead in the queue. After
 * every event a depth-first search looks for a circle. */
#ifndef DF_SIM_ENGINE_ORACLE_H
#define DF_SIM_ENGINE_ORACLE_H

#include "sequences.h"

/* *deadlock becomes true if the sequences deadlock. sweep_seed chooses the timing, which must not
 * matter: the GPU that submits its next event. Every member of a collective must run it. */
dfcclResult_t df_oracle_deadlocks(const df_sequences *sequences, uint64_t sweep_seed,
                                  bool *deadlock);

#endif
