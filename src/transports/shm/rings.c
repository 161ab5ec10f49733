/* Rings that both ranks have mapped: the receiver owns them, and the sender writes to them. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/mutex.h"
#include "control/messenger.h"
#include "transports/shm/endpoint.h"
#include "transports/shm/single_copy.h"

struct df_link_handle {
  df_range range;      /* receiving */
  uint32_t *ways_read; /* receiving: [n_blocks][DF_WAYS] */
  df_ways *ways;       /* sending: [n_blocks] */
  uint32_t n_blocks;
};

static void free_handle(df_link_handle *handle) {
  if (handle == NULL) return;
  free(handle->ways_read);
  free(handle->ways);
  free(handle);
}

static uint64_t ways_bytes(const df_link_handle *handle) {
  return handle->ways ? handle->n_blocks * sizeof *handle->ways : 0;
}

static uint64_t bytes_of(const df_ring *ring, uint32_t n_blocks) {
  return df_link_ring_bytes(ring->stride, ring->n_slots) * n_blocks;
}

static int is_deep(const df_route *route, uint32_t n_slots) { return n_slots > route->slots_min; }

static void fill_ends(const df_shm_endpoint *endpoint, const df_route *route, const df_ring *ring,
                      uint8_t *rings, const df_link_handle *handle) {
  const df_plan_link *planned = &route->plan->links[route->which];
  const df_shared_memory *memory = &endpoint->memory;
  const df_shm_peer *peer = &endpoint->peers[route->peer];
  const int is_local = endpoint->base.owner.control->peers[route->peer].local;
  const int reads_all = is_local && memory->lends_to(memory->device, route->peer);
  const int asks = memory->host_sees_links && !planned->sends;
  DF_ASSERT(!asks || is_local ||
            peer->mapped_ranges); /* without mapped ranges any address would be followed */
  for (uint32_t block = 0; block < route->n_blocks; block++) {
    df_link *link = &route->ends[block * route->end_step];
    uint8_t *at = rings + block * df_link_ring_bytes(ring->stride, ring->n_slots);
    link->slots = at;
    link->credit = (uint64_t *)(at + (uint64_t)ring->stride * ring->n_slots);
    link->peer_bell = peer->bell;
    link->stride = ring->stride;
    link->slot_mask = (uint8_t)(ring->n_slots - 1);
    link->release_mask = (uint8_t)ring->release_mask;
    link->messages = planned->messages;
    link->peer = (uint16_t)route->peer;
    link->payload_offset = route->payload_offset;
    link->same_process = (uint8_t)reads_all;
    link->sends = (uint8_t)planned->sends;
    if (planned->sends)
      link->ways = handle ? &handle->ways[block] : NULL;
    else
      link->ways_read = handle->ways_read ? &handle->ways_read[block * DF_WAYS] : NULL;
    /* A device follows the addresses of its own mappings, and cannot read the table of the host. */
    link->mapped_ranges = asks ? peer->mapped_ranges : NULL;
  }
}

/* Announces the segment: the peer must have it before it receives a range in it. */
static void announce_segment(df_shm_endpoint *endpoint, uint32_t rank,
                             const df_segment *segment) DF_RANK_LOCKED {
  df_shm_peer *peer = &endpoint->peers[rank];
  if (endpoint->base.owner.control->peers[rank].local) return;
  for (uint32_t i = 0; i < peer->n_announced; i++)
    if (peer->announced[i] == segment->id) return;
  uint64_t *announced = realloc(peer->announced, (peer->n_announced + 1) * sizeof *announced);
  if (announced) { /* if there is no memory, it is announced again */
    peer->announced = announced;
    peer->announced[peer->n_announced++] = segment->id;
  }
  df_shm_offer_segment(endpoint, rank, segment, DF_SEGMENT_LINKS);
}

/* Returns the pages that accept writes to. If the ring is not deep, they end where its slots
 * begin. */
static uint64_t pages_of(const df_route *route) {
  const df_ring *ring = &route->ring;
  if (!route->fills_rings) return 0;
  uint64_t bytes = df_link_ring_bytes(ring->stride, ring->n_slots);
  uint64_t pages = DF_ALIGN_UP(bytes, (uint64_t)DF_PAGE) / DF_PAGE;
  if (!is_deep(route, ring->n_slots)) pages = DF_MIN(pages, ring->n_slots + 1ull);
  return pages * route->n_blocks;
}

/* No other thread uses the range yet, so the lock may be released. */
static dfcclResult_t prepare(df_shm_endpoint *endpoint, const df_route *route,
                             const df_range *range, int may_wait) DF_NO_THREAD_SAFETY_ANALYSIS
/* unlocks and locks again under one condition */ {
  df_rank_mutex *lock = endpoint->base.owner.control->lock;
  const df_shared_memory *memory = &endpoint->memory;
  const df_device_rings rings = {.base = range->segment->base + range->offset,
                                 .n_blocks = route->n_blocks,
                                 .n_slots = route->ring.n_slots,
                                 .stride = route->ring.stride,
                                 .payload_offset = route->payload_offset};
  if (may_wait) df_rank_unlock(lock);
  if (route->fills_rings && is_deep(route, route->ring.n_slots))
    df_segment_populate(range->segment, range->offset, range->bytes);
  dfcclResult_t result = memory->clear ? memory->clear(memory->device, &rings) : dfcclSuccess;
  if (may_wait) df_rank_lock(lock);
  return result;
}

static int reads_by_calls(df_shm_endpoint *endpoint, const df_route *route) DF_RANK_LOCKED {
  return route->ring.has_ways && route->ring.call_min != UINT64_MAX &&
         df_single_copy_may_read(endpoint, route->peer);
}

dfcclResult_t df_shm_accept(df_endpoint *base, const df_route *route, df_patience *patience,
                            df_offer *offer, df_link_handle **out) {
  df_shm_endpoint *endpoint = (df_shm_endpoint *)base;
  DF_ASSERT_RANK_LOCKED(endpoint->base.owner.control->lock);
  const uint64_t pages = pages_of(route);
  if (!patience->may_wait &&
      (endpoint->memory.sets_up_in_background || pages > patience->pages_left))
    return dfcclInProgress;
  df_link_handle *handle = calloc(1, sizeof *handle);
  if (handle && route->ring.has_ways)
    handle->ways_read = calloc((size_t)route->n_blocks * DF_WAYS, sizeof *handle->ways_read);
  if (handle == NULL || (route->ring.has_ways && handle->ways_read == NULL) ||
      !df_shm_have_mapped_ranges(endpoint, route->peer)) {
    free_handle(handle);
    return df_fail(dfcclOutOfMemory, "no memory to receive from rank %u", route->peer);
  }
  dfcclResult_t result =
      df_arena_take_apart(&endpoint->arena, base->owner.control->lock,
                          bytes_of(&route->ring, route->n_blocks), &handle->range);
  if (result != dfcclSuccess) {
    free_handle(handle);
    return result;
  }
  result = prepare(endpoint, route, &handle->range, patience->may_wait);
  if (result != dfcclSuccess) {
    df_shm_release(base, handle);
    return result;
  }
  if (!patience->may_wait) patience->pages_left -= (uint32_t)pages;
  const df_range *range = &handle->range;
  fill_ends(endpoint, route, &route->ring, range->segment->base + range->offset, handle);
  announce_segment(endpoint, route->peer, range->segment);
  const int is_local = base->owner.control->peers[route->peer].local;
  const df_shm_offer made = {.segment = is_local ? (uint64_t)(uintptr_t)range->segment
                                                 : range->segment->id,
                             .offset = range->offset,
                             .n_slots = route->ring.n_slots,
                             .release_mask = route->ring.release_mask,
                             .reads_by_calls = (uint16_t)reads_by_calls(endpoint, route)};
  memcpy(offer, &made, sizeof made);
  *out = handle;
  return dfcclSuccess;
}

void df_shm_release(df_endpoint *base, df_link_handle *handle) {
  if (handle == NULL) return;
  for (uint32_t block = 0; handle->ways && block < handle->n_blocks; block++)
    df_ways_close(&handle->ways[block]);
  ((df_shm_endpoint *)base)->ways_bytes -= ways_bytes(handle);
  if (handle->range.segment) df_arena_give(&((df_shm_endpoint *)base)->arena, &handle->range);
  free_handle(handle);
}

void df_shm_add_memory(df_endpoint *base, const df_link_handle *handle, df_ring_memory *memory) {
  (void)base;
  if (handle == NULL) return;
  memory->reserved += ways_bytes(handle);
  memory->used += ways_bytes(handle);
  if (handle->range.segment == NULL) return;
  const df_range *range = &handle->range;
  memory->reserved += range->bytes;
  memory->used += df_segment_used(range->segment, range->offset, range->bytes);
}

void df_shm_add_all_memory(df_endpoint *base, df_ring_memory *memory) {
  const df_shm_endpoint *endpoint = (const df_shm_endpoint *)base;
  memory->reserved +=
      endpoint->arena.used_bytes + endpoint->commons.used_bytes + endpoint->ways_bytes;
  memory->used +=
      df_arena_used(&endpoint->arena) + df_arena_used(&endpoint->commons) + endpoint->ways_bytes;
}

/* Returns 0 if the offer is malformed. */
static int find_offered(const df_shm_endpoint *endpoint, const df_route *route,
                        const df_shm_offer *offer, df_ring *ring, df_range *offered) {
  df_segment *segment = endpoint->peers[route->peer].segments;
  if (endpoint->base.owner.control->peers[route->peer].local) {
    segment = (df_segment *)(uintptr_t)offer->segment;
  } else {
    while (segment && segment->id != offer->segment) segment = segment->next;
    if (offer->segment < DF_FIRST_LINKS_SEGMENT)
      segment = NULL; /* such a segment may be unmapped, because it has no rings */
  }
  const uint32_t n_slots = offer->n_slots, mask = offer->release_mask;
  if (segment == NULL || n_slots < route->slots_min || n_slots > DF_MAX_LINK_SLOTS ||
      (n_slots & (n_slots - 1)) != 0 || mask >= n_slots || (mask & (mask + 1)) != 0 ||
      offer->offset % DF_CACHE_LINE != 0)
    return 0;
  *ring = route->ring;
  ring->n_slots = n_slots;
  ring->release_mask = offer->release_mask;
  uint64_t bytes = bytes_of(ring, route->n_blocks);
  *offered = (df_range){.segment = segment, .offset = offer->offset, .bytes = bytes};
  return segment->base == NULL || /* unmapped again because its owner leaves */
         (bytes <= segment->bytes && offer->offset <= segment->bytes - bytes);
}

/* Begins with the ways of earlier links of the kind. Returns 0 if there is no memory. */
static int make_ways(df_shm_endpoint *endpoint, const df_route *route, const df_ring *ring,
                     int peer_reads, df_link_handle **out) DF_RANK_LOCKED {
  df_shm_peer *peer = &endpoint->peers[route->peer];
  *out = NULL;
  if (!route->ring.has_ways) return 1;
  df_link_handle *handle = calloc(1, sizeof *handle);
  if (peer->ways == NULL) peer->ways = calloc(2 * (size_t)DF_RING_KINDS, sizeof *peer->ways);
  if (handle) handle->ways = aligned_alloc(DF_CACHE_LINE, route->n_blocks * sizeof *handle->ways);
  if (handle == NULL || handle->ways == NULL || peer->ways == NULL) {
    free_handle(handle);
    return 0;
  }
  handle->n_blocks = route->n_blocks;
  for (uint32_t block = 0; block < route->n_blocks; block++)
    df_ways_open(&handle->ways[block], route->ring.ways, ring->n_slots,
                 &peer->ways[route->ring.kind]);
  if (peer_reads) df_single_copy_lend(endpoint, route, handle->ways);
  endpoint->ways_bytes += ways_bytes(handle);
  *out = handle;
  return 1;
}

dfcclResult_t df_shm_connect(df_endpoint *base, const df_route *route, df_patience *patience,
                             const df_offer *offer, df_link_handle **handle) DF_RANK_LOCKED {
  df_shm_endpoint *endpoint = (df_shm_endpoint *)base;
  const df_control *control = base->owner.control;
  DF_ASSERT_RANK_LOCKED(control->lock);
  df_shm_offer theirs;
  df_range offered;
  df_ring ring;
  memcpy(&theirs, offer, sizeof theirs);
  if (!find_offered(endpoint, route, &theirs, &ring, &offered))
    return df_fail(dfcclRemoteError,
                   "rank %u offered links outside of the memory that it shares with rank %u",
                   route->peer, control->rank);
  if (offered.segment->base == NULL) return dfcclInProgress;
  if (route->fills_rings && is_deep(route, ring.n_slots) && !control->peers[route->peer].local) {
    if (!patience->may_wait) return dfcclInProgress;
    /* Only the service thread, which is this thread, removes segments of rings. */
    df_rank_unlock(control->lock);
    df_segment_populate(offered.segment, offered.offset, offered.bytes);
    df_rank_lock(control->lock);
  }
  if (!make_ways(endpoint, route, &ring, theirs.reads_by_calls, handle))
    return df_fail(dfcclOutOfMemory, "no memory to send to rank %u", route->peer);
  fill_ends(endpoint, route, &ring, offered.segment->base + offered.offset, *handle);
  return dfcclSuccess;
}
