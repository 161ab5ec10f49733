/*
 * The sockets between ranks: each rank connects to every lower rank of another process, and each
 * such connection is used only after both ends have proved that they know the job's secret and
 * that they are of the same user.
 */
#ifndef DF_BOOTSTRAP_MESH_H
#define DF_BOOTSTRAP_MESH_H

#include "bootstrap/rendezvous.h"

/*
 * Makes them from the table of the rendezvous and its listener, watching for the root's news
 * meanwhile. Blocks until all stand, at most until shortly before rendezvous->deadline_ns.
 * sockets: [n_ranks], filled with the sockets as df_mesh describes; all -1 on failure.
 * local: [n_ranks], ranks to leave out. Errors: dfcclTimeout and dfcclRemoteError (naming the
 * ranks), dfcclSystemError, dfcclOutOfMemory.
 */
dfcclResult_t df_mesh_connect(df_rendezvous *rendezvous, const unsigned char *local, int *sockets);

#endif
