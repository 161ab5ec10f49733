/* Files that describe a network, in JSON: docs/SIMULATOR.md. */
#ifndef DF_SIM_NETWORK_FILE_H
#define DF_SIM_NETWORK_FILE_H

#include <stddef.h>

#include "topology/network.h"

/*
 * file NULL: each rank is a host, 5 us, 12.5 GB/s. ranks: 1 to DF_NETWORK_RANKS_MOST.
 * dfcclInvalidArgument, whose sentence names file and line; dfcclSystemError, dfcclOutOfMemory. The
 * caller frees the network, also after a failure.
 */
dfcclResult_t df_network_read(df_network *network, const char *file, uint32_t ranks);
/* The same for text in memory; file is the name used in sentences. */
dfcclResult_t df_network_parse(df_network *network, const char *file, const char *text,
                               size_t bytes, uint32_t ranks);

#endif
