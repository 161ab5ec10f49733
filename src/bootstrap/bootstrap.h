/*
 * Rendezvous of the ranks of one job on one host: everybody meets once, tells all others its card,
 * and leaves with a connected socket to each rank of another process.
 *
 * Who meets where. A unique id carries a TCP port on the loopback address, at which a thread of the
 * process that made the id (the root) collects the ranks, and a random 128-bit secret. A launcher's
 * key is a text that all ranks of the job share: there rank 0 is the root and listens on an
 * abstract Unix address derived from user and key. The protocol is the same (handshake.h); the
 * secret never travels, and a stranger who connects learns nothing and delays nobody.
 *
 * All or none. The join is a barrier: it succeeds on a rank only when every rank has its card table
 * and all its sockets. Whatever goes wrong with one rank (it dies, disagrees, cannot open a socket)
 * ends the join on all of them with one sentence that names it.
 *
 * Nothing has a name in a file system, so nothing stays behind, not even after SIGKILL.
 */
#ifndef DF_BOOTSTRAP_BOOTSTRAP_H
#define DF_BOOTSTRAP_BOOTSTRAP_H

#include "bootstrap/mesh_types.h"

/*
 * Makes the identity of a new job, and a root that ends once the job stands or has failed, and
 * after ten minutes in which no rank came. Roots that no rank has called share one thread of this
 * process; each other root has a detached thread. The 128 bytes are plain and may be sent by any
 * means; who has them can join. Any thread; does not block.
 * Errors: dfcclInvalidArgument (id is NULL), dfcclSystemError, dfcclOutOfMemory.
 */
dfcclResult_t df_bootstrap_create_id(dfcclUniqueId *id);

/*
 * Joins the job of id as rank (0 to n_ranks-1) of n_ranks (1 to DF_MAX_RANKS). Blocks until all
 * ranks are there and the mesh stands, at most timeout_ms (1 or more); after that it waits up to two
 * seconds for the root to say who is missing. Several ranks may live in one process, each calling
 * from a thread of its own. On failure nothing is left open: of
 * *mesh only numbers, job and absence are set, so that the caller can tell the other ranks of this
 * process. The sentence names what or which ranks are missing or wrong.
 * Errors: dfcclInvalidArgument (a value, a damaged id, a number of ranks or a rank that contradicts
 * another process), dfcclInvalidUsage (an id of another version), dfcclRemoteError (a rank died,
 * failed or is contradicted by another; the id was used up), dfcclTimeout, dfcclSystemError,
 * dfcclOutOfMemory.
 */
dfcclResult_t df_bootstrap_join(const dfcclUniqueId *id, int n_ranks, int rank, const df_card *card,
                                int timeout_ms, df_mesh *mesh);

/*
 * The same for jobs whose ranks share no id but a text: key is not empty, the same on all ranks of
 * the job, and not in use by another job of this user on this host at the same time. Ranks may
 * start in any order. Being the same user is the authentication here. One job after the other may
 * use one key. Errors: as df_bootstrap_join.
 */
dfcclResult_t df_bootstrap_join_key(const char *key, int n_ranks, int rank, const df_card *card,
                                    int timeout_ms, df_mesh *mesh);

/* Closes the sockets and frees the tables. Safe on a zeroed struct, and twice. Does not block. */
void df_mesh_close(df_mesh *mesh);
/* The sockets only; async-signal-safe. */
void df_mesh_close_sockets(df_mesh *mesh);

#endif
