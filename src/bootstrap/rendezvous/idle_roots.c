#include "bootstrap/rendezvous/idle_roots.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mutex.h"
#include "bootstrap/net/fork_guard.h"
#include "bootstrap/rendezvous/root_state.h"
#include "bootstrap/net/sockets.h"

enum { PAUSE_MS = 20 /* before the next attempt if no thread or memory is available */ };

static df_mutex lock = DF_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static df_fork_guard guard;
/* Only the watching thread removes roots, so the order in which it polls them does not change. */
static df_root *first DF_GUARDED_BY(lock), **last DF_GUARDED_BY(lock) = &first;
static int wake_fd DF_GUARDED_BY(lock) = -1; /* -1: there is no watching thread */

/* The child has no watching thread; its listeners still reach the roots. */
static void forget_in_child(df_fork_guard *unused) DF_NO_THREAD_SAFETY_ANALYSIS
/* the child has no other thread */ {
  (void)unused;
  if (wake_fd >= 0) close(wake_fd);
  wake_fd = -1;
  first = NULL;
  last = &first;
}

static void watch_forks(void) {
  df_fork_guard_add(&guard, forget_in_child);
  df_fork_waits_for(&lock, 0);
}

typedef struct {
  struct pollfd *polled; /* [capacity] the first one is wake_fd */
  size_t capacity, n;
  uint64_t deadline_ns;
} watch;

static int listeners_of(const df_root *root) {
  return 1 + (root->options.listeners ? root->options.listeners->n : 0);
}

static int listener_of(const df_root *root, int i) {
  return i == 0 ? root->listener.fd : root->options.listeners->listeners[i - 1].fd;
}

/* Fills in as many roots as memory allows. */
static void fill(watch *w) DF_REQUIRES(lock) {
  size_t n = 1;
  for (const df_root *root = first; root; root = root->next) n += (size_t)listeners_of(root);
  if (n > w->capacity) {
    struct pollfd *polled = realloc(w->polled, 2 * n * sizeof *polled);
    if (polled) {
      w->polled = polled;
      w->capacity = 2 * n;
    }
  }
  w->n = 0;
  w->deadline_ns = w->capacity < n ? df_after_ms(PAUSE_MS) : UINT64_MAX;
  if (w->capacity > 0) w->polled[w->n++] = (struct pollfd){.fd = wake_fd, .events = POLLIN};
  for (const df_root *root = first; root; root = root->next) {
    const int n_listeners = listeners_of(root);
    if (w->n + (size_t)n_listeners > w->capacity) return;
    for (int i = 0; i < n_listeners; i++)
      w->polled[w->n++] = (struct pollfd){.fd = listener_of(root, i), .events = POLLIN};
    w->deadline_ns = DF_MIN(w->deadline_ns, root->idle_end_ns);
  }
}

/* Removes the roots that have a caller or whose time has ended. */
static df_root *take_due(const watch *w) DF_REQUIRES(lock) {
  df_root *due = NULL, **at = &first;
  uint64_t now = df_clock_ns();
  for (size_t i = 1; i < w->n;) {
    df_root *root = *at;
    bool is_called = false;
    for (int j = listeners_of(root); j > 0; j--) is_called |= w->polled[i++].revents != 0;
    if (!is_called && now < root->idle_end_ns) {
      at = &root->next;
      continue;
    }
    *at = root->next;
    if (*at == NULL) last = at;
    root->next = due;
    due = root;
  }
  return due;
}

/* Called without the lock. A root for which no thread can be started is added again. */
static void start_due(df_root *due) {
  while (due) {
    df_root *root = due;
    due = root->next;
    root->next = NULL;
    if (df_root_run(root) == 0) continue;
    poll(NULL, 0, PAUSE_MS);
    df_lock(&lock);
    *last = root;
    last = &root->next;
    df_unlock(&lock);
  }
}

/* At most one thread executes this function. Its state is static, because a forked child has no
 * such thread, and memory that only the stack of the thread refers to would be lost there. */
static void *watch_roots(void *unused) {
  static watch w;
  df_lock(&lock);
  while (first) {
    uint64_t count;
    fill(&w);
    df_unlock(&lock);
    poll(w.polled, (nfds_t)w.n, df_remaining_ms(w.deadline_ns));
    df_lock(&lock);
    ssize_t got = read(wake_fd, &count, sizeof count);
    (void)got;
    df_root *due = take_due(&w);
    df_unlock(&lock);
    start_due(due);
    df_lock(&lock);
  }
  close(wake_fd);
  wake_fd = -1;
  free(w.polled);
  w = (watch){0};
  df_unlock(&lock);
  return unused;
}

/* Returns 0 or the error. */
static int wake_or_start(void) DF_REQUIRES(lock) {
  uint64_t one = 1;
  if (wake_fd >= 0) return write(wake_fd, &one, sizeof one) < 0 ? errno : 0;
  wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake_fd < 0) return errno;
  pthread_t thread;
  int error = df_thread_start(&thread, true, watch_roots, NULL);
  if (error) {
    close(wake_fd);
    wake_fd = -1;
  }
  return error;
}

dfcclResult_t df_idle_root_add(df_root *root) {
  pthread_once(&once, watch_forks);
  df_lock(&lock);
  df_root **before = last;
  *last = root;
  last = &root->next;
  int error = wake_or_start();
  if (error) {
    *before = NULL;
    last = before;
  }
  df_unlock(&lock);
  if (error == 0) return dfcclSuccess;
  char why[DF_WHY_BYTES];
  df_root_destroy(root);
  return df_fail(df_is_exhausted(error) || error == EAGAIN ? dfcclOutOfMemory : dfcclSystemError,
                 "no thread to wait for the ranks of the unique id: %s", df_why(error, why));
}
