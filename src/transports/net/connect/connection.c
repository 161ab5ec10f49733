/* The life of one connection: called or accepted, proven, connected, lost, called again. */
#include "transports/net/connect/connection.h"

#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/log.h"
#include "bootstrap/net/sockets.h"

enum {
  FIRST_RETRY_US = 200,
  HOLE_TRIES = 16, /* a rail that connects but delivers nothing is called as rarely as any */
#if defined(DF_SIMULATION) /* simulated time passes slowly */
  LAST_RETRY_US = 400,
  LAST_SPARE_RETRY_US = 800
#else
  LAST_RETRY_US = 100000,
  LAST_SPARE_RETRY_US = 10000000 /* a rail may never work, and a job may be idle for long */
#endif
};

/* At first both ends may call, and one of the calls is refused, perhaps after it seemed to be
 * connected. */
#define MEET_NS ((uint64_t)10 * 1000 * 1000 * 1000)
/* After this time without an answer another rail is tried. */
#define RAIL_ANSWER_NS ((uint64_t)2 * 1000 * 1000 * 1000)
/* A connection that was established for this time was not a call that the other end refused. */
#if defined(DF_SIMULATION)
#define PROVEN_NS 1
#define SETTLED_NS ((uint64_t)1000 * 1000)
#else
#define PROVEN_NS ((uint64_t)100 * 1000 * 1000)
#define SETTLED_NS ((uint64_t)1000 * 1000 * 1000)
#endif

static void set_state(df_connection *c, df_connection_state to) {
  DF_ASSERT(df_connection_may_go(c->state, to));
  if (to != c->state)
    df_log(DF_LOG_TRACE, "connection %s: %s -> %s", c->ends, df_connection_state_name(c->state),
           df_connection_state_name(to));
  c->state = to;
}

/* ---- losing */

void df_connection_end(df_connections *all, df_connection *c) {
  if (c->frames) df_protection_remove(c->frames);
  if (c->carried) all->net_backend->ops->end(c->carried);
  if (c->stream) df_tcp_end(&all->tcp, c->stream);
  c->frames = NULL;
  c->carried = NULL;
  c->stream = NULL;
  set_state(c, DF_CONNECTION_CLOSED);
  sodium_memzero(&c->handshake, sizeof c->handshake);
}

void df_connection_lose_peer(df_connections *all, df_net_peer *peer, const df_connection *lost,
                             const char *reason) {
  char age[64] = "";
  if (peer->is_lost) return;
  for (uint32_t i = 0; i < peer->pump->n_ports; i++) {
    df_connection *c = &peer->ports[i];
    df_pump_detach(peer->pump, i);
    df_connection_end(all, c);
  }
  peer->is_lost = 1;
  if (lost->received_ns)
    snprintf(age, sizeof age, "; it last brought something %llu ms ago",
             (unsigned long long)(df_clock_ns() - lost->received_ns) / 1000000);
  snprintf(peer->why, sizeof peer->why, "the connection %s was lost: %s%s", lost->ends, reason,
           age);
  all->has_lost = 1;
}

/* The job does not depend on this connection. */
static int is_spare(uint32_t port) { return port > DF_PUMP_BULK; }

uint64_t df_connection_end_ns(const df_connections *all, const df_net_peer *peer, uint32_t port) {
  const df_connection *c = &peer->ports[port];
  const int may_be_refused =
      c->lacks_port || (c->calls && !c->has_received && all->rank > peer->rank);
  uint64_t patience_ns = all->resume_ns;
  if (is_spare(port)) return UINT64_MAX;
  if (may_be_refused) patience_ns = DF_MAX(patience_ns, MEET_NS);
  /* A call that was given up in favour of another rail is no loss, and a silent rail was declared
   * lost early. */
  if (peer->n_paths > 1 && (c->n_connected == 0 || all->resume_ns))
    patience_ns = DF_MAX(patience_ns, all->silence_ms * (uint64_t)1000000);
  return c->lost_ns + patience_ns;
}

/* The connection may be made again, unless the time for that has passed. */
void df_connection_lose(df_connections *all, df_net_peer *peer, uint32_t port, const char *reason) {
  df_connection *c = &peer->ports[port];
  snprintf(c->why, sizeof c->why, "%s", reason);
  const uint64_t now = df_clock_ns();
  const int has_worked = c->state == DF_CONNECTION_CONNECTED && now - c->connected_ns >= PROVEN_NS;
  const int was_silent = c->stream && df_is_silence(c->stream->error);
  const int is_hole = has_worked && is_spare(port) && !df_pump_has_delivered(peer->pump, port);
  df_pump_detach(peer->pump, port);
  df_connection_end(all, c);
  if (peer->pump->remote_leaves || df_pump_has_left(peer->pump)) return;
  if (c->lost_ns == 0) c->lost_ns = now;
  if (has_worked) c->vain_tries = was_silent;
  if (is_hole) c->vain_tries = HOLE_TRIES;
  const uint64_t wait_us = (uint64_t)FIRST_RETRY_US << DF_MIN(c->vain_tries, 16u);
  const uint64_t most_us = is_spare(port) ? LAST_SPARE_RETRY_US : LAST_RETRY_US;
  c->call_ns = now + 1000 * DF_MIN(wait_us, most_us);
  c->vain_tries++;
  all->left_work = 1;
  if (now >= df_connection_end_ns(all, peer, port)) df_connection_lose_peer(all, peer, c, c->why);
}

/* ---- making */

static void describe(const df_connections *all, df_connection *c) {
  char carried[DF_NET_BACKEND_ENDS_BYTES];
  df_tcp_describe(c->stream, c->ends);
  if (c->carried == NULL) return;
  all->net_backend->ops->describe(c->carried, carried);
  const size_t used = strlen(c->ends);
  snprintf(c->ends + used, sizeof c->ends - used, " (%s)", carried);
}

/* With several rails, a cut one must be found early enough that the others can carry on. */
static void set_silence(const df_connections *all, const df_net_peer *peer,
                        const df_connection *c) {
  const int has_paths = peer->n_paths > 1 && all->resume_ns;
  if (all->silence_ms)
    df_tcp_set_silence(c->stream,
                       has_paths ? df_silence_of_rail(all->silence_ms) : all->silence_ms);
}

void df_connection_set_silence(const df_connections *all, const df_net_peer *peer) {
  for (uint32_t i = 0; i < peer->pump->n_ports; i++)
    if (peer->ports[i].state == DF_CONNECTION_CONNECTED) set_silence(all, peer, &peer->ports[i]);
}

/* The first bulk connection has moved to the rail of a spare connection. The spare one takes the
 * first rail instead. */
static void free_path(df_connections *all, df_net_peer *peer) {
  const uint32_t way = peer->ports[DF_PUMP_BULK].path, spare = DF_PUMP_BULK + way;
  if (way == 0 || spare >= peer->pump->n_ports || peer->ports[spare].stream == NULL) return;
  df_connection_lose(all, peer, spare, "another connection has its rail");
  peer->ports[spare].vain_tries = 0; /* it has no experience with the first rail */
  peer->ports[spare].call_ns = 0;
}

/* Saves both addresses (describe): after a loss, getpeername() fails. */
static void on_connected(df_connections *all, df_net_peer *peer, uint32_t port) {
  df_connection *c = &peer->ports[port];
  set_state(c, DF_CONNECTION_CONNECTED);
  c->n_connected++;
  c->connected_ns = df_clock_ns();
  const int has_moved = !c->was_called && c->path != c->called_path;
  if (has_moved) c->path = c->called_path;
  c->lost_ns = 0;
  c->vain_looks = 0;
  c->rest_due_ns = 0;
  c->stream->is_ready = 1; /* frames may have arrived together with the proof */
  describe(all, c);
  set_silence(all, peer, c);
  df_pump_attach(peer->pump, port, c->frames);
  if (all->is_quiesced) df_channel_quiesce(&peer->pump->ports[port].channel);
  if (port == DF_PUMP_BULK && has_moved) free_path(all, peer);
}

/* Without a limit, the limit of the system ends a call that reaches no host. */
static void set_due(df_connections *all, df_connection *c, uint64_t most_ns) {
  const uint64_t silence_ns = all->silence_ms * (uint64_t)1000000;
  c->due_ns = silence_ns ? df_clock_ns() + DF_MIN(silence_ns, most_ns) : UINT64_MAX;
  all->left_work = 1; /* the thread of the endpoint checks due_ns */
}

/* The ends have proven themselves over TCP: sets up the network backend. */
static void begin_network(df_connections *all, df_net_peer *peer, uint32_t port) {
  df_connection *c = &peer->ports[port];
  set_state(c, DF_CONNECTION_NETWORK);
  set_due(all, c, UINT64_MAX);
  c->stream->is_ready = 1; /* the other end's part may have arrived together with the proof */
  if (all->silence_ms) df_tcp_set_silence(c->stream, all->silence_ms);
  const df_net_backend_channel channel = {.stream = &c->stream->stream,
                                          .here = df_tcp_address(c->stream),
                                          .silence_ms = all->silence_ms,
                                          .peer = peer->rank,
                                          .port = port,
                                          .calls = !c->was_called};
  if (all->net_backend->ops->begin(all->net_backend, &channel, &c->carried) != dfcclSuccess)
    df_connection_lose(all, peer, port, df_last_sentence());
}

/* The stream that protects frames may have a handshake of its own. */
static void secure(df_connections *all, df_net_peer *peer, uint32_t port) {
  df_connection *c = &peer->ports[port];
  const int met = c->frames->connect ? c->frames->connect(c->frames) : 1;
  if (met == DF_STREAM_REFUSED) {
    snprintf(c->why, sizeof c->why, "%s", c->frames->reason(c->frames));
    df_connection_lose_peer(all, peer, c, c->why);
  } else if (met == DF_STREAM_ENDED)
    df_connection_lose(all, peer, port, c->frames->reason(c->frames));
  else if (met)
    on_connected(all, peer, port);
}

/* handshake: its ends have proven themselves. */
static void protect(df_connections *all, df_net_peer *peer, uint32_t port,
                    df_connection_handshake *handshake) {
  df_connection *c = &peer->ports[port];
  df_stream *below = c->carried ? &c->carried->stream : &c->stream->stream;
  const dfcclResult_t result = df_protection_add(&all->protection, handshake, below, &c->frames);
  sodium_memzero(handshake, sizeof *handshake);
  if (result == dfcclSuccess) {
    set_state(c, DF_CONNECTION_SECURING);
    describe(all, c);
    if (c->frames->connect) set_due(all, c, UINT64_MAX);
    secure(all, peer, port);
    return;
  }
  c->frames = NULL;
  df_connection_lose(all, peer, port, df_last_sentence());
}

/* Both ends have connected the network backend. They prove their identity over it. */
static void begin_network_handshake(df_connections *all, df_net_peer *peer, uint32_t port) {
  df_connection *c = &peer->ports[port];
  set_state(c, DF_CONNECTION_NETWORK_HANDSHAKE);
  if (c->was_called)
    df_connection_handshake_listen(&c->handshake, &c->carried->stream, all->rank, all->secret,
                                   df_protection_needs_keys(&all->protection));
  else
    df_connection_handshake_call(&c->handshake, &c->carried->stream, all->rank, peer->rank, port,
                                 c->calls_made, peer->key,
                                 df_protection_needs_keys(&all->protection));
}

static int is_another(const df_net_peer *peer, uint32_t port, const df_connection *c) {
  return c->was_called && (c->handshake.peer != peer->rank || c->handshake.port != port);
}

/* The backend stream may have ended; its reason is more precise. */
static const char *why_refused(df_connection *c) {
  const char *reason = c->carried ? c->carried->stream.reason(&c->carried->stream) : "";
  return *reason ? reason : "it did not stand";
}

void df_connection_progress(df_connections *all, df_net_peer *peer, uint32_t port) {
  df_connection *c = &peer->ports[port];
  if (c->state == DF_CONNECTION_SECURING) {
    secure(all, peer, port);
    return;
  }
  if (c->state == DF_CONNECTION_NETWORK) {
    df_connect_state met = all->net_backend->ops->connect(c->carried);
    if (met == DF_CONNECT_REFUSED)
      df_connection_lose(all, peer, port, c->carried->stream.reason(&c->carried->stream));
    if (met != DF_CONNECT_DONE) return;
    begin_network_handshake(all, peer, port);
  }
  df_connection_handshake_state state =
      df_connection_handshake_progress(&c->handshake, all->n_ranks);
  if (state == DF_HANDSHAKE_REFUSED || (state == DF_HANDSHAKE_DONE && is_another(peer, port, c)))
    df_connection_lose(all, peer, port, why_refused(c));
  else if (state == DF_HANDSHAKE_DONE && all->net_backend && c->carried == NULL)
    begin_network(all, peer, port);
  else if (state == DF_HANDSHAKE_DONE)
    protect(all, peer, port, &c->handshake);
}

/* Returns the path of the next call, or UINT32_MAX if there is none. The first retry uses the path
 * that the connection had, unless that path was silent. A spare connection has a rail of its own;
 * while the first bulk connection uses that rail, the spare one has the first rail. */
static uint32_t path_of(const df_net_peer *peer, uint32_t port) {
  const df_connection *c = &peer->ports[port];
  uint32_t way = port - DF_PUMP_BULK;
  if (!is_spare(port))
    way = (c->path + (c->vain_tries > 1 ? c->vain_tries - 1 : 0)) % DF_MAX(peer->n_paths, 1u);
  else if (peer->ports[DF_PUMP_BULK].path == way)
    way = 0;
  return way < peer->n_paths ? way : UINT32_MAX;
}

static void call(df_connections *all, df_net_peer *peer, uint32_t port) {
  df_connection *c = &peer->ports[port];
  const uint32_t way = path_of(peer, port);
  const dfcclResult_t result = df_tcp_connect(&all->tcp, &peer->paths[way], &c->stream);
  c->called_path = way;
  c->lacks_port = result == dfcclInProgress;
  if (result != dfcclSuccess) {
    df_connection_lose(all, peer, port, df_last_sentence());
    return;
  }
  set_state(c, DF_CONNECTION_HANDSHAKE);
  c->was_called = 0;
  if (!c->has_received) describe(all, c);
  set_due(all, c, peer->n_paths > 1 ? RAIL_ANSWER_NS : UINT64_MAX);
  df_connection_handshake_call(&c->handshake, &c->stream->stream, all->rank, peer->rank, port,
                               ++c->calls_made, peer->key,
                               df_protection_needs_keys(&all->protection));
}

int df_connection_is_wanted(const df_net_peer *peer, uint32_t port) {
  const df_connection *c = &peer->ports[port];
  const df_pump *pump = peer->pump;
  return c->stream == NULL && c->calls && !peer->is_lost && !pump->remote_leaves &&
         !df_pump_has_left(pump) && path_of(peer, port) != UINT32_MAX;
}

/* The peer has left without the goodbye that follows all its bytes, so nobody calls again. */
static int is_hopeless(const df_net_peer *peer, const df_connection *c) {
  return peer->is_gone && c->stream == NULL && c->lost_ns != 0 && !peer->is_lost &&
         !peer->pump->remote_leaves && !df_pump_has_left(peer->pump);
}

void df_connection_call_all(df_connections *all, df_net_peer *peer) {
  for (uint32_t i = 0; i < peer->pump->n_ports; i++) {
    df_connection *c = &peer->ports[i];
    if (is_hopeless(peer, c) && !is_spare(i))
      df_connection_lose_peer(all, peer, c, c->why);
    else if (df_connection_is_wanted(peer, i) && (c->call_ns == 0 || df_clock_ns() >= c->call_ns))
      call(all, peer, i);
    else if (c->stream && c->state != DF_CONNECTION_CONNECTED && df_clock_ns() >= c->due_ns)
      df_connection_lose(all, peer, i, "nobody answered");
    else if (c->state == DF_CONNECTION_CONNECTED && c->rest_due_ns &&
             df_clock_ns() >= c->rest_due_ns)
      df_connection_lose(all, peer, i,
                         "an encrypted record has arrived by half, and its rest is missing: its "
                         "length was changed on the way, or the other end is stopped");
    else if (c->stream == NULL && c->lost_ns && !peer->is_lost && !peer->pump->remote_leaves &&
             df_clock_ns() >= df_connection_end_ns(all, peer, i))
      df_connection_lose_peer(all, peer, c, c->why);
  }
}

void df_connection_handle_call(df_connections *all, df_net_peer *peer, uint32_t port) {
  df_connection *c = &peer->ports[port];
  if (c->state != DF_CONNECTION_CONNECTED || all->resume_ns == 0 ||
      df_clock_ns() - c->connected_ns < SETTLED_NS)
    return;
  df_connection_lose(all, peer, port, "the other end has lost it, and calls");
  c->vain_tries++; /* its rail may be cut, so another one is tried first */
}

void df_connection_accept(df_connections *all, df_net_peer *peer, df_tcp_stream *stream,
                          df_connection_handshake *handshake) {
  const uint32_t port = handshake->port;
  df_connection *c = &peer->ports[port];
  c->call_received = handshake->number;
  df_pump_detach(peer->pump, port);
  df_connection_end(all, c);
  /* Only one end may leave the calling to the other, or neither calls again. */
  if (all->rank > peer->rank) c->calls = 0;
  c->stream = stream;
  c->was_called = 1;
  if (all->net_backend)
    begin_network(all, peer, port);
  else
    protect(all, peer, port, handshake);
}
