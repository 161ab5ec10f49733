#include "transports/net/connect/pending_accepts.h"

#include <sodium.h>
#include <stdlib.h>

#include "transports/net/connect/connection.h"
#include "transports/net/connect/control_reconnect.h"

enum { GUESTS_SPARE = 64 /* unproven callers beyond the ranks */ };

typedef struct df_guest {
  struct df_guest *next;
  df_tcp_stream *stream;
  df_greeter greeter;
} df_guest;

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
  if (port == DF_GREETING_LINE) {
    df_tcp_stream *line = guest->stream;
    guest->stream = NULL;
    df_lines_take(all->lines, line, &guest->greeter);
    return;
  }
  /* The caller may need the connection before this rank knows that it does. */
  if (port >= DF_WIRE_PORTS_MOST) return;
  if (df_connections_meet(all, guest->greeter.peer, &peer) != dfcclSuccess) return;
  if (df_connections_need(peer, port) != dfcclSuccess || peer->is_lost) return;
  const df_connection *c = &peer->ports[port];
  if (peer->can_call && all->rank < peer->rank) { /* this rank's calls count */
    df_connection_hear_call(all, peer, port);
    return;
  }
  if (guest->greeter.number <= c->call_heard) return; /* it has been given up meanwhile */
  df_tcp_stream *stream = guest->stream;
  guest->stream = NULL;
  df_connection_take(all, peer, stream, &guest->greeter);
}

void df_guests_receive(df_connections *all) {
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
    if (all->lines) new->greeter.far = all->lines->far;
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

void df_guests_drop(df_connections *all) {
  while (all->guests) drop_guest(all, &all->guests);
}
