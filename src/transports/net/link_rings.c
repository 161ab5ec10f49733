#include "transports/net/link_rings.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "transports/shm/segment.h"

static int are_pages(const df_net_rings *rings) {
  enum { LEAST_BYTES = 64 << 10 };
  return rings->bytes >= LEAST_BYTES;
}

static uint8_t *allocate(const df_net_rings *rings) {
  if (!are_pages(rings))
    return aligned_alloc(DF_CACHE_LINE, DF_ALIGN_UP(rings->bytes, (uint64_t)DF_CACHE_LINE));
  void *base = mmap(NULL, rings->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return base == MAP_FAILED ? NULL : base;
}

void df_net_rings_free(const df_net_rings *rings) {
  if (are_pages(rings))
    munmap(rings->base, rings->bytes);
  else
    free(rings->base);
}

void df_net_rings_add_memory(const df_net_rings *rings, df_ring_memory *memory) {
  memory->reserved += rings->bytes;
  memory->used += are_pages(rings) ? df_segment_used_at(rings->base, rings->bytes) : rings->bytes;
}

dfcclResult_t df_net_rings_make(df_net_rings *rings, const df_route *route, df_patience *patience,
                                df_rank_mutex *lock) DF_NO_THREAD_SAFETY_ANALYSIS
/* unlocks and locks again under one condition */ {
  rings->bytes = df_link_ring_bytes(route->ring.stride, route->ring.n_slots) * route->n_blocks;
  const int writes = route->fills_rings || !are_pages(rings);
  const uint32_t pages = writes ? (uint32_t)DF_DIV_UP(rings->bytes, (uint64_t)DF_PAGE) : 0;
  if (!patience->may_wait && pages > patience->pages_left) return dfcclInProgress;
  if (!patience->may_wait) patience->pages_left -= pages;
  if (patience->may_wait) df_rank_unlock(lock);
  rings->base = allocate(rings);
  if (rings->base && writes) memset(rings->base, 0, rings->bytes);
  if (patience->may_wait) df_rank_lock(lock);
  if (rings->base) return dfcclSuccess;
  return df_fail(dfcclOutOfMemory, "no memory for rings of %llu bytes",
                 (unsigned long long)rings->bytes);
}

void df_net_rings_fill_ends(const df_net_rings *rings, const df_route *route, df_bell *pump_bell,
                            df_bell *block_bell, uint64_t lend_min, df_link *pump_ends) {
  const df_plan_link *planned = &route->plan->links[route->which];
  const uint64_t ring_bytes = df_link_ring_bytes(route->ring.stride, route->ring.n_slots);
  for (uint32_t block = 0; block < route->n_blocks; block++) {
    uint8_t *ring = rings->base + block * ring_bytes;
    df_link *end = &route->ends[block * route->end_step];
    *end =
        (df_link){.slots = ring,
                  .credit = (uint64_t *)(ring + (uint64_t)route->ring.stride * route->ring.n_slots),
                  .peer_bell = pump_bell,
                  .stride = route->ring.stride,
                  .slot_mask = route->ring.n_slots - 1,
                  .messages = planned->messages,
                  .peer = route->peer,
                  .payload_offset = route->payload_offset,
                  .same_process = 1, /* the pump is in this process and reads lent buffers */
                  .sends = (uint8_t)planned->sends,
                  .release_mask = route->ring.release_mask};
    pump_ends[block] = *end;
    /* Both ends compare a piece with the minimum. A message of several pieces is longer than a
     * piece, so it is copied. */
    if (end->sends) end->lend_min = route->plan->longest > 1 ? UINT64_MAX : lend_min;
    pump_ends[block].sends = !planned->sends;
    pump_ends[block].peer_bell = block_bell;
  }
}

void df_net_rings_find_pieces(const df_route *route, df_pump_pieces *piece_of) {
  const df_plan *plan = route->plan;
  const int sends = plan->links[route->which].sends;
  for (uint32_t i = 0; i < plan->n_primitives; i++) {
    const df_primitive *prim = &plan->primitives[i];
    const df_pump_pieces pieces = {prim->piece, prim->pieces, prim->stride};
    if (sends && prim->flags & DF_PRIM_SEND && prim->send_link == route->which)
      piece_of[prim->send_ordinal] = pieces;
    if (!sends && prim->flags & DF_PRIM_RECV && prim->recv_link == route->which)
      piece_of[prim->recv_ordinal] = pieces;
  }
}
