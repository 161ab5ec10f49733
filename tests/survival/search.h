#ifndef DF_SURVIVAL_SEARCH_H
#define DF_SURVIVAL_SEARCH_H

#include "world.h"

typedef struct {
  uint64_t states;
  double seconds;
  int failed, incomplete;
} search_result;

/* Visits all states of a world, until one fails, or the limits are reached. */
search_result search_all(const world_shape *shape, double seconds, uint64_t most_states);
/* One walk at random. fixed: the world; NULL: it is drawn from the seed. Returns 1 if it failed. */
int search_walk(uint64_t seed, const world_shape *fixed, uint64_t *steps);

#endif
