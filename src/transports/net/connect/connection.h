/* One connection; used by connections.c and pending_accepts.c. */
#ifndef DF_TRANSPORTS_NET_CONNECT_CONNECTION_H
#define DF_TRANSPORTS_NET_CONNECT_CONNECTION_H

#include "transports/net/connect/connections.h"

/* Time until which a lost connection is waited for. UINT64_MAX: the job does not wait for it. */
uint64_t df_connection_end_ns(const df_connections *all, const df_net_peer *peer, uint32_t port);
/* Returns 1 if the port is not connected and this end has to call. */
int df_connection_is_wanted(const df_net_peer *peer, uint32_t port);
/* Makes the calls that are due, and gives up the attempts that took too long. */
void df_connection_call_all(df_connections *all, df_net_peer *peer);
/* Continues an attempt whose stream is ready. */
void df_connection_progress(df_connections *all, df_net_peer *peer, uint32_t port);
/* The peer has called and has proven its identity, but the calls of this rank count. The peer has
 * therefore lost its end, unless both have just called. */
void df_connection_handle_call(df_connections *all, df_net_peer *peer, uint32_t port);
/* The peer has called and has proven its identity. Takes ownership of the stream, and wipes the
 * handshake. */
void df_connection_accept(df_connections *all, df_net_peer *peer, df_tcp_stream *stream,
                          df_connection_handshake *handshake);

/* Sets the silence limit of the established connections, when the rails are known. */
void df_connection_set_silence(const df_connections *all, const df_net_peer *peer);
void df_connection_lose(df_connections *all, df_net_peer *peer, uint32_t port, const char *reason);
/* Gives the peer up for good. lost: the connection that was lost first. */
void df_connection_lose_peer(df_connections *all, df_net_peer *peer, const df_connection *lost,
                             const char *reason);
/* Ends the streams of the connection. */
void df_connection_end(df_connections *all, df_connection *c);

#endif
