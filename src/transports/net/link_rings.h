/* The rings of a link to another process, in local memory: their remote neighbour is the pump. Each
 * ring has two ends, the block's and the pump's. */
#ifndef DF_TRANSPORTS_NET_LINK_RINGS_H
#define DF_TRANSPORTS_NET_LINK_RINGS_H

#include "base/mutex.h"
#include "transports/net/pump/pump.h"
#include "transports/transport.h"

/* Zeroed memory. Large rings are pages of their own, which the system allocates as messages are
 * written to them. */
typedef struct df_net_rings {
  uint8_t *base;
  uint64_t bytes;
} df_net_rings;

/* Makes the rings of all blocks. Unlocks the lock of the rank meanwhile if patience allows it.
 * dfcclInProgress: patience did not suffice. Fails with dfcclOutOfMemory. */
dfcclResult_t df_net_rings_make(df_net_rings *rings, const df_route *route, df_patience *patience,
                                df_rank_mutex *lock);
void df_net_rings_free(const df_net_rings *rings);
void df_net_rings_add_memory(const df_net_rings *rings, df_ring_memory *memory);

/* Fills the ends of the blocks, which are the route's, and those of the pump. Blocks ring
 * pump_bell, and the pump rings block_bell. */
void df_net_rings_fill_ends(const df_net_rings *rings, const df_route *route, df_bell *pump_bell,
                            df_bell *block_bell, uint64_t lend_min, df_link *pump_ends);
/* piece_of[n]: the pieces of the n-th message that the link carries in a loop. */
void df_net_rings_find_pieces(const df_route *route, df_pump_pieces *piece_of);

#endif
