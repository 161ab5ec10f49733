/* What tells this process from others, and what a forked child must do. A child keeps its parent's
 * descriptors and locks but none of its threads: an address stays taken, a lock stays locked. Also
 * starts the threads of this room. */
#ifndef DF_BOOTSTRAP_NET_FORK_GUARD_H
#define DF_BOOTSTRAP_NET_FORK_GUARD_H

#include <pthread.h>
#include <stdbool.h>

#include "base/mutex.h"

#include "base/mutex.h"

/* Random; a forked child has another. After df_handshake_ready. Any thread. */
void df_process_token(unsigned char token[16]);

/* Embedded in what a forked child must give up. */
typedef struct df_fork_guard {
  void (*in_child)(struct df_fork_guard *guard); /* the child's only thread; may not fork */
  struct df_fork_guard *next, **link;
} df_fork_guard;

/* Any thread. Children forked before the removal call in_child. */
void df_fork_guard_add(df_fork_guard *guard, void (*in_child)(df_fork_guard *guard));
void df_fork_guard_remove(df_fork_guard *guard); /* safe without add, and twice */

/* A fork waits until no thread holds the lock. The lock lives as long as the process. Its holder
 * waits for no other lock but this header's, unless is_outer: such locks are taken first. Any
 * thread; once for each lock. */
void df_fork_waits_for(df_mutex *lock, int is_outer);

/*
 * Connections, which a forked child closes: else the other end would not see its parent die. A fork
 * waits between df_forks_hold and df_forks_release, so that no child has a connection that is not
 * noted yet. Any thread.
 */
void df_forks_hold(void); /* calls nothing of this header but df_connection_note */
void df_forks_release(void);
/* After df_forks_hold. 0: there is no room for such a number. */
int df_connection_note(int fd);
/* Also if it was never noted. */
void df_connection_close(int fd);

/* Its owner embeds it: so a forked child, which has no thread to free the owner, still reaches
 * it. */
typedef struct df_listener {
  int fd;
  struct df_listener *next, **link;
} df_listener;

/* Takes fd; children forked later close their copy. Any thread. */
void df_listener_open(df_listener *listener, int fd);

/* Lets go of a connection that stays open, and noted. Returns its descriptor. Any thread. */
int df_listener_release(df_listener *listener);

/* Ends listening also for children forked meanwhile. Safe twice. Any thread. */
void df_listener_close(df_listener *listener);

/* The thread has all signals blocked, and a small stack. 0, or the error. */
int df_thread_start(pthread_t *thread, bool detached, void *(*run)(void *), void *argument);

#endif
