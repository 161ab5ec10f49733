/* The sockets between ranks of one host. Before a socket is used, both ends prove that they have
 * the secret and belong to the same user. */
#ifndef DF_BOOTSTRAP_MESH_MESH_H
#define DF_BOOTSTRAP_MESH_MESH_H

#include "bootstrap/rendezvous/rendezvous.h"

/* Connects this rank, reports it to the root, and waits until the root has reported that all ranks
 * are connected. Blocks until rendezvous->deadline_ns at most, and then for the root to report the
 * reason; fails early if the root reports a failure. sockets: [n_ranks], as in df_mesh; all -1 on
 * failure. local: [n_ranks], ranks to leave out. Errors name the ranks. */
dfcclResult_t df_mesh_connect(df_rendezvous *rendezvous, const unsigned char *local, int *sockets);

#endif
