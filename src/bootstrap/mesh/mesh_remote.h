/* The TCP connections of the mesh to ranks of other hosts. A rank calls all addresses of a lower
 * rank in turn, without waiting for the previous one. After a second the lower rank calls too,
 * because connections may be possible in one direction only. The first connection that proves
 * itself is used; the higher rank decides. The caller uses a connection when the listener has
 * confirmed the proof, and a connection whose confirmation was lost is made again until all ranks
 * are connected. The nonces are X25519 keys, so a person who learns the secret later cannot decrypt
 * recorded traffic. */
#ifndef DF_BOOTSTRAP_MESH_MESH_REMOTE_H
#define DF_BOOTSTRAP_MESH_MESH_REMOTE_H

#include <poll.h>

#include "bootstrap/rendezvous/rendezvous.h"

typedef struct df_remote_mesh df_remote_mesh;

/* *mesh becomes NULL if no rank is remote. key: the key of the mesh. sockets and remote: as in
 * df_mesh. */
dfcclResult_t df_remote_mesh_open(df_remote_mesh **mesh, const df_rendezvous *rendezvous,
                                  const unsigned char key[DF_KEY_BYTES], int *sockets,
                                  df_remote_rank *remote);
/* Closes the connections that are not established. mesh may be NULL. */
void df_remote_mesh_close(df_remote_mesh *mesh);

/* Returns the largest number of entries that df_remote_mesh_fill writes; 0 for NULL. */
int df_remote_mesh_polled_max(const df_remote_mesh *mesh);
/* Starts the calls that are due. *n becomes the number of entries filled in; *wake_ns becomes
 * earlier if necessary. */
dfcclResult_t df_remote_mesh_fill(df_remote_mesh *mesh, struct pollfd *polled, int *n,
                                  uint64_t *wake_ns);
/* *n_connected becomes the number of connections that this call established. */
dfcclResult_t df_remote_mesh_serve(df_remote_mesh *mesh, const struct pollfd *polled,
                                   int *n_connected);

/* Describes the state of the addresses of a rank that is not yet connected: "10.77.0.1:5000 is
 * silent for 5 s; ..." */
void df_remote_mesh_describe(const df_remote_mesh *mesh, int rank, char text[DF_PROBE_TEXT]);

#endif
