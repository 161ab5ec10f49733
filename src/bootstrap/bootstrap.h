/* Bootstrap: the join of all ranks of a job. A unique id contains the port of the root, up to three
 * of its addresses, and a random 128-bit secret. For the key of a launcher, rank 0 is the root: it
 * listens at an abstract Unix address that is derived from the user and the key, and at a TCP port
 * too if there is a secret. Ranks of one host are connected by Unix sockets, ranks of different
 * hosts by TCP; of several addresses the first one whose connection proves itself is used. The
 * secret is never sent; an unauthenticated caller learns nothing and delays no rank. The join
 * succeeds on all ranks, or fails on all with one sentence. */
#ifndef DF_BOOTSTRAP_BOOTSTRAP_H
#define DF_BOOTSTRAP_BOOTSTRAP_H

#include "bootstrap/net/listeners.h"
#include "bootstrap/net/mesh_types.h"

typedef enum { DF_HOSTS_UNKNOWN, DF_HOSTS_ONE, DF_HOSTS_SEVERAL } df_hosts;

/* The launcher's information about the hosts of a job. */
typedef struct df_root_place {
  df_hosts hosts;
  char host[256]; /* name or address of the host of rank 0; "": not known */
  uint16_t port;  /* the first of n_ports ports that rank 0 tries */
  uint16_t n_ports;
} df_root_place;

/* Creates the identity of a job, and a root that ends with the join, or after ten minutes without a
 * rank. Any process that has the 128 bytes can join. network NULL: this host only. Any thread may
 * call it. It blocks only while a chosen interface is not ready, for at most network->join_ms. */
dfcclResult_t df_bootstrap_create_id(dfcclUniqueId *id, const df_network_settings *network);

/* Blocks until the mesh is connected, for at most timeout_ms, and then up to two seconds for the
 * root to report the missing ranks. Ranks of one process call from one thread each. On failure
 * nothing remains open; *mesh has only the numbers, job and absence. Errors: dfcclInvalidArgument
 * (also a damaged id, or a contradiction between ranks), dfcclInvalidUsage (an id of another
 * version), dfcclRemoteError (a rank failed, or the id was used before), dfcclTimeout. */
dfcclResult_t df_bootstrap_join(const df_network_settings *network, const dfcclUniqueId *id,
                                int n_ranks, int rank, const df_peer_info *info, int timeout_ms,
                                df_mesh *mesh);

/* Does the same as df_bootstrap_join with a text instead of an id. No other job of this user on
 * this host may use the text at the same time. Within one host, the same user is the
 * authentication; between hosts it is the secret of the network. place NULL: this host only. */
dfcclResult_t df_bootstrap_join_key(const df_network_settings *network, const df_root_place *place,
                                    const char *key, int n_ranks, int rank,
                                    const df_peer_info *info, int timeout_ms, df_mesh *mesh);

/* Closes and frees the mesh. Safe on a zeroed struct, and twice. Does not block. */
void df_mesh_close(df_mesh *mesh);

#endif
