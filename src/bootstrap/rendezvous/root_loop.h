/* One thread serves all connections with poll: a slow, silent or nonsensical caller holds up
 * nobody. Only a caller that has proved to be of the job can affect it. */
#ifndef DF_BOOTSTRAP_RENDEZVOUS_ROOT_LOOP_H
#define DF_BOOTSTRAP_RENDEZVOUS_ROOT_LOOP_H

#include "bootstrap/net/listeners.h"
#include "bootstrap/rendezvous/handshake.h"

typedef struct df_root df_root;

typedef struct {
  int listener;                    /* taken over, also on failure; -1: none */
  df_listeners *listeners;         /* the same; NULL: none */
  unsigned char tag[DF_TAG_BYTES]; /* of the callers' HELLO */
  unsigned char key[DF_KEY_BYTES];
  bool same_user_only; /* the listener turns other users away unheard */
  bool lacks_secret;   /* there are no doors, since there is no secret */
  int n_ranks;         /* 0: as the first rank says */
  uint64_t idle_ms;    /* it ends after so long without a rank */
  uint64_t linger_ms;  /* late ranks hear of a failure for so long; not detached: within idle_ms */
} df_root_options;

/* first: a connected, non-blocking socket, taken over also on failure; -1: none. A lack of places
 * or descriptors does not close it.
 *
 * root == NULL: the root waits idle (idle_roots.h) for a caller, then has a detached thread and
 * frees itself. Else it has a thread at once, and *root is for df_root_stop. */
dfcclResult_t df_root_start(const df_root_options *options, int first, df_root **root);

/* Frees the root. If the job stands or has failed, blocks until all is said, linger_ms included.
 * Else ends at once. */
void df_root_stop(df_root *root);

/* For tests that are the root's only caller. create: NULL when out of memory (the listener is
 * closed); listener may be -1. adopt takes a connected, non-blocking socket. step waits wait_ms at
 * most; false: the root has ended. */
df_root *df_root_create(const df_root_options *options);
void df_root_adopt(df_root *root, int fd);
bool df_root_step(df_root *root, int wait_ms);
void df_root_destroy(df_root *root);

#endif
