/* Random small layouts, shared by the simulator's tests. */
#ifndef DF_TESTS_SIM_SUPPORT_H
#define DF_TESTS_SIM_SUPPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "field.h"
#include "layout.h"

/* A small generator of its own (splitmix64), so that a case can be replayed from its seed. */
uint64_t sim_random(uint64_t *state);

typedef struct {
  df_layout layout;
  df_field field;
  bool single;
  double disorder, sync;
} sim_case;

/* A random round's parameters: up to max_gpus GPUs (groups of one GPU, of all, overlapping or not),
 * up to max_collectives in a group (possibly none), both orders, both models, probabilities 0 to
 * 1. */
void sim_case_create(sim_case *created, uint64_t seed, uint32_t max_gpus, uint32_t max_groups,
                     uint32_t max_collectives);
void sim_case_destroy(sim_case *created);

#endif
