/* Pending connections: callers that have not proven their identity. If there are too many, the
 * oldest is dropped. */
#ifndef DF_TRANSPORTS_NET_CONNECT_PENDING_ACCEPTS_H
#define DF_TRANSPORTS_NET_CONNECT_PENDING_ACCEPTS_H

#include "transports/net/connect/connections.h"

/* Accepts new callers, and continues the handshakes of those that are pending. */
void df_pending_accepts_receive(df_connections *all);
void df_pending_accepts_drop(df_connections *all);

#endif
