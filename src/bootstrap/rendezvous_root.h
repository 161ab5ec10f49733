/*
 * The root of a rendezvous: collects the ranks of one job, sends everybody the table, waits until
 * all have their sockets, and says go. It serves all connections from one thread with poll: a
 * caller that is slow, silent or talks nonsense holds up nobody, and is dropped if it has not
 * proved to be of the job in time. Only what passed that proof can affect the job.
 */
#ifndef DF_BOOTSTRAP_RENDEZVOUS_ROOT_H
#define DF_BOOTSTRAP_RENDEZVOUS_ROOT_H

#include "bootstrap/handshake.h"

typedef struct df_root df_root;

typedef struct {
  int listener; /* taken over, also on failure */
  unsigned char key[DF_KEY_BYTES];
  bool same_user_only; /* a Unix listener: callers of other users are turned away unheard */
  int n_ranks;         /* 0: as the first rank says */
  uint64_t idle_ms;    /* ends by itself when no rank has come for so long */
  uint64_t linger_ms;  /* after a failure, tells ranks that come late for so long; a root that is
                          not detached does not do so beyond idle_ms after its start */
} df_root_options;

/*
 * With root == NULL the root waits among the idle ones (idle_roots.h) until it is called, and then
 * has a detached thread: it ends, and frees itself, when the job stands, has failed, or nobody came.
 * Otherwise it has a thread from here on, and *root is for df_root_stop.
 * Errors: dfcclOutOfMemory, dfcclSystemError.
 */
dfcclResult_t df_root_start(const df_root_options *options, df_root **root);

/* Ends the thread and frees it: when what it has to say is said, if the job stands or has failed
 * (linger_ms included); else at once, and ranks that have come see their root vanish. Blocks that
 * long. */
void df_root_stop(df_root *root);

/* What the thread is made of, for tests that want to be its only caller. create: NULL when out of
 * memory (the listener is closed then too); listener may be -1. adopt takes over a connected,
 * non-blocking socket as if it had been accepted. step waits for at most wait_ms for anything to
 * happen and handles it; false when the root has ended. */
df_root *df_root_create(const df_root_options *options);
void df_root_adopt(df_root *root, int fd);
bool df_root_step(df_root *root, int wait_ms);
void df_root_destroy(df_root *root);

#endif
