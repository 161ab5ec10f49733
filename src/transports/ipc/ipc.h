/* The transport of ranks with GPUs of one host: rings in a GPU's memory, which peers map. */
#ifndef DF_TRANSPORTS_IPC_IPC_H
#define DF_TRANSPORTS_IPC_IPC_H

#include "transports/transport.h"

extern const df_transport df_transport_ipc;

#endif
