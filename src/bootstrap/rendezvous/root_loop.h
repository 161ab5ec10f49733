/* The thread of a root. It serves all connections with poll, so a slow, silent or malformed caller
 * delays no other. Only a caller that has proven to be part of the job can affect it. */
#ifndef DF_BOOTSTRAP_RENDEZVOUS_ROOT_LOOP_H
#define DF_BOOTSTRAP_RENDEZVOUS_ROOT_LOOP_H

#include "bootstrap/rendezvous/root_options.h"

/*
 * Starts a root. first is a connected, non-blocking socket, which is taken over also on failure;
 * -1: none. A lack of places or descriptors does not close it.
 *
 * If root is NULL, the root waits idle (idle_roots.h) for a caller, then has a detached thread and
 * frees itself. Otherwise it has a thread at once, and *root is for df_root_stop.
 */
dfcclResult_t df_root_start(const df_root_options *options, int first, df_root **root);

/* Frees the root. If the job is connected or has failed, blocks until all messages are sent,
 * linger_ms included. Otherwise the root ends at once. */
void df_root_stop(df_root *root);

/* For tests that are the only caller of the root. create returns NULL if out of memory (the
 * listener is then closed); listener may be -1. adopt takes over a connected, non-blocking socket.
 * step waits at most wait_ms and returns false if the root has ended. */
df_root *df_root_create(const df_root_options *options);
void df_root_adopt(df_root *root, int fd);
bool df_root_step(df_root *root, int wait_ms);
void df_root_destroy(df_root *root);

#endif
