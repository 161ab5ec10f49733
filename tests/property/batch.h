/* The state that the programs of one batch share: the contexts and their configuration. */
#ifndef DF_TESTS_PROPERTY_BATCH_H
#define DF_TESTS_PROPERTY_BATCH_H

#include "support/ranks.h"

enum { TUNABLES_MAX = 32 };

typedef struct {
  int ranks, blocks, queue_depth;
  size_t largest_bytes; /* limit for buffers: some hundred slots of a link */
  struct {
    const char *variable, *value; /* value NULL: not set */
  } tunables[TUNABLES_MAX];
  int tunable_count;
} batch;

/* preempt: forces a preemption at every step. ranks 0: a random number. */
void batch_make(batch *b, uint64_t seed, bool preempt, int ranks);
/* The ranks, which are processes, lend whatever they can, also by calls. */
void batch_lend_by_calls(batch *b, uint64_t seed);
void batch_print(const batch *b);
/* Sets the environment, and returns the configuration for dfcclInit. */
dfcclConfig_t batch_apply(const batch *b);

#endif
