/*
 * The wire as a transport: ranks that share no memory, or are told not to use it, exchange their
 * messages over TCP. Each rank has one listening port on the loopback address. The sender of a link
 * calls the receiver when it has its first offer; a connection carries all links from one rank to
 * another, and their credits back.
 *
 * A thread of the endpoint sleeps on a bell, which blocks ring when they have published or released
 * a slot; the service thread calls df_transport.pump when the network has news. Whoever comes first
 * does the work.
 */
#ifndef DF_TRANSPORTS_WIRE_ENDPOINT_H
#define DF_TRANSPORTS_WIRE_ENDPOINT_H

#include "transports/transport.h"

extern const df_transport df_transport_wire;

#endif
