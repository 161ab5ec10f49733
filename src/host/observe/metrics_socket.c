/* The socket of the metrics, for HTTP (curl --unix-socket PATH http://localhost/metrics) and for
 * callers that send nothing and close their side. The service thread answers and never waits: an
 * answer that a caller does not read at once is kept for it. Callers of another user are refused,
 * and a caller has CALLER_MS. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "bootstrap/net/fork_guard.h"
#include "bootstrap/net/sockets.h"
#include "control/service.h"
#include "host/observe/metrics.h"

enum {
  CALLERS = 8,
  BACKLOG = 8,
  CALLER_MS = 5000,
  RETRY_MS = 1000, /* without descriptors, until the next look */
  REQUEST_BYTES = 4096,
  LISTENER = CALLERS
};

typedef struct df_metrics_caller {
  int fd; /* -1: free */
  uint64_t until_ns;
  size_t got;
  df_growing_text answer; /* length 0: none yet */
  size_t sent;
  char request[REQUEST_BYTES];
} df_metrics_caller;

typedef struct df_metrics_server {
  df_listener listener;
  int epoll_fd;      /* contains the listener and the callers; the service thread watches it */
  int is_full;       /* nobody is accepted */
  uint64_t retry_ns; /* with room: the next look is not before */
  ino_t inode;       /* the socket's name */
  df_metrics_caller callers[CALLERS];
} df_metrics_server;

static void listen_again(df_metrics_server *server, int on) {
  struct epoll_event event = {.events = on ? EPOLLIN : 0u, .data.u32 = LISTENER};
  if (server->is_full == !on) return;
  server->is_full = !on;
  epoll_ctl(server->epoll_fd, EPOLL_CTL_MOD, server->listener.fd, &event);
}

static void hang_up(df_metrics_server *server, df_metrics_caller *caller) {
  free(caller->answer.bytes);
  caller->answer = (df_growing_text){0};
  df_socket_close(&caller->fd);
  listen_again(server, 1);
}

/* ---- answers ---- */

static void add_http(df_growing_text *answer, size_t bytes) {
  df_grow_format(answer,
                 "HTTP/1.0 200 OK\r\n"
                 "Content-Type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n"
                 "Content-Length: %zu\r\nConnection: close\r\n\r\n",
                 bytes);
}

static void make_answer(dfcclContext_t context, df_metrics_caller *caller) {
  df_growing_text text = {0}, *answer = &caller->answer;
  const int is_http = caller->got > 0;
  if (is_http && strncmp(caller->request, "GET ", 4) != 0) {
    df_grow_text(answer, "HTTP/1.0 405 Method Not Allowed\r\nAllow: GET\r\n"
                         "Content-Length: 0\r\nConnection: close\r\n\r\n");
  } else if (df_metrics_say(context, &text)) {
    if (is_http) add_http(answer, text.length);
    df_grow(answer, text.bytes, text.length);
  }
  free(text.bytes);
}

/* Returns 0 if the connection is to end. */
static int send_rest(const df_metrics_server *server, df_metrics_caller *caller) {
  while (caller->sent < caller->answer.length) {
    const ssize_t n = send(caller->fd, caller->answer.bytes + caller->sent,
                           caller->answer.length - caller->sent, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) {
      struct epoll_event event = {.events = EPOLLOUT,
                                  .data.u32 = (uint32_t)(caller - server->callers)};
      return epoll_ctl(server->epoll_fd, EPOLL_CTL_MOD, caller->fd, &event) == 0;
    }
    if (n <= 0) return 0;
    caller->sent += (size_t)n;
  }
  return 0;
}

/* A request ends with an empty line. Returns 0 if the connection is to end. */
static int serve(dfcclContext_t context, df_metrics_caller *caller) {
  if (caller->answer.length > 0) return send_rest(context->metrics->server, caller);
  const ssize_t n = recv(caller->fd, caller->request + caller->got, REQUEST_BYTES - 1 - caller->got,
                         MSG_DONTWAIT);
  if (n < 0) return errno == EAGAIN || errno == EINTR;
  if (n == 0 && caller->got > 0) return 0;
  caller->got += (size_t)n;
  caller->request[caller->got] = '\0';
  const int is_whole = strstr(caller->request, "\r\n\r\n") || strstr(caller->request, "\n\n");
  if (n > 0 && !is_whole) return caller->got < REQUEST_BYTES - 1;
  make_answer(context, caller);
  return send_rest(context->metrics->server, caller);
}

/* ---- the service thread ---- */

static void accept_one(df_metrics_server *server) {
  uint32_t place = 0;
  int fd = df_accept(server->listener.fd);
  if (fd < 0) {
    /* Without a descriptor the caller stays in the queue: the next look is later. */
    if (fd != -EAGAIN) listen_again(server, 0);
    server->retry_ns = df_after_ms(RETRY_MS);
    return;
  }
  while (place < CALLERS && server->callers[place].fd >= 0) place++;
  struct epoll_event event = {.events = EPOLLIN, .data.u32 = place};
  if (place == CALLERS || !df_socket_same_user(fd, NULL) ||
      epoll_ctl(server->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0) {
    df_socket_close(&fd);
    return;
  }
  df_metrics_caller *caller = &server->callers[place];
  caller->fd = fd;
  caller->got = caller->sent = 0;
  caller->until_ns = df_after_ms(CALLER_MS);
  for (place = 0; place < CALLERS && server->callers[place].fd >= 0;) place++;
  if (place == CALLERS) listen_again(server, 0);
}

static void ready(void *room) {
  dfcclContext_t context = room;
  df_metrics_server *server = context->metrics->server;
  struct epoll_event events[CALLERS + 1];
  const int n = epoll_wait(server->epoll_fd, events, CALLERS + 1, 0);
  for (int i = 0; i < n; i++) {
    const uint32_t place = events[i].data.u32;
    if (place == LISTENER)
      accept_one(server);
    else if (server->callers[place].fd >= 0 && !serve(context, &server->callers[place]))
      hang_up(server, &server->callers[place]);
  }
}

int df_metrics_expire(df_metrics *metrics) {
  df_metrics_server *server = metrics->server;
  const uint64_t now = df_clock_ns();
  int least = -1, n_callers = 0;
  for (int i = 0; i < CALLERS; i++) {
    df_metrics_caller *caller = &server->callers[i];
    if (caller->fd < 0) continue;
    n_callers++;
    if (caller->until_ns <= now) {
      hang_up(server, caller);
      continue;
    }
    const int ms = (int)((caller->until_ns - now) / 1000000) + 1;
    if (least < 0 || ms < least) least = ms;
  }
  if (server->is_full && n_callers < CALLERS && server->retry_ns <= now) listen_again(server, 1);
  return server->is_full && (least < 0 || least > RETRY_MS) ? RETRY_MS : least;
}

/* ---- opening and closing ---- */

static int set_address(struct sockaddr_un *address, const char *path, const char *end) {
  memset(address, 0, sizeof *address);
  address->sun_family = AF_UNIX;
  return snprintf(address->sun_path, sizeof address->sun_path, "%s%s", path, end) <
         (int)sizeof address->sun_path;
}

static int is_answered(const struct sockaddr_un *address) {
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  const int answered =
      fd >= 0 &&
      (connect(fd, (const struct sockaddr *)address, sizeof *address) == 0 || errno == EAGAIN);
  df_socket_close(&fd);
  return answered;
}

/* The socket gets its name when it listens, and replaces that of a process that is dead. Another
 * kind of file is never replaced. */
static int listen_at(int fd, const char *path) {
  struct sockaddr_un address;
  struct stat status;
  if (!set_address(&address, path, "")) return ENAMETOOLONG;
  if (is_answered(&address)) return EADDRINUSE;
  if (!set_address(&address, path, ".new")) return ENAMETOOLONG;
  if (lstat(path, &status) == 0 && !S_ISSOCK(status.st_mode)) return EEXIST;
  if (lstat(address.sun_path, &status) == 0 && S_ISSOCK(status.st_mode)) unlink(address.sun_path);
  if (bind(fd, (struct sockaddr *)&address, sizeof address) != 0) return errno;
  if (chmod(address.sun_path, 0600) == 0 && listen(fd, BACKLOG) == 0 &&
      rename(address.sun_path, path) == 0)
    return 0;
  const int error = errno;
  unlink(address.sun_path);
  return error;
}

static int start(dfcclContext_t context, df_metrics_server *server) {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return errno;
  const int error = listen_at(fd, context->metrics->path);
  if (error) {
    close(fd);
    return error;
  }
  struct stat status;
  if (lstat(context->metrics->path, &status) == 0) server->inode = status.st_ino;
  df_listener_open(&server->listener, fd);
  struct epoll_event event = {.events = EPOLLIN, .data.u32 = LISTENER};
  server->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
  if (server->epoll_fd >= 0 && epoll_ctl(server->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0 &&
      df_service_add_source(&context->control, server->epoll_fd, context, ready))
    return 0;
  return errno;
}

int df_metrics_listen(dfcclContext_t context) {
  df_metrics_server *server = calloc(1, sizeof *server);
  if (server == NULL) return ENOMEM;
  context->metrics->server = server;
  server->epoll_fd = server->listener.fd = -1;
  for (int i = 0; i < CALLERS; i++) server->callers[i].fd = -1;
  const int error = start(context, server);
  if (error) df_metrics_server_close(context);
  return error;
}

void df_metrics_server_close(dfcclContext_t context) {
  df_metrics_server *server = context->metrics->server;
  if (server == NULL) return;
  struct stat status; /* another process may have the name by now */
  if (server->listener.fd >= 0 && lstat(context->metrics->path, &status) == 0 &&
      status.st_ino == server->inode)
    unlink(context->metrics->path);
  df_service_forget_source(&context->control, server->epoll_fd);
  for (int i = 0; i < CALLERS; i++)
    if (server->callers[i].fd >= 0) hang_up(server, &server->callers[i]);
  if (server->epoll_fd >= 0) close(server->epoll_fd);
  if (server->listener.fd >= 0) df_listener_close(&server->listener);
  free(server);
  context->metrics->server = NULL;
}

/* The fork guard has closed the connections and the listener. */
void df_metrics_close_in_child(dfcclContext_t context) {
  df_metrics_server *server = context->metrics ? context->metrics->server : NULL;
  if (server && server->epoll_fd >= 0) close(server->epoll_fd);
}
