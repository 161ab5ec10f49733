/* The service thread's part of the network transport: it decides what lost connections mean. */
#ifndef DF_HOST_LIFECYCLE_CONNECTION_LOSS_H
#define DF_HOST_LIFECYCLE_CONNECTION_LOSS_H

#include "host/state/context.h"

/* The network transport is open, and the service thread is not started. */
void df_network_add(dfcclContext_t context);
/* The service thread has ended. */
void df_network_remove(dfcclContext_t context);

#endif
