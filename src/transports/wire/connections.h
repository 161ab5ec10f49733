/*
 * One connection to each peer that this rank sends to, and one from each that sends to it. The
 * sender calls. A caller is a guest until it has proven who it is; of too many guests the oldest
 * goes. Nothing waits. Not thread-safe: the endpoint has a lock.
 */
#ifndef DF_TRANSPORTS_WIRE_CONNECTIONS_H
#define DF_TRANSPORTS_WIRE_CONNECTIONS_H

#include "transports/wire/greeting.h"
#include "transports/wire/tcp.h"
#include "transports/wire/wire.h"

typedef struct df_connection {
  df_wire *wire;         /* NULL: none yet */
  df_tcp_stream *stream; /* NULL: not called yet, or lost */
  df_greeter greeter;    /* until the stream stands */
  int stands;
  char ends[DF_TCP_ENDS_BYTES];
  int is_lost, was_told; /* final */
  char why[DF_WIRE_REASON_BYTES + DF_TCP_ENDS_BYTES + 32];
} df_connection;

typedef struct df_connections {
  df_tcp tcp;
  uint32_t rank, n_ranks;
  unsigned char secret[DF_KEY_BYTES]; /* makes each peer's key */
  df_connection *to, *from;           /* [n_ranks] */
  struct df_guest *guests;            /* latest first */
  uint32_t n_guests;
  int has_lost; /* A connection was lost since the owner cleared this. */
} df_connections;

/* dfcclOutOfMemory, dfcclSystemError. */
dfcclResult_t df_connections_open(df_connections *all, uint32_t rank, uint32_t n_ranks,
                                  df_doors *doors);
void df_connections_close(df_connections *all);

/* Calls a peer once; all->to[peer] has its pump. No answer: the connection is lost. */
dfcclResult_t df_connections_call(df_connections *all, uint32_t peer, const df_address *address,
                                  uint32_t scope, const unsigned char key[DF_KEY_BYTES]);

/* A bounded amount. 0: nothing to do. */
int df_connections_carry(df_connections *all);
/* As df_wire_is_due. tcp.epoll_fd tells what the network brings. */
int df_connections_are_due(const df_connections *all);

/* Something that the peers have room for still waits. */
int df_connections_have_pending(const df_connections *all);

/* Each once. 0: none. */
int df_connections_take_lost(df_connections *all, uint32_t *peer, char *why, size_t bytes);

#endif
