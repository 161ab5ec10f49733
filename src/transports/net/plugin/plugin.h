/*
 * NCCL network plugins as a network backend. Over the TCP stream the ends exchange their handles,
 * and later facts that a plugin cannot report: that an end sleeps until it is woken, that an end
 * has failed and why, and how many messages have arrived.
 */
#ifndef DF_TRANSPORTS_NET_PLUGIN_PLUGIN_H
#define DF_TRANSPORTS_NET_PLUGIN_PLUGIN_H

#include "transports/net/stream/net_backend.h"

extern const df_net_backend_ops df_net_backend_plugin;

#endif
