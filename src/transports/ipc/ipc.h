/* The transport of GPUs of one host: peers map rings in a GPU's memory. */
#ifndef DF_TRANSPORTS_IPC_IPC_H
#define DF_TRANSPORTS_IPC_IPC_H

#include "transports/transport.h"

extern const df_transport df_transport_ipc;

#endif
