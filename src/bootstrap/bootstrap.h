/* A unique id carries the root's port, up to three of its addresses and a random 128-bit secret.
 * For a launcher's key, rank 0 is the root: at an abstract Unix address derived from user and key,
 * and if there is a secret, at a TCP port too. Ranks of one host have Unix sockets, others TCP
 * connections, between which the first address that proves itself is taken. The secret never
 * travels; a stranger who connects learns nothing and delays nobody. The join succeeds on all
 * ranks, or fails on all with one sentence. */
#ifndef DF_BOOTSTRAP_BOOTSTRAP_H
#define DF_BOOTSTRAP_BOOTSTRAP_H

#include "bootstrap/net/listeners.h"
#include "bootstrap/net/mesh_types.h"

typedef enum { DF_HOSTS_UNKNOWN, DF_HOSTS_ONE, DF_HOSTS_SEVERAL } df_hosts;

/* What a launcher says of a job's hosts. */
typedef struct df_root_place {
  df_hosts hosts;
  char host[256]; /* rank 0's, name or address; "": not known */
  uint16_t port;  /* the first of n_ports that rank 0 tries */
  uint16_t n_ports;
} df_root_place;

/* Makes a job's identity, and a root that ends with the join, or after ten minutes without a rank.
 * Who has the 128 bytes can join. network: NULL: this host only. Any thread; does not block. */
dfcclResult_t df_bootstrap_create_id(dfcclUniqueId *id, const df_network *network);

/* Blocks until the mesh stands, timeout_ms at most, and then up to two seconds for the root to say
 * who is missing. Ranks of one process call from one thread each. On failure nothing stays open;
 * *mesh has only numbers, job and absence.
 * Errors: dfcclInvalidArgument (also a damaged id, or a contradiction between ranks),
 * dfcclInvalidUsage (an id of another version), dfcclRemoteError (a rank failed, or the id was used
 * up), dfcclTimeout. */
dfcclResult_t df_bootstrap_join(const df_network *network, const dfcclUniqueId *id, int n_ranks,
                                int rank, const df_peer_info *info, int timeout_ms, df_mesh *mesh);

/* As df_bootstrap_join, with a text instead of an id. No other job of this user on this host uses
 * it at the same time. Within one host, being the same user is the authentication; beyond, the
 * network's secret is. place: NULL: this host only. */
dfcclResult_t df_bootstrap_join_key(const df_network *network, const df_root_place *place,
                                    const char *key, int n_ranks, int rank,
                                    const df_peer_info *info, int timeout_ms, df_mesh *mesh);

/* Safe on a zeroed struct, and twice. Does not block. */
void df_mesh_close(df_mesh *mesh);

#endif
