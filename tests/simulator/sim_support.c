#include "sim_support.h"

#include <stdio.h>
#include <stdlib.h>

uint64_t sim_random(uint64_t *state) {
  uint64_t mixed = *state += UINT64_C(0x9E3779B97F4A7C15);
  mixed = (mixed ^ (mixed >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
  mixed = (mixed ^ (mixed >> 27)) * UINT64_C(0x94D049BB133111EB);
  return mixed ^ (mixed >> 31);
}

/* The members of a group, in random order; at least one. */
static uint32_t draw_members(uint64_t *state, uint32_t gpus, uint32_t *members) {
  uint32_t count = 0, one_in = 1 + (uint32_t)(sim_random(state) % 3);
  for (uint32_t gpu = 0; gpu < gpus; gpu++)
    if (sim_random(state) % one_in == 0) members[count++] = gpu;
  if (count == 0) members[count++] = (uint32_t)(sim_random(state) % gpus);
  for (uint32_t i = count - 1; i > 0; i--) {
    uint32_t other = (uint32_t)(sim_random(state) % (i + 1)), kept = members[i];
    members[i] = members[other];
    members[other] = kept;
  }
  return count;
}

void sim_case_create(sim_case *created, uint64_t seed, uint32_t max_gpus, uint32_t max_groups,
                     uint32_t max_collectives) {
  static const double chances[] = {0, 0.001, 0.01, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 1.0};
  uint64_t state = seed;
  uint32_t gpus = 1 + (uint32_t)(sim_random(&state) % max_gpus);
  uint32_t groups = 1 + (uint32_t)(sim_random(&state) % max_groups);
  uint32_t *first = calloc(groups + 1u, sizeof *first), *counts = calloc(groups, sizeof *counts);
  uint32_t *members = calloc((size_t)groups * gpus, sizeof *members);
  if (!first || !counts || !members) abort();
  for (uint32_t group = 0; group < groups; group++) {
    first[group + 1] = first[group] + draw_members(&state, gpus, members + first[group]);
    counts[group] = (uint32_t)(sim_random(&state) % (max_collectives + 1));
  }
  df_order order = sim_random(&state) % 2 ? DF_ORDER_CONCAT : DF_ORDER_ROUNDROBIN;
  created->single = sim_random(&state) % 3 == 0;
  created->disorder = chances[sim_random(&state) % 11];
  created->sync = created->single ? 1.0 : chances[sim_random(&state) % 10];
  if (df_layout_create(&created->layout, order, gpus, groups, first, members, counts) !=
      dfcclSuccess) {
    fprintf(stderr, "%s\n", df_last_sentence());
    abort();
  }
  df_field_init(&created->field, sim_random(&state), created->layout.slot_count, created->disorder,
                created->sync);
  free(first);
  free(counts);
  free(members);
}

void sim_case_destroy(sim_case *created) { df_layout_destroy(&created->layout); }
