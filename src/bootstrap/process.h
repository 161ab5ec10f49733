/* Tells this process from all others, and what a forked child must do with its copies. A child
 * keeps its parent's descriptors and locks but none of its threads: an address stays taken, and a
 * lock stays locked for ever. */
#ifndef DF_BOOTSTRAP_PROCESS_H
#define DF_BOOTSTRAP_PROCESS_H

#include <pthread.h>

/* Random bytes; a forked child has others. df_handshake_ready must have succeeded. Any thread. */
void df_process_token(unsigned char token[16]);

/* What a forked child must give up embeds this. */
typedef struct df_fork_guard {
  void (*in_child)(struct df_fork_guard *guard); /* the child's only thread; may not fork */
  struct df_fork_guard *next, **link;
} df_fork_guard;

/* Any thread. in_child is called in each child forked before the removal. */
void df_fork_guard_add(df_fork_guard *guard, void (*in_child)(df_fork_guard *guard));
void df_fork_guard_remove(df_fork_guard *guard); /* safe without add, and twice */

/* A fork waits until no thread holds the lock. The lock lives as long as the process, and its
 * holder calls nothing of this header. Any thread; once for each lock. */
void df_fork_waits_for(pthread_mutex_t *lock);

/* Its owner embeds it, and so stays reachable in a forked child, which has no thread to free it. */
typedef struct df_listener {
  int fd; /* -1: none */
  struct df_listener *next, **link;
} df_listener;

/* Takes fd; children forked later close their copy. Any thread. */
void df_listener_open(df_listener *listener, int fd);

/* Ends listening also for children forked meanwhile. Safe twice. Any thread. */
void df_listener_close(df_listener *listener);

#endif
