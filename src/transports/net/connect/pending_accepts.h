/* Callers that have not proven who they are. Of too many the oldest goes. */
#ifndef DF_TRANSPORTS_NET_CONNECT_PENDING_ACCEPTS_H
#define DF_TRANSPORTS_NET_CONNECT_PENDING_ACCEPTS_H

#include "transports/net/connect/connections.h"

/* Accepts who calls, and hears what those say who wait. */
void df_pending_accepts_receive(df_connections *all);
void df_pending_accepts_drop(df_connections *all);

#endif
