#include "bootstrap/process.h"

#include <pthread.h>
#include <sodium.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static unsigned char process_token[16];
static pid_t
    token_owner; /* 0: no token yet; compared because a bare clone() runs no fork handler */
static df_listener *listeners;

static void before_fork(void) { pthread_mutex_lock(&mutex); }

static void after_fork_in_parent(void) { pthread_mutex_unlock(&mutex); }

static void after_fork_in_child(void) {
  token_owner = 0;
  for (df_listener *listener = listeners; listener != NULL; listener = listener->next) {
    close(listener->fd);
    listener->fd = -1;
  }
  pthread_mutex_unlock(&mutex);
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
