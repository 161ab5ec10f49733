/*
 * NCCL network plugins as a fabric. Over the line the ends tell each other their handles, and later
 * what a plugin cannot tell: that one sleeps until it is woken, that one has failed and why, and how
 * many messages have arrived.
 */
#ifndef DF_TRANSPORTS_NET_PLUGIN_PLUGIN_H
#define DF_TRANSPORTS_NET_PLUGIN_PLUGIN_H

#include "transports/net/stream/net_backend.h"

extern const df_net_backend_ops df_net_backend_plugin;

#endif
