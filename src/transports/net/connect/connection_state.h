/*
 * The states of a connection, in the order in which it is made. Facts that do not follow from the
 * state are members of df_connection: which end has called, and when the connection was lost.
 */
#ifndef DF_TRANSPORTS_NET_CONNECT_CONNECTION_STATE_H
#define DF_TRANSPORTS_NET_CONNECT_CONNECTION_STATE_H

typedef enum df_connection_state {
  DF_CONNECTION_CLOSED,            /* no stream: not called yet, or lost */
  DF_CONNECTION_HANDSHAKE,         /* this end has called; the ends prove their identity over TCP */
  DF_CONNECTION_NETWORK,           /* the ends connect the network backend */
  DF_CONNECTION_NETWORK_HANDSHAKE, /* the ends prove their identity over the network backend */
  DF_CONNECTION_SECURING,          /* the stream that protects frames connects */
  DF_CONNECTION_CONNECTED,
  DF_CONNECTION_STATES
} df_connection_state;

static inline const char *df_connection_state_name(df_connection_state state) {
  static const char *const names[DF_CONNECTION_STATES] = {
      [DF_CONNECTION_CLOSED] = "closed",
      [DF_CONNECTION_HANDSHAKE] = "handshake",
      [DF_CONNECTION_NETWORK] = "network",
      [DF_CONNECTION_NETWORK_HANDSHAKE] = "network handshake",
      [DF_CONNECTION_SECURING] = "securing",
      [DF_CONNECTION_CONNECTED] = "connected"};
  return names[state];
}

/* A connection that the peer has called is closed until its handshake has finished, because the
 * handshake belongs to a pending connection (pending_accepts.h). */
static inline int df_connection_may_go(df_connection_state from, df_connection_state to) {
  static const unsigned before[DF_CONNECTION_STATES] = {
      [DF_CONNECTION_CLOSED] = (1u << DF_CONNECTION_STATES) - 1,
      [DF_CONNECTION_HANDSHAKE] = 1u << DF_CONNECTION_CLOSED,
      [DF_CONNECTION_NETWORK] = 1u << DF_CONNECTION_CLOSED | 1u << DF_CONNECTION_HANDSHAKE,
      [DF_CONNECTION_NETWORK_HANDSHAKE] = 1u << DF_CONNECTION_NETWORK,
      [DF_CONNECTION_SECURING] = 1u << DF_CONNECTION_CLOSED | 1u << DF_CONNECTION_HANDSHAKE |
                                 1u << DF_CONNECTION_NETWORK_HANDSHAKE,
      [DF_CONNECTION_CONNECTED] = 1u << DF_CONNECTION_SECURING};
  return before[to] >> from & 1;
}

#endif
