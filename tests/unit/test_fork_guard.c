/*
 * Promises of src/bootstrap/net/fork_guard.c:
 *   - A forked child is another process: it has a token of its own.
 *   - A child that is forked while this process listens does not keep the address in use: it has no
 *     listening socket, and closes nothing else when asked to.
 *   - A child closes its parent's connections, whatever their state; otherwise the other end would
 *     not see the parent's death.
 *   - A listener that is closed is removed from the list, in any order, and its listening ends for
 *     a child that still has it.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bootstrap/rendezvous/handshake.h"
#include "bootstrap/net/fork_guard.h"
#include "bootstrap/net/sockets.h"
#include "support/harness.h"

static int ends_well(pid_t child) {
  int status;
  CHECK(waitpid(child, &status, 0) == child, "no such child");
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

DF_TEST(process, a_child_is_another_process, 30) {
  unsigned char mine[16], again[16];
  OK(df_handshake_ready());
  df_process_token(mine);
  pid_t child = fork();
  if (child == 0) {
    df_process_token(again);
    _exit(memcmp(mine, again, sizeof mine) == 0);
  }
  CHECK(ends_well(child), "a child has its parent's token");
  df_process_token(again);
  CHECK(memcmp(mine, again, sizeof mine) == 0, "the parent's token has changed");
}

DF_TEST(process, a_child_listens_nowhere, 30) {
  df_listener listeners[2];
  int fds[2];
  uint16_t port;
  for (int i = 0; i < 2; i++) {
    fds[i] = df_listen_loopback(&port);
    CHECK(fds[i] >= 0, "cannot listen");
    df_listener_open(&listeners[i], fds[i]);
  }
  pid_t child = fork();
  if (child == 0) {
    int open = 0;
    for (int i = 0; i < 2; i++) open += fcntl(fds[i], F_GETFD) >= 0 || listeners[i].fd >= 0;
    int other = dup2(STDERR_FILENO, fds[0]); /* another file with the same number */
    df_listener_close(&listeners[0]);
    _exit(open != 0 || other != fds[0] || fcntl(other, F_GETFD) < 0);
  }
  CHECK(ends_well(child), "a child keeps the address taken, or closes what is not its own");
  for (int i = 0; i < 2; i++) {
    CHECK(fcntl(fds[i], F_GETFD) >= 0, "the parent listens no more");
    df_listener_close(&listeners[i]);
    CHECK(fcntl(fds[i], F_GETFD) < 0, "the parent listens still");
    df_listener_close(&listeners[i]);
  }
}

DF_TEST(process, a_child_has_no_connection, 30) {
  uint16_t port;
  int listener = df_listen_loopback(&port), connected = df_connect_loopback(port),
      accepted = -EAGAIN;
  CHECK(listener >= 0 && connected >= 0, "cannot connect");
  EVENTUALLY((accepted = df_accept(listener)) != -EAGAIN);
  CHECK(accepted >= 0, "cannot accept");
  int closed = dup(STDERR_FILENO), reused = df_connect_loopback(port), number = reused;
  df_socket_close(&reused);
  CHECK(dup2(closed, number) == number, "somebody else's file with the same number");
  pid_t child = fork();
  if (child == 0)
    _exit(fcntl(connected, F_GETFD) >= 0 || fcntl(accepted, F_GETFD) >= 0 ||
          fcntl(number, F_GETFD) < 0);
  CHECK(ends_well(child), "a child keeps a connection, or closes what is not its own");
  CHECK(fcntl(connected, F_GETFD) >= 0 && fcntl(accepted, F_GETFD) >= 0, "the parent has none");
  df_socket_close(&connected);
  df_socket_close(&accepted);
  close(listener);
  close(closed);
  close(number);
}

static int is_called(uint16_t port) {
  const struct sockaddr_in address = {
      .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  CHECK(fd >= 0, "no socket");
  int connected = connect(fd, (const struct sockaddr *)&address, sizeof address) == 0;
  close(fd);
  return connected;
}

DF_TEST(process, closed_listeners_listen_nowhere, 30) {
  df_listener listener;
  uint16_t port;
  int fd = df_listen_loopback(&port), copy = dup(fd);
  CHECK(fd >= 0 && copy >= 0, "cannot listen");
  df_listener_open(&listener, fd);
  CHECK(is_called(port), "nobody listens");
  df_listener_close(&listener);
  CHECK(!is_called(port), "who has a copy keeps the address taken");
  close(copy);
}

/* Three listeners are closed in this order; their memory is reused. */
static void forget(const int *order, int n) {
  df_listener listeners[3];
  int fds[3], closed[3] = {0}, other = dup(STDERR_FILENO);
  uint16_t port;
  for (int i = 0; i < 3; i++) {
    fds[i] = df_listen_loopback(&port);
    CHECK(fds[i] >= 0, "cannot listen");
    df_listener_open(&listeners[i], fds[i]);
  }
  for (int i = 0; i < n; i++) {
    df_listener_close(&listeners[order[i]]);
    df_listener_close(&listeners[order[i]]); /* has no effect */
    closed[order[i]] = 1;
  }
  for (int i = 0; i < 3; i++)
    if (closed[i]) listeners[i] = (df_listener){.fd = other};
  pid_t child = fork();
  if (child == 0) {
    int wrong = fcntl(other, F_GETFD) < 0;
    for (int i = 0; i < 3; i++) wrong += !closed[i] && fcntl(fds[i], F_GETFD) >= 0;
    _exit(wrong);
  }
  CHECK(ends_well(child), "%d, %d closed: a child knows others", order[0], n > 1 ? order[1] : -1);
  for (int i = 0; i < 3; i++)
    if (!closed[i]) df_listener_close(&listeners[i]);
  close(other);
}

DF_TEST(process, listeners_are_removed_in_any_order, 30) {
  for (int first = 0; first < 3; first++) {
    forget(&first, 1);
    for (int second = 0; second < 3; second++)
      if (second != first) forget((const int[]){first, second}, 2);
  }
}
