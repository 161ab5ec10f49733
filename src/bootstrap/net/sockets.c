#include "bootstrap/net/sockets.h"

#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/attributes.h"
#include "base/clock.h"
#include "bootstrap/net/address.h"
#include "bootstrap/net/fork_guard.h"

static int make_socket(int domain, int type) {
  int fd = socket(domain, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  return fd >= 0 ? fd : -errno;
}

static int close_with(int fd, int error) {
  close(fd);
  return -error;
}

/* Must follow df_forks_hold, and releases it. Returns the connection, or -errno. */
static int note_and_release(int fd) {
  if (fd >= 0 && !df_connection_note(fd)) fd = close_with(fd, EMFILE);
  df_forks_release();
  return fd;
}

/* The address is "\0dfccl-" and the name in hexadecimal, so that `ss -x` shows its purpose. */
static socklen_t abstract_address(struct sockaddr_un *address, const unsigned char name[16]) {
  *address = (struct sockaddr_un){.sun_family = AF_UNIX};
  char *text = address->sun_path + 1;
  int length = snprintf(text, sizeof address->sun_path - 1, "dfccl-");
  for (int i = 0; i < 16; i++)
    length +=
        snprintf(text + length, sizeof address->sun_path - 1 - (size_t)length, "%02x", name[i]);
  return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

/* Without this option a small message waits until the one before is acknowledged (40 ms). */
static void without_delay(int fd) {
  int one = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one); /* a failure only makes it slower */
}

int df_listen_loopback(uint16_t *port) {
  int fd = make_socket(AF_INET, SOCK_STREAM);
  if (fd < 0) return fd;
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t bytes = sizeof address;
  without_delay(fd); /* accepted sockets inherit it */
  if (bind(fd, (struct sockaddr *)&address, sizeof address) != 0 || listen(fd, SOMAXCONN) != 0 ||
      getsockname(fd, (struct sockaddr *)&address, &bytes) != 0)
    return close_with(fd, errno);
  *port = ntohs(address.sin_port);
  return fd;
}

int df_listen_network(const struct sockaddr_storage *address, uint32_t bytes) {
  int fd = make_socket(address->ss_family, SOCK_STREAM), one = 1;
  if (fd < 0) return fd;
  without_delay(fd);
  /* A port of DFCCL_NET_PORTS may still have connections of an earlier job in the TIME_WAIT
   * state. */
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  if (address->ss_family == AF_INET6) {
    setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof one);
    /* A new IPv6 address cannot be bound until duplicate address detection has ended (a second or
     * two). */
    setsockopt(fd, IPPROTO_IPV6, IPV6_FREEBIND, &one, sizeof one);
  }
  if (bind(fd, (const struct sockaddr *)address, bytes) != 0 || listen(fd, SOMAXCONN) != 0)
    return close_with(fd, errno);
  return fd;
}

static int connect_network(const struct sockaddr_storage *address, socklen_t bytes,
                           const struct sockaddr_storage *from) {
  int fd = make_socket(address->ss_family, SOCK_STREAM);
  if (fd < 0) return fd;
  without_delay(fd);
  if (from && bind(fd, (const struct sockaddr *)from, bytes) != 0) return close_with(fd, errno);
  if (connect(fd, (const struct sockaddr *)address, bytes) != 0 && errno != EINPROGRESS)
    return close_with(fd, errno);
  return fd;
}

int df_connect_network(const struct sockaddr_storage *address, uint32_t bytes,
                       const struct sockaddr_storage *from) {
  df_forks_hold();
  return note_and_release(connect_network(address, bytes, from));
}

/* The user timeout ends a connection with unacknowledged data; three unanswered probes end an idle
 * one. */
void df_socket_set_silence(int fd, int silence_ms) {
  unsigned int user_ms = (unsigned int)silence_ms;
  int on = 1, third_s = DF_MAX(silence_ms / 3000, 1), probes = 2;
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &third_s, sizeof third_s);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &third_s, sizeof third_s);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
  setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &user_ms, sizeof user_ms);
}

int df_listen_abstract(int type, const unsigned char name[16]) {
  int fd = make_socket(AF_UNIX, type);
  if (fd < 0) return fd;
  struct sockaddr_un address;
  socklen_t bytes = abstract_address(&address, name);
  if (bind(fd, (struct sockaddr *)&address, bytes) != 0 || listen(fd, SOMAXCONN) != 0)
    return close_with(fd, errno);
  return fd;
}

int df_connect_loopback(uint16_t port) {
  const df_address loopback = df_address_loopback(port);
  struct sockaddr_storage address;
  const uint32_t bytes = df_address_to_socket(&loopback, 0, &address);
  return df_connect_network(&address, bytes, NULL);
}

int df_connected_pair(int ends[2]) {
  df_forks_hold();
  int error = 0;
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) != 0)
    error = -errno;
  else if (!df_connection_note(ends[0]) || !df_connection_note(ends[1]))
    error = -ENOMEM;
  df_forks_release();
  if (error == -ENOMEM)
    for (int i = 0; i < 2; i++) df_socket_close(&ends[i]);
  return error;
}

static int connect_abstract(int type, const unsigned char name[16]) {
  int fd = make_socket(AF_UNIX, type);
  if (fd < 0) return fd;
  struct sockaddr_un address;
  socklen_t bytes = abstract_address(&address, name);
  if (connect(fd, (struct sockaddr *)&address, bytes) != 0) return close_with(fd, errno);
  return fd;
}

int df_connect_abstract(int type, const unsigned char name[16]) {
  df_forks_hold();
  return note_and_release(connect_abstract(type, name));
}

int df_accept(int listener) {
  df_forks_hold();
  int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
  return note_and_release(fd >= 0 ? fd : -errno);
}

int df_socket_error(int fd) {
  int error = 0;
  socklen_t bytes = sizeof error;
  return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &bytes) == 0 ? error : errno;
}

bool df_socket_same_user(int fd, uid_t *other) {
  struct ucred peer = {.uid = (uid_t)-1};
  socklen_t bytes = sizeof peer;
  bool known = getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0;
  if (other != NULL) *other = peer.uid;
  return known && peer.uid == geteuid();
}

int df_remaining_ms(uint64_t deadline_ns) {
  uint64_t now = df_clock_ns();
  if (now >= deadline_ns) return 0;
  uint64_t left = (deadline_ns - now + 999999u) / 1000000u;
  return left < INT_MAX ? (int)left : INT_MAX;
}

int df_socket_wait(int fd, short events, uint64_t deadline_ns) {
  for (;;) {
    struct pollfd entry = {.fd = fd, .events = events};
    int ready = poll(&entry, 1, df_remaining_ms(deadline_ns));
    if (ready > 0) return 1;
    if (ready < 0 && errno != EINTR) return -errno;
    if (df_clock_ns() >= deadline_ns) return 0;
  }
}

bool df_is_out_of_descriptors(int error) { return error == EMFILE || error == ENFILE; }

bool df_is_silence(int error) {
  return error == ETIMEDOUT || error == EHOSTUNREACH || error == ENETUNREACH || error == EHOSTDOWN;
}

bool df_is_exhausted(int error) {
  return df_is_out_of_descriptors(error) || error == ENOBUFS || error == ENOMEM;
}

const char *df_why(int error, char text[DF_WHY_BYTES]) {
  struct rlimit limit;
  if (error == EMFILE && getrlimit(RLIMIT_NOFILE, &limit) == 0)
    snprintf(text, DF_WHY_BYTES,
             "%s: process %d uses all %llu descriptors that it may (RLIMIT_NOFILE)",
             strerror(error), (int)getpid(), (unsigned long long)limit.rlim_cur);
  else if (error == ENFILE)
    snprintf(text, DF_WHY_BYTES, "%s: the machine of process %d has no descriptors left",
             strerror(error), (int)getpid());
  else
    snprintf(text, DF_WHY_BYTES, "%s", strerror(error));
  return text;
}

void df_socket_close(int *fd) {
  if (*fd >= 0) df_connection_close(*fd);
  *fd = -1;
}
