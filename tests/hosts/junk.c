/*
 * A TCP proxy that inserts bytes once into one connection.
 *
 *   junk LISTEN-ADDRESS PORT TO-PORT CONNECTION DIRECTION AT BYTES [FIRST]
 *
 * It listens at LISTEN-ADDRESS:PORT, and connects each caller to LISTEN-ADDRESS:TO-PORT. Into the
 * connection with the number CONNECTION (from 0, in the order of the calls) it inserts BYTES bytes
 * after the first AT bytes of DIRECTION (0: from the caller, 1: to the caller). The first of them
 * has the value FIRST (default 1), all others are 0: in front of a length they make another
 * length that may be valid. The program prints "ready PROCESS", then "inserted" when it has done
 * so. It runs until it is killed.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CONNECTIONS = 256, BUFFER = 64 << 10, JUNK_MOST = 4096 };

typedef struct {
  char bytes[BUFFER + JUNK_MOST];
  size_t at, end;
  uint64_t total; /* bytes read */
  int has_ended;
} way;

static struct {
  int ends[2]; /* the caller and the other side; -1: closed */
  way ways[2]; /* by direction */
  long number;
} connections[CONNECTIONS];
static long next_number, target, direction, at_byte, n_junk, first_value = 1;

static int tcp_socket(void) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;
  if (fd < 0) exit(1);
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return fd;
}

static void shut(int which) {
  for (int side = 0; side < 2; side++) close(connections[which].ends[side]);
  connections[which].ends[0] = connections[which].ends[1] = -1;
}

static void accept_one(int listener, const struct sockaddr_in *to) {
  const int caller = accept(listener, NULL, NULL), other = tcp_socket();
  int which = 0;
  while (which < CONNECTIONS && connections[which].ends[0] >= 0) which++;
  if (caller < 0 || which == CONNECTIONS ||
      connect(other, (const struct sockaddr *)to, sizeof *to) != 0) {
    close(caller);
    close(other);
    return;
  }
  memset(&connections[which], 0, sizeof connections[which]);
  connections[which].ends[0] = caller;
  connections[which].ends[1] = other;
  connections[which].number = next_number++;
}

static void insert(way *w) {
  memset(w->bytes + w->end, 0, (size_t)n_junk);
  w->bytes[w->end] = (char)first_value;
  w->end += (size_t)n_junk;
  n_junk = 0;
  puts("inserted");
  fflush(stdout);
}

/* Reads up to the byte where bytes are inserted. Returns 0 if the connection has ended. */
static int take(int which, int from) {
  way *w = &connections[which].ways[from];
  const int is_target = n_junk && connections[which].number == target && from == direction;
  size_t most = BUFFER - w->end;
  if (is_target && (uint64_t)at_byte > w->total && (uint64_t)at_byte - w->total < most)
    most = (size_t)((uint64_t)at_byte - w->total);
  if (is_target && (uint64_t)at_byte == w->total) insert(w);
  if (most == 0) return 1;
  const ssize_t got = recv(connections[which].ends[from], w->bytes + w->end, most, MSG_DONTWAIT);
  if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) return 0;
  if (got < 0) return 1;
  w->end += (size_t)got;
  w->total += (uint64_t)got;
  return 1;
}

static int give(int which, int from) {
  way *w = &connections[which].ways[from];
  const ssize_t sent = send(connections[which].ends[!from], w->bytes + w->at, w->end - w->at,
                            MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent < 0 && errno != EAGAIN && errno != EINTR) return 0;
  if (sent > 0) w->at += (size_t)sent;
  if (w->at == w->end) w->at = w->end = 0;
  return 1;
}

static void carry(int which) {
  for (int from = 0; from < 2; from++) {
    way *w = &connections[which].ways[from];
    const int is_over = !take(which, from);
    const int is_given = w->at == w->end || give(which, from);
    if (is_over || !is_given) {
      shut(which);
      return;
    }
  }
}

int main(int argc, char **argv) {
  struct sockaddr_in at = {.sin_family = AF_INET}, to;
  struct pollfd polled[1 + 2 * CONNECTIONS];
  if (argc < 8 || inet_pton(AF_INET, argv[1], &at.sin_addr) != 1) return 2;
  to = at;
  at.sin_port = htons((uint16_t)atoi(argv[2]));
  to.sin_port = htons((uint16_t)atoi(argv[3]));
  target = atol(argv[4]);
  direction = atol(argv[5]);
  at_byte = atol(argv[6]);
  n_junk = atol(argv[7]);
  if (argc > 8) first_value = atol(argv[8]);
  if (n_junk > JUNK_MOST) return 2;
  for (int i = 0; i < CONNECTIONS; i++) connections[i].ends[0] = connections[i].ends[1] = -1;
  const int listener = tcp_socket();
  if (bind(listener, (struct sockaddr *)&at, sizeof at) != 0 || listen(listener, 64) != 0) return 1;
  printf("ready %d\n", (int)getpid());
  fflush(stdout);
  for (;;) {
    nfds_t n = 0;
    polled[n++] = (struct pollfd){.fd = listener, .events = POLLIN};
    for (int i = 0; i < CONNECTIONS; i++)
      for (int side = 0; side < 2; side++) {
        if (connections[i].ends[side] < 0) continue;
        const way *out = &connections[i].ways[!side];
        const short events = (short)(POLLIN | (out->at < out->end ? POLLOUT : 0));
        polled[n++] = (struct pollfd){.fd = connections[i].ends[side], .events = events};
      }
    poll(polled, n, -1);
    if (polled[0].revents) accept_one(listener, &to);
    for (int i = 0; i < CONNECTIONS; i++)
      if (connections[i].ends[0] >= 0) carry(i);
  }
}
