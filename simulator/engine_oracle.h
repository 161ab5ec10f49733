/* The oracle: the paper's definition to the letter, for small configurations and tests.
 *
 * A collective part is one collective on one GPU. It is invoked when the GPU submits it, executing
 * when the GPU's queue lets it run, successful when it executes on every member. Two kinds of edge:
 * an executing part depends on the same collective's parts that do not execute yet; a part that is
 * invoked and does not execute depends on the executing parts that it queues behind. After every
 * event a depth-first search looks for a circle. */
#ifndef DF_SIM_ENGINE_ORACLE_H
#define DF_SIM_ENGINE_ORACLE_H

#include "sequences.h"

/* *deadlock tells whether the sequences deadlock. sweep_seed picks the timing, which must not
 * matter: which GPU submits its next event next. Every member of a collective must run it. */
dfcclResult_t df_oracle_deadlocks(const df_sequences *sequences, uint64_t sweep_seed,
                                  bool *deadlock);

#endif
