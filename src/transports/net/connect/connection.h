/* One connection, for connections.c and pending_accepts.c. */
#ifndef DF_TRANSPORTS_NET_CONNECT_CONNECTION_H
#define DF_TRANSPORTS_NET_CONNECT_CONNECTION_H

#include "transports/net/connect/connections.h"

/* A lost one is waited for until then. UINT64_MAX: nobody waits for it. */
uint64_t df_connection_end_ns(const df_connections *all, const df_net_peer *peer, uint32_t port);
/* It does not stand, and this end has to call. */
int df_connection_is_wanted(const df_net_peer *peer, uint32_t port);
/* Calls what is due, and gives up what took too long. */
void df_connection_call_all(df_connections *all, df_net_peer *peer);
/* The stream is ready, and the connection does not stand yet. */
void df_connection_progress(df_connections *all, df_net_peer *peer, uint32_t port);
/* The peer has called, and has proven itself, but this rank's calls count: then its end is lost, unless
 * both have just called. */
void df_connection_handle_call(df_connections *all, df_net_peer *peer, uint32_t port);
/* The peer has called, and has proven itself. Takes the stream; the greeter is wiped. */
void df_connection_take(df_connections *all, df_net_peer *peer, df_tcp_stream *stream,
                        df_connection_handshake *handshake);

/* Of those that stand, when the rails are known. */
void df_connection_set_silence(const df_connections *all, const df_net_peer *peer);
void df_connection_lose(df_connections *all, df_net_peer *peer, uint32_t port, const char *reason);
/* For good. lost: the connection that was lost first. */
void df_connection_lose_peer(df_connections *all, df_net_peer *peer, const df_connection *lost,
                             const char *reason);
/* Ends its streams. */
void df_connection_end(df_connections *all, df_connection *c);

#endif
