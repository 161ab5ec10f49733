/* A unique id carries the root's loopback TCP port and a random 128-bit secret. For a launcher's
 * key, rank 0 is the root, at an abstract Unix address derived from user and key. The secret never
 * travels; a stranger who connects learns nothing and delays nobody. The join succeeds on all
 * ranks, or fails on all with one sentence. */
#ifndef DF_BOOTSTRAP_BOOTSTRAP_H
#define DF_BOOTSTRAP_BOOTSTRAP_H

#include "bootstrap/mesh_types.h"

/* Makes a job's identity, and a root that ends with the join, or after ten minutes without a rank.
 * Who has the 128 bytes can join. Any thread; does not block. */
dfcclResult_t df_bootstrap_create_id(dfcclUniqueId *id);

/* Blocks until the mesh stands, timeout_ms at most, and then up to two seconds for the root to say
 * who is missing. Ranks of one process call from one thread each. On failure nothing stays open;
 * *mesh has only numbers, job and absence.
 * Errors: dfcclInvalidArgument (also a damaged id, or a contradiction between ranks),
 * dfcclInvalidUsage (an id of another version), dfcclRemoteError (a rank failed, or the id was used
 * up), dfcclTimeout. */
dfcclResult_t df_bootstrap_join(const dfcclUniqueId *id, int n_ranks, int rank, const df_card *card,
                                int timeout_ms, df_mesh *mesh);

/* As df_bootstrap_join, with a text instead of an id. No other job of this user on this host uses
 * it at the same time. Being the same user is the authentication. */
dfcclResult_t df_bootstrap_join_key(const char *key, int n_ranks, int rank, const df_card *card,
                                    int timeout_ms, df_mesh *mesh);

/* Safe on a zeroed struct, and twice. Does not block. */
void df_mesh_close(df_mesh *mesh);

#endif
