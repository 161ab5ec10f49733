#include "transports/net/stream/tcp.h"

#include <errno.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "bootstrap/rendezvous/handshake.h"
#include "bootstrap/net/sockets.h"

enum {
  EVENTS_AT_ONCE = 32,
  BUSY_BYTES = 64 << 10,
  MEASURED_BYTES = 4 * BUSY_BYTES,
  MEASURED_NS = 500000,
  DOUBTED_NS = 250000000
};

static dfcclResult_t failure(const char *what, int error) {
  const int is_shortage = error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
  return df_fail(is_shortage ? dfcclOutOfMemory : dfcclSystemError, "%s failed: %s", what,
                 strerror(error));
}

static int watch(const df_tcp *tcp, int fd, uint32_t events, void *who) {
  struct epoll_event event = {.events = events, .data.ptr = who};
  return epoll_ctl(tcp->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

static int open_listener(df_tcp *tcp) {
  int fd = df_listen_loopback(&tcp->port);
  if (fd < 0) return -fd;
  df_listener_open(&tcp->listener, fd);
  return watch(tcp, fd, EPOLLIN | EPOLLET, NULL) ? 0 : errno;
}

dfcclResult_t df_tcp_open(df_tcp *tcp, df_listeners *listeners) {
  *tcp = (df_tcp){.listener.fd = -1,
                  .listeners = listeners,
                  .epoll_fd = epoll_create1(EPOLL_CLOEXEC),
                  .wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  int error = tcp->epoll_fd < 0 || tcp->wake_fd < 0 ? errno : 0;
  if (error == 0 && listeners == NULL) error = open_listener(tcp);
  if (listeners) tcp->port = listeners->port;
  for (int i = 0; listeners && i < listeners->n && error == 0; i++)
    if (!watch(tcp, listeners->listeners[i].fd, EPOLLIN | EPOLLET, NULL)) error = errno;
  if (error == 0) return dfcclSuccess;
  df_tcp_close(tcp);
  return failure("listening", error);
}

void df_tcp_close_in_child(const df_tcp *tcp) {
  close(tcp->wake_fd);
  close(tcp->epoll_fd);
}

void df_tcp_close(df_tcp *tcp) {
  if (tcp->listener.fd >= 0) df_listener_close(&tcp->listener);
  if (tcp->wake_fd >= 0) close(tcp->wake_fd);
  if (tcp->epoll_fd >= 0) close(tcp->epoll_fd);
}

/* Starts a new measurement if hardly anything was in transit at the last one. */
static void note_write(df_tcp_stream *tcp, uint64_t bytes) {
  if (tcp->mark_ns && tcp->writes == 0 && tcp->sent - tcp->mark < BUSY_BYTES) {
    tcp->mark_ns = df_clock_ns();
    tcp->mark = tcp->sent;
  }
  tcp->sent += bytes;
  tcp->writes++;
}

/* Keeps the first error: the system reports a silence once, and the next write or read sees a
 * closed connection. */
static void note_error(df_tcp_stream *tcp, int error) {
  if (!df_is_silence(tcp->error)) tcp->error = error;
}

static int64_t tcp_write(df_stream *stream, const df_stream_part *parts, uint32_t n_parts) {
  df_tcp_stream *tcp = (df_tcp_stream *)stream;
  struct iovec pieces[DF_STREAM_PARTS];
  struct msghdr header = {.msg_iov = pieces, .msg_iovlen = n_parts};
  for (uint32_t i = 0; i < n_parts; i++)
    pieces[i] =
        (struct iovec){.iov_base = (void *)(uintptr_t)parts[i].bytes, .iov_len = parts[i].length};
  ssize_t sent;
  do
    sent = n_parts == 1
               ? send(tcp->socket.fd, parts[0].bytes, parts[0].length, MSG_NOSIGNAL | MSG_DONTWAIT)
               : sendmsg(tcp->socket.fd, &header, MSG_NOSIGNAL | MSG_DONTWAIT);
  while (sent < 0 && errno == EINTR);
  if (sent >= 0) {
    note_write(tcp, (uint64_t)sent);
    return sent;
  }
  if (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS || errno == ENOMEM) return 0;
  note_error(tcp, errno);
  shutdown(tcp->socket.fd, SHUT_WR); /* the other end sees the end, whatever the error is */
  return DF_STREAM_ENDED;
}

static int64_t tcp_read(df_stream *stream, const df_stream_room *rooms, uint32_t n_rooms) {
  df_tcp_stream *tcp = (df_tcp_stream *)stream;
  struct iovec pieces[DF_STREAM_ROOMS];
  struct msghdr header = {.msg_iov = pieces, .msg_iovlen = n_rooms};
  for (uint32_t i = 0; i < n_rooms; i++)
    pieces[i] = (struct iovec){.iov_base = rooms[i].bytes, .iov_len = rooms[i].length};
  ssize_t came;
  do
    came = n_rooms == 1 ? recv(tcp->socket.fd, rooms[0].bytes, rooms[0].length, MSG_DONTWAIT)
                        : recvmsg(tcp->socket.fd, &header, MSG_DONTWAIT);
  while (came < 0 && errno == EINTR);
  if (came > 0) return came;
  if (came < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return 0;
  note_error(tcp, came < 0 ? errno : 0);
  return DF_STREAM_ENDED;
}

static const char *tcp_reason(df_stream *stream) {
  const df_tcp_stream *tcp = (const df_tcp_stream *)stream;
  return tcp->error ? strerror(tcp->error) : "the other end closed it";
}

/* Measures the delivery rate. The figure of the system (tcp_info) also counts the time in which the
 * application wrote nothing and the time of delayed acknowledgements. Therefore the rate is
 * measured only while at least one frame is in transit and only one write followed the previous
 * measurement. Frames arrive as a whole, so a measurement of few frames is a lower bound. The rate
 * estimate of an idle path is doubled every 250 ms, so that the path is tried again eventually
 * after a bad moment. */
static void measure(df_tcp_stream *tcp, uint64_t under_way) {
  enum { DOUBLED_MOST = 20 };
  const uint64_t now = df_clock_ns(), arrived = tcp->sent - under_way, ns = now - tcp->mark_ns;
  const int64_t bytes = (int64_t)(arrived - tcp->mark);
  const int is_busy = tcp->mark_ns && under_way >= BUSY_BYTES && tcp->writes <= 1;
  tcp->writes = 0;
  if (is_busy) {
    if (ns < MEASURED_NS || bytes < BUSY_BYTES) return;
    const uint64_t rate = (uint64_t)bytes * 1000000 / (ns / 1000);
    tcp->doubled = 0;
    tcp->sent_before = tcp->sent;
    tcp->rate_ns = now;
    if (bytes < MEASURED_BYTES) {
      tcp->rate = DF_MAX(tcp->rate, rate);
      return;
    }
    const int is_near = rate > tcp->rate / 2 && rate < 2 * tcp->rate;
    tcp->rate = is_near ? (3 * tcp->rate + rate) / 4 : rate;
  } else if (now - tcp->rate_ns > DOUBTED_NS) {
    if (tcp->sent == tcp->sent_before && tcp->doubled < DOUBLED_MOST) tcp->doubled++;
    tcp->sent_before = tcp->sent;
    tcp->rate_ns = now;
  }
  tcp->mark_ns = now;
  tcp->mark = arrived;
}

static df_rate_estimate tcp_rate_estimate(df_stream *stream) {
  df_tcp_stream *tcp = (df_tcp_stream *)stream;
  int under_way = 0;
  (void)ioctl(tcp->socket.fd, SIOCOUTQ, &under_way);
  measure(tcp, (uint64_t)DF_MAX(under_way, 0));
  return (df_rate_estimate){.queued = (uint64_t)DF_MAX(under_way, 0),
                            .rate = tcp->rate << tcp->doubled,
                            .is_doubted = tcp->doubled != 0};
}

static void set_option(df_stream *stream, int option, int value) {
  const df_tcp_stream *tcp = (const df_tcp_stream *)stream;
  (void)setsockopt(tcp->socket.fd, IPPROTO_TCP, option, &value, sizeof value);
}

static void tcp_gather(df_stream *stream, int gathers) {
  set_option(stream, TCP_NODELAY, !gathers);
}

/* Without this option the system would delay the acknowledgement by up to 40 ms. */
static void tcp_acknowledge(df_stream *stream) { set_option(stream, TCP_QUICKACK, 1); }

void df_tcp_end(df_tcp *tcp, df_tcp_stream *stream) {
  /* While a forked child has a copy, closing alone does not end the connection. */
  epoll_ctl(tcp->epoll_fd, EPOLL_CTL_DEL, stream->socket.fd, NULL);
  df_listener_close(&stream->socket);
  free(stream);
}

int df_tcp_release(df_tcp *tcp, df_tcp_stream *stream) {
  epoll_ctl(tcp->epoll_fd, EPOLL_CTL_DEL, stream->socket.fd, NULL);
  const int fd = df_listener_release(&stream->socket);
  free(stream);
  return fd;
}

/* Takes ownership of fd. */
static dfcclResult_t make_stream(df_tcp *tcp, int fd, df_tcp_stream **out) {
  df_tcp_stream *stream = calloc(1, sizeof *stream);
  if (stream == NULL) {
    df_socket_close(&fd);
    return df_fail(dfcclOutOfMemory, "no memory for a connection");
  }
  stream->stream = (df_stream){.write = tcp_write,
                               .read = tcp_read,
                               .reason = tcp_reason,
                               .rate_estimate = tcp_rate_estimate,
                               .gather = tcp_gather,
                               .acknowledge = tcp_acknowledge};
  df_listener_open(&stream->socket, fd);
  if (!watch(tcp, fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, stream)) {
    const int error = errno;
    df_tcp_end(tcp, stream);
    return failure("watching a connection", error);
  }
  *out = stream;
  return dfcclSuccess;
}

dfcclResult_t df_tcp_connect(df_tcp *tcp, const df_tcp_path *way, df_tcp_stream **stream) {
  struct sockaddr_storage to, from;
  const uint32_t bytes = df_address_to_socket(&way->to, way->scope, &to);
  if (way->from.family) (void)df_address_to_socket(&way->from, way->scope, &from);
  int fd = df_connect_network(&to, bytes, way->from.family ? &from : NULL);
  if (fd == -EADDRNOTAVAIL) {
    (void)failure("connecting", EADDRNOTAVAIL);
    return dfcclInProgress;
  }
  if (fd < 0) {
    const dfcclResult_t result = failure("connecting", -fd);
    return fd == -ECONNREFUSED ? dfcclRemoteError : result;
  }
  return make_stream(tcp, fd, stream);
}

static int accept_from(df_tcp *tcp, int which) {
  return df_accept(tcp->listeners ? tcp->listeners->listeners[which].fd : tcp->listener.fd);
}

df_tcp_stream *df_tcp_accept(df_tcp *tcp) {
  df_tcp_stream *stream = NULL;
  const int n = tcp->listeners ? tcp->listeners->n : 1;
  for (int i = 0; i < n && tcp->has_callers && stream == NULL;) {
    int fd = accept_from(tcp, i);
    if (fd >= 0) (void)make_stream(tcp, fd, &stream);
    if (fd >= 0 || fd == -EINTR || fd == -ECONNABORTED) continue;
    if (fd != -EAGAIN && fd != -EWOULDBLOCK)
      return NULL; /* no descriptor is free: try again later */
    if (++i == n) tcp->has_callers = 0;
  }
  if (stream) stream->is_ready = 1; /* bytes may have arrived before the socket was watched */
  return stream;
}

void df_tcp_set_silence(df_tcp_stream *stream, uint32_t ms) {
  df_socket_set_silence(stream->socket.fd, (int)ms);
}

int df_tcp_has_unsent(const df_tcp_stream *stream) {
  int bytes = 0;
  return ioctl(stream->socket.fd, SIOCOUTQ, &bytes) == 0 && bytes > 0;
}

/* Not edge-triggered: a thread that spins also looks here, and must leave the event to the thread
 * that sleeps. */
dfcclResult_t df_tcp_watch(df_tcp *tcp, int fd) {
  return watch(tcp, fd, EPOLLIN, tcp) ? dfcclSuccess : failure("watching a descriptor", errno);
}

void df_tcp_look(df_tcp *tcp) {
  struct epoll_event events[EVENTS_AT_ONCE];
  int n;
  do {
    n = epoll_wait(tcp->epoll_fd, events, EVENTS_AT_ONCE, 0);
    for (int i = 0; i < n; i++) {
      if (events[i].data.ptr == tcp)
        continue; /* a descriptor of df_tcp_watch: the thread that was woken looks at it */
      df_tcp_stream *stream = events[i].data.ptr;
      if (stream && events[i].events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) stream->hangs_up = 1;
      if (stream)
        stream->is_ready = 1;
      else
        tcp->has_callers = 1;
    }
  } while (n == EVENTS_AT_ONCE);
}

void df_tcp_wait(df_tcp *tcp, int timeout_ms) {
  uint64_t wakes;
  struct pollfd all[2] = {{.fd = tcp->epoll_fd, .events = POLLIN},
                          {.fd = tcp->wake_fd, .events = POLLIN}};
  (void)poll(all, 2, timeout_ms);
  (void)!read(tcp->wake_fd, &wakes, sizeof wakes);
}

void df_tcp_wake(df_tcp *tcp) {
  const uint64_t one = 1;
  (void)!write(tcp->wake_fd, &one, sizeof one);
}

df_address df_tcp_address(const df_tcp_stream *stream) {
  struct sockaddr_storage socket = {0};
  df_address address;
  socklen_t length = sizeof socket;
  if (getsockname(stream->socket.fd, (struct sockaddr *)&socket, &length) == 0 &&
      df_address_from_socket(&address, &socket))
    return address;
  return (df_address){.family = 0};
}

static void describe_end(int (*name)(int, struct sockaddr *, socklen_t *), int fd,
                         char text[DF_ADDRESS_TEXT]) {
  struct sockaddr_storage socket = {0};
  df_address address;
  socklen_t length = sizeof socket;
  if (name(fd, (struct sockaddr *)&socket, &length) == 0 &&
      df_address_from_socket(&address, &socket))
    df_address_text(&address, text);
  else
    snprintf(text, DF_ADDRESS_TEXT, "an unknown address");
}

static int name_here(int fd, struct sockaddr *address, socklen_t *length) {
  return getsockname(fd, address, length);
}
static int name_there(int fd, struct sockaddr *address, socklen_t *length) {
  return getpeername(fd, address, length);
}

void df_tcp_describe(const df_tcp_stream *stream, char text[DF_TCP_ENDS_BYTES]) {
  char here[DF_ADDRESS_TEXT], there[DF_ADDRESS_TEXT];
  describe_end(name_here, stream->socket.fd, here);
  describe_end(name_there, stream->socket.fd, there);
  snprintf(text, DF_TCP_ENDS_BYTES, "%s to %s", here, there);
}
