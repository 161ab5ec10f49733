/*
 * Ranks without shared memory exchange messages over TCP, or over a network backend in addition to
 * TCP (net_backend.h). Within a host they use the loopback address, otherwise the address where the
 * mesh has found the peer. A thread that drives blocks carries messages as well: after the blocks
 * have published something, and in place of a pause while they are blocked. When no thread drives,
 * the thread of the endpoint sleeps until a network event arrives. A rank that computes therefore
 * delays no other rank.
 */
#ifndef DF_TRANSPORTS_NET_ENDPOINT_H
#define DF_TRANSPORTS_NET_ENDPOINT_H

#include "transports/transport.h"

extern const df_transport df_transport_net;

#endif
