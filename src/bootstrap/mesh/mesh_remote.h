/* The mesh's connections to ranks of other hosts, over TCP. A rank calls all addresses of a lower
 * rank, one after the other and without waiting for the one before. After a second a lower rank
 * calls too: perhaps only one way is open. The first connection that proves itself is taken; the
 * higher rank decides. The nonces are X25519 keys, so that who learns the secret later still cannot
 * read what went over a connection. */
#ifndef DF_BOOTSTRAP_MESH_MESH_REMOTE_H
#define DF_BOOTSTRAP_MESH_MESH_REMOTE_H

#include <poll.h>

#include "bootstrap/rendezvous/rendezvous.h"

typedef struct df_remote_mesh df_remote_mesh;

/* *mesh: NULL: no rank is remote. key: the mesh's. sockets: as in df_mesh; remote: the same. */
dfcclResult_t df_remote_mesh_open(df_remote_mesh **mesh, const df_rendezvous *rendezvous,
                                  const unsigned char key[DF_KEY_BYTES], int *sockets,
                                  df_remote_rank *remote);
/* What did not stand is closed. Also of NULL. */
void df_remote_mesh_close(df_remote_mesh *mesh);

/* At most so many entries; 0 for NULL. */
int df_remote_mesh_polled_max(const df_remote_mesh *mesh);
/* Calls what is due. Returns how many entries it filled; *wake_ns becomes earlier if need be. */
dfcclResult_t df_remote_mesh_fill(df_remote_mesh *mesh, struct pollfd *polled, int *n,
                                  uint64_t *wake_ns);
/* *stood: how many connections came to stand. */
dfcclResult_t df_remote_mesh_serve(df_remote_mesh *mesh, const struct pollfd *polled, int *stood);

/* Of a rank that is not yet connected: "10.77.0.1:5000 is silent for 5 s; ..." */
void df_remote_mesh_describe(const df_remote_mesh *mesh, int rank, char text[DF_PROBE_TEXT]);

#endif
