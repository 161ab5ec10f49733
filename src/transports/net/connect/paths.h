/*
 * The rails between this host and the host of a remote rank: pairs of an interface here and an
 * address there, in one network. A rail beyond the first carries large messages only (pump.h). The
 * connections find out which rails work.
 */
#ifndef DF_TRANSPORTS_NET_CONNECT_PATHS_H
#define DF_TRANSPORTS_NET_CONNECT_PATHS_H

#include "bootstrap/net/interfaces.h"
#include "bootstrap/net/mesh_types.h"
#include "transports/net/stream/tcp.h"
#include "transports/net/pump/pump.h"

typedef struct df_path_finder df_path_finder;

/* interfaces: DFCCL_NET_INTERFACES, "": the default; most: DFCCL_NET_RAILS. Fails as
 * df_interfaces_find. */
dfcclResult_t df_path_finder_open(df_path_finder **finder, const char *interfaces, uint32_t most);
void df_path_finder_close(df_path_finder *finder); /* finder may be NULL */

/* Finds the paths to the rank and returns their number. The first path is the one by which the mesh
 * has found the rank. Each interface here, and each address there, is used at most once. */
uint32_t df_path_finder_find(const df_path_finder *finder, const df_remote_rank *remote,
                             df_tcp_path paths[DF_NET_PATHS_MOST]);

/* The same for given interfaces. */
uint32_t df_paths_among(const df_interfaces *interfaces, const df_remote_rank *remote,
                        uint32_t most, df_tcp_path paths[DF_NET_PATHS_MOST]);

#endif
