/*
 * Ranks without shared memory exchange messages over TCP, or over a network beside it (net_backend.h): at
 * the loopback address within a host, else where the mesh has found the peer. Whoever drives blocks
 * carries as well: after what they publish, and in the place of a pause while they are stuck. When
 * nobody drives, the endpoint's thread sleeps until the network has news, so a rank that computes
 * holds up nobody.
 */
#ifndef DF_TRANSPORTS_NET_ENDPOINT_H
#define DF_TRANSPORTS_NET_ENDPOINT_H

#include "transports/transport.h"

extern const df_transport df_transport_net;

#endif
