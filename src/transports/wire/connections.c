#include "transports/wire/connections.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GUESTS_SPARE = 64 /* unproven callers beyond the ranks */ };

typedef struct df_guest {
  struct df_guest *next;
  df_tcp_stream *stream;
  df_greeter greeter;
} df_guest;

static void lose(df_connections *all, df_connection *c, const char *reason) {
  if (c->stream) df_tcp_end(&all->tcp, c->stream);
  c->stream = NULL;
  c->stands = 0;
  c->is_lost = 1;
  snprintf(c->why, sizeof c->why, "the connection %s was lost: %s", c->ends, reason);
  all->has_lost = 1;
}

/* Its ends are noted: of a connection that is lost the system tells but one. */
static void stand(df_connection *c) {
  c->stands = 1;
  df_tcp_describe(c->stream, c->ends);
}

static void greet(df_connections *all, df_connection *c) {
  df_greeting_state state = df_greeting_progress(&c->greeter, all->n_ranks);
  if (state == DF_GREETING_STANDS) stand(c);
  if (state == DF_GREETING_REFUSED) lose(all, c, "it did not stand");
}

static int is_due(const df_connection *c) {
  return c->stream && (c->stream->is_ready || (c->stands && df_wire_is_due(c->wire)));
}

static int carry(df_connections *all, df_connection *c) {
  if (!is_due(c)) return 0;
  c->stream->is_ready = 0;
  if (!c->stands) greet(all, c);
  if (!c->stands) return 0;
  int did = df_wire_pump(c->wire);
  if (c->wire->is_lost) lose(all, c, c->wire->reason);
  return did;
}

/* ---- guests */

static void drop_guest(df_connections *all, df_guest **at) {
  df_guest *guest = *at;
  *at = guest->next;
  if (guest->stream) df_tcp_end(&all->tcp, guest->stream);
  free(guest);
  all->n_guests--;
}

static void welcome(df_connections *all, df_guest *guest) {
  df_connection *c = &all->from[guest->greeter.peer];
  if (c->wire == NULL || c->stream || c->is_lost) return; /* there is another */
  c->stream = guest->stream;
  c->stream->is_ready = 1; /* frames may have come with the proof */
  c->wire->stream = &c->stream->stream;
  guest->stream = NULL;
  stand(c);
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
    df_greeting_listen(&new->greeter, &stream->stream, all->rank, all->secret);
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

dfcclResult_t df_connections_open(df_connections *all, uint32_t rank, uint32_t n_ranks,
                                  df_doors *doors) {
  *all = (df_connections){.rank = rank, .n_ranks = n_ranks};
  all->to = calloc(n_ranks, sizeof *all->to);
  all->from = calloc(n_ranks, sizeof *all->from);
  dfcclResult_t result = dfcclSuccess;
  if (all->to == NULL || all->from == NULL)
    result = df_fail(dfcclOutOfMemory, "no memory for %u connections", n_ranks);
  if (result == dfcclSuccess) result = df_handshake_ready();
  if (result == dfcclSuccess) result = df_tcp_open(&all->tcp, doors);
  if (result != dfcclSuccess) {
    free(all->to);
    free(all->from);
    return result;
  }
  randombytes_buf(all->secret, sizeof all->secret);
  return dfcclSuccess;
}

static void free_those(df_connections *all, df_connection *connections) {
  for (uint32_t r = 0; r < all->n_ranks; r++) {
    if (connections[r].stream) df_tcp_end(&all->tcp, connections[r].stream);
    if (connections[r].wire) df_wire_free(connections[r].wire);
  }
  free(connections);
}

void df_connections_close(df_connections *all) {
  while (all->guests) drop_guest(all, &all->guests);
  free_those(all, all->to);
  free_those(all, all->from);
  df_tcp_close(&all->tcp);
  sodium_memzero(all->secret, sizeof all->secret);
}

dfcclResult_t df_connections_call(df_connections *all, uint32_t peer, const df_address *address,
                                  uint32_t scope, const unsigned char key[DF_KEY_BYTES]) {
  df_connection *c = &all->to[peer];
  if (c->stream || c->is_lost) return dfcclSuccess;
  dfcclResult_t result = df_tcp_connect(&all->tcp, address, scope, &c->stream);
  if (result != dfcclSuccess) return result;
  c->wire->stream = &c->stream->stream;
  df_tcp_describe(c->stream, c->ends);
  df_greeting_call(&c->greeter, &c->stream->stream, all->rank, peer, key);
  return dfcclSuccess;
}

int df_connections_carry(df_connections *all) {
  int did = 0;
  df_tcp_look(&all->tcp);
  receive_guests(all);
  for (uint32_t r = 0; r < all->n_ranks; r++) {
    did |= carry(all, &all->to[r]);
    did |= carry(all, &all->from[r]);
  }
  return did;
}

int df_connections_are_due(const df_connections *all) {
  for (uint32_t r = 0; r < all->n_ranks; r++)
    if (is_due(&all->to[r]) || is_due(&all->from[r])) return 1;
  return 0;
}

static int has_pending(const df_connection *c) {
  if (c->stream == NULL) return 0;
  return df_wire_has_pending(c->wire) || (c->stands && df_tcp_has_unsent(c->stream));
}

int df_connections_have_pending(const df_connections *all) {
  for (uint32_t r = 0; r < all->n_ranks; r++)
    if (has_pending(&all->to[r]) || has_pending(&all->from[r])) return 1;
  return 0;
}

int df_connections_take_lost(df_connections *all, uint32_t *peer, char *why, size_t bytes) {
  for (uint32_t i = 0; i < 2 * all->n_ranks; i++) {
    df_connection *c = i % 2 ? &all->to[i / 2] : &all->from[i / 2];
    if (!c->is_lost || c->was_told) continue;
    c->was_told = 1;
    *peer = i / 2;
    snprintf(why, bytes, "%s", c->why);
    return 1;
  }
  return 0;
}
