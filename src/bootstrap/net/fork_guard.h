/* The identity of a process, and the duties of a forked child. A child inherits the descriptors and
 * locks of its parent but none of its threads: without further action an address remains in use and
 * a lock remains locked. This file also starts the threads of the bootstrap. */
#ifndef DF_BOOTSTRAP_NET_FORK_GUARD_H
#define DF_BOOTSTRAP_NET_FORK_GUARD_H

#include <pthread.h>
#include <stdbool.h>

#include "base/mutex.h"

#include "base/mutex.h"

/* The token is random, and a forked child has another one. Call df_handshake_ready before. Any
 * thread. */
void df_process_token(unsigned char token[16]);

/* A guard is embedded in an object that a forked child must give up. */
typedef struct df_fork_guard {
  void (*in_child)(
      struct df_fork_guard *guard); /* runs in the only thread of the child; must not fork */
  struct df_fork_guard *next, **link;
} df_fork_guard;

/* Any thread. A child that is forked before the removal calls in_child. */
void df_fork_guard_add(df_fork_guard *guard, void (*in_child)(df_fork_guard *guard));
void df_fork_guard_remove(df_fork_guard *guard); /* safe without add, and twice */

/* A fork waits until no thread holds the lock. The lock must exist as long as the process. Its
 * holder waits for no other lock except those of this header, unless is_outer is set: outer locks
 * are taken first. Any thread; once for each lock. */
void df_fork_waits_for(df_mutex *lock, int is_outer);

/* A forked child closes these connections; otherwise the other end would not see its parent die. A
 * fork waits between df_forks_hold and df_forks_release, so that no child inherits a connection
 * that is not noted yet. Any thread. */
void df_forks_hold(
    void); /* the caller calls nothing of this header but df_connection_note until the release */
void df_forks_release(void);
/* Call it after df_forks_hold. Returns 0 if the number of the descriptor is too large. */
int df_connection_note(int fd);
/* Closes the descriptor, also if it was never noted. */
void df_connection_close(int fd);

/* The owner embeds its listener in itself, so that a forked child, which has no thread to free the
 * owner, still reaches it. */
typedef struct df_listener {
  int fd;
  struct df_listener *next, **link;
} df_listener;

/* Takes over fd; children that are forked later close their copy. Any thread. */
void df_listener_open(df_listener *listener, int fd);

/* Gives up a connection that remains open and noted. Returns its descriptor. Any thread. */
int df_listener_release(df_listener *listener);

/* Ends listening, also for children that were forked meanwhile. Safe twice. Any thread. */
void df_listener_close(df_listener *listener);

/* Starts a thread that has all signals blocked and a small stack. Returns 0 or the error. */
int df_thread_start(pthread_t *thread, bool detached, void *(*run)(void *), void *argument);

#endif
