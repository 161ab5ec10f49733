#include "transports/net/endpoint.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mutex.h"
#include "base/thread.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "transports/net/connect/connections.h"
#include "transports/net/connect/control_reconnect.h"
#include "transports/net/link_rings.h"
#include "transports/net/offer.h"

enum {
  STACK_BYTES = 256 << 10,
  DAY_MS = 86400000, /* the longest permitted time means for ever */
  FIRST_NAP_NS = 100000,
  LAST_NAP_NS = 1000000,
  LOOK_MS = 1000, /* longest time between two looks while something may become due */
  COST = 1000,    /* higher than the cost of any shared memory */
  COST_WHERE_WANTED = 1,
  /* These values are added up. If very many ASKS_SEND add up to ASKS_ALL, the result is
   * harmless. */
  ASKS_SEND = 1,
  ASKS_ALL = 1 << 16
};

typedef struct endpoint {
  df_endpoint base;
  df_mutex lock; /* protects the members below; taken after the lock of the rank */
  df_connections connections;
  df_path_finder *path_finder; /* NULL: all ranks are on this host */
  struct df_link_handle *handles;
  uint32_t asked;       /* requests made while another thread had the lock: ASKS_SEND, ASKS_ALL */
  uint64_t patience_ns; /* computed by the latest pass of the endpoint's thread */
  uint32_t stopping;
  pthread_t thread;
  df_bell bell; /* blocks ring it, and ringing carries messages */
  df_carrier carrier;
  DF_ALIGNED(64) uint32_t driven; /* counts up while blocks are driven */
  uint32_t driven_seen;           /* the last value that the endpoint's thread has read */
  df_bell nap_bell;
} endpoint;

struct df_link_handle {
  df_link_handle *next, **at;
  df_pump *pump;
  df_pump_link *link;
  df_net_rings rings;
};

static endpoint *endpoint_of(df_endpoint *base) { return (endpoint *)(void *)base; }

static uint32_t net_cost(const df_transport_info *mine, const df_transport_info *theirs) {
  if (mine->backend != dfcclBackendCpu || theirs->backend != dfcclBackendCpu) return 0;
  return mine->wants_wire || theirs->wants_wire ? COST_WHERE_WANTED : COST;
}

/* ---- the pump */

/* [endpoint's lock] is_own: the caller is the thread of the endpoint. */
static int carry(endpoint *ep, df_carry why, int is_own) {
  df_connections *all = &ep->connections;
  const int did = why == DF_CARRY_PUBLISHED ? df_connections_send(all)
                                            : df_connections_carry(all, why == DF_CARRY_STUCK);
  if (all->has_lost) ep->base.owner.wake(ep->base.owner.owner);
  if (why == DF_CARRY_ALL)
    df_store_relaxed_u64(&ep->patience_ns, df_connections_patience_ns(all, df_clock_ns()));
  /* The thread of the endpoint may be asleep, or use an earlier patience. */
  if (all->left_work || (why == DF_CARRY_ALL && !is_own && df_connections_are_broken(all)))
    df_tcp_wake(&all->tcp);
  all->has_lost = all->left_work = 0;
  return did;
}

/* If the trylock fails, the request stays in `asked`: the holder of the lock checks `asked` again
 * after unlocking. A blocked thread (DF_CARRY_STUCK) leaves no request, because it calls again. */
static int run_pump(endpoint *ep, df_carry why) {
  const int is_own = why == DF_CARRY_ALL;
  int did = 0;
  if (why != DF_CARRY_STUCK) {
    /* Add, because a store would overwrite the requests of other threads. */
    df_system_add_u32(&ep->asked, is_own ? ASKS_ALL : ASKS_SEND);
    df_wake_fence(); /* otherwise each of two threads could leave the request to the other */
  }
  while (df_trylock(&ep->lock)) {
    /* Observes all requests. The thread of the endpoint sleeps only after it has left a request. */
    if (df_system_exchange_u32(&ep->asked, 0) >= ASKS_ALL) why = DF_CARRY_ALL;
    did |= carry(ep, why, is_own);
    df_unlock(&ep->lock);
    df_wake_fence();
    if (!df_load_relaxed_u32(&ep->asked)) break;
    why = DF_CARRY_ALL;
  }
  return did;
}

/* A thread that drives blocks carries as well, and the thread of the endpoint stays out of its way.
 * A thread that only publishes counts as driving too: otherwise each credit would wake the
 * endpoint's thread, which would poll the network repeatedly while the other thread has the
 * lock. */
static int carry_for_blocks(void *who, df_carry why) {
  endpoint *ep = who;
  if (why == DF_CARRY_SLEEPS) {
    df_store_relaxed_u32(&ep->driven, df_load_relaxed_u32(&ep->driven_seen));
    df_bell_ring(&ep->nap_bell);
    if (ep->base.owner.sleeps) ep->base.owner.sleeps(ep->base.owner.owner);
    return 0;
  }
  df_store_relaxed_u32(&ep->driven, df_load_relaxed_u32(&ep->driven) + 1);
  return run_pump(ep, why);
}

/* The thread of the endpoint. While blocks are driven it naps, longer each time (100 us to 1 ms),
 * because otherwise each arrival would wake it. */
static void *pump_for_all(void *argument) {
  endpoint *ep = argument;
  uint64_t nap_ns = FIRST_NAP_NS;
  /* No event reports that the rest of a record is missing. */
  const int idle_ms = df_protection_needs_keys(&ep->connections.protection) ? LOOK_MS : -1;
  while (!df_load_relaxed_u32(&ep->stopping)) {
    const uint32_t driven = df_load_relaxed_u32(&ep->driven);
    if (driven != df_load_relaxed_u32(&ep->driven_seen)) {
      df_store_relaxed_u32(&ep->driven_seen, driven);
      const uint32_t sequence = df_bell_prepare(&ep->nap_bell);
      if (df_load_relaxed_u32(&ep->stopping))
        df_bell_cancel(&ep->nap_bell);
      else
        df_bell_sleep(&ep->nap_bell, sequence, nap_ns);
      nap_ns = DF_MIN(2 * nap_ns, LAST_NAP_NS);
      continue;
    }
    nap_ns = FIRST_NAP_NS;
    if (run_pump(ep, DF_CARRY_ALL)) continue;
    const uint64_t ns = df_load_relaxed_u64(&ep->patience_ns);
    const int ms = ns == UINT64_MAX ? idle_ms : (int)DF_MIN(ns / 1000000 + 1, (uint64_t)LOOK_MS);
    df_tcp_wait(&ep->connections.tcp, ms);
  }
  return NULL;
}

/* Handles the requests that other threads left meanwhile. */
static void unlock(endpoint *ep) DF_RELEASE(ep->lock) {
  df_unlock(&ep->lock);
  run_pump(ep, DF_CARRY_PUBLISHED);
}

/* Takes the lock of the rank. */
static void update_peers_gone(endpoint *ep) {
  const df_control *control = ep->base.owner.control;
  df_rank_lock(ep->base.owner.lock);
  df_lock(&ep->lock);
  for (uint32_t i = 0; control && i < ep->connections.n_active; i++) {
    df_net_peer *peer = ep->connections.active[i];
    peer->is_gone = control->peers[peer->rank].state != DF_PEER_ALIVE;
  }
  unlock(ep);
  df_rank_unlock(ep->base.owner.lock);
}

/* The threads that carry continue meanwhile. */
static void net_flush(df_endpoint *base, uint64_t patience_ns) {
  endpoint *ep = endpoint_of(base);
  const uint64_t begin = df_clock_ns();
  const uint64_t silence_ns = base->owner.silence_ms * (uint64_t)1000000;
  const uint64_t most_ns = silence_ns ? DF_MIN(silence_ns, patience_ns) : patience_ns;
  int pending = 1;
  df_lock(&ep->lock);
  df_connections_leave(&ep->connections);
  unlock(ep);
  while (pending && df_clock_ns() - begin < most_ns) {
    update_peers_gone(ep);
    df_lock(&ep->lock);
    pending = df_connections_have_pending(&ep->connections);
    unlock(ep);
    if (pending) usleep(100);
  }
}

static void net_quiesce(df_endpoint *base) {
  endpoint *ep = endpoint_of(base);
  df_lock(&ep->lock);
  df_connections_quiesce(&ep->connections);
  unlock(ep);
}

static void net_peer_left(df_endpoint *base, uint32_t peer) {
  endpoint *ep = endpoint_of(base);
  df_lock(&ep->lock);
  df_connections_peer_left(&ep->connections, peer);
  unlock(ep);
}

static int net_take_lost(df_endpoint *base, uint32_t *peer, char *why, size_t bytes) {
  endpoint *ep = endpoint_of(base);
  df_lock(&ep->lock);
  int found = df_connections_take_lost(&ep->connections, peer, why, bytes);
  unlock(ep);
  return found;
}

static int net_traffic(df_endpoint *base, uint32_t peer, uint32_t which, df_traffic *traffic) {
  endpoint *ep = endpoint_of(base);
  df_lock(&ep->lock);
  int found = df_connections_traffic(&ep->connections, peer, which, traffic);
  unlock(ep);
  return found;
}

/* ---- control channels */

static void want_channel(void *base, uint32_t peer, df_reconnect_request request) {
  endpoint *ep = endpoint_of(base);
  df_lock(&ep->lock);
  df_control_reconnect_want(ep->connections.control_reconnect, peer, request);
  ep->connections.left_work = 1;
  unlock(ep);
}

static uint64_t channel_refused_ns(void *base, uint32_t peer) {
  endpoint *ep = endpoint_of(base);
  df_lock(&ep->lock);
  const uint64_t since_ns =
      df_control_reconnect_refused_ns(ep->connections.control_reconnect, peer);
  unlock(ep);
  return since_ns;
}

/* ---- links */

/* [endpoint's lock] Takes ownership of the rings. offer: the receiver's, at the sender; else
 * NULL. */
static dfcclResult_t make_link(endpoint *ep, const df_route *route, const df_net_offer *offer,
                               const df_net_rings *rings, df_link_handle **out) {
  const df_plan_link *planned = &route->plan->links[route->which];
  const uint64_t lend_min = DF_MAX(ep->connections.lend_min, route->lend_min);
  df_net_peer *peer = NULL;
  df_link *ends = aligned_alloc(DF_CACHE_LINE, route->n_blocks * sizeof *ends);
  df_pump_pieces *piece_of = calloc(planned->messages + 1, sizeof *piece_of);
  df_link_handle *handle = calloc(1, sizeof *handle);
  dfcclResult_t result = df_connections_connect(&ep->connections, route->peer, &peer);
  if (result == dfcclSuccess && (ends == NULL || piece_of == NULL || handle == NULL))
    result = df_fail(dfcclOutOfMemory, "no memory for the record of a link");
  if (result == dfcclSuccess) {
    df_net_rings_fill_ends(rings, route, &ep->bell, ep->base.owner.bell, lend_min, ends);
    df_net_rings_find_pieces(route, piece_of);
    const df_pump_route pump_route = {.ends = ends,
                                      .parts = route->parts,
                                      .piece_of = piece_of,
                                      .extents = route->plan->extents,
                                      .messages = planned->messages,
                                      .n_blocks = route->n_blocks,
                                      .pieces = (uint16_t)route->plan->pieces,
                                      .geometry = (uint8_t)route->plan->geometry,
                                      .element_bytes = route->element_bytes,
                                      .varying = route->varying,
                                      .least_slots = route->plan->least_slots,
                                      .lend_min = route->peers_lend_min,
                                      .collective = route->collective,
                                      .peer = route->peer};
    df_pump *pump = peer->pump;
    result = offer ? df_pump_connect(pump, &pump_route, offer->link, offer->n_slots, &handle->link)
                   : df_pump_accept(pump, &pump_route, &handle->link);
  }
  if (result == dfcclSuccess && handle->link->is_bulk) {
    result = df_connections_need_bulk(peer);
    if (result != dfcclSuccess) df_pump_release(peer->pump, handle->link);
  }
  free(ends);
  free(piece_of);
  if (result != dfcclSuccess) {
    free(handle);
    df_net_rings_free(rings);
    return result;
  }
  handle->pump = peer->pump;
  handle->rings = *rings;
  handle->next = ep->handles;
  handle->at = &ep->handles;
  if (ep->handles) ep->handles->at = &handle->next;
  ep->handles = handle;
  *out = handle;
  return dfcclSuccess;
}

static dfcclResult_t net_accept(df_endpoint *base, const df_route *route, df_patience *patience,
                                df_offer *offer, df_link_handle **handle) DF_RANK_LOCKED {
  endpoint *ep = endpoint_of(base);
  DF_ASSERT_RANK_LOCKED(ep->base.owner.lock);
  df_net_rings rings;
  dfcclResult_t result = df_net_rings_make(&rings, route, patience, ep->base.owner.lock);
  if (result != dfcclSuccess) return result;
  df_lock(&ep->lock);
  result = make_link(ep, route, NULL, &rings, handle);
  if (result == dfcclSuccess) {
    df_net_offer mine = {.magic = DF_NET_OFFER_MAGIC,
                         .link = (*handle)->link->id,
                         .n_slots = route->ring.n_slots,
                         .port = ep->connections.tcp.port,
                         .release_mask = route->ring.release_mask};
    df_connection_handshake_key(mine.key, ep->connections.secret, route->peer);
    memcpy(offer->bytes, &mine, sizeof mine);
  }
  unlock(ep);
  return result;
}

static void net_release(df_endpoint *base, df_link_handle *handle) {
  endpoint *ep = endpoint_of(base);
  if (handle == NULL) return;
  df_lock(&ep->lock);
  df_pump_release(handle->pump, handle->link);
  *handle->at = handle->next;
  if (handle->next) handle->next->at = handle->at;
  unlock(ep);
  df_net_rings_free(&handle->rings);
  free(handle);
}

static void net_add_memory(df_endpoint *base, const df_link_handle *handle,
                           df_ring_memory *memory) {
  (void)base;
  if (handle) df_net_rings_add_memory(&handle->rings, memory);
}

static void net_add_all_memory(df_endpoint *base, df_ring_memory *memory) {
  for (const df_link_handle *each = endpoint_of(base)->handles; each; each = each->next)
    net_add_memory(base, each, memory);
}

/* A rank of another host is called at the address where the mesh has found it. */
static void call_peer(endpoint *ep, uint32_t rank, const df_net_offer *offer) {
  df_net_peer *peer = ep->connections.peers[rank];
  const df_remote_rank *remote = ep->base.owner.remote;
  df_tcp_path paths[DF_NET_PATHS_MOST] = {{.to = df_address_loopback(offer->port)}};
  uint32_t n_paths = 1;
  if (remote && remote[rank].is_remote)
    n_paths = df_path_finder_find(ep->path_finder, &remote[rank], paths);
  df_connections_call(&ep->connections, peer, paths, n_paths, offer->key);
}

/* The rings here have as many slots as those of the receiver. */
static dfcclResult_t net_connect(df_endpoint *base, const df_route *given, df_patience *patience,
                                 const df_offer *offer, df_link_handle **handle) DF_RANK_LOCKED {
  endpoint *ep = endpoint_of(base);
  DF_ASSERT_RANK_LOCKED(ep->base.owner.lock);
  df_net_offer theirs;
  memcpy(&theirs, offer->bytes, sizeof theirs);
  if (theirs.magic != DF_NET_OFFER_MAGIC || theirs.port == 0 || theirs.n_slots < given->slots_min ||
      theirs.n_slots > DF_MAX_LINK_SLOTS || (theirs.n_slots & (theirs.n_slots - 1)) ||
      theirs.release_mask >= theirs.n_slots)
    return df_fail(dfcclRemoteError, "rank %u sent rank %u a malformed connection offer",
                   given->peer, ep->base.owner.rank);
  df_route deep = *given, *route = &deep;
  deep.ring.n_slots = theirs.n_slots;
  deep.ring.release_mask = theirs.release_mask;
  df_net_rings rings;
  dfcclResult_t result = df_net_rings_make(&rings, route, patience, ep->base.owner.lock);
  if (result != dfcclSuccess) return result;
  df_lock(&ep->lock);
  result = make_link(ep, route, &theirs, &rings, handle);
  if (result == dfcclSuccess) call_peer(ep, route->peer, &theirs);
  unlock(ep);
  return result;
}

/* ---- memory: lent buffers are read in this process */

static void net_share(df_endpoint *base, struct df_segment *segment, uint64_t *mapping) {
  (void)segment;
  for (uint32_t r = 0; r < base->owner.n_ranks; r++)
    if (base->owner.serves[r]) df_publish_u64(&mapping[r], 0);
}

static int net_unshare(df_endpoint *base, struct df_segment *segment, int may_be_read) {
  (void)base;
  (void)segment;
  (void)may_be_read;
  return 1;
}

/* ---- opening and closing */

static dfcclResult_t start(endpoint *ep) {
  int error = df_thread_create(&ep->thread, STACK_BYTES, 0, pump_for_all, ep);
  if (error == 0) return dfcclSuccess;
  return df_fail(dfcclOutOfMemory, "could not start the thread of connections: %s",
                 strerror(error));
}

/* The fork guard has closed the sockets already (bootstrap/net/fork_guard.h). */
static void net_close_in_child(df_endpoint *base) {
  df_net_backend *net_backend = endpoint_of(base)->connections.net_backend;
  df_tcp_close_in_child(&endpoint_of(base)->connections.tcp);
  if (net_backend && net_backend->ops->close_in_child)
    net_backend->ops->close_in_child(net_backend);
}

static const df_network_ops network_ops = {.flush = net_flush,
                                           .quiesce = net_quiesce,
                                           .peer_left = net_peer_left,
                                           .close_in_child = net_close_in_child,
                                           .take_lost = net_take_lost,
                                           .traffic = net_traffic};

static dfcclResult_t net_open(df_endpoint **out, const df_endpoint_owner *owner) {
  endpoint *ep = aligned_alloc(DF_CACHE_LINE, sizeof *ep);
  if (ep == NULL) return df_fail(dfcclOutOfMemory, "no memory for an endpoint");
  memset(ep, 0, sizeof *ep);
  ep->base = (df_endpoint){.transport = &df_transport_net,
                           .owner = *owner,
                           .network = &network_ops,
                           .reconnector = {.owner = &ep->base,
                                           .want = want_channel,
                                           .refused_ns = channel_refused_ns,
                                           .silence_ms = owner->silence_ms,
                                           .resume_ms = owner->resume_ms}};
  dfcclResult_t result = df_connections_open(&ep->connections, owner->rank, owner->n_ranks,
                                             owner->listeners, owner->net_backend);
  if (result != dfcclSuccess) goto free_memory;
  ep->connections.silence_ms = owner->silence_ms;
  ep->connections.lend_min = owner->lend_min;
  ep->connections.watch = owner->watch;
  ep->connections.resume_ns =
      owner->resume_ms < DAY_MS ? (uint64_t)owner->resume_ms * 1000000 : UINT64_MAX / 4;
  ep->bell.sleepers = 1; /* a thread that rings the bell carries messages */
  ep->carrier = (df_carrier){.bell = &ep->bell, .who = ep, .carry = carry_for_blocks};
  ep->base.carrier = &ep->carrier;
  df_mutex_init(&ep->lock);
  result = df_protection_make(&ep->connections.protection, owner->security, owner->all_have_aes,
                              owner->tls);
  if (result == dfcclSuccess && owner->remote)
    result = df_path_finder_open(&ep->path_finder, owner->interfaces, owner->rails);
  if (result == dfcclSuccess)
    result = df_control_reconnect_open(&ep->connections.control_reconnect, &ep->connections.tcp,
                                       &ep->base.owner);
  if (result == dfcclSuccess) result = start(ep);
  if (result != dfcclSuccess) goto close_connections;
  *out = &ep->base;
  return dfcclSuccess;
close_connections:
  df_mutex_destroy(&ep->lock);
  df_connections_close(&ep->connections);
free_memory:
  df_path_finder_close(ep->path_finder);
  free(ep);
  return result;
}

static void net_close(df_endpoint *base, int keep) {
  (void)keep; /* no peer maps memory of this transport */
  endpoint *ep = endpoint_of(base);
  df_store_relaxed_u32(&ep->stopping, 1);
  df_bell_ring(&ep->nap_bell);
  df_tcp_wake(&ep->connections.tcp);
  pthread_join(ep->thread, NULL);
  while (ep->handles) net_release(base, ep->handles);
  df_connections_close(&ep->connections);
  df_mutex_destroy(&ep->lock);
  df_path_finder_close(ep->path_finder);
  free(ep);
}

const df_transport df_transport_net = {.name = "wire",
                                       .cost = net_cost,
                                       .open = net_open,
                                       .close = net_close,
                                       .share = net_share,
                                       .unshare = net_unshare,
                                       .accept = net_accept,
                                       .connect = net_connect,
                                       .release = net_release,
                                       .add_memory = net_add_memory,
                                       .add_all_memory = net_add_all_memory};
