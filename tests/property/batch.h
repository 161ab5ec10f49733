/* What the programs of one batch share: the contexts, and how they were configured. */
#ifndef DF_TESTS_PROPERTY_BATCH_H
#define DF_TESTS_PROPERTY_BATCH_H

#include "support/ranks.h"

enum { TUNABLES_MAX = 32 };

typedef struct {
  int ranks, blocks, queue_depth;
  size_t largest_bytes; /* for buffers: some hundred link slots at most */
  struct {
    const char *variable, *value; /* value NULL: not set */
  } tunables[TUNABLES_MAX];
  int tunable_count;
} batch;

/* preempt: force a preemption at every step. ranks 0: at random. */
void batch_make(batch *b, uint64_t seed, bool preempt, int ranks);
void batch_print(const batch *b);
/* Sets the environment; the configuration for dfcclInit is returned. */
dfcclConfig_t batch_apply(const batch *b);

#endif
