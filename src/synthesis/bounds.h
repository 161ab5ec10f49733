/* Lower bounds of the time of a collective on a network. */
#ifndef DF_SYNTHESIS_BOUNDS_H
#define DF_SYNTHESIS_BOUNDS_H

#include "plans/operation.h"
#include "topology/network.h"

/*
 * No algorithm can be faster: seconds. bytes: of a rank's larger buffer. The root is rank 0. The
 * bound is the greatest time of the bytes that must pass the ports of one rank, one host or one
 * switch, in either direction; and for an all-reduce of the bytes that must move in all (2 (n - 1)
 * times the buffer). The bound of ForestColl (Zhao et al., 2024) over all cuts is not less
 * (synthesis/forest.h).
 */
double df_network_bound(const df_network *network, df_operation operation, uint64_t bytes);

#endif
