#include "transports/net/connect/connections.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "transports/net/connect/connection.h"
#include "transports/net/connect/pending_accepts.h"
#include "transports/net/connect/control_reconnect.h"

enum {
  VAIN_LOOKS = 32, /* after so many empty reads a stream is read only if it is ready */
  LOOKS_APART =
      8, /* polls between two checks of all streams, while some are read without a check */
  ACCEPT_RETRY_NS = 20000000, /* used if there was no descriptor for a caller */
#if defined(DF_SIMULATION)
  STREAM_FRAMES = 1,
#else
  STREAM_FRAMES = 8, /* payloads in a row, in one direction */
#endif
  REST_BYTES = 16 << 10, /* a read that returns more is worth its cost */
  REST_FRAME = 32 << 10, /* longer frames follow each other fast enough */
  REST_NS = 20000
};

dfcclResult_t df_connections_need(df_net_peer *peer, uint32_t port) {
  while (peer->pump->n_ports <= port) {
    peer->ports[peer->pump->n_ports].calls = peer->can_call;
    dfcclResult_t result = df_pump_add_port(peer->pump);
    if (result != dfcclSuccess) return result;
  }
  return dfcclSuccess;
}

dfcclResult_t df_connections_connect(df_connections *all, uint32_t rank, df_net_peer **out) {
  df_net_peer *peer = all->peers[rank];
  *out = peer;
  if (peer) return dfcclSuccess;
  peer = calloc(1, sizeof *peer);
  if (peer == NULL) return df_fail(dfcclOutOfMemory, "no memory for a connection");
  peer->rank = rank;
  dfcclResult_t result = df_pump_make(&peer->pump, DF_PUMP_FRAME_BYTES);
  if (result == dfcclSuccess) {
    peer->pump->lend_min = all->lend_min;
    peer->pump->watch = all->watch;
    result = df_connections_need(peer, DF_PUMP_SMALL);
  }
  if (result != dfcclSuccess) {
    if (peer->pump) df_pump_free(peer->pump);
    free(peer);
    return result;
  }
  snprintf(peer->ports[DF_PUMP_SMALL].ends, DF_CONNECTION_ENDS_BYTES, "to rank %u", rank);
  all->peers[rank] = all->active[all->n_active++] = peer;
  *out = peer;
  return dfcclSuccess;
}

dfcclResult_t df_connections_need_bulk(df_net_peer *peer) {
  return df_connections_need(peer, DF_PUMP_BULK + DF_MAX(peer->n_paths, 1u) - 1);
}

void df_connections_call(df_connections *all, df_net_peer *peer, const df_tcp_path *paths,
                         uint32_t n_paths, const unsigned char key[DF_KEY_BYTES]) {
  if (!peer->can_call) {
    peer->can_call = 1;
    peer->n_paths = n_paths;
    memcpy(peer->paths, paths, n_paths * sizeof *paths);
    memcpy(peer->key, key, sizeof peer->key);
    df_connection_set_silence(all, peer);
    /* If there is no memory for spare connections, the others carry everything. */
    if (peer->pump->n_ports > DF_PUMP_BULK) (void)df_connections_need_bulk(peer);
  }
  for (uint32_t i = 0; i < peer->pump->n_ports; i++)
    if (all->rank < peer->rank || (peer->ports[i].stream == NULL && peer->ports[i].lost_ns == 0))
      peer->ports[i].calls = 1;
  df_connection_call_all(all, peer);
}

/* ---- carrying */

static void after(df_connections *all, df_net_peer *peer) {
  if (peer->pump->is_lost) df_connection_lose_peer(all, peer, &peer->ports[0], peer->pump->reason);
  for (uint32_t i = 0; i < peer->pump->n_ports; i++)
    if (peer->pump->ports[i].why) df_connection_lose(all, peer, i, peer->pump->ports[i].why);
}

static int send_to(df_connections *all, df_net_peer *peer) {
  if (peer->is_lost) return 0;
  const int did = df_pump_send(peer->pump);
  all->left_work |= peer->pump->stopped_early;
  return did;
}

int df_connections_send(df_connections *all) {
  int did = 0;
  for (uint32_t i = 0; i < all->n_active; i++) did |= send_to(all, all->active[i]);
  return did;
}

/* While a peer sends a stream of short messages, read its socket at most every 20 us: each read
 * contends with the sender for the socket lock, and triggers an acknowledgement. */
static int is_resting(const df_connection *c, const df_pump_port *port) {
  const df_channel *channel = &port->channel;
  return channel->came_in_a_row >= STREAM_FRAMES && !channel->owes && !c->carried &&
         !c->stream->is_ready && port->frame.bytes <= REST_FRAME &&
         channel->bytes_received - c->bytes_before < REST_BYTES &&
         (int64_t)(df_clock_ns() - c->received_ns) < REST_NS;
}

/* While a stream rests, the thread that spins does not ask the system for events either: the system
 * reports an event once, and this thread might sleep before reading the stream. The endpoint's
 * thread would then miss the event. */
static int has_resting_stream(const df_connections *all) {
  for (uint32_t i = 0; i < all->n_active; i++) {
    const df_net_peer *peer = all->active[i];
    for (uint32_t port = 0; port < peer->pump->n_ports; port++)
      if (peer->ports[port].state == DF_CONNECTION_CONNECTED &&
          is_resting(&peer->ports[port], &peer->pump->ports[port]))
        return 1;
  }
  return 0;
}

/* The length of a TLS record is not protected: one that is made longer on the way would never be
 * complete. */
static void await_rest(const df_connections *all, df_connection *c, int came, int has_more) {
  if (c->frames->awaits_rest == NULL || all->silence_ms == 0) return;
  if (has_more || !c->frames->awaits_rest(c->frames))
    c->rest_due_ns = 0;
  else if (came || c->rest_due_ns == 0)
    c->rest_due_ns = df_clock_ns() + all->silence_ms * (uint64_t)1000000;
}

static int receive(df_connections *all, df_net_peer *peer, uint32_t port, int spins) {
  df_connection *c = &peer->ports[port];
  const df_channel *channel = &peer->pump->ports[port].channel;
  if (spins && c->state == DF_CONNECTION_CONNECTED && is_resting(c, &peer->pump->ports[port]))
    return 0;
  if (c->stream == NULL) return 0;
  const int is_ready = c->stream->is_ready || (c->carried && c->carried->is_ready);
  if (!is_ready && !(spins && c->state == DF_CONNECTION_CONNECTED && c->vain_looks < VAIN_LOOKS))
    return 0;
  if (c->carried && c->state != DF_CONNECTION_NETWORK && c->stream->is_ready)
    all->net_backend->ops->on_readable(c->carried);
  if (c->carried) c->carried->is_ready = 0;
  c->stream->is_ready = 0;
  if (c->state != DF_CONNECTION_CONNECTED) df_connection_progress(all, peer, port);
  if (c->state != DF_CONNECTION_CONNECTED) return 0;
  c->bytes_before = channel->bytes_received;
  const int came = df_pump_receive(peer->pump, port);
  c->vain_looks = came ? 0 : c->vain_looks + 1;
  c->has_received |= came;
  if (came) c->received_ns = df_clock_ns();
  await_rest(all, c, came, channel->has_more);
  /* The budget was smaller than the amount that is there. */
  if (c->carried && channel->has_more)
    c->carried->is_ready = all->left_work = 1;
  else if (channel->has_more || (c->stream->hangs_up && !channel->has_ended && !c->carried))
    c->stream->is_ready = all->left_work = 1;
  return came;
}

static int carry(df_connections *all, df_net_peer *peer, int spins) {
  int did = 0;
  if (peer->is_lost) return 0;
  df_connection_call_all(all, peer);
  for (uint32_t i = 0; i < peer->pump->n_ports; i++) did |= receive(all, peer, i, spins);
  df_pump_ring_peers(peer->pump);
  did |= send_to(all, peer);
  after(all, peer);
  return did;
}

/* ---- all of them */

static void wake(void *owner) { df_tcp_wake(owner); }

static dfcclResult_t open_backend(df_connections *all, const char *choice) {
  const char *rest;
  const df_net_backend_ops *ops = df_net_backend_find(choice, &rest);
  const df_net_backend_owner owner = {.owner = &all->tcp, .rank = all->rank, .wake = wake};
  if (ops == NULL) return df_fail(dfcclInvalidUsage, "this build has no network \"%s\"", choice);
  dfcclResult_t result = ops->open(&all->net_backend, &owner, rest);
  if (result == dfcclSuccess && all->net_backend->fd >= 0) {
    result = df_tcp_watch(&all->tcp, all->net_backend->fd);
    if (result != dfcclSuccess) ops->close(all->net_backend);
  }
  return result;
}

dfcclResult_t df_connections_open(df_connections *all, uint32_t rank, uint32_t n_ranks,
                                  df_listeners *listeners, const char *net_backend) {
  *all = (df_connections){.rank = rank, .n_ranks = n_ranks};
  all->peers = calloc(n_ranks, sizeof(df_net_peer *));
  all->active = calloc(n_ranks, sizeof(df_net_peer *));
  dfcclResult_t result = dfcclSuccess;
  if (all->peers == NULL || all->active == NULL)
    result = df_fail(dfcclOutOfMemory, "no memory for %u connections", n_ranks);
  if (result == dfcclSuccess) result = df_handshake_ready();
  if (result == dfcclSuccess) result = df_tcp_open(&all->tcp, listeners);
  if (result == dfcclSuccess && net_backend) {
    result = open_backend(all, net_backend);
    if (result != dfcclSuccess) df_tcp_close(&all->tcp);
  }
  if (result != dfcclSuccess) {
    free(all->peers);
    free(all->active);
    return result;
  }
  randombytes_buf(all->secret, sizeof all->secret);
  return dfcclSuccess;
}

void df_connections_close(df_connections *all) {
  df_pending_accepts_drop(all);
  df_control_reconnect_close(all->control_reconnect);
  for (uint32_t i = 0; i < all->n_active; i++) {
    df_net_peer *peer = all->active[i];
    for (uint32_t port = 0; port < DF_PUMP_PORTS_MOST; port++)
      df_connection_end(all, &peer->ports[port]);
    df_pump_free(peer->pump);
    sodium_memzero(peer, sizeof *peer);
    free(peer);
  }
  free(all->peers);
  free(all->active);
  df_protection_free(&all->protection);
  if (all->net_backend) all->net_backend->ops->close(all->net_backend);
  df_tcp_close(&all->tcp);
  sodium_memzero(all->secret, sizeof all->secret);
}

/* A stream that returned something lately is read without asking the system first. */
static int has_warm_stream(const df_connections *all) {
  for (uint32_t i = 0; i < all->n_active; i++)
    for (uint32_t port = 0; port < all->active[i]->pump->n_ports; port++) {
      const df_connection *c = &all->active[i]->ports[port];
      if (c->state == DF_CONNECTION_CONNECTED && c->vain_looks < VAIN_LOOKS) return 1;
    }
  return 0;
}

int df_connections_carry(df_connections *all, int spins) {
  int did = 0;
  if (!spins ||
      ((++all->looks % LOOKS_APART == 0 || !has_warm_stream(all)) && !has_resting_stream(all))) {
    df_tcp_look(&all->tcp);
    if (all->pending || all->tcp.has_callers) df_pending_accepts_receive(all);
  }
  if (all->control_reconnect) all->left_work |= df_control_reconnect_carry(all->control_reconnect);
  if (all->net_backend) all->net_backend->ops->look(all->net_backend, spins);
  for (uint32_t i = 0; i < all->n_active; i++) did |= carry(all, all->active[i], spins);
  return did;
}

int df_connections_are_broken(const df_connections *all) {
  return df_connections_patience_ns(all, 0) != UINT64_MAX;
}

uint64_t df_connections_patience_ns(const df_connections *all, uint64_t now_ns) {
  uint64_t least = all->tcp.has_callers ? ACCEPT_RETRY_NS : UINT64_MAX;
  if (all->control_reconnect)
    least = DF_MIN(least, df_control_reconnect_patience_ns(all->control_reconnect, now_ns));
  for (uint32_t i = 0; i < all->n_active; i++) {
    const df_net_peer *peer = all->active[i];
    for (uint32_t port = 0; port < peer->pump->n_ports && !peer->is_lost; port++) {
      const df_connection *c = &peer->ports[port];
      if (c->state == DF_CONNECTION_CONNECTED || (!c->stream && c->lost_ns == 0) ||
          peer->pump->remote_leaves)
        continue;
      if (port > DF_PUMP_BULK && !c->stream)
        continue; /* the job does not wait for a spare connection */
      uint64_t due = c->stream ? c->due_ns : df_connection_end_ns(all, peer, port);
      if (!c->stream && df_connection_is_wanted(peer, port)) due = DF_MIN(due, c->call_ns);
      if (due == UINT64_MAX) continue;
      least = DF_MIN(least, due > now_ns ? due - now_ns : 0);
    }
  }
  return least;
}

static int has_pending(const df_connections *all, const df_net_peer *peer) {
  const df_connection *small = &peer->ports[DF_PUMP_SMALL];
  if (peer->is_lost || peer->is_gone || peer->pump->remote_leaves) return 0;
  /* This rank has said goodbye, or the peer may not exist. */
  int may_come_back = small->calls || small->lost_ns;
  for (uint32_t i = 0; i < peer->pump->n_ports; i++) may_come_back |= peer->ports[i].has_received;
  if (small->stream == NULL && (!may_come_back || df_pump_has_left(peer->pump))) return 0;
  if (df_pump_has_pending(peer->pump)) return 1;
  for (uint32_t i = 0; i < peer->pump->n_ports; i++) {
    const df_connection *c = &peer->ports[i];
    if (c->state == DF_CONNECTION_CONNECTED && df_tcp_has_unsent(c->stream)) return 1;
    if (c->state == DF_CONNECTION_CONNECTED && c->carried &&
        all->net_backend->ops->has_unsent(c->carried))
      return 1;
  }
  return 0;
}

int df_connections_have_pending(const df_connections *all) {
  for (uint32_t i = 0; i < all->n_active; i++)
    if (has_pending(all, all->active[i])) return 1;
  return 0;
}

void df_connections_leave(df_connections *all) {
  for (uint32_t i = 0; i < all->n_active; i++) df_pump_leave(all->active[i]->pump);
}

void df_connections_quiesce(df_connections *all) {
  all->is_quiesced = 1; /* connections that are established later, too */
  for (uint32_t i = 0; i < all->n_active; i++) {
    df_pump *pump = all->active[i]->pump;
    for (uint32_t port = 0; port < pump->n_ports; port++)
      df_channel_quiesce(&pump->ports[port].channel);
  }
}

void df_connections_peer_left(df_connections *all, uint32_t rank) {
  df_net_peer *peer = all->peers[rank];
  if (peer == NULL || peer->is_gone) return;
  peer->is_gone = 1;
  all->left_work = 1; /* the thread of the endpoint checks again */
}

int df_connections_take_lost(df_connections *all, uint32_t *rank, char *why, size_t bytes) {
  for (uint32_t i = 0; i < all->n_active; i++) {
    df_net_peer *peer = all->active[i];
    if (!peer->is_lost || peer->was_reported) continue;
    peer->was_reported = 1;
    *rank = peer->rank;
    snprintf(why, bytes, "%s", peer->why);
    return 1;
  }
  return 0;
}
