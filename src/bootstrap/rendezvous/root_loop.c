#include "bootstrap/rendezvous/root_loop.h"

#include <errno.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/clock.h"
#include "bootstrap/rendezvous/idle_roots.h"
#include "bootstrap/net/fork_guard.h"
#include "bootstrap/rendezvous/root_reports.h"
#include "bootstrap/rendezvous/root_state.h"
#include "bootstrap/net/sockets.h"

enum {
  PROOF_MS = 5000,     /* time from accept to a complete JOIN */
  ACCEPTS_MAX = 32,    /* callers that are accepted before others are served again */
  ACCEPT_PAUSE_MS = 20 /* pause of accept if no descriptor is left */
};

/* [df_forks_hold] All roots. A forked child has none of the threads that execute them, but reaches
 * its copies through this list. */
static df_root *alive;

static void enter(df_root *root) {
  df_forks_hold();
  root->next_alive = alive;
  root->at_alive = &alive;
  if (alive) alive->at_alive = &root->next_alive;
  alive = root;
  df_forks_release();
}

static void leave(df_root *root) {
  df_forks_hold();
  *root->at_alive = root->next_alive;
  if (root->next_alive) root->next_alive->at_alive = root->at_alive;
  df_forks_release();
}

df_root *df_root_create(const df_root_options *options) {
  df_root *root = calloc(1, sizeof *root);
  if (root == NULL) {
    if (options->listener >= 0) close(options->listener);
    if (options->users_listener >= 0) close(options->users_listener);
    df_listeners_close(options->listeners);
    return NULL;
  }
  root->options = *options;
  root->stop = -1;
  root->listener.fd = root->users.fd = -1;
  root->idle_end_ns = df_after_ms(options->idle_ms);
  root->deadline_ns = root->idle_end_ns;
  if (options->listener >= 0) df_listener_open(&root->listener, options->listener);
  if (options->users_listener >= 0) df_listener_open(&root->users, options->users_listener);
  enter(root);
  return root;
}

void df_root_destroy(df_root *root) {
  leave(root);
  df_job_stop_listening(root);
  for (int i = 0; i < root->n_callers; i++) {
    df_socket_close(&root->callers[i]->fd);
    free(root->callers[i]);
  }
  df_socket_close(&root->stop);
  free(root->members);
  free(root->records);
  sodium_memzero(root->options.key, sizeof root->options.key);
  free(root);
}

/* Closes the oldest unproven caller if there are at least so many. */
static void drop_oldest_unproven(df_root *root, int if_at_least) {
  df_caller *oldest = NULL;
  int unproven = 0;
  for (int i = 0; i < root->n_callers; i++) {
    df_caller *caller = root->callers[i];
    if (caller->fd < 0 || !df_caller_is_unproven(caller) || caller->is_first) continue;
    if (oldest == NULL) oldest = caller;
    unproven++;
  }
  if (oldest != NULL && unproven >= if_at_least) df_socket_close(&oldest->fd);
}

static void sweep_closed(df_root *root) {
  int kept = 0;
  for (int i = 0; i < root->n_callers; i++) {
    df_caller *caller = root->callers[i];
    if (caller->fd >= 0)
      root->callers[kept++] = caller;
    else
      free(caller);
  }
  root->n_callers = kept;
}

void df_root_adopt(df_root *root, int fd) {
  drop_oldest_unproven(root, DF_UNPROVEN_MAX);
  sweep_closed(root);
  df_caller *caller = root->n_callers == DF_CALLERS_MAX ? NULL : calloc(1, sizeof *caller);
  if (caller == NULL) {
    df_socket_close(&fd);
    return;
  }
  caller->fd = fd;
  caller->deadline_ns = df_after_ms(PROOF_MS);
  root->callers[root->n_callers++] = caller;
}

static void accept_callers(df_root *root, int listener, bool same_user_only) {
  for (int i = 0; i < ACCEPTS_MAX && listener >= 0; i++) {
    int fd = df_accept(listener);
    if (fd >= 0 && same_user_only && !df_socket_same_user(fd, NULL)) {
      df_socket_close(&fd);
    } else if (fd >= 0) {
      df_root_adopt(root, fd);
    } else if (df_is_exhausted(-fd)) {
      root->accept_error = -fd;
      drop_oldest_unproven(root, 1);
      root->accept_from_ns = df_after_ms(ACCEPT_PAUSE_MS);
      return;
    } else if (fd != -EINTR && fd != -ECONNABORTED) {
      root->accept_error = 0;
      return;
    }
  }
}

/* Fills in the stop descriptor, the Unix listeners and the TCP listeners, and then the callers.
 * Returns the number of entries before the callers. */
static int fill_polled(df_root *root, int *n_polled) {
  bool accepting = df_clock_ns() >= root->accept_from_ns;
  int n = 0;
  root->polled[n++] = (struct pollfd){.fd = root->stopping ? -1 : root->stop, .events = POLLIN};
  root->polled[n++] = (struct pollfd){.fd = accepting ? root->listener.fd : -1, .events = POLLIN};
  root->polled[n++] = (struct pollfd){.fd = accepting ? root->users.fd : -1, .events = POLLIN};
  for (int i = 0; root->options.listeners && i < root->options.listeners->n; i++)
    root->polled[n++] = (struct pollfd){
        .fd = accepting ? root->options.listeners->listeners[i].fd : -1, .events = POLLIN};
  for (int i = 0; i < root->n_callers; i++) {
    const df_caller *caller = root->callers[i];
    short events = df_caller_has_output(caller) ? POLLIN | POLLOUT : POLLIN;
    root->polled[n + i] = (struct pollfd){.fd = caller->fd, .events = events};
  }
  *n_polled = n + root->n_callers;
  return n;
}

static void accept_all(df_root *root, int n_first) {
  if (root->polled[1].revents != 0)
    accept_callers(root, root->listener.fd, root->options.same_user_only);
  if (root->polled[2].revents != 0) df_root_note_users(root);
  for (int i = 3; i < n_first && root->options.listeners; i++)
    if (root->polled[i].revents != 0)
      accept_callers(root, root->options.listeners->listeners[i - 3].fd, false);
}

bool df_root_step(df_root *root, int wait_ms) {
  int n_polled, n_first = fill_polled(root, &n_polled);
  int n_served = root->n_callers;
  int ready = poll(root->polled, (nfds_t)n_polled, wait_ms);
  if (ready < 0 && errno != EINTR) return false;
  if (ready > 0) {
    root->stopping = root->stopping || root->polled[0].revents != 0;
    /* Joined callers are served first: a new caller must not count as a second process with the
     * rank of one that has gone. */
    for (int unproven = 0; unproven <= 1; unproven++)
      for (int i = 0; i < n_served; i++)
        if (root->polled[n_first + i].revents != 0 &&
            df_caller_is_unproven(root->callers[i]) == unproven) {
          root->polled[n_first + i].revents = 0; /* a caller that joins now is served once */
          df_job_serve(root, root->callers[i]);
        }
    accept_all(root, n_first);
  }
  for (int i = 0; i < root->n_callers; i++) {
    df_caller *caller = root->callers[i];
    if (caller->fd >= 0 && df_caller_has_output(caller) && !df_caller_flush(caller))
      df_job_close_caller(root, caller);
  }
  sweep_closed(root);
  return df_job_check_time(root);
}

static void *run_root(void *argument) {
  df_root *root = argument;
  while (df_root_step(root, df_remaining_ms(df_job_next_deadline(root)))) continue;
  df_job_stop_listening(root);
  if (root->stop < 0) df_root_destroy(root);
  return NULL;
}

int df_root_run(df_root *root) {
  pthread_t thread;
  return df_thread_start(&thread, true, run_root, root);
}

dfcclResult_t df_root_start(const df_root_options *options, int first, df_root **root) {
  df_root *made = df_root_create(options);
  if (made == NULL) {
    df_socket_close(&first);
    return df_fail(dfcclOutOfMemory, "no memory for the root of the rendezvous");
  }
  if (first >= 0) df_root_adopt(made, first);
  for (int i = 0; i < made->n_callers; i++) made->callers[i]->is_first = true;
  if (root == NULL) return df_idle_root_add(made);
  char why[DF_WHY_BYTES];
  made->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (made->stop < 0) {
    df_why(errno, why);
    df_root_destroy(made);
    return df_fail(dfcclSystemError, "no event descriptor for the rendezvous: %s", why);
  }
  int error = df_thread_start(&made->thread, false, run_root, made);
  if (error != 0) {
    df_root_destroy(made);
    return df_fail(error == EAGAIN ? dfcclOutOfMemory : dfcclSystemError,
                   "no thread for the root of the rendezvous: %s", strerror(error));
  }
  *root = made;
  return dfcclSuccess;
}

void df_root_stop(df_root *root) {
  uint64_t one = 1;
  ssize_t written = write(root->stop, &one, sizeof one);
  DF_ASSERT(written == sizeof one);
  pthread_join(root->thread, NULL);
  df_root_destroy(root);
}
