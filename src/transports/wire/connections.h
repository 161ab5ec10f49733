/*
 * Connections of one rank: one to each peer that it sends to over the wire, and one from each that
 * sends to it. The sender calls. A caller is a guest until it has proven who it is; strangers can
 * do no more than take a place among the guests, of whom the oldest goes if there are too many. Not
 * thread-safe: the endpoint has a lock. Nothing waits.
 */
#ifndef DF_TRANSPORTS_WIRE_CONNECTIONS_H
#define DF_TRANSPORTS_WIRE_CONNECTIONS_H

#include "transports/wire/greeting.h"
#include "transports/wire/tcp.h"
#include "transports/wire/wire.h"

typedef struct df_connection {
  df_wire *wire;         /* has the links; NULL: there was none yet */
  df_tcp_stream *stream; /* NULL: not called yet, or lost */
  df_greeter greeter;    /* of a stream that does not stand */
  int stands;
  int is_lost, was_told; /* final */
  char why[DF_WIRE_REASON_BYTES + DF_TCP_ENDS_BYTES];
} df_connection;

typedef struct df_connections {
  df_tcp tcp;
  uint32_t rank, n_ranks;
  unsigned char secret[DF_KEY_BYTES]; /* of which each peer's key is made */
  df_connection *to, *from;           /* [n_ranks] */
  struct df_guest *guests;            /* the latest first */
  uint32_t n_guests;
  int has_lost; /* a connection was lost since the owner cleared it */
} df_connections;

/* dfcclOutOfMemory, dfcclSystemError. */
dfcclResult_t df_connections_open(df_connections *all, uint32_t rank, uint32_t n_ranks);
void df_connections_close(df_connections *all);

/* Calls a peer, unless that was done. all->to[peer] has its pump. A peer that does not answer is a
 * connection that is lost. */
dfcclResult_t df_connections_call(df_connections *all, uint32_t peer, uint16_t port,
                                  const unsigned char key[DF_KEY_BYTES]);

/* Receives callers and carries what there is, a bounded amount. Returns 1 when something was done.
 */
int df_connections_carry(df_connections *all);
/* As df_wire_is_due. What the network has brought is told by tcp.epoll_fd. */
int df_connections_are_due(const df_connections *all);

/* A connection that was lost and not told of yet. Returns 0: there is none. */
int df_connections_take_lost(df_connections *all, uint32_t *peer, char *why, size_t bytes);

#endif
