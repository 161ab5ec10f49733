/* Layout: the members of each group, and the order in which each GPU is expected to run its
 * collectives.
 *
 * Group g's collectives are numbered coll_first[g] .. coll_first[g + 1] - 1. A *slot* is a place in
 * a GPU's event sequence. The slots of all GPUs have one numbering (slot_first): chance is drawn
 * over all slots at once.
 *
 * A *key* is a collective's place in one order of all collectives. Every GPU's expected order
 * follows that order: (group, index) for concat, (index, group) for roundrobin, after the group's
 * component. A component is a set of groups that share GPUs, directly or through others; nothing in
 * one component can wait for anything in another. */
#ifndef DF_SIM_LAYOUT_H
#define DF_SIM_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/result.h"

typedef enum { DF_ORDER_CONCAT, DF_ORDER_ROUNDROBIN } df_order;

typedef struct {
  uint32_t gpu_count, group_count, component_count;
  uint64_t slot_count;
  df_order order;

  uint32_t *member_first; /* group -> its range in member[]; group_count + 1 entries */
  uint32_t *member;       /* GPUs, in the group's own order */
  uint32_t *member_place; /* parallel to member[]: the group's place in that GPU's gpu_group[] */
  uint32_t *coll_first;   /* group -> its first collective; group_count + 1 entries */

  uint32_t *gpu_group_first; /* GPU -> its range in gpu_group[]; gpu_count + 1 entries */
  uint32_t *gpu_group;       /* groups, ascending */
  uint64_t *gpu_group_start; /* concat: the position of that group's first collective */
  uint64_t *slot_first;      /* GPU -> its first slot; gpu_count + 1 entries */
  uint64_t uniform_slots;    /* slots of each GPU if all have equally many, else 0 */

  uint32_t *component_of;    /* group -> component */
  uint32_t *component_first; /* component -> its range in sorted_group[] */
  uint32_t *sorted_group;    /* groups by (component, group) */
  uint32_t *sorted_place;    /* group -> its place in sorted_group[] */
} df_layout;

/* Builds a layout from group_count groups: members of group g are members[first[g]] up to
 * members[first[g + 1]], all below gpu_count, none twice in a group; it runs counts[g] collectives.
 * The arrays are copied. The caller has checked the limits. On failure nothing is kept. */
dfcclResult_t df_layout_create(df_layout *layout, df_order order, uint32_t gpu_count,
                               uint32_t group_count, const uint32_t *first, const uint32_t *members,
                               const uint32_t *counts);
void df_layout_destroy(df_layout *layout);

static inline uint32_t df_layout_group_size(const df_layout *layout, uint32_t group) {
  return layout->member_first[group + 1] - layout->member_first[group];
}

static inline uint32_t df_layout_coll_count(const df_layout *layout, uint32_t group) {
  return layout->coll_first[group + 1] - layout->coll_first[group];
}

static inline uint64_t df_layout_gpu_slots(const df_layout *layout, uint32_t gpu) {
  return layout->slot_first[gpu + 1] - layout->slot_first[gpu];
}

/* The GPU that slot belongs to. */
uint32_t df_layout_gpu_of_slot(const df_layout *layout, uint64_t slot);

typedef struct {
  uint32_t group, index;
} df_collective;

/* The collective at a position of gpu's expected order. */
df_collective df_layout_collective_at(const df_layout *layout, uint32_t gpu, uint64_t position);

/* The position of collective index of the group that gpu lists at place (an index of gpu_group[]).
 */
uint64_t df_layout_position(const df_layout *layout, uint32_t gpu, uint32_t place, uint32_t index);

/* Writes gpu's whole expected order as collective numbers. */
void df_layout_expected(const df_layout *layout, uint32_t gpu, uint32_t *collectives);

/* Orders collectives; see above. */
uint64_t df_layout_key(const df_layout *layout, df_collective collective);

/* The part of sorted_group[] that can hold keys between low and high. Then, within one group there,
 * the first and last index with such a key (false: none). */
void df_layout_groups_between(const df_layout *layout, uint64_t low, uint64_t high, uint32_t *first,
                              uint32_t *last);
bool df_layout_indices_between(const df_layout *layout, uint64_t low, uint64_t high, uint32_t group,
                               uint32_t *first, uint32_t *last);

#endif
