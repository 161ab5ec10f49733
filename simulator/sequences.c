#include "sequences.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "sim_limits.h"

/* The remainder is "holes, then everything from next on". A skip below the number of holes emits a
 * hole; a larger one passes over further elements, which become holes. */
typedef struct {
  uint32_t *holes;
  uint64_t hole_count, next, count;
} remainder;

static uint32_t emit(remainder *rem, uint64_t skip) {
  uint64_t left = rem->hole_count + (rem->count - rem->next);
  skip = DF_MIN(skip, left - 1);
  if (skip < rem->hole_count) {
    uint32_t position = rem->holes[skip];
    rem->hole_count--;
    memmove(rem->holes + skip, rem->holes + skip + 1,
            (rem->hole_count - skip) * sizeof *rem->holes);
    return position;
  }
  while (rem->hole_count < skip) rem->holes[rem->hole_count++] = (uint32_t)rem->next++;
  return (uint32_t)rem->next++;
}

void df_emit_positions(uint64_t count, const uint64_t *skips, uint32_t *holes,
                       uint32_t *positions) {
  remainder rem = {.holes = holes, .count = count};
  for (uint64_t slot = 0; slot < count; slot++) positions[slot] = emit(&rem, skips[slot]);
}

dfcclResult_t df_expansion_create(df_expansion *expansion, const df_layout *layout,
                                  const df_field *field, bool single_queue) {
  memset(expansion, 0, sizeof *expansion);
  uint64_t events = layout->slot_count * (single_queue ? 1 : 2);
  if (events > DF_SIM_MAX_DENSE_EVENTS)
    return df_fail(dfcclInvalidArgument,
                   "this engine holds all %llu events of a round in memory; at most %llu: use the "
                   "sparse engine",
                   (unsigned long long)events, (unsigned long long)DF_SIM_MAX_DENSE_EVENTS);
  uint64_t colls = layout->coll_first[layout->group_count], longest = 0;
  for (uint32_t gpu = 0; gpu < layout->gpu_count; gpu++)
    longest = DF_MAX(longest, df_layout_gpu_slots(layout, gpu));
  df_sequences *sequences = &expansion->sequences;
  expansion->layout = layout;
  expansion->field = field;
  expansion->expected = malloc((layout->slot_count + 1) * sizeof *expansion->expected);
  expansion->group_of = malloc((colls + 1) * sizeof *expansion->group_of);
  expansion->holes = malloc((longest + 1) * sizeof *expansion->holes);
  sequences->first = malloc((layout->gpu_count + 1u) * sizeof *sequences->first);
  sequences->event = malloc((events + 1) * sizeof *sequences->event);
  if (!expansion->expected || !expansion->group_of || !expansion->holes || !sequences->first ||
      !sequences->event) {
    df_expansion_destroy(expansion);
    return df_fail(dfcclOutOfMemory, "no memory for the %llu events of a round",
                   (unsigned long long)events);
  }
  sequences->gpu_count = layout->gpu_count;
  sequences->group_count = layout->group_count;
  sequences->coll_count = colls;
  sequences->single_queue = single_queue;
  sequences->member_first = layout->member_first;
  sequences->member = layout->member;
  sequences->group_of = expansion->group_of;
  for (uint32_t group = 0; group < layout->group_count; group++)
    for (uint32_t c = layout->coll_first[group]; c < layout->coll_first[group + 1]; c++)
      expansion->group_of[c] = group;
  for (uint32_t gpu = 0; gpu < layout->gpu_count; gpu++)
    df_layout_expected(layout, gpu, expansion->expected + layout->slot_first[gpu]);
  return dfcclSuccess;
}

dfcclResult_t df_expansion_round(df_expansion *expansion, uint64_t round) {
  const df_layout *layout = expansion->layout;
  df_sequences *sequences = &expansion->sequences;
  dfcclResult_t result = df_field_rare(expansion->field, round, &expansion->rare);
  if (result != dfcclSuccess) return result;
  const df_rare_slots *rare = &expansion->rare;
  df_field_cursor cursor = df_field_cursor_start(round);
  size_t next_rare = 0;
  uint64_t events = 0;
  for (uint32_t gpu = 0; gpu < layout->gpu_count; gpu++) {
    uint64_t first = layout->slot_first[gpu], end = layout->slot_first[gpu + 1];
    remainder rem = {.holes = expansion->holes, .count = end - first};
    sequences->first[gpu] = events;
    for (uint64_t slot = first; slot < end; slot++) {
      uint64_t skip;
      bool barrier;
      if (next_rare < rare->count && rare->slot[next_rare].slot == slot) {
        skip = rare->slot[next_rare].skip;
        barrier = rare->slot[next_rare++].barrier;
      } else {
        df_common_slot common = df_field_common(expansion->field, &cursor, slot);
        skip = common.skip;
        barrier = common.barrier;
      }
      sequences->event[events++] = expansion->expected[first + emit(&rem, skip)];
      if (barrier && !sequences->single_queue && slot + 1 < end)
        sequences->event[events++] = DF_EVENT_SYNC;
    }
  }
  sequences->first[layout->gpu_count] = events;
  return dfcclSuccess;
}

void df_expansion_destroy(df_expansion *expansion) {
  free(expansion->expected);
  free(expansion->group_of);
  free(expansion->holes);
  free(expansion->sequences.first);
  free(expansion->sequences.event);
  free(expansion->rare.slot);
  memset(expansion, 0, sizeof *expansion);
}
