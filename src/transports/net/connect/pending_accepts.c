#include "transports/net/connect/pending_accepts.h"

#include <sodium.h>
#include <stdlib.h>

#include "transports/net/connect/connection.h"
#include "transports/net/connect/control_reconnect.h"

enum { PENDING_SPARE = 64 /* pending connections permitted beyond the number of ranks */ };

typedef struct df_pending_accept {
  struct df_pending_accept *next;
  df_tcp_stream *stream;
  df_connection_handshake handshake;
} df_pending_accept;

static void drop_pending(df_connections *all, df_pending_accept **at) {
  df_pending_accept *pending = *at;
  *at = pending->next;
  if (pending->stream) df_tcp_end(&all->tcp, pending->stream);
  sodium_memzero(pending, sizeof *pending);
  free(pending);
  all->n_pending--;
}

static void accept_proven(df_connections *all, df_pending_accept *pending) {
  df_net_peer *peer;
  const uint32_t port = pending->handshake.port;
  if (port == DF_HANDSHAKE_CONTROL_PORT) {
    df_tcp_stream *channel = pending->stream;
    pending->stream = NULL;
    df_control_reconnect_take(all->control_reconnect, channel, &pending->handshake);
    return;
  }
  /* The caller may need the connection before this rank needs it. */
  if (port >= DF_PUMP_PORTS_MOST) return;
  if (df_connections_connect(all, pending->handshake.peer, &peer) != dfcclSuccess) return;
  if (df_connections_need(peer, port) != dfcclSuccess || peer->is_lost) return;
  const df_connection *c = &peer->ports[port];
  if (peer->can_call && all->rank < peer->rank) { /* the calls of this rank count */
    df_connection_handle_call(all, peer, port);
    return;
  }
  if (pending->handshake.number <= c->call_received)
    return; /* the caller has given this call up meanwhile */
  df_tcp_stream *stream = pending->stream;
  pending->stream = NULL;
  df_connection_accept(all, peer, stream, &pending->handshake);
}

void df_pending_accepts_receive(df_connections *all) {
  df_tcp_stream *stream;
  while ((stream = df_tcp_accept(&all->tcp)) != NULL) {
    df_pending_accept *new = calloc(1, sizeof *new);
    if (new == NULL) {
      df_tcp_end(&all->tcp, stream);
      continue;
    }
    new->stream = stream;
    df_connection_handshake_listen(&new->handshake, &stream->stream, all->rank, all->secret,
                                   df_protection_needs_keys(&all->protection));
    if (all->control_reconnect) new->handshake.remote = all->control_reconnect->remote;
    new->next = all->pending;
    all->pending = new;
    all->n_pending++;
  }
  for (df_pending_accept **at = &all->pending; *at;) {
    df_pending_accept *here = *at;
    const int is_too_many = here->next == NULL && all->n_pending > all->n_ranks + PENDING_SPARE;
    df_connection_handshake_state state = DF_HANDSHAKE_PENDING;
    if (here->stream->is_ready) {
      here->stream->is_ready = 0;
      state = df_connection_handshake_progress(&here->handshake, all->n_ranks);
    }
    if (state == DF_HANDSHAKE_DONE) accept_proven(all, here);
    if (state != DF_HANDSHAKE_PENDING || is_too_many)
      drop_pending(all, at);
    else
      at = &here->next;
  }
}

void df_pending_accepts_drop(df_connections *all) {
  while (all->pending) drop_pending(all, &all->pending);
}
