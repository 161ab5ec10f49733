/*
 * Ranks without shared memory exchange messages over TCP on the loopback address. A link's sender
 * calls at its first offer. One connection carries all links from one rank to another. The
 * endpoint's thread sleeps on a bell that blocks ring; the service thread calls df_transport.pump
 * when the network has news. Whoever comes first works.
 */
#ifndef DF_TRANSPORTS_WIRE_ENDPOINT_H
#define DF_TRANSPORTS_WIRE_ENDPOINT_H

#include "transports/transport.h"

extern const df_transport df_transport_wire;

#endif
