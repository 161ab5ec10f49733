/*
 * The rails between this host and a remote rank's: pairs of an interface here and an address there, in
 * one network. A rail beyond the first carries large messages only (pump.h). Which rails work, their
 * connections find out.
 */
#ifndef DF_TRANSPORTS_NET_CONNECT_PATHS_H
#define DF_TRANSPORTS_NET_CONNECT_PATHS_H

#include "bootstrap/net/interfaces.h"
#include "bootstrap/net/mesh_types.h"
#include "transports/net/stream/tcp.h"
#include "transports/net/pump/pump.h"

typedef struct df_path_finder df_path_finder;

/* interfaces: DFCCL_NET_INTERFACES, "": the default; most: DFCCL_NET_RAILS. As df_interfaces_find. */
dfcclResult_t df_path_finder_open(df_path_finder **finder, const char *interfaces, uint32_t most);
void df_path_finder_close(df_path_finder *finder); /* also of NULL */

/* The first way is that by which the mesh has found the rank. Of each interface here, and of each
 * address there, at most one. Returns how many. */
uint32_t df_path_finder_find(const df_path_finder *finder, const df_remote_rank *remote,
                             df_tcp_path paths[DF_NET_PATHS_MOST]);

/* The same, of given interfaces. */
uint32_t df_paths_among(const df_interfaces *interfaces, const df_remote_rank *remote,
                        uint32_t most, df_tcp_path paths[DF_NET_PATHS_MOST]);

#endif
