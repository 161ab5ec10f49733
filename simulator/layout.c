#include "layout.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "sim_limits.h"

enum { INDEX_BITS = 24, GROUP_BITS = 20 };
DF_STATIC_ASSERT(DF_SIM_MAX_COLLECTIVES_PER_GROUP == 1u << INDEX_BITS, "an index fits its bits");
DF_STATIC_ASSERT(DF_SIM_MAX_GROUPS == 1u << GROUP_BITS, "a group fits its bits");
#define LOW_BITS(value, bits) ((uint32_t)((value) & ((UINT64_C(1) << (bits)) - 1)))

static bool allocate(df_layout *layout, uint32_t memberships) {
  size_t gpus = layout->gpu_count, groups = layout->group_count;
  layout->member_first = calloc(groups + 1, sizeof *layout->member_first);
  layout->member = calloc(memberships + 1u, sizeof *layout->member);
  layout->member_place = calloc(memberships + 1u, sizeof *layout->member_place);
  layout->coll_first = calloc(groups + 1, sizeof *layout->coll_first);
  layout->gpu_group_first = calloc(gpus + 1, sizeof *layout->gpu_group_first);
  layout->gpu_group = calloc(memberships + 1u, sizeof *layout->gpu_group);
  layout->gpu_group_start = calloc(memberships + 1u, sizeof *layout->gpu_group_start);
  layout->slot_first = calloc(gpus + 1, sizeof *layout->slot_first);
  layout->component_of = calloc(groups + 1, sizeof *layout->component_of);
  layout->component_first = calloc(groups + 2, sizeof *layout->component_first);
  layout->sorted_group = calloc(groups + 1, sizeof *layout->sorted_group);
  layout->sorted_place = calloc(groups + 1, sizeof *layout->sorted_place);
  return layout->member_first && layout->member && layout->member_place && layout->coll_first &&
         layout->gpu_group_first && layout->gpu_group && layout->gpu_group_start &&
         layout->slot_first && layout->component_of && layout->component_first &&
         layout->sorted_group && layout->sorted_place;
}

void df_layout_destroy(df_layout *layout) {
  free(layout->member_first);
  free(layout->member);
  free(layout->member_place);
  free(layout->coll_first);
  free(layout->gpu_group_first);
  free(layout->gpu_group);
  free(layout->gpu_group_start);
  free(layout->slot_first);
  free(layout->component_of);
  free(layout->component_first);
  free(layout->sorted_group);
  free(layout->sorted_place);
  memset(layout, 0, sizeof *layout);
}

/* Each GPU's groups, ascending, and the first position of each in a concatenated order. */
static void list_groups_of_gpus(df_layout *layout) {
  uint32_t *first = layout->gpu_group_first;
  uint32_t memberships = layout->member_first[layout->group_count];
  for (uint32_t i = 0; i < memberships; i++) first[layout->member[i] + 1]++;
  for (uint32_t gpu = 0; gpu < layout->gpu_count; gpu++) first[gpu + 1] += first[gpu];
  for (uint32_t group = 0; group < layout->group_count; group++)
    for (uint32_t i = layout->member_first[group]; i < layout->member_first[group + 1]; i++) {
      uint32_t gpu = layout->member[i], place = first[gpu]++; /* moved back below */
      uint64_t *length = &layout->slot_first[gpu + 1];
      layout->member_place[i] = place;
      layout->gpu_group[place] = group;
      layout->gpu_group_start[place] = *length;
      *length += df_layout_coll_count(layout, group);
    }
  for (uint32_t gpu = layout->gpu_count; gpu > 0; gpu--) first[gpu] = first[gpu - 1];
  first[0] = 0;

  layout->uniform_slots = layout->gpu_count > 0 ? layout->slot_first[1] : 0;
  for (uint32_t gpu = 0; gpu < layout->gpu_count; gpu++) {
    if (layout->slot_first[gpu + 1] != layout->uniform_slots) layout->uniform_slots = 0;
  }
  for (uint32_t gpu = 0; gpu < layout->gpu_count; gpu++)
    layout->slot_first[gpu + 1] += layout->slot_first[gpu];
  layout->slot_count = layout->slot_first[layout->gpu_count];
}

static uint32_t root_of(uint32_t *parent, uint32_t group) {
  while (parent[group] != group) {
    parent[group] = parent[parent[group]];
    group = parent[group];
  }
  return group;
}

/* Union of the groups of each GPU; components are numbered by their smallest group. */
static void find_components(df_layout *layout) {
  uint32_t *parent = layout->component_of, groups = layout->group_count;
  for (uint32_t group = 0; group < groups; group++) parent[group] = group;
  for (uint32_t gpu = 0; gpu < layout->gpu_count; gpu++)
    for (uint32_t i = layout->gpu_group_first[gpu] + 1; i < layout->gpu_group_first[gpu + 1]; i++) {
      uint32_t a = root_of(parent, layout->gpu_group[i - 1]);
      uint32_t b = root_of(parent, layout->gpu_group[i]);
      parent[DF_MAX(a, b)] = DF_MIN(a, b);
    }
  for (uint32_t group = 0; group < groups; group++) {
    uint32_t root = root_of(parent, group); /* the root is the smallest, so it was met before */
    layout->sorted_place[group] =
        root == group ? layout->component_count++ : layout->sorted_place[root];
  }
  memcpy(layout->component_of, layout->sorted_place, groups * sizeof *layout->component_of);

  uint32_t *first = layout->component_first;
  for (uint32_t group = 0; group < groups; group++) first[layout->component_of[group] + 2]++;
  for (uint32_t i = 2; i <= layout->component_count + 1 && i <= groups + 1; i++)
    first[i] += first[i - 1];
  for (uint32_t group = 0; group < groups; group++) {
    uint32_t place = first[layout->component_of[group] + 1]++;
    layout->sorted_group[place] = group;
    layout->sorted_place[group] = place;
  }
}

dfcclResult_t df_layout_create(df_layout *layout, df_order order, uint32_t gpu_count,
                               uint32_t group_count, const uint32_t *first, const uint32_t *members,
                               const uint32_t *counts) {
  memset(layout, 0, sizeof *layout);
  layout->gpu_count = gpu_count;
  layout->group_count = group_count;
  layout->order = order;
  if (!allocate(layout, first[group_count])) {
    df_layout_destroy(layout);
    return df_fail(dfcclOutOfMemory, "no memory for %u GPUs in %u groups", gpu_count, group_count);
  }
  memcpy(layout->member_first, first, (group_count + 1u) * sizeof *first);
  memcpy(layout->member, members, first[group_count] * sizeof *members);
  for (uint32_t group = 0; group < group_count; group++)
    layout->coll_first[group + 1] = layout->coll_first[group] + counts[group];
  list_groups_of_gpus(layout);
  find_components(layout);
  if (layout->slot_count <= DF_SIM_MAX_SLOTS) return dfcclSuccess;
  uint64_t slots = layout->slot_count;
  df_layout_destroy(layout);
  return df_fail(
      dfcclInvalidArgument,
      "the GPUs run %llu collectives in all, counting each on every member; at most %llu",
      (unsigned long long)slots, (unsigned long long)DF_SIM_MAX_SLOTS);
}

uint32_t df_layout_gpu_of_slot(const df_layout *layout, uint64_t slot) {
  DF_ASSERT(slot < layout->slot_count);
  if (layout->uniform_slots) return (uint32_t)(slot / layout->uniform_slots);
  uint32_t low = 0, high = layout->gpu_count - 1;
  while (low < high) { /* the last GPU whose first slot is not beyond it */
    uint32_t middle = low + (high - low + 1) / 2;
    if (layout->slot_first[middle] <= slot)
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

/* roundrobin: how many of the GPU's collectives have an index below this one. */
static uint64_t collectives_below(const df_layout *layout, uint32_t gpu, uint32_t index) {
  uint64_t below = 0;
  for (uint32_t i = layout->gpu_group_first[gpu]; i < layout->gpu_group_first[gpu + 1]; i++) {
    uint32_t count = df_layout_coll_count(layout, layout->gpu_group[i]);
    below += DF_MIN(count, index);
  }
  return below;
}

static df_collective roundrobin_at(const df_layout *layout, uint32_t gpu, uint64_t position) {
  uint32_t low = 0, high = DF_SIM_MAX_COLLECTIVES_PER_GROUP;
  while (high - low > 1) { /* the last index with at most position collectives below it */
    uint32_t middle = low + (high - low) / 2;
    if (collectives_below(layout, gpu, middle) <= position)
      low = middle;
    else
      high = middle;
  }
  uint64_t rest = position - collectives_below(layout, gpu, low);
  for (uint32_t i = layout->gpu_group_first[gpu]; i < layout->gpu_group_first[gpu + 1]; i++) {
    uint32_t group = layout->gpu_group[i];
    if (df_layout_coll_count(layout, group) > low && rest-- == 0)
      return (df_collective){group, low};
  }
  DF_ASSERT(!"a position beyond the GPU's collectives");
  return (df_collective){0, 0};
}

df_collective df_layout_collective_at(const df_layout *layout, uint32_t gpu, uint64_t position) {
  DF_ASSERT(position < df_layout_gpu_slots(layout, gpu));
  uint32_t low = layout->gpu_group_first[gpu], high = layout->gpu_group_first[gpu + 1] - 1;
  if (layout->order == DF_ORDER_ROUNDROBIN && low < high)
    return roundrobin_at(layout, gpu, position);
  while (low < high) { /* the last group that starts at or before it: empty groups are skipped */
    uint32_t middle = low + (high - low + 1) / 2;
    if (layout->gpu_group_start[middle] <= position)
      low = middle;
    else
      high = middle - 1;
  }
  return (df_collective){layout->gpu_group[low],
                         (uint32_t)(position - layout->gpu_group_start[low])};
}

uint64_t df_layout_position(const df_layout *layout, uint32_t gpu, uint32_t place, uint32_t index) {
  if (layout->order == DF_ORDER_CONCAT) return layout->gpu_group_start[place] + index;
  uint64_t position = collectives_below(layout, gpu, index);
  for (uint32_t i = layout->gpu_group_first[gpu]; i < place; i++)
    if (df_layout_coll_count(layout, layout->gpu_group[i]) > index) position++;
  return position;
}

void df_layout_expected(const df_layout *layout, uint32_t gpu, uint32_t *collectives) {
  uint32_t first = layout->gpu_group_first[gpu], end = layout->gpu_group_first[gpu + 1];
  uint64_t length = df_layout_gpu_slots(layout, gpu), done = 0;
  if (layout->order == DF_ORDER_CONCAT) {
    for (uint32_t i = first; i < end; i++)
      for (uint32_t c = layout->coll_first[layout->gpu_group[i]];
           c < layout->coll_first[layout->gpu_group[i] + 1]; c++)
        collectives[done++] = c;
    return;
  }
  for (uint32_t index = 0; done < length; index++)
    for (uint32_t i = first; i < end; i++) {
      uint32_t group = layout->gpu_group[i];
      if (index < df_layout_coll_count(layout, group))
        collectives[done++] = layout->coll_first[group] + index;
    }
}

uint64_t df_layout_key(const df_layout *layout, df_collective collective) {
  uint64_t place = layout->sorted_place[collective.group];
  if (layout->order == DF_ORDER_CONCAT) return place << INDEX_BITS | collective.index;
  uint64_t component = layout->component_of[collective.group];
  return component << (INDEX_BITS + GROUP_BITS) | (uint64_t)collective.index << GROUP_BITS | place;
}

void df_layout_groups_between(const df_layout *layout, uint64_t low, uint64_t high, uint32_t *first,
                              uint32_t *last) {
  if (layout->order == DF_ORDER_CONCAT) {
    *first = (uint32_t)(low >> INDEX_BITS);
    *last = (uint32_t)(high >> INDEX_BITS);
    return;
  }
  uint32_t component = (uint32_t)(low >> (INDEX_BITS + GROUP_BITS));
  *first = layout->component_first[component];
  *last = layout->component_first[component + 1] - 1;
}

bool df_layout_indices_between(const df_layout *layout, uint64_t low, uint64_t high, uint32_t group,
                               uint32_t *first, uint32_t *last) {
  uint32_t count = df_layout_coll_count(layout, group), place = layout->sorted_place[group];
  int64_t from = 0, to = (int64_t)count - 1;
  if (layout->order == DF_ORDER_CONCAT) {
    if (place == low >> INDEX_BITS) from = LOW_BITS(low, INDEX_BITS);
    if (place == high >> INDEX_BITS) to = DF_MIN(to, (int64_t)LOW_BITS(high, INDEX_BITS));
  } else {
    from = LOW_BITS(low >> GROUP_BITS, INDEX_BITS);
    if (place < LOW_BITS(low, GROUP_BITS)) from++;
    int64_t end = LOW_BITS(high >> GROUP_BITS, INDEX_BITS);
    if (place > LOW_BITS(high, GROUP_BITS)) end--;
    to = DF_MIN(to, end);
  }
  if (from > to) return false;
  *first = (uint32_t)from;
  *last = (uint32_t)to;
  return true;
}
