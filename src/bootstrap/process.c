#include "bootstrap/process.h"

#include <pthread.h>
#include <sodium.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/assert.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static unsigned char process_token[16];
static pid_t
    token_owner; /* 0: no token yet; compared because a bare clone() runs no fork handler */
static df_listener *listeners;
static df_fork_guard *guards;
enum { LOCKS_MAX = 8 };
static pthread_mutex_t *locks[LOCKS_MAX]; /* held while a child is forked */
static int n_locks;

static void before_fork(void) {
  pthread_mutex_lock(&mutex);
  for (int i = 0; i < n_locks; i++) pthread_mutex_lock(locks[i]);
}

static void after_fork_in_parent(void) {
  for (int i = n_locks; i > 0; i--) pthread_mutex_unlock(locks[i - 1]);
  pthread_mutex_unlock(&mutex);
}

static void after_fork_in_child(void) {
  token_owner = 0;
  for (df_listener *listener = listeners; listener != NULL; listener = listener->next) {
    close(listener->fd);
    listener->fd = -1;
  }
  for (df_fork_guard *guard = guards; guard != NULL; guard = guard->next) guard->in_child(guard);
  after_fork_in_parent(); /* the locks, as there */
}

static void watch_forks(void) {
  pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

void df_process_token(unsigned char token[16]) {
  pthread_once(&once, watch_forks);
  pthread_mutex_lock(&mutex);
  if (token_owner != getpid()) {
    randombytes_buf(process_token, sizeof process_token);
    token_owner = getpid();
  }
  memcpy(token, process_token, sizeof process_token);
  pthread_mutex_unlock(&mutex);
}

void df_fork_guard_add(df_fork_guard *guard, void (*in_child)(df_fork_guard *guard)) {
  pthread_once(&once, watch_forks);
  pthread_mutex_lock(&mutex);
  *guard = (df_fork_guard){.in_child = in_child, .next = guards, .link = &guards};
  if (guards != NULL) guards->link = &guard->next;
  guards = guard;
  pthread_mutex_unlock(&mutex);
}

void df_fork_guard_remove(df_fork_guard *guard) {
  pthread_mutex_lock(&mutex);
  if (guard->link != NULL) {
    *guard->link = guard->next;
    if (guard->next != NULL) guard->next->link = guard->link;
    guard->link = NULL;
  }
  pthread_mutex_unlock(&mutex);
}

void df_fork_waits_for(pthread_mutex_t *lock) {
  pthread_once(&once, watch_forks);
  pthread_mutex_lock(&mutex);
  DF_ASSERT(n_locks < LOCKS_MAX);
  locks[n_locks++] = lock;
  pthread_mutex_unlock(&mutex);
}

void df_listener_open(df_listener *listener, int fd) {
  pthread_once(&once, watch_forks);
  pthread_mutex_lock(&mutex);
  *listener = (df_listener){.fd = fd, .next = listeners, .link = &listeners};
  if (listeners != NULL) listeners->link = &listener->next;
  listeners = listener;
  pthread_mutex_unlock(&mutex);
}

void df_listener_close(df_listener *listener) {
  pthread_mutex_lock(&mutex);
  if (listener->fd >= 0) {
    /* A child between fork and its handler still has a copy: shutdown ends listening for all. */
    shutdown(listener->fd, SHUT_RDWR);
    close(listener->fd);
    listener->fd = -1;
    *listener->link = listener->next;
    if (listener->next != NULL) listener->next->link = listener->link;
  }
  pthread_mutex_unlock(&mutex);
}
