#include "transports/shm/endpoint.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mutex.h"
#include "control/messenger.h"
#include "control/service.h"
#include "transports/shm/unmap.h"
#include "transports/shm/common_slots.h"
#include "transports/shm/home.h"

static uint32_t cost(const df_transport_info *mine, const df_transport_info *theirs) {
  return mine->host == theirs->host && !mine->wants_wire && !theirs->wants_wire &&
         mine->backend == dfcclBackendCpu && theirs->backend == dfcclBackendCpu;
}

const df_transport df_transport_shm = {.name = "shm",
                                       .cost = cost,
                                       .open = df_shm_open,
                                       .close = df_shm_close,
                                       .share = df_shm_share,
                                       .unshare = df_shm_unshare,
                                       .accept = df_shm_accept,
                                       .connect = df_shm_connect,
                                       .release = df_shm_release,
                                       .add_memory = df_shm_add_memory,
                                       .add_all_memory = df_shm_add_all_memory};

static int memory_tick(void *room) {
  const df_shm_endpoint *endpoint = room;
  if (df_arena_is_dirty(&endpoint->arena)) return 0;
  return endpoint->unmaps_due ? 1 : -1;
}
/* Cleans one range at a time, so that messages do not wait for all of them. */
static void unmap_and_clean(void *room) {
  df_shm_endpoint *endpoint = room;
  df_unmap_due(endpoint);
  if (df_arena_is_dirty(&endpoint->arena))
    df_arena_clean(&endpoint->arena, endpoint->base.owner.control->lock);
}

static dfcclResult_t make_peers(df_shm_endpoint *endpoint) {
  const uint32_t n_ranks = endpoint->base.owner.control->n_ranks;
  endpoint->peers = calloc(n_ranks, sizeof *endpoint->peers);
  if (endpoint->peers == NULL)
    return df_fail(dfcclOutOfMemory, "no memory for the records of %u peers", n_ranks);
  return dfcclSuccess;
}

int df_shm_have_mapped_ranges(df_shm_endpoint *endpoint, uint32_t rank) {
  df_shm_peer *peer = &endpoint->peers[rank];
  if (endpoint->base.owner.control->peers[rank].local || !endpoint->memory.host_sees_links)
    return 1;
  if (peer->mapped_ranges == NULL) peer->mapped_ranges = calloc(1, sizeof *peer->mapped_ranges);
  return peer->mapped_ranges != NULL;
}

dfcclResult_t df_shm_open(df_endpoint **out, const df_endpoint_owner *owner) {
  df_shm_endpoint *endpoint = calloc(1, sizeof *endpoint);
  if (endpoint == NULL) return df_fail(dfcclOutOfMemory, "no memory for the record of rings");
  endpoint->base = (df_endpoint){.owner = *owner};
  endpoint->memory = *owner->memory;
  endpoint->next_segment_id = 1; /* 0 is the home segment */
  endpoint->arena.next_id = DF_FIRST_LINKS_SEGMENT;
  endpoint->arena.cleaner = owner->control;
  endpoint->commons.stays_dirty = 1;
  dfcclResult_t result = make_peers(endpoint);
  if (result == dfcclSuccess)
    result = df_segment_create(&endpoint->home, 0, df_home_bytes(owner->control->n_ranks));
  if (result != dfcclSuccess) {
    df_shm_close(&endpoint->base, 0);
    return result;
  }
  df_process_identify(&((df_home *)endpoint->home->base)->identity, &endpoint->number);
  df_shm_subscribe(endpoint);
  df_service_add_job(owner->control, endpoint, memory_tick, unmap_and_clean);
  *out = &endpoint->base;
  return dfcclSuccess;
}

static void close_peer(df_shm_peer *peer) {
  free(peer->announced);
  free(peer->mapped_ranges);
  free(peer->ways);
  while (peer->segments) {
    df_segment *next = peer->segments->next;
    df_segment_destroy(peer->segments);
    peer->segments = next;
  }
}

/* older_ns: only those whose ranks were taken over before this time. */
static void close_formers(df_shm_endpoint *endpoint, uint64_t older_ns) {
  for (df_shm_former **at = &endpoint->formers; *at;) {
    df_shm_former *former = *at;
    if (former->since_ns > older_ns) {
      at = &former->next;
      continue;
    }
    *at = former->next;
    close_peer(&former->peer);
    free(former);
  }
}

static void close_peers(df_shm_endpoint *endpoint) {
  for (uint32_t r = 0; endpoint->peers && r < endpoint->base.owner.control->n_ranks; r++)
    close_peer(&endpoint->peers[r]);
  close_formers(endpoint, UINT64_MAX);
  free(endpoint->peers);
}

void df_shm_leave(df_shm_endpoint *endpoint) {
  endpoint->arena.keeps_contents = endpoint->commons.keeps_contents = 1;
}

void df_shm_close(df_endpoint *base, int keep) {
  df_shm_endpoint *endpoint = (df_shm_endpoint *)base;
  df_process_inbox *world = base->owner.control->process_inbox;
  df_segment *rings = df_arena_dissolve(&endpoint->arena);
  if (keep)
    df_segment_abandon(rings);
  else
    df_segment_bury(world, rings);
  /* Peers in this process may still point into these segments. */
  df_segment_bury(world, df_common_dissolve(endpoint));
  if (endpoint->home) df_segment_bury(world, endpoint->home);
  while (endpoint->shared) {
    df_shared *next = endpoint->shared->next;
    free(endpoint->shared);
    endpoint->shared = next;
  }
  close_peers(endpoint);
  free(endpoint);
}

int df_shm_offer_segment(df_shm_endpoint *endpoint, uint32_t rank, const df_segment *segment,
                         uint64_t use) {
  df_control *control = endpoint->base.owner.control;
  df_message message = {
      .kind = DF_MESSAGE_SEGMENT, .id = segment->id, .a = segment->bytes, .b = use};
  int maps = segment->has_handle && df_messenger_reaches(control, rank, DF_MESSAGE_SEGMENT);
  if (segment->has_handle) message.payload_bytes = DF_SEGMENT_HANDLE_BYTES;
  endpoint->peers[rank].maps |= maps;
  df_messenger_send(control, rank, &message, segment->handle, segment->fd);
  return maps;
}

void df_shm_announce_home(df_shm_endpoint *endpoint) {
  const df_control *control = endpoint->base.owner.control;
  for (uint32_t r = 0; r < control->n_ranks; r++)
    if (r != control->rank && !control->peers[r].local && !control->peers[r].is_remote)
      df_shm_offer_segment(endpoint, r, endpoint->home, DF_SEGMENT_HOME);
}

int df_shm_replace_peer(df_shm_endpoint *endpoint, uint32_t rank) {
  const df_control *control = endpoint->base.owner.control;
  DF_ASSERT_RANK_LOCKED(control->lock);
  df_home *home = (df_home *)endpoint->home->base;
  df_shm_former *former = malloc(sizeof *former);
  if (former == NULL) return 0;
  *former = (df_shm_former){
      .next = endpoint->formers, .peer = endpoint->peers[rank], .since_ns = df_clock_ns()};
  endpoint->formers = former;
  endpoint->peers[rank] = (df_shm_peer){0};
  df_store_relaxed_u32(&home->refusals[rank], 0);
  df_store_relaxed_u32(&home->refusals[control->n_ranks + rank], 0);
  df_common_replaced(endpoint, rank);
  df_shm_offer_segment(endpoint, rank, endpoint->home, DF_SEGMENT_HOME);
  df_shm_share_again(endpoint, rank);
  return 1;
}

/* Threads read the bells of all peers without the lock, each for a moment. */
void df_shm_free_formers(df_shm_endpoint *endpoint) {
  enum { MOMENT_NS = 1000000000 };
  DF_ASSERT_RANK_LOCKED(endpoint->base.owner.control->lock);
  const uint64_t now = df_clock_ns();
  close_formers(endpoint, now > MOMENT_NS ? now - MOMENT_NS : 0);
}

df_bell *df_shm_bell(df_shm_endpoint *endpoint, uint32_t rank) {
  const df_control *control = endpoint->base.owner.control;
  df_shm_peer *peer = &endpoint->peers[rank];
  if (peer->bell == NULL && control->peers[rank].local)
    peer->bell = df_process_inbox_bell(control->process_inbox, rank);
  return peer->bell;
}
