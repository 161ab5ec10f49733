#include "transports/shm/single_copy.h"

#include "control/messenger.h"
#include "transports/shm/home.h"

/* Returns NULL for a rank of this process, and if the segment is too short. */
static const df_home *home_of(const df_shm_endpoint *endpoint, uint32_t rank) {
  const df_segment *segment = endpoint->peers[rank].segments;
  while (segment && segment->id != 0) segment = segment->next;
  if (segment == NULL || segment->base == NULL ||
      segment->bytes < df_home_bytes(endpoint->base.owner.control->n_ranks))
    return NULL;
  return (const df_home *)segment->base;
}

int df_single_copy_may_read(df_shm_endpoint *endpoint, uint32_t rank) {
  DF_ASSERT_RANK_LOCKED(endpoint->base.owner.control->lock);
  df_shm_peer *peer = &endpoint->peers[rank];
  df_home *mine = (df_home *)endpoint->home->base;
  if (peer->mapped_ranges == NULL) return 0;
  df_foreign_memory *memory = &peer->mapped_ranges->foreign;
  const df_home *theirs = home_of(endpoint, rank);
  const int socket = endpoint->base.owner.control->peers[rank].socket;
  if (!peer->is_probed && theirs && socket >= 0) {
    const uint64_t process = df_process_of_socket(socket);
    peer->is_probed = 1;
    memory->identity = theirs->identity;
    memory->refusal = &mine->refusals[rank];
    if (df_process_is_readable(process, &memory->identity))
      df_publish_u64(&memory->process, process);
  }
  return memory->process != 0 && df_load_relaxed_u32(memory->refusal) == 0;
}

void df_single_copy_lend(const df_shm_endpoint *endpoint, const df_route *route, df_ways *ways) {
  DF_ASSERT_RANK_LOCKED(endpoint->base.owner.control->lock);
  const df_home *theirs = home_of(endpoint, route->peer);
  if (theirs == NULL || route->ring.call_min == UINT64_MAX) return;
  for (uint32_t block = 0; block < route->n_blocks; block++)
    ways[block].calls = (df_link_calls){
        .bytes_min = route->ring.call_min,
        .refusal = &theirs->refusals[endpoint->base.owner.control->rank],
        .ways = &endpoint->peers[route->peer].ways[DF_RING_KINDS + route->ring.kind]};
}

df_single_copy_counts df_single_copy_count(const df_shm_endpoint *endpoint) {
  df_single_copy_counts counts = {0};
  for (uint32_t r = 0; r < endpoint->base.owner.control->n_ranks; r++) {
    const df_shm_peer *peer = &endpoint->peers[r];
    if (!peer->is_probed || peer->mapped_ranges == NULL) continue;
    const df_foreign_memory *memory = &peer->mapped_ranges->foreign;
    const int reads = memory->process != 0 && df_load_relaxed_u32(memory->refusal) == 0;
    *(reads ? &counts.readable : &counts.refused) += 1;
    counts.reads += df_load_relaxed_u64(&memory->reads);
    counts.failures += df_load_relaxed_u64(&memory->failures);
  }
  return counts;
}
