/* Common slots: a message for several other processes is written once, to memory that all of them
 * map, and lent to each. Each collective that has such messages takes a range of segments, which
 * readers map in the background. Until they have, and if there is no memory, messages use the slots
 * of the links. */
#include "transports/shm/common_slots.h"

#include <stdlib.h>

#include "base/mutex.h"
#include "control/messenger.h"

typedef struct df_common_segment {
  struct df_common_segment *next;
  const df_segment *segment;
  uint64_t *mapping; /* [n_ranks] as in df_transport.share */
  uint8_t *offered;  /* [n_ranks] 1: the segment was offered */
} df_common_segment;

static df_common_segment *find(const df_shm_endpoint *endpoint, const df_segment *segment) {
  df_common_segment *at = endpoint->common_segments;
  while (at && at->segment != segment) at = at->next;
  return at;
}

static df_common_segment *enter(df_shm_endpoint *endpoint, const df_segment *segment) {
  const df_control *control = endpoint->base.owner.control;
  df_common_segment *record = calloc(1, sizeof *record);
  if (record == NULL) return NULL;
  record->segment = segment;
  record->mapping = malloc(control->n_ranks * sizeof *record->mapping);
  record->offered = calloc(control->n_ranks, 1);
  if (record->mapping == NULL || record->offered == NULL) {
    free(record->mapping);
    free(record->offered);
    free(record);
    return NULL;
  }
  for (uint32_t r = 0; r < control->n_ranks; r++)
    record->mapping[r] = control->peers[r].local ? 0 : DF_NOT_MAPPED;
  record->next = endpoint->common_segments;
  endpoint->common_segments = record;
  return record;
}

/* Lists the ranks that read common slots. readers NULL: only counts them. */
static uint32_t list_readers(const df_shm_endpoint *endpoint, const df_plan *plan,
                             const uint32_t *ranks, uint32_t *readers) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < plan->n_primitives; i++) {
    if (plan->primitives[i].common == DF_COMMON_NONE) continue;
    uint32_t reader = ranks[plan->links[plan->primitives[i].send_link].peer];
    if (!endpoint->base.owner.serves[reader]) return 0; /* the rank maps no memory of this one */
    if (endpoint->base.owner.control->peers[reader].local) continue;
    if (readers) readers[n] = reader;
    n++;
  }
  return n;
}

uint32_t df_common_count_readers(const df_shm_endpoint *endpoint, const df_plan *plan,
                                 const uint32_t *ranks) {
  return list_readers(endpoint, plan, ranks, NULL);
}

/* Common slots are used from the next run on. */
static void publish_if_mapped(const df_common *common, const df_common_segment *record) {
  df_run_words *words = common->words;
  if (df_load_relaxed_u64(&words->common) != 0) return;
  for (uint32_t i = 0; i < common->n_readers; i++)
    if (record->mapping[common->readers[i]] == DF_NOT_MAPPED) return;
  words->common_mapping = record->mapping;
  df_publish_u64(&words->common,
                 (uint64_t)(uintptr_t)(common->range.segment->base + common->range.offset));
}

static df_common_segment *take(df_shm_endpoint *endpoint, uint64_t bytes, df_range *range) {
  df_arena *arena = &endpoint->commons;
  arena->next_id =
      endpoint->next_segment_id; /* not a segment for links: peers may read it, but not write */
  dfcclResult_t result = df_arena_take(arena, bytes, range);
  endpoint->next_segment_id = arena->next_id;
  if (result != dfcclSuccess) return NULL;
  df_common_segment *record = find(endpoint, range->segment);
  if (record == NULL) record = enter(endpoint, range->segment);
  if (record == NULL) df_arena_give(arena, range);
  return record;
}

void df_common_reserve(df_shm_endpoint *endpoint, df_common *common, const df_plan *plan,
                       const uint32_t *ranks, uint64_t bytes, uint32_t depth, df_run_words *words) {
  const uint32_t n_readers = list_readers(endpoint, plan, ranks, NULL);
  uint32_t *readers = malloc(DF_MAX(n_readers, 1u) * sizeof *readers);
  df_range range;
  df_common_segment *record = readers ? take(endpoint, bytes, &range) : NULL;
  if (record == NULL) {
    free(readers);
    return;
  }
  list_readers(endpoint, plan, ranks, readers);
  *common = (df_common){.next = endpoint->common_users,
                        .range = range,
                        .words = words,
                        .readers = readers,
                        .n_readers = n_readers};
  endpoint->common_users = common;
  words->common_mask = depth - 1;
  for (uint32_t i = 0; i < n_readers; i++) {
    if (record->offered[readers[i]]) continue;
    record->offered[readers[i]] = 1;
    df_shm_offer_segment(endpoint, readers[i], range.segment, DF_SEGMENT_USER);
  }
  publish_if_mapped(common, record);
}

void df_common_mapped(df_shm_endpoint *endpoint, uint32_t peer, uint64_t segment,
                      uint64_t address) {
  DF_ASSERT_RANK_LOCKED(endpoint->base.owner.control->lock);
  df_common_segment *record = endpoint->common_segments;
  while (record && record->segment->id != segment) record = record->next;
  if (record == NULL || record->mapping[peer] != DF_NOT_MAPPED) return;
  record->mapping[peer] = address - (uint64_t)(uintptr_t)record->segment->base;
  for (const df_common *common = endpoint->common_users; common; common = common->next)
    if (common->range.segment == record->segment) publish_if_mapped(common, record);
}

void df_common_replaced(df_shm_endpoint *endpoint, uint32_t peer) {
  DF_ASSERT_RANK_LOCKED(endpoint->base.owner.control->lock);
  for (df_common_segment *at = endpoint->common_segments; at; at = at->next) {
    at->mapping[peer] = DF_NOT_MAPPED;
    at->offered[peer] = 0;
  }
}

void df_common_moved(df_shm_endpoint *endpoint, const df_common *from, df_common *to) {
  if (to->range.segment == NULL) return;
  df_common **at = &endpoint->common_users;
  while (*at != from) at = &(*at)->next;
  *at = to;
}

void df_common_give(df_shm_endpoint *endpoint, df_common *common) {
  if (common->range.segment == NULL) return;
  df_common **at = &endpoint->common_users;
  while (*at != common) at = &(*at)->next;
  *at = common->next;
  df_arena_give(&endpoint->commons, &common->range);
  free(common->readers);
  *common = (df_common){0};
}

df_segment *df_common_dissolve(df_shm_endpoint *endpoint) {
  while (endpoint->common_segments) {
    df_common_segment *next = endpoint->common_segments->next;
    free(endpoint->common_segments->mapping);
    free(endpoint->common_segments->offered);
    free(endpoint->common_segments);
    endpoint->common_segments = next;
  }
  return df_arena_dissolve(&endpoint->commons);
}
