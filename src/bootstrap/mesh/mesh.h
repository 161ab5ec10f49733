/* Before a socket's use both ends prove that they know the secret and are of the same user. */
#ifndef DF_BOOTSTRAP_MESH_MESH_H
#define DF_BOOTSTRAP_MESH_MESH_H

#include "bootstrap/rendezvous/rendezvous.h"

/* Blocks until rendezvous->deadline_ns at most, and watches for the root's news. sockets:
 * [n_ranks], as in df_mesh; all -1 on failure. local: [n_ranks], ranks to leave out. Errors name
 * the ranks. */
dfcclResult_t df_mesh_connect(df_rendezvous *rendezvous, const unsigned char *local, int *sockets);

#endif
