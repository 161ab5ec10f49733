#include "engine_reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim_limits.h"

/* A double is k / 2^53; it is below p exactly if k is below p * 2^53 rounded up. */
static uint64_t bound_of(double probability) { return (uint64_t)ceil(probability * 0x1p53); }

static inline bool chance(df_reference *reference, uint64_t bound) {
  return df_mt19937_bits53(&reference->random) < bound;
}

static bool allocate(df_reference *reference) {
  const df_layout *layout = reference->layout;
  size_t groups = layout->group_count + 1u, colls = layout->coll_first[layout->group_count] + 1u;
  size_t memberships = layout->gpu_group_first[layout->gpu_count] + 1u;
  reference->slot = malloc((layout->slot_count + 1) * sizeof *reference->slot);
  reference->gpu = calloc(layout->gpu_count + 1u, sizeof *reference->gpu);
  reference->submissions = malloc(colls * sizeof *reference->submissions);
  reference->outstanding = malloc(groups * sizeof *reference->outstanding);
  reference->outstanding_count = malloc(groups * sizeof *reference->outstanding_count);
  reference->lap = malloc(groups * sizeof *reference->lap);
  reference->submitted_lap = calloc(memberships, sizeof *reference->submitted_lap);
  reference->full_members = malloc(groups * sizeof *reference->full_members);
  return reference->slot && reference->gpu && reference->submissions && reference->outstanding &&
         reference->outstanding_count && reference->lap && reference->submitted_lap &&
         reference->full_members;
}

void df_reference_destroy(df_reference *reference) {
  for (uint32_t gpu = 0; reference->gpu && gpu < reference->layout->gpu_count; gpu++)
    free(reference->gpu[gpu].hole);
  free(reference->slot);
  free(reference->gpu);
  free(reference->submissions);
  free(reference->outstanding);
  free(reference->outstanding_count);
  free(reference->lap);
  free(reference->submitted_lap);
  free(reference->full_members);
  memset(reference, 0, sizeof *reference);
}

/* Each slot's collective and membership. */
static dfcclResult_t list_slots(df_reference *reference) {
  const df_layout *layout = reference->layout;
  uint32_t *expected = malloc((layout->slot_count + 1) * sizeof *expected);
  if (!expected) return df_fail(dfcclOutOfMemory, "no memory for the GPUs' expected orders");
  for (uint32_t gpu = 0; gpu < layout->gpu_count; gpu++) {
    uint64_t first = layout->slot_first[gpu], end = layout->slot_first[gpu + 1];
    uint32_t low = layout->gpu_group_first[gpu], last = layout->gpu_group_first[gpu + 1];
    df_layout_expected(layout, gpu, expected + first);
    for (uint64_t slot = first; slot < end; slot++) {
      uint32_t from = low, to = last - 1;
      while (from < to) { /* groups ascend, and so do their collectives' numbers */
        uint32_t middle = from + (to - from + 1) / 2;
        if (layout->coll_first[layout->gpu_group[middle]] <= expected[slot])
          from = middle;
        else
          to = middle - 1;
      }
      reference->slot[slot] = (df_reference_slot){expected[slot], from};
    }
    reference->gpu[gpu].slot = reference->slot + first;
  }
  free(expected);
  return dfcclSuccess;
}

dfcclResult_t df_reference_create(df_reference *reference, const df_layout *layout,
                                  const df_config *config, uint64_t seed) {
  memset(reference, 0, sizeof *reference);
  if (layout->slot_count > DF_SIM_MAX_DENSE_EVENTS)
    return df_fail(dfcclInvalidArgument,
                   "the reference check holds all %llu events of a round in memory; at most %llu",
                   (unsigned long long)layout->slot_count,
                   (unsigned long long)DF_SIM_MAX_DENSE_EVENTS);
  reference->layout = layout;
  reference->model = config->model;
  reference->disorder = bound_of(config->disorder_probability);
  reference->sync = bound_of(config->sync_probability);
  reference->resource_limit = config->resource_limit;
  if (!allocate(reference)) {
    df_reference_destroy(reference);
    return df_fail(dfcclOutOfMemory, "no memory for the reference check of %llu events",
                   (unsigned long long)layout->slot_count);
  }
  dfcclResult_t result = list_slots(reference);
  if (result != dfcclSuccess) {
    df_reference_destroy(reference);
    return result;
  }
  df_reference_seed(reference, seed);
  return dfcclSuccess;
}

void df_reference_seed(df_reference *reference, uint64_t seed) {
  df_mt19937_seed(&reference->random, seed);
}

static void reset(df_reference *reference) {
  const df_layout *layout = reference->layout;
  for (uint32_t i = 0; i < layout->gpu_count; i++) {
    df_reference_gpu *gpu = &reference->gpu[i];
    gpu->length = gpu->left = df_layout_gpu_slots(layout, i);
    gpu->next = gpu->low = 0;
    gpu->hole_count = gpu->undone = 0;
    gpu->hung = false;
  }
  reference->hung_count = reference->full_groups = 0;
  memset(reference->submissions, 0,
         layout->coll_first[layout->group_count] * sizeof *reference->submissions);
  memset(reference->full_members, 0, layout->group_count * sizeof *reference->full_members);
  memset(reference->outstanding_count, 0,
         layout->group_count * sizeof *reference->outstanding_count);
  for (uint32_t group = 0; group < layout->group_count; group++) reference->lap[group] = 1;
  memset(reference->submitted_lap, 0,
         layout->gpu_group_first[layout->gpu_count] * sizeof *reference->submitted_lap);
}

static bool add_hole(df_reference_gpu *gpu, uint32_t position) {
  if (gpu->hole_count == gpu->hole_room) {
    uint32_t room = gpu->hole_room ? 2 * gpu->hole_room : 8;
    uint32_t *grown = realloc(gpu->hole, room * sizeof *grown);
    if (!grown) return false;
    gpu->hole = grown;
    gpu->hole_room = room;
  }
  gpu->hole[gpu->hole_count++] = position;
  return true;
}

/* decide() after a first draw that skips, or if elements were skipped before. */
static uint64_t decide_disordered(df_reference *reference, df_reference_gpu *gpu, bool skip) {
  uint64_t index = 0;
  while (skip && index + 1 < gpu->left) {
    index++;
    skip = chance(reference, reference->disorder);
  }
  gpu->left--;
  if (index < gpu->hole_count) {
    uint32_t position = gpu->hole[index];
    gpu->hole_count--;
    memmove(gpu->hole + index, gpu->hole + index + 1,
            (gpu->hole_count - index) * sizeof *gpu->hole);
    return position;
  }
  while (gpu->hole_count < index)
    if (!add_hole(gpu, (uint32_t)gpu->next++)) return UINT64_MAX;
  return gpu->next++;
}

/* Draws until an element of the remainder is taken; its position, or UINT64_MAX without memory. */
static inline uint64_t decide(df_reference *reference, df_reference_gpu *gpu) {
  bool skip = chance(reference, reference->disorder);
  if (skip || gpu->hole_count > 0) return decide_disordered(reference, gpu, skip);
  gpu->left--;
  return gpu->next++;
}

/* Single queue: true if a group's outstanding list now holds two different collectives. A
 * collective decided while the GPU is in that list is dropped. */
static bool submit_single(df_reference *reference, df_reference_slot slot) {
  uint32_t group = reference->layout->gpu_group[slot.place];
  if (reference->submitted_lap[slot.place] == reference->lap[group]) return false;
  reference->submitted_lap[slot.place] = reference->lap[group];
  if (reference->outstanding_count[group]++ == 0) reference->outstanding[group] = slot.collective;
  if (reference->outstanding[group] != slot.collective) return true;
  if (reference->outstanding_count[group] == df_layout_group_size(reference->layout, group)) {
    reference->outstanding_count[group] = 0;
    reference->lap[group]++;
  }
  return false;
}

/* GPUs take turns, and each GPU's next slot is far from its neighbour's: slots are fetched ahead,
 * during other GPUs' turns. */
static inline void fetch_ahead(const df_reference *reference, uint32_t gpu) {
  enum { AHEAD = 6 };
  if (gpu + AHEAD >= reference->layout->gpu_count) return;
  const df_reference_gpu *state = &reference->gpu[gpu + AHEAD];
  __builtin_prefetch(state->slot + state->next);
}

static dfcclResult_t round_single(df_reference *reference, bool *deadlock) {
  const df_layout *layout = reference->layout;
  for (bool busy = true; busy;) {
    busy = false;
    for (uint32_t i = 0; i < layout->gpu_count; i++) {
      df_reference_gpu *gpu = &reference->gpu[i];
      fetch_ahead(reference, i);
      if (gpu->left == 0) continue;
      uint64_t position = decide(reference, gpu);
      if (position == UINT64_MAX) return df_fail(dfcclOutOfMemory, "no memory for a disorder");
      *deadlock = submit_single(reference, gpu->slot[position]);
      if (*deadlock) return dfcclSuccess;
      busy |= gpu->left > 0;
    }
  }
  return dfcclSuccess;
}

bool df_reference_single_orders(df_reference *reference, const uint32_t *orders) {
  const df_layout *layout = reference->layout;
  reset(reference);
  for (bool busy = true; busy;) {
    busy = false;
    for (uint32_t i = 0; i < layout->gpu_count; i++) {
      df_reference_gpu *gpu = &reference->gpu[i];
      if (gpu->left == 0) continue;
      uint32_t collective = orders[layout->slot_first[i] + (gpu->length - gpu->left--)];
      const df_reference_slot *slot = gpu->slot;
      while (slot->collective != collective) slot++;
      if (submit_single(reference, *slot)) return true;
      busy |= gpu->left > 0;
    }
  }
  return false;
}

/* Keeps count of the GPUs at the resource limit. */
static void count_full(df_reference *reference, uint32_t gpu, uint32_t before) {
  const df_layout *layout = reference->layout;
  uint32_t after = reference->gpu[gpu].undone;
  bool was_full = before >= reference->resource_limit, full = after >= reference->resource_limit;
  if (was_full == full) return;
  for (uint32_t i = layout->gpu_group_first[gpu]; i < layout->gpu_group_first[gpu + 1]; i++) {
    uint32_t group = layout->gpu_group[i], size = df_layout_group_size(layout, group);
    reference->full_groups -= reference->full_members[group] == size;
    reference->full_members[group] += full ? 1u : -1u;
    reference->full_groups += reference->full_members[group] == size;
  }
}

static inline void change_undone(df_reference *reference, uint32_t gpu, int change) {
  uint32_t before = reference->gpu[gpu].undone;
  reference->gpu[gpu].undone = before + (uint32_t)change;
  if (reference->resource_limit > 0) count_full(reference, gpu, before);
}

static void submit_sync(df_reference *reference, uint32_t gpu, df_reference_slot slot) {
  const df_layout *layout = reference->layout;
  uint32_t group = layout->gpu_group[slot.place];
  change_undone(reference, gpu, 1);
  if (++reference->submissions[slot.collective] < df_layout_group_size(layout, group)) return;
  for (uint32_t i = layout->member_first[group]; i < layout->member_first[group + 1]; i++) {
    uint32_t member = layout->member[i];
    change_undone(reference, member, -1);
    if (!reference->gpu[member].hung || reference->gpu[member].undone > 0) continue;
    reference->gpu[member].hung = false;
    reference->hung_count--;
  }
}

static bool has_submitted(const df_reference_gpu *gpu, uint64_t position) {
  if (position >= gpu->next) return false;
  for (uint32_t i = 0; i < gpu->hole_count; i++)
    if (gpu->hole[i] == position) return false;
  return true;
}

/* True if `from` has submitted an undone collective that another hung GPU has not submitted.
 * `only`: look at that GPU alone, unless UINT32_MAX. */
static bool awaits_hung(df_reference *reference, uint32_t from, uint32_t only) {
  const df_layout *layout = reference->layout;
  df_reference_gpu *gpu = &reference->gpu[from];
  uint32_t found = 0;
  for (uint64_t position = gpu->low; position < gpu->next && found < gpu->undone; position++) {
    uint32_t collective = gpu->slot[position].collective;
    uint32_t group = layout->gpu_group[gpu->slot[position].place];
    bool done = reference->submissions[collective] == df_layout_group_size(layout, group);
    if (done && position == gpu->low) gpu->low++;
    if (done || !has_submitted(gpu, position)) continue;
    found++;
    for (uint32_t i = layout->member_first[group]; i < layout->member_first[group + 1]; i++) {
      uint32_t member = layout->member[i];
      if (member == from || !reference->gpu[member].hung) continue;
      if (only != UINT32_MAX && member != only) continue;
      uint64_t there = df_layout_position(layout, member, layout->member_place[i],
                                          collective - layout->coll_first[group]);
      if (!has_submitted(&reference->gpu[member], there)) return true;
    }
  }
  return false;
}

/* The published test when gpu newly hangs: S(gpu) meets the others' U, and U(gpu) the others' S. */
static bool sets_intersect(df_reference *reference, uint32_t gpu) {
  const df_layout *layout = reference->layout;
  if (reference->hung_count < 2 || !awaits_hung(reference, gpu, UINT32_MAX)) return false;
  for (uint32_t i = layout->gpu_group_first[gpu]; i < layout->gpu_group_first[gpu + 1]; i++) {
    uint32_t group = layout->gpu_group[i];
    for (uint32_t k = layout->member_first[group]; k < layout->member_first[group + 1]; k++) {
      uint32_t other = layout->member[k];
      if (other != gpu && reference->gpu[other].hung && awaits_hung(reference, other, gpu))
        return true;
    }
  }
  return false;
}

static dfcclResult_t step_sync(df_reference *reference, uint32_t gpu, bool *deadlock) {
  df_reference_gpu *state = &reference->gpu[gpu];
  if (chance(reference, reference->sync)) {
    if (state->undone == 0) return dfcclSuccess;
    state->hung = true;
    reference->hung_count++;
    *deadlock = sets_intersect(reference, gpu);
    return dfcclSuccess;
  }
  uint64_t position = decide(reference, state);
  if (position == UINT64_MAX) return df_fail(dfcclOutOfMemory, "no memory for a disorder");
  submit_sync(reference, gpu, state->slot[position]);
  *deadlock = reference->full_groups > 0;
  return dfcclSuccess;
}

static dfcclResult_t round_sync(df_reference *reference, bool *deadlock) {
  dfcclResult_t result = dfcclSuccess;
  uint32_t gpus = reference->layout->gpu_count;
  for (bool busy = true; busy && !*deadlock;) {
    busy = false;
    bool moved = false;
    for (uint32_t gpu = 0; gpu < gpus && !*deadlock; gpu++) {
      const df_reference_gpu *state = &reference->gpu[gpu];
      fetch_ahead(reference, gpu);
      if (state->left == 0) continue;
      busy = true;
      if (state->hung) continue;
      moved = true;
      result = step_sync(reference, gpu, deadlock);
      if (result != dfcclSuccess) return result;
    }
    /* Everybody hangs and nothing was found: the published program would sweep for ever. */
    if (busy && !moved) *deadlock = true;
  }
  return result;
}

dfcclResult_t df_reference_round(df_reference *reference, bool *deadlock) {
  *deadlock = false;
  reset(reference);
  return reference->model == DF_MODEL_SINGLE ? round_single(reference, deadlock)
                                             : round_sync(reference, deadlock);
}
