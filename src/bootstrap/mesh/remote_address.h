/* The address at which this rank calls a rank of another host later: for a lost control channel,
 * and for connections of data. */
#ifndef DF_BOOTSTRAP_MESH_REMOTE_ADDRESS_H
#define DF_BOOTSTRAP_MESH_REMOTE_ADDRESS_H

#include "bootstrap/rendezvous/rendezvous.h"

/* Finds the interfaces of this host. One that has lost its carrier since the rank began to listen
 * may have it again when a peer is called. */
dfcclResult_t df_remote_address_interfaces(df_interfaces *interfaces,
                                           const df_rendezvous *rendezvous);

/* The rank has called over the connection fd. If its source address is in its list, that entry is
 * chosen. If our own calls failed (a lower rank had to call) or the source is loopback, the source
 * address with the listed port. Otherwise the first listed address. */
void df_remote_address_of_caller(df_remote_rank *remote, const df_record *record, int fd,
                                 int is_lower);
/* The rank is connected only when both ranks share a collective. Chooses the best of its addresses:
 * one in a network of this host, otherwise one that a router may reach. */
void df_remote_address_guess(df_remote_rank *remote, const df_rendezvous *rendezvous, int rank,
                             const df_interfaces *interfaces);

/* Keeps all addresses that the rank has listed. */
void df_remote_address_keep_offered(df_remote_rank *remote, const df_record *record);

#endif
