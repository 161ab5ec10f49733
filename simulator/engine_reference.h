/* The reference check: the published Python program's verdicts, reproduced draw for draw.
 *
 * The check differs from the definition (docs/SIMULATOR.md shows how). It exists to compare with
 * published numbers. GPUs are swept 0 .. n - 1, one event each a sweep; doubles are MT19937's, in
 * the published order: in the synchronisation model one for the sync, then one for each element
 * examined, the last included. */
#ifndef DF_SIM_ENGINE_REFERENCE_H
#define DF_SIM_ENGINE_REFERENCE_H

#include <stdbool.h>

#include "config.h"
#include "layout.h"
#include "mt19937.h"

typedef struct {
  uint32_t collective;
  uint32_t place; /* the GPU's membership: an index of layout->gpu_group[] */
} df_reference_slot;

/* The submissions of one GPU: all positions before next, except holes[]. */
typedef struct {
  const df_reference_slot *slot; /* by position */
  uint64_t next, length, left;   /* left: not submitted yet */
  uint64_t low;                  /* sync: everything before it is submitted and done */
  uint32_t *hole;                /* positions skipped, ascending */
  uint32_t hole_count, hole_room;
  uint32_t undone; /* sync: submitted and not done */
  bool hung;       /* sync */
} df_reference_gpu;

typedef struct {
  const df_layout *layout;
  df_model model;
  uint64_t disorder, sync; /* probabilities, as bounds on 53-bit integers */
  int64_t resource_limit;
  df_mt19937 random;
  df_reference_slot *slot;
  df_reference_gpu *gpu;
  uint32_t hung_count;   /* sync */
  uint32_t *submissions; /* sync: collective -> members that submitted it */
  uint32_t *outstanding; /* single: group -> its outstanding collective */
  uint32_t *outstanding_count;
  uint64_t *lap;           /* single: group -> times its outstanding list was cleared, and 1 */
  uint64_t *submitted_lap; /* single: membership -> the lap in which the GPU is in that list */
  uint32_t *full_members;  /* sync: group -> members with resource_limit collectives undone */
  uint32_t full_groups;
} df_reference;

/* layout must outlive the engine. seed is what the published program passes to random.seed. */
dfcclResult_t df_reference_create(df_reference *reference, const df_layout *layout,
                                  const df_config *config, uint64_t seed);

/* Continues the stream: the same random numbers, one round further. */
dfcclResult_t df_reference_round(df_reference *reference, bool *deadlock);

/* The same check on a given order of collectives for each GPU (expected order numbers), without
 * chance: only for the single-queue model, and for tests. orders holds slot_count collectives. */
bool df_reference_single_orders(df_reference *reference, const uint32_t *orders);

/* Starts a new stream. */
void df_reference_seed(df_reference *reference, uint64_t seed);
void df_reference_destroy(df_reference *reference);

#endif
