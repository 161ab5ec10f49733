#include "bootstrap/net/fork_guard.h"

#include <pthread.h>
#include <signal.h>
#include <sodium.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mutex.h"
#include "base/thread.h"
#include "base/assert.h"
#include "base/atomic.h"

enum { STACK_BYTES = 256 * 1024 };

static df_mutex mutex = DF_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static unsigned char process_token[16];
static pid_t
    token_owner; /* 0: no token yet; compared because a bare clone() runs no fork handler */
static df_listener *listeners DF_GUARDED_BY(mutex);
enum { CONNECTIONS_MAX = 1 << 20, WORD_BITS = 64 };
static uint64_t connections[CONNECTIONS_MAX / WORD_BITS]; /* a bit for each descriptor */
static int connections_end; /* greater than every descriptor that was noted */
static df_fork_guard *guards DF_GUARDED_BY(mutex);
/* Locks that are held while a child is forked; the list only grows. The holder of an outer lock may
 * wait for any lock; the holder of another lock waits at most for `mutex`. */
enum { LOCKS_MAX = 8 };
typedef struct lock_list {
  df_mutex *locks[LOCKS_MAX];
  uint32_t n, n_held;
} lock_list;
static lock_list outer, inner;

static void acquire(lock_list *list) DF_NO_THREAD_SAFETY_ANALYSIS
/* the locks are taken by index */ {
  while (list->n_held < df_observe_u32(&list->n)) df_lock(list->locks[list->n_held++]);
}

static void release(lock_list *list) DF_NO_THREAD_SAFETY_ANALYSIS
/* the locks are taken by index */ {
  while (list->n_held > 0) df_unlock(list->locks[--list->n_held]);
}

static df_mutex fork_mutex = DF_MUTEX_INITIALIZER; /* one fork at a time */

static void release_all(void) DF_RELEASE(mutex) {
  df_unlock(&mutex);
  release(&inner);
  release(&outer);
}

static void after_fork_in_parent(void) DF_RELEASE(mutex, fork_mutex) {
  release_all();
  df_unlock(&fork_mutex);
}

/* A lock that was added meanwhile may be held by another thread, so all locks are taken anew. */
static void before_fork(void) DF_ACQUIRE(mutex, fork_mutex) {
  df_lock(&fork_mutex);
  for (;;) {
    acquire(&outer);
    acquire(&inner);
    df_lock(&mutex);
    if (outer.n_held == outer.n && inner.n_held == inner.n) return;
    release_all();
  }
}

static uint64_t *word_of(int fd) { return &connections[fd / WORD_BITS]; }
static uint64_t bit_of(int fd) { return 1ull << fd % WORD_BITS; }
static int is_noted(int fd) { return fd < connections_end && (*word_of(fd) & bit_of(fd)) != 0; }

static void close_connection(int fd) {
  if (is_noted(fd)) *word_of(fd) &= ~bit_of(fd);
  close(fd);
}

static void after_fork_in_child(void) DF_RELEASE(mutex, fork_mutex) {
  token_owner = 0;
  for (int fd = 0; fd < connections_end; fd++)
    if (is_noted(fd)) close_connection(fd);
  for (df_listener *listener = listeners; listener != NULL; listener = listener->next) {
    close(listener->fd);
    listener->fd = -1;
  }
  for (df_fork_guard *guard = guards; guard != NULL; guard = guard->next) guard->in_child(guard);
  after_fork_in_parent(); /* releases the locks that before_fork has acquired */
}

static void watch_forks(void) {
  pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

void df_process_token(unsigned char token[16]) {
  pthread_once(&once, watch_forks);
  df_lock(&mutex);
  if (token_owner != getpid()) {
    randombytes_buf(process_token, sizeof process_token);
    token_owner = getpid();
  }
  memcpy(token, process_token, sizeof process_token);
  df_unlock(&mutex);
}

void df_fork_guard_add(df_fork_guard *guard, void (*in_child)(df_fork_guard *guard)) {
  pthread_once(&once, watch_forks);
  df_lock(&mutex);
  *guard = (df_fork_guard){.in_child = in_child, .next = guards, .link = &guards};
  if (guards != NULL) guards->link = &guard->next;
  guards = guard;
  df_unlock(&mutex);
}

void df_fork_guard_remove(df_fork_guard *guard) {
  df_lock(&mutex);
  if (guard->link != NULL) {
    *guard->link = guard->next;
    if (guard->next != NULL) guard->next->link = guard->link;
    guard->link = NULL;
  }
  df_unlock(&mutex);
}

void df_fork_waits_for(df_mutex *lock, int is_outer) {
  lock_list *list = is_outer ? &outer : &inner;
  pthread_once(&once, watch_forks);
  df_lock(&mutex);
  DF_ASSERT(list->n < LOCKS_MAX);
  list->locks[list->n] = lock;
  df_publish_u32(&list->n, list->n + 1);
  df_unlock(&mutex);
}

void df_forks_hold(void) DF_NO_THREAD_SAFETY_ANALYSIS /* keeps the lock, for df_forks_release */ {
  pthread_once(&once, watch_forks);
  df_lock(&mutex);
}

void df_forks_release(void) DF_NO_THREAD_SAFETY_ANALYSIS
/* releases what df_forks_hold has kept */ {
  df_unlock(&mutex);
}

int df_connection_note(int fd) {
  if (fd >= CONNECTIONS_MAX) return 0;
  *word_of(fd) |= bit_of(fd);
  connections_end = DF_MAX(connections_end, fd + 1);
  return 1;
}

void df_connection_close(int fd) {
  df_lock(&mutex);
  close_connection(fd);
  df_unlock(&mutex);
}

void df_listener_open(df_listener *listener, int fd) {
  pthread_once(&once, watch_forks);
  df_lock(&mutex);
  *listener = (df_listener){.fd = fd, .next = listeners, .link = &listeners};
  if (listeners != NULL) listeners->link = &listener->next;
  listeners = listener;
  df_unlock(&mutex);
}

static int unlist(df_listener *listener) DF_REQUIRES(mutex) {
  const int fd = listener->fd;
  listener->fd = -1;
  *listener->link = listener->next;
  if (listener->next != NULL) listener->next->link = listener->link;
  return fd;
}

int df_listener_release(df_listener *listener) {
  df_lock(&mutex);
  const int fd = unlist(listener);
  df_unlock(&mutex);
  return fd;
}

void df_listener_close(df_listener *listener) {
  df_lock(&mutex);
  if (listener->fd >= 0) {
    /* A child between fork and its handler still has a copy: shutdown ends listening for all
     * copies. */
    shutdown(listener->fd, SHUT_RDWR);
    close_connection(unlist(listener));
  }
  df_unlock(&mutex);
}

int df_thread_start(pthread_t *thread, bool detached, void *(*run)(void *), void *argument) {
  sigset_t all, before;
  sigfillset(&all);
  /* Signals of the application are delivered to its own threads. */
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int error = df_thread_create(thread, STACK_BYTES, detached, run, argument);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return error;
}
