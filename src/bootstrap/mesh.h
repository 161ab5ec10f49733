/* The sockets between ranks. A connection is used only after both ends have proved that they know
 * the secret and are of the same user. */
#ifndef DF_BOOTSTRAP_MESH_H
#define DF_BOOTSTRAP_MESH_H

#include "bootstrap/rendezvous.h"

/* Connects to all lower ranks and hears all higher ones, and watches for the root's news. Blocks
 * until rendezvous->deadline_ns at most. sockets: [n_ranks], as in df_mesh; all -1 on failure.
 * local: [n_ranks], ranks to leave out. Errors: dfcclTimeout and dfcclRemoteError (naming the
 * ranks), dfcclSystemError, dfcclOutOfMemory. */
dfcclResult_t df_mesh_connect(df_rendezvous *rendezvous, const unsigned char *local, int *sockets);

#endif
