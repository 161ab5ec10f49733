/*
 * Promises of src/host/process.c:
 *   - A forked child is another process: it has a token of its own.
 *   - A child that is forked while this process listens does not keep the address taken: it has no
 *     listening socket, and closes nothing else when it is told to.
 */
#include <fcntl.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/handshake.h"
#include "host/process.h"
#include "host/sockets.h"
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
    int other = dup2(STDERR_FILENO, fds[0]); /* somebody else's file with the same number */
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
