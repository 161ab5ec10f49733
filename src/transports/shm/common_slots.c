/*
 * Common slots: what a rank sends to several peers of other processes, one after the other, it
 * writes once, to memory of its own that they have mapped, and lends to each. So it is copied once
 * for all of them and not once for each, and lies in the caches once. Each collective that has a
 * use for them takes a range of segments that are offered to its readers in the background, as
 * dfcclMemAlloc memory is; until all of them have mapped it, and without memory for it, messages go
 * through the links' slots.
 */
#include <stdlib.h>

#include "host/context.h"
#include "control/post.h"
#include "host/registry.h"
#include "transports/shm/common_slots.h"
#include "host/registry_check.h"

/* Primitive i sends by way of a common slot. Its receiver's rank. */
static uint32_t reader_of(const df_coll *coll, uint32_t i) {
  return coll->ranks[coll->plan->links[coll->plan->primitives[i].send_link].peer];
}

/* Bytes that one peer is sent by way of common slots in a run, about. */
static uint64_t bytes_of(const df_coll *coll) {
  uint32_t pieces = coll->plan->geometry == DF_GEOMETRY_PARTITION ? coll->plan->pieces : 1;
  return coll->count * df_type_size(coll->type) / pieces;
}

static uint64_t longest_message(const df_coll *coll) {
  uint64_t elements = 0;
  for (uint32_t block = 0; block < coll->shape.n_blocks; block++)
    elements = DF_MAX(elements, (uint64_t)coll->shape.parts[block].chunk);
  return elements * df_type_size(coll->type);
}

/* Of the messages that a common slot is lent to, either all are lent or none: does one of their
 * links lend nothing? */
static int has_link_that_lends_nothing(const df_coll *coll) {
  const df_plan *plan = coll->plan;
  for (uint32_t i = 0; i < plan->n_primitives; i++)
    if (plan->primitives[i].common != DF_COMMON_NONE &&
        coll->device.links[plan->primitives[i].send_link].release_mask)
      return 1;
  return 0;
}

static uint32_t count_readers(const dfcclContext_t context, const df_coll *coll) {
  uint32_t readers = 0;
  for (uint32_t i = 0; i < coll->plan->n_primitives; i++)
    readers += coll->plan->primitives[i].common != DF_COMMON_NONE &&
               !context->control.peers[reader_of(coll, i)].local;
  return readers;
}

/*
 * Is anything gained? Ranks of this process read the buffer itself. Where all members' messages of
 * a run fit the caches in slots of their own, those are as fast, and a root need not wait for its
 * readers at the end of each run: docs/PERFORMANCE.md has the measurements, all with several ranks
 * a core.
 */
static int has_use(const dfcclContext_t context, const df_coll *coll, uint32_t readers) {
  enum { NEVER, WHERE_IT_GAINS };
  if (context->settings.common == NEVER || !context->device.memory->host_sees_links ||
      readers < 2 || longest_message(coll) < coll->device.descriptor->direct_min ||
      has_link_that_lends_nothing(coll))
    return 0;
  uint64_t copies = (uint64_t)readers * (df_runs_ahead(coll) ? 1 : coll->n);
  return context->settings.common != WHERE_IT_GAINS ||
         (df_is_crowded(context, coll->n) &&
          bytes_of(coll) > (uint64_t)context->settings.ring_bytes / copies);
}

/* Slots of each block: in proportion the nearest power of two to what the readers' rings would
 * have, for which they stand. */
static uint32_t depth_of(const dfcclContext_t context, const df_coll *coll, uint32_t readers) {
  uint64_t ring = (uint64_t)context->settings.ring_bytes / df_ranks_on_a_core(context, coll->n) /
                  (df_runs_ahead(coll) ? 1 : coll->n - 1);
  uint64_t target = ring * readers / coll->shape.n_blocks;
  uint32_t depth = DF_MIN_LINK_SLOTS;
  if (context->settings.slots == DF_MIN_LINK_SLOTS) return 1; /* the tightest */
  while (depth < DF_MAX_LINK_SLOTS && 4ull * depth * coll->shape.stride <= 3 * target) depth *= 2;
  return depth;
}

static df_common_segment *find(const dfcclContext_t context, const df_segment *segment) {
  df_common_segment *at = context->endpoint.common_segments;
  while (at && at->segment != segment) at = at->next;
  return at;
}

/* The record of a segment that the arena has just made. */
static df_common_segment *enter(dfcclContext_t context, const df_segment *segment) {
  df_common_segment *record = calloc(1, sizeof *record);
  if (record == NULL) return NULL;
  record->segment = segment;
  record->reach = malloc(context->n_ranks * sizeof *record->reach);
  record->told = calloc(context->n_ranks, 1);
  if (record->reach == NULL || record->told == NULL) {
    free(record->reach);
    free(record->told);
    free(record);
    return NULL;
  }
  for (uint32_t r = 0; r < context->n_ranks; r++)
    record->reach[r] = context->control.peers[r].local ? 0 : DF_OUT_OF_REACH;
  record->next = context->endpoint.common_segments;
  context->endpoint.common_segments = record;
  return record;
}

/* Uses them from the next run on, if all readers have mapped them. */
static void publish_if_mapped(const df_coll *coll, const df_common_segment *record) {
  df_run_words *words = coll->device.descriptor->words;
  if (df_load_relaxed_u64(&words->common) != 0) return; /* they are in use already */
  for (uint32_t i = 0; i < coll->plan->n_primitives; i++)
    if (coll->plan->primitives[i].common != DF_COMMON_NONE &&
        record->reach[reader_of(coll, i)] == DF_OUT_OF_REACH)
      return;
  words->common_reach = record->reach;
  df_publish_u64(&words->common,
                 (uint64_t)(uintptr_t)(coll->common.segment->base + coll->common.offset));
}

void df_common_reserve(dfcclContext_t context, df_coll *coll) {
  uint32_t readers = count_readers(context, coll);
  if (coll->common.segment || !has_use(context, coll, readers)) return;
  df_arena *arena = &context->endpoint.commons;
  if (context->endpoint.arena.used_bytes + arena->used_bytes >=
      (uint64_t)context->settings.ring_budget)
    return;
  uint32_t depth = depth_of(context, coll, readers);
  uint64_t bytes = (uint64_t)coll->shape.stride * depth * coll->shape.n_blocks;
  df_range range;
  arena->next_id =
      context->endpoint.next_segment_id; /* they are not links: peers may read, not write */
  dfcclResult_t result = df_arena_take(arena, bytes, &range);
  context->endpoint.next_segment_id = arena->next_id;
  if (result != dfcclSuccess) return;
  df_common_segment *record = find(context, range.segment);
  if (record == NULL) record = enter(context, range.segment);
  if (record == NULL) {
    df_arena_give(arena, &range);
    return;
  }
  coll->common = range;
  coll->device.descriptor->words->common_mask = depth - 1;
  for (uint32_t i = 0; i < coll->plan->n_primitives; i++) {
    if (coll->plan->primitives[i].common == DF_COMMON_NONE) continue;
    uint32_t reader = reader_of(coll, i);
    if (context->control.peers[reader].local || record->told[reader]) continue;
    record->told[reader] = 1;
    df_segment_offer(&context->control, reader, range.segment, DF_SEGMENT_USER);
  }
  publish_if_mapped(coll, record);
}

void df_common_mapped(dfcclContext_t context, uint32_t peer, uint64_t segment, uint64_t address) {
  df_common_segment *record = context->endpoint.common_segments;
  while (record && record->segment->id != segment) record = record->next;
  if (record == NULL || record->reach[peer] != DF_OUT_OF_REACH) return;
  record->reach[peer] = address - (uint64_t)(uintptr_t)record->segment->base;
  for (uint32_t i = 0; i < context->registry.n_indices; i++) {
    const df_coll *coll = context->registry.by_index[i];
    if (coll && coll->common.segment == record->segment) publish_if_mapped(coll, record);
  }
}

void df_common_give(dfcclContext_t context, df_coll *coll) {
  if (coll->common.segment) df_arena_give(&context->endpoint.commons, &coll->common);
  coll->common.segment = NULL;
}

df_segment *df_common_dissolve(dfcclContext_t context) {
  while (context->endpoint.common_segments) {
    df_common_segment *next = context->endpoint.common_segments->next;
    free(context->endpoint.common_segments->reach);
    free(context->endpoint.common_segments->told);
    free(context->endpoint.common_segments);
    context->endpoint.common_segments = next;
  }
  return df_arena_dissolve(&context->endpoint.commons);
}
