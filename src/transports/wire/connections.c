#include "transports/wire/connections.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

enum {
  GUESTS_SPARE = 64, /* unproven callers beyond the ranks */
  VAIN_LOOKS = 32,   /* after so many a stream is read only if it is ready */
  LOOKS_APART = 8,   /* looks at all streams, while some are read unasked */
  FIRST_RETRY_US = 200,
#if defined(DF_SIMULATION) /* whose time passes slowly */
  LAST_RETRY_US = 400,
#else
  LAST_RETRY_US = 100000,
#endif
  ACCEPT_RETRY_NS = 20000000 /* there was no descriptor for a caller */
};

#define ANSWER_NS ((uint64_t)10 * 1000 * 1000 * 1000)
/* Both may call at first, and one of the calls is refused, perhaps after it seemed to stand. */
#define MEET_NS ((uint64_t)10 * 1000 * 1000 * 1000)

typedef struct df_guest {
  struct df_guest *next;
  df_tcp_stream *stream;
  df_greeter greeter;
} df_guest;

/* ---- losing */

static void end_streams(df_connections *all, df_connection *c) {
  if (c->frames) df_shield_lower(c->frames);
  if (c->carried) all->fabric->ops->end(c->carried);
  if (c->stream) df_tcp_end(&all->tcp, c->stream);
  c->frames = NULL;
  c->carried = NULL;
  c->stream = NULL;
  c->stands = c->has_met = 0;
  sodium_memzero(&c->greeter, sizeof c->greeter);
}

/* lost: the connection that was lost first. */
static void lose_peer(df_connections *all, df_peer_wire *peer, const df_connection *lost,
                      const char *reason) {
  char age[64] = "";
  if (peer->is_lost) return;
  for (uint32_t i = 0; i < peer->wire->n_ports; i++) {
    df_connection *c = &peer->ports[i];
    df_wire_detach(peer->wire, i);
    end_streams(all, c);
  }
  peer->is_lost = 1;
  if (lost->heard_ns)
    snprintf(age, sizeof age, "; it last brought something %llu ms ago",
             (unsigned long long)(df_clock_ns() - lost->heard_ns) / 1000000);
  snprintf(peer->why, sizeof peer->why, "the connection %s was lost: %s%s", lost->ends, reason,
           age);
  all->has_lost = 1;
}

static uint64_t patience_of(const df_connections *all, const df_peer_wire *peer,
                            const df_connection *c) {
  const int may_be_refused = c->lacks_port || (c->calls && !c->has_heard && all->rank > peer->rank);
  return may_be_refused ? DF_MAX(all->resume_ns, MEET_NS) : all->resume_ns;
}

/* It may come back, unless the time for that is over. */
static void lose(df_connections *all, df_peer_wire *peer, uint32_t port, const char *reason) {
  df_connection *c = &peer->ports[port];
  snprintf(c->why, sizeof c->why, "%s", reason);
  const uint64_t now = df_clock_ns();
  df_wire_detach(peer->wire, port);
  end_streams(all, c);
  if (peer->wire->far_leaves || df_wire_has_left(peer->wire)) return;
  if (c->lost_ns == 0) {
    c->lost_ns = now;
    c->vain_tries = 0;
  }
  uint64_t wait_us = (uint64_t)FIRST_RETRY_US << DF_MIN(c->vain_tries, 16u);
  c->call_ns = now + 1000 * DF_MIN(wait_us, (uint64_t)LAST_RETRY_US);
  c->vain_tries++;
  all->left_work = 1;
  if (now - c->lost_ns >= patience_of(all, peer, c)) lose_peer(all, peer, c, c->why);
}

/* ---- making */

static void describe(const df_connections *all, df_connection *c) {
  char carried[DF_FABRIC_ENDS_BYTES];
  df_tcp_describe(c->stream, c->ends);
  if (c->carried == NULL) return;
  all->fabric->ops->describe(c->carried, carried);
  const size_t used = strlen(c->ends);
  snprintf(c->ends + used, sizeof c->ends - used, " (%s)", carried);
}

/* Its ends are noted: of a connection that is lost the system tells but one. */
static void stand(df_connections *all, df_peer_wire *peer, uint32_t port) {
  df_connection *c = &peer->ports[port];
  c->stands = 1;
  c->stood++;
  c->lost_ns = 0;
  c->vain_looks = 0;
  c->stream->is_ready = 1; /* frames may have come with the proof */
  describe(all, c);
  if (all->silence_ms) df_tcp_set_silence(c->stream, all->silence_ms);
  df_wire_attach(peer->wire, port, c->frames);
}

static void set_due(df_connections *all, df_connection *c) {
  c->due_ns = df_clock_ns() + (all->silence_ms ? all->silence_ms * (uint64_t)1000000 : ANSWER_NS);
  all->left_work = 1; /* the endpoint's thread looks at due_ns */
}

/* The line stands. */
static void begin_meeting(df_connections *all, df_peer_wire *peer, uint32_t port) {
  df_connection *c = &peer->ports[port];
  set_due(all, c);
  c->stream->is_ready = 1; /* the other end's part may have come with the proof */
  if (all->silence_ms) df_tcp_set_silence(c->stream, all->silence_ms);
  const df_fabric_line line = {.stream = &c->stream->stream,
                               .here = df_tcp_address(c->stream),
                               .silence_ms = all->silence_ms,
                               .peer = peer->rank,
                               .port = port,
                               .calls = !c->was_called};
  if (all->fabric->ops->begin(all->fabric, &line, &c->carried) != dfcclSuccess)
    lose(all, peer, port, df_last_sentence());
}

/* The stream that protects frames may have to come to stand, too. */
static void bring_to_stand(df_connections *all, df_peer_wire *peer, uint32_t port) {
  df_connection *c = &peer->ports[port];
  const int met = c->frames->meet ? c->frames->meet(c->frames) : 1;
  if (met == DF_STREAM_REFUSED) {
    snprintf(c->why, sizeof c->why, "%s", c->frames->reason(c->frames));
    lose_peer(all, peer, c, c->why);
  } else if (met == DF_STREAM_ENDED)
    lose(all, peer, port, c->frames->reason(c->frames));
  else if (met)
    stand(all, peer, port);
}

/* greeter: whose ends have proven themselves. */
static void protect(df_connections *all, df_peer_wire *peer, uint32_t port, df_greeter *greeter) {
  df_connection *c = &peer->ports[port];
  df_stream *below = c->carried ? &c->carried->stream : &c->stream->stream;
  const dfcclResult_t result = df_shield_raise(&all->shield, greeter, below, &c->frames);
  sodium_memzero(greeter, sizeof *greeter);
  if (result == dfcclSuccess) {
    describe(all, c);
    if (c->frames->meet) set_due(all, c);
    bring_to_stand(all, peer, port);
    return;
  }
  c->frames = NULL;
  lose(all, peer, port, df_last_sentence());
}

/* Both ends have met, and prove themselves over what they found. */
static void begin_greeting(df_connections *all, df_peer_wire *peer, uint32_t port) {
  df_connection *c = &peer->ports[port];
  c->has_met = 1;
  if (c->was_called)
    df_greeting_listen(&c->greeter, &c->carried->stream, all->rank, all->secret,
                       df_shield_needs_keys(&all->shield));
  else
    df_greeting_call(&c->greeter, &c->carried->stream, all->rank, peer->rank, port, c->calls_made,
                     peer->key, df_shield_needs_keys(&all->shield));
}

static int is_another(const df_peer_wire *peer, uint32_t port, const df_connection *c) {
  return c->was_called && (c->greeter.peer != peer->rank || c->greeter.port != port);
}

/* What carries it may have ended, and says why. */
static const char *why_refused(df_connection *c) {
  const char *reason = c->carried ? c->carried->stream.reason(&c->carried->stream) : "";
  return *reason ? reason : "it did not stand";
}

static void greet(df_connections *all, df_peer_wire *peer, uint32_t port) {
  df_connection *c = &peer->ports[port];
  if (c->frames) {
    bring_to_stand(all, peer, port);
    return;
  }
  if (c->carried && !c->has_met) {
    df_meeting_state met = all->fabric->ops->meet(c->carried);
    if (met == DF_MEETING_REFUSED)
      lose(all, peer, port, c->carried->stream.reason(&c->carried->stream));
    if (met != DF_MEETING_STANDS) return;
    begin_greeting(all, peer, port);
  }
  df_greeting_state state = df_greeting_progress(&c->greeter, all->n_ranks);
  if (state == DF_GREETING_REFUSED || (state == DF_GREETING_STANDS && is_another(peer, port, c)))
    lose(all, peer, port, why_refused(c));
  else if (state == DF_GREETING_STANDS && all->fabric && c->carried == NULL)
    begin_meeting(all, peer, port);
  else if (state == DF_GREETING_STANDS)
    protect(all, peer, port, &c->greeter);
}

static void call(df_connections *all, df_peer_wire *peer, uint32_t port) {
  df_connection *c = &peer->ports[port];
  dfcclResult_t result = df_tcp_connect(&all->tcp, &peer->address, peer->scope, &c->stream);
  c->lacks_port = result == dfcclInProgress;
  if (result != dfcclSuccess) {
    lose(all, peer, port, df_last_sentence());
    return;
  }
  c->was_called = 0;
  if (!c->has_heard) describe(all, c);
  set_due(all, c);
  df_greeting_call(&c->greeter, &c->stream->stream, all->rank, peer->rank, port, ++c->calls_made,
                   peer->key, df_shield_needs_keys(&all->shield));
}

static int is_wanted(const df_peer_wire *peer, const df_connection *c) {
  const df_wire *wire = peer->wire;
  return c->stream == NULL && c->calls && !peer->is_lost && !wire->far_leaves &&
         !df_wire_has_left(wire);
}

/* The peer has left without the goodbye that follows all its bytes: nobody calls again. */
static int is_hopeless(const df_peer_wire *peer, const df_connection *c) {
  return peer->is_gone && c->stream == NULL && c->lost_ns != 0 && !peer->is_lost &&
         !peer->wire->far_leaves && !df_wire_has_left(peer->wire);
}

static void call_all(df_connections *all, df_peer_wire *peer) {
  for (uint32_t i = 0; i < peer->wire->n_ports; i++) {
    df_connection *c = &peer->ports[i];
    if (is_hopeless(peer, c))
      lose_peer(all, peer, c, c->why);
    else if (is_wanted(peer, c) && (c->call_ns == 0 || df_clock_ns() >= c->call_ns))
      call(all, peer, i);
    else if (c->stream && !c->stands && df_clock_ns() >= c->due_ns)
      lose(all, peer, i, "nobody answered");
    else if (c->stream == NULL && c->lost_ns && !peer->is_lost && !peer->wire->far_leaves &&
             df_clock_ns() - c->lost_ns >= patience_of(all, peer, c))
      lose_peer(all, peer, c, c->why);
  }
}

dfcclResult_t df_connections_need(df_peer_wire *peer, uint32_t port) {
  while (peer->wire->n_ports <= port) {
    peer->ports[peer->wire->n_ports].calls = peer->can_call;
    dfcclResult_t result = df_wire_add_port(peer->wire);
    if (result != dfcclSuccess) return result;
  }
  return dfcclSuccess;
}

dfcclResult_t df_connections_meet(df_connections *all, uint32_t rank, df_peer_wire **out) {
  df_peer_wire *peer = all->peers[rank];
  *out = peer;
  if (peer) return dfcclSuccess;
  peer = calloc(1, sizeof *peer);
  if (peer == NULL) return df_fail(dfcclOutOfMemory, "no memory for a connection");
  peer->rank = rank;
  dfcclResult_t result = df_wire_make(&peer->wire, DF_WIRE_FRAME_BYTES);
  if (result == dfcclSuccess) {
    peer->wire->lend_min = all->lend_min;
    result = df_connections_need(peer, DF_WIRE_SMALL);
  }
  if (result != dfcclSuccess) {
    if (peer->wire) df_wire_free(peer->wire);
    free(peer);
    return result;
  }
  snprintf(peer->ports[DF_WIRE_SMALL].ends, DF_CONNECTION_ENDS_BYTES, "to rank %u", rank);
  all->peers[rank] = all->active[all->n_active++] = peer;
  *out = peer;
  return dfcclSuccess;
}

void df_connections_call(df_connections *all, df_peer_wire *peer, const df_address *address,
                         uint32_t scope, const unsigned char key[DF_KEY_BYTES]) {
  if (!peer->can_call) {
    peer->can_call = 1;
    peer->address = *address;
    peer->scope = scope;
    memcpy(peer->key, key, sizeof peer->key);
  }
  for (uint32_t i = 0; i < peer->wire->n_ports; i++)
    if (all->rank < peer->rank || (peer->ports[i].stream == NULL && peer->ports[i].lost_ns == 0))
      peer->ports[i].calls = 1;
  call_all(all, peer);
}

/* ---- carrying */

static void after(df_connections *all, df_peer_wire *peer) {
  if (peer->wire->is_lost) lose_peer(all, peer, &peer->ports[0], peer->wire->reason);
  for (uint32_t i = 0; i < peer->wire->n_ports; i++)
    if (peer->wire->ports[i].why) lose(all, peer, i, peer->wire->ports[i].why);
}

static int send_to(df_connections *all, df_peer_wire *peer) {
  if (peer->is_lost) return 0;
  const int did = df_wire_send(peer->wire);
  all->left_work |= peer->wire->stopped_early;
  return did;
}

int df_connections_send(df_connections *all) {
  int did = 0;
  for (uint32_t i = 0; i < all->n_active; i++) did |= send_to(all, all->active[i]);
  return did;
}

static int receive(df_connections *all, df_peer_wire *peer, uint32_t port, int spins) {
  df_connection *c = &peer->ports[port];
  if (c->stream == NULL) return 0;
  const int is_ready = c->stream->is_ready || (c->carried && c->carried->is_ready);
  if (!is_ready && !(spins && c->stands && c->vain_looks < VAIN_LOOKS)) return 0;
  if (c->carried && c->has_met && c->stream->is_ready) all->fabric->ops->hear(c->carried);
  if (c->carried) c->carried->is_ready = 0;
  c->stream->is_ready = 0;
  if (!c->stands) greet(all, peer, port);
  if (!c->stands) return 0;
  const int came = df_wire_receive(peer->wire, port);
  c->vain_looks = came ? 0 : c->vain_looks + 1;
  c->has_heard |= came;
  if (came) c->heard_ns = df_clock_ns();
  /* The budget was less than there is. */
  const df_channel *channel = &peer->wire->ports[port].channel;
  if (c->carried && channel->has_more)
    c->carried->is_ready = all->left_work = 1;
  else if (channel->has_more || (c->stream->hangs_up && !channel->has_ended && !c->carried))
    c->stream->is_ready = all->left_work = 1;
  return came;
}

static int carry(df_connections *all, df_peer_wire *peer, int spins) {
  int did = 0;
  if (peer->is_lost) return 0;
  call_all(all, peer);
  for (uint32_t i = 0; i < peer->wire->n_ports; i++) did |= receive(all, peer, i, spins);
  df_wire_ring_noted(peer->wire);
  did |= send_to(all, peer);
  after(all, peer);
  return did;
}

/* ---- guests */

static void drop_guest(df_connections *all, df_guest **at) {
  df_guest *guest = *at;
  *at = guest->next;
  if (guest->stream) df_tcp_end(&all->tcp, guest->stream);
  sodium_memzero(guest, sizeof *guest);
  free(guest);
  all->n_guests--;
}

static void welcome(df_connections *all, df_guest *guest) {
  df_peer_wire *peer;
  const uint32_t port = guest->greeter.port;
  /* The caller may need the connection before this rank knows that it does. */
  if (port >= DF_WIRE_PORTS_MOST) return;
  if (df_connections_meet(all, guest->greeter.peer, &peer) != dfcclSuccess) return;
  if (df_connections_need(peer, port) != dfcclSuccess || peer->is_lost) return;
  df_connection *c = &peer->ports[port];
  if (peer->can_call && all->rank < peer->rank) return; /* this rank's calls count */
  if (guest->greeter.number <= c->call_heard) return;   /* it has been given up meanwhile */
  c->call_heard = guest->greeter.number;
  df_wire_detach(peer->wire, port);
  end_streams(all, c);
  /* Only one end may leave the calling to the other, or nobody calls again. */
  if (all->rank > peer->rank) c->calls = 0;
  c->stream = guest->stream;
  guest->stream = NULL;
  c->was_called = 1;
  if (all->fabric)
    begin_meeting(all, peer, port);
  else
    protect(all, peer, port, &guest->greeter);
}

static void receive_guests(df_connections *all) {
  df_tcp_stream *stream;
  while ((stream = df_tcp_accept(&all->tcp)) != NULL) {
    df_guest *new = calloc(1, sizeof *new);
    if (new == NULL) {
      df_tcp_end(&all->tcp, stream);
      continue;
    }
    new->stream = stream;
    df_greeting_listen(&new->greeter, &stream->stream, all->rank, all->secret,
                       df_shield_needs_keys(&all->shield));
    new->next = all->guests;
    all->guests = new;
    all->n_guests++;
  }
  for (df_guest **at = &all->guests; *at;) {
    df_guest *here = *at;
    const int is_too_many = here->next == NULL && all->n_guests > all->n_ranks + GUESTS_SPARE;
    df_greeting_state state = DF_GREETING_GOES_ON;
    if (here->stream->is_ready) {
      here->stream->is_ready = 0;
      state = df_greeting_progress(&here->greeter, all->n_ranks);
    }
    if (state == DF_GREETING_STANDS) welcome(all, here);
    if (state != DF_GREETING_GOES_ON || is_too_many)
      drop_guest(all, at);
    else
      at = &here->next;
  }
}

/* ---- all of them */

static void wake(void *owner) { df_tcp_wake(owner); }

static dfcclResult_t open_fabric(df_connections *all, const char *choice) {
  const char *rest;
  const df_fabric_ops *ops = df_fabric_find(choice, &rest);
  const df_fabric_owner owner = {.owner = &all->tcp, .rank = all->rank, .wake = wake};
  if (ops == NULL) return df_fail(dfcclInvalidUsage, "this build has no network \"%s\"", choice);
  dfcclResult_t result = ops->open(&all->fabric, &owner, rest);
  if (result == dfcclSuccess && all->fabric->fd >= 0) {
    result = df_tcp_watch(&all->tcp, all->fabric->fd);
    if (result != dfcclSuccess) ops->close(all->fabric);
  }
  return result;
}

dfcclResult_t df_connections_open(df_connections *all, uint32_t rank, uint32_t n_ranks,
                                  df_doors *doors, const char *fabric) {
  *all = (df_connections){.rank = rank, .n_ranks = n_ranks};
  all->peers = calloc(n_ranks, sizeof(df_peer_wire *));
  all->active = calloc(n_ranks, sizeof(df_peer_wire *));
  dfcclResult_t result = dfcclSuccess;
  if (all->peers == NULL || all->active == NULL)
    result = df_fail(dfcclOutOfMemory, "no memory for %u connections", n_ranks);
  if (result == dfcclSuccess) result = df_handshake_ready();
  if (result == dfcclSuccess) result = df_tcp_open(&all->tcp, doors);
  if (result == dfcclSuccess && fabric) {
    result = open_fabric(all, fabric);
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
  while (all->guests) drop_guest(all, &all->guests);
  for (uint32_t i = 0; i < all->n_active; i++) {
    df_peer_wire *peer = all->active[i];
    for (uint32_t port = 0; port < DF_WIRE_PORTS_MOST; port++) end_streams(all, &peer->ports[port]);
    df_wire_free(peer->wire);
    sodium_memzero(peer, sizeof *peer);
    free(peer);
  }
  free(all->peers);
  free(all->active);
  df_shield_free(&all->shield);
  if (all->fabric) all->fabric->ops->close(all->fabric);
  df_tcp_close(&all->tcp);
  sodium_memzero(all->secret, sizeof all->secret);
}

/* A stream that brought something lately is read without asking first. */
static int has_warm_stream(const df_connections *all) {
  for (uint32_t i = 0; i < all->n_active; i++)
    for (uint32_t port = 0; port < all->active[i]->wire->n_ports; port++) {
      const df_connection *c = &all->active[i]->ports[port];
      if (c->stands && c->vain_looks < VAIN_LOOKS) return 1;
    }
  return 0;
}

int df_connections_carry(df_connections *all, int spins) {
  int did = 0;
  if (!spins || ++all->looks % LOOKS_APART == 0 || !has_warm_stream(all)) {
    df_tcp_look(&all->tcp);
    if (all->guests || all->tcp.has_callers) receive_guests(all);
  }
  if (all->fabric) all->fabric->ops->look(all->fabric, spins);
  for (uint32_t i = 0; i < all->n_active; i++) did |= carry(all, all->active[i], spins);
  return did;
}

int df_connections_are_broken(const df_connections *all) {
  return df_connections_patience_ns(all, 0) != UINT64_MAX;
}

uint64_t df_connections_patience_ns(const df_connections *all, uint64_t now_ns) {
  uint64_t least = all->tcp.has_callers ? ACCEPT_RETRY_NS : UINT64_MAX;
  for (uint32_t i = 0; i < all->n_active; i++) {
    const df_peer_wire *peer = all->active[i];
    for (uint32_t port = 0; port < peer->wire->n_ports && !peer->is_lost; port++) {
      const df_connection *c = &peer->ports[port];
      if (c->stands || (!c->stream && c->lost_ns == 0) || peer->wire->far_leaves) continue;
      uint64_t due = c->stream ? c->due_ns : c->lost_ns + patience_of(all, peer, c);
      if (c->calls && !c->stream) due = DF_MIN(due, c->call_ns);
      least = DF_MIN(least, due > now_ns ? due - now_ns : 0);
    }
  }
  return least;
}

static int has_pending(const df_connections *all, const df_peer_wire *peer) {
  const df_connection *small = &peer->ports[DF_WIRE_SMALL];
  if (peer->is_lost || peer->is_gone || peer->wire->far_leaves) return 0;
  /* This rank has said goodbye, or perhaps nobody is there. */
  const int may_come_back = small->has_heard || small->calls || small->lost_ns;
  if (small->stream == NULL && (!may_come_back || df_wire_has_left(peer->wire))) return 0;
  if (df_wire_has_pending(peer->wire)) return 1;
  for (uint32_t i = 0; i < peer->wire->n_ports; i++) {
    const df_connection *c = &peer->ports[i];
    if (c->stands && df_tcp_has_unsent(c->stream)) return 1;
    if (c->stands && c->carried && all->fabric->ops->has_unsent(c->carried)) return 1;
  }
  return 0;
}

int df_connections_have_pending(const df_connections *all) {
  for (uint32_t i = 0; i < all->n_active; i++)
    if (has_pending(all, all->active[i])) return 1;
  return 0;
}

void df_connections_leave(df_connections *all) {
  for (uint32_t i = 0; i < all->n_active; i++) df_wire_leave(all->active[i]->wire);
}

void df_connections_peer_left(df_connections *all, uint32_t rank) {
  df_peer_wire *peer = all->peers[rank];
  if (peer == NULL || peer->is_gone) return;
  peer->is_gone = 1;
  all->left_work = 1; /* the endpoint's thread looks again */
}

int df_connections_take_lost(df_connections *all, uint32_t *rank, char *why, size_t bytes) {
  for (uint32_t i = 0; i < all->n_active; i++) {
    df_peer_wire *peer = all->active[i];
    if (!peer->is_lost || peer->was_told) continue;
    peer->was_told = 1;
    *rank = peer->rank;
    snprintf(why, bytes, "%s", peer->why);
    return 1;
  }
  return 0;
}
