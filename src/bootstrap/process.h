/*
 * This process, as told from all others: a random token, and the listening sockets that a forked
 * child must not keep (an address stays taken while anybody holds its socket).
 */
#ifndef DF_BOOTSTRAP_PROCESS_H
#define DF_BOOTSTRAP_PROCESS_H

/* 16 random bytes, the same for every caller in this process, others in every other process, a
 * forked child included. df_handshake_ready must have succeeded. Any thread. */
void df_process_token(unsigned char token[16]);

/* A listening socket in use; embed it in what owns the socket, which so stays reachable in a forked
 * child, where the thread that would free it does not exist. */
typedef struct df_listener {
  int fd; /* -1: none */
  struct df_listener *next, **link;
} df_listener;

/* Takes over fd: a child that is forked from now on closes its copy. Any thread. */
void df_listener_open(df_listener *listener, int fd);

/* Closes it, also for children that were forked meanwhile. Safe twice. Any thread. */
void df_listener_close(df_listener *listener);

#endif
