/*
 * This process, as told from all others: a random token, and what a forked child must do with its
 * copies. A child keeps descriptors, memory and locks of its parent, and none of its threads: an
 * address stays taken, and a connection open, while the child holds the socket, and a lock that
 * another thread held stays locked for ever.
 */
#ifndef DF_BOOTSTRAP_PROCESS_H
#define DF_BOOTSTRAP_PROCESS_H

#include <pthread.h>

/* 16 random bytes, the same for every caller in this process, others in every other process, a
 * forked child included. df_handshake_ready must have succeeded. Any thread. */
void df_process_token(unsigned char token[16]);

/* Something that a forked child must give up; embed it in the thing. */
typedef struct df_fork_guard {
  void (*in_child)(struct df_fork_guard *guard); /* the child's only thread; may not fork */
  struct df_fork_guard *next, **link;
} df_fork_guard;

/* in_child is called in each child that is forked until the guard is removed. Any thread. */
void df_fork_guard_add(df_fork_guard *guard, void (*in_child)(df_fork_guard *guard));
void df_fork_guard_remove(df_fork_guard *guard); /* safe if it was never added, and twice */

/* A lock that no thread may hold while another one forks: the fork waits for it. For locks that
 * live as long as the process, and under which nothing of this header is called. Any thread; once
 * for each lock. */
void df_fork_waits_for(pthread_mutex_t *lock);

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
