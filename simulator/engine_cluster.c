#include "engine_cluster.h"

#include <stdlib.h>
#include <string.h>

#include "sequences.h"

enum { EVENT_BARRIER_BEHIND = 1 }; /* the lowest bit of an event; the others are a collective */

/* A group's part of the cluster: indices first .. last, local collectives local .. */
typedef struct {
  uint32_t group, first, last, local;
} group_part;

/* A GPU's part: positions first .. last, then its events while the worklist runs. */
typedef struct {
  uint64_t first, last;
  uint32_t next, end; /* indices into event[] */
  uint32_t pending;
  uint32_t first_block; /* index + 1 into the cluster's blocks; 0: none */
  bool waiting;         /* at a barrier, for what is pending */
} gpu_part;

typedef struct {
  uint32_t executing, part;
} collective_state;

struct df_cluster_work {
  const df_layout *layout;
  const df_field *field;
  gpu_part *gpu;         /* by GPU number; valid if gpu_stamp has the current cluster */
  uint64_t *gpu_stamp;   /* the cluster that last touched a GPU */
  uint32_t *group_place; /* group -> its entry in part[]; valid for the groups of the cluster */
  uint64_t stamp;
  uint32_t *touched, touched_count; /* the GPUs of this cluster */
  uint32_t *stack;
  group_part *part;
  uint32_t part_count, part_room;
  collective_state *collective;
  uint32_t collective_room;
  uint32_t *event;
  size_t event_room;
  uint64_t *skip;
  uint32_t *hole, *position;
  size_t block_room;
};

dfcclResult_t df_cluster_work_create(df_cluster_work **out, const df_layout *layout,
                                     const df_field *field) {
  df_cluster_work *work = calloc(1, sizeof *work);
  if (!work) return df_fail(dfcclOutOfMemory, "no memory for the sparse engine");
  *work = (df_cluster_work){.layout = layout, .field = field};
  work->gpu = malloc((layout->gpu_count + 1u) * sizeof *work->gpu);
  work->gpu_stamp = calloc(layout->gpu_count + 1u, sizeof *work->gpu_stamp);
  work->group_place = malloc((layout->group_count + 1u) * sizeof *work->group_place);
  work->touched = malloc((layout->gpu_count + 1u) * sizeof *work->touched);
  work->stack = malloc((layout->gpu_count + 1u) * sizeof *work->stack);
  if (!work->gpu || !work->gpu_stamp || !work->group_place || !work->touched || !work->stack) {
    df_cluster_work_destroy(work);
    return df_fail(dfcclOutOfMemory, "no memory for the sparse engine (%u GPUs)",
                   layout->gpu_count);
  }
  *out = work;
  return dfcclSuccess;
}

void df_cluster_work_destroy(df_cluster_work *work) {
  if (!work) return;
  free(work->gpu);
  free(work->gpu_stamp);
  free(work->group_place);
  free(work->touched);
  free(work->stack);
  free(work->part);
  free(work->collective);
  free(work->event);
  free(work->skip);
  free(work->hole);
  free(work->position);
  free(work);
}

/* Makes room for count entries of size bytes each in *array; keeps what is there. */
static bool reserve(void *array, size_t size, size_t count, size_t *room) {
  if (count <= *room) return true;
  size_t grown_room = DF_MAX(count, *room + *room / 2);
  void *grown = realloc(*(void **)array, grown_room * size);
  if (!grown) return false;
  *(void **)array = grown;
  *room = grown_room;
  return true;
}

static bool reserve32(void *array, size_t size, size_t count, uint32_t *room) {
  size_t wide = *room;
  bool reserved = reserve(array, size, count, &wide);
  *room = (uint32_t)wide;
  return reserved;
}

/* The members of a group take part with all positions between its first and last index. */
static void touch_members(df_cluster_work *work, const group_part *part) {
  const df_layout *layout = work->layout;
  for (uint32_t i = layout->member_first[part->group]; i < layout->member_first[part->group + 1];
       i++) {
    uint32_t gpu = layout->member[i], place = layout->member_place[i];
    uint64_t first = df_layout_position(layout, gpu, place, part->first);
    uint64_t last = layout->order == DF_ORDER_CONCAT
                        ? first + (part->last - part->first)
                        : df_layout_position(layout, gpu, place, part->last);
    gpu_part *state = &work->gpu[gpu];
    if (work->gpu_stamp[gpu] != work->stamp) {
      work->gpu_stamp[gpu] = work->stamp;
      work->touched[work->touched_count++] = gpu;
      *state = (gpu_part){.first = first, .last = last};
    } else {
      state->first = DF_MIN(state->first, first);
      state->last = DF_MAX(state->last, last);
    }
  }
}

/* Lists the cluster's groups, collectives and GPUs. False: out of memory. */
static bool gather(df_cluster_work *work, const df_cluster *cluster) {
  const df_layout *layout = work->layout;
  work->stamp++;
  work->touched_count = work->part_count = 0;
  uint32_t local = 0, first_place, last_place;
  df_layout_groups_between(layout, cluster->key_low, cluster->key_high, &first_place, &last_place);
  for (uint32_t place = first_place; place <= last_place; place++) {
    group_part part = {.group = layout->sorted_group[place], .local = local};
    if (!df_layout_indices_between(layout, cluster->key_low, cluster->key_high, part.group,
                                   &part.first, &part.last))
      continue;
    uint32_t count = part.last - part.first + 1;
    if (!reserve32(&work->part, sizeof *work->part, work->part_count + 1u, &work->part_room) ||
        !reserve32(&work->collective, sizeof *work->collective, local + (size_t)count,
                   &work->collective_room))
      return false;
    for (uint32_t i = 0; i < count; i++)
      work->collective[local + i] = (collective_state){.part = work->part_count};
    local += count;
    work->group_place[part.group] = work->part_count;
    work->part[work->part_count++] = part;
    touch_members(work, &part);
  }
  return true;
}

static uint32_t local_collective(const df_cluster_work *work, uint32_t gpu, uint64_t position) {
  df_collective collective = df_layout_collective_at(work->layout, gpu, position);
  const group_part *part = &work->part[work->group_place[collective.group]];
  return part->local + (collective.index - part->first);
}

/* The rare slots that are not before slot. */
static size_t find_rare(const df_rare_slots *rare, uint64_t slot) {
  size_t low = 0, high = rare->count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (rare->slot[middle].slot < slot)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

typedef struct {
  df_field_cursor cursor;
  const df_rare_slots *rare;
  size_t index; /* the next rare slot not passed yet */
} slot_reader;

static df_rare_slot read_slot(const df_cluster_work *work, slot_reader *reader, uint64_t slot) {
  if (reader->index < reader->rare->count && reader->rare->slot[reader->index].slot == slot)
    return reader->rare->slot[reader->index++];
  df_common_slot common = df_field_common(work->field, &reader->cursor, slot);
  return (df_rare_slot){slot, common.skip, common.barrier};
}

/* A block's events, in the order in which they are emitted. */
static bool write_block(df_cluster_work *work, slot_reader *reader, const df_block *block,
                        uint64_t gpu_first, size_t *events) {
  size_t count = (size_t)(block->last - block->first + 1);
  if (work->block_room < count) {
    size_t room = 2 * count;
    free(work->skip);
    free(work->hole);
    free(work->position);
    work->skip = malloc(room * sizeof *work->skip);
    work->hole = malloc(room * sizeof *work->hole);
    work->position = malloc(room * sizeof *work->position);
    work->block_room = work->skip && work->hole && work->position ? room : 0;
    if (work->block_room == 0) return false;
  }
  for (size_t i = 0; i < count; i++) {
    df_rare_slot slot = read_slot(work, reader, gpu_first + block->first + i);
    work->skip[i] = slot.skip;
    work->event[*events + i] = slot.barrier ? EVENT_BARRIER_BEHIND : 0;
  }
  df_emit_positions(count, work->skip, work->hole, work->position);
  for (size_t i = 0; i < count; i++)
    work->event[*events + i] |= local_collective(work, block->gpu, block->first + work->position[i])
                                << 1;
  *events += count;
  return true;
}

/* Writes the events of a GPU in its expected order, except in the blocks of the cluster. Blocks
 * without a barrier inside are written in the expected order, because the order within them has no
 * effect. */
static bool write_events(df_cluster_work *work, uint32_t gpu, uint64_t round,
                         const df_rare_slots *rare, const df_cluster *cluster, size_t *events) {
  gpu_part *state = &work->gpu[gpu];
  size_t count = (size_t)(state->last - state->first + 1);
  if (!reserve(&work->event, sizeof *work->event, *events + count, &work->event_room)) return false;
  uint64_t gpu_first = work->layout->slot_first[gpu], position = state->first;
  slot_reader reader = {df_field_cursor_start(round), rare,
                        find_rare(rare, gpu_first + state->first)};
  state->next = (uint32_t)*events;
  uint32_t next_block = state->first_block;
  while (position <= state->last) {
    const df_block *block = next_block ? &cluster->block[next_block - 1] : NULL;
    if (block && block->first == position) {
      if (!write_block(work, &reader, block, gpu_first, events)) return false;
      position = block->last + 1;
      next_block = block->next_on_gpu;
      continue;
    }
    bool barrier = position < state->last && read_slot(work, &reader, gpu_first + position).barrier;
    work->event[(*events)++] = local_collective(work, gpu, position) << 1 | barrier;
    position++;
  }
  state->end = (uint32_t)*events;
  return true;
}

/* Lets gpu go on until it waits at a barrier; pushes the GPUs that this sets free. Returns the new
 * depth of the stack. */
static uint32_t advance(df_cluster_work *work, uint32_t gpu, uint32_t depth) {
  const df_layout *layout = work->layout;
  gpu_part *state = &work->gpu[gpu];
  while (state->next < state->end && !state->waiting) {
    uint32_t event = work->event[state->next++];
    collective_state *collective = &work->collective[event >> 1];
    uint32_t group = work->part[collective->part].group;
    state->pending++;
    if (++collective->executing == df_layout_group_size(layout, group)) {
      for (uint32_t i = layout->member_first[group]; i < layout->member_first[group + 1]; i++) {
        gpu_part *member = &work->gpu[layout->member[i]];
        if (--member->pending > 0 || !member->waiting) continue;
        member->waiting = false;
        work->stack[depth++] = layout->member[i];
      }
    }
    state->waiting = (event & EVENT_BARRIER_BEHIND) && state->pending > 0;
  }
  return depth;
}

dfcclResult_t df_cluster_deadlocks(df_cluster_work *work, uint64_t round, const df_rare_slots *rare,
                                   const df_cluster *cluster, bool *deadlock) {
  bool fits = gather(work, cluster);
  for (size_t i = cluster->block_count; fits && i-- > 0;) { /* backwards: lists ascend */
    gpu_part *state = &work->gpu[cluster->block[i].gpu];
    cluster->block[i].next_on_gpu = state->first_block;
    state->first_block = (uint32_t)i + 1;
  }
  size_t events = 0;
  for (uint32_t i = 0; fits && i < work->touched_count; i++) {
    fits =
        write_events(work, work->touched[i], round, rare, cluster, &events) && events <= UINT32_MAX;
  }
  if (!fits) return df_fail(dfcclOutOfMemory, "no memory for a cluster of %zu events", events);
  uint32_t depth = work->touched_count;
  for (uint32_t i = 0; i < depth; i++) work->stack[i] = work->touched[i];
  while (depth > 0) {
    uint32_t gpu = work->stack[--depth];
    depth = advance(work, gpu, depth);
  }
  *deadlock = false;
  for (uint32_t i = 0; i < work->touched_count && !*deadlock; i++) {
    const gpu_part *state = &work->gpu[work->touched[i]];
    *deadlock = state->next < state->end;
  }
  return dfcclSuccess;
}
