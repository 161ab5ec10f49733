/*
 * Descriptors: event counters, their epoll, files of shared memory, and the sockets between ranks
 * of different processes. Messages keep their order and boundaries; a socket that ends is seen to
 * end when its messages are read.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "prelude_declarations.h"
#include "sim.h"

enum { FIRST_FD = 100000, MESSAGES_AT_ONCE = 6 };

typedef struct sim_queued_message {
  struct sim_queued_message *next;
  size_t bytes;
  int file; /* a descriptor that comes along; -1 */
} sim_queued_message;

static sim_descriptor *descriptor_of(int fd) {
  int i = fd - FIRST_FD;
  if (i < 0 || i >= (int)sim_system_now.n_fds) sim_fail("a call with descriptor %d", fd);
  if (sim_system_now.fd[i].kind == SIM_CLOSED) sim_fail("a call with a closed descriptor");
  return &sim_system_now.fd[i];
}

static int make(sim_descriptor_kind kind) {
  if (sim_system_now.n_fds == SIM_MAX_FDS) sim_fail("the world has too many descriptors");
  sim_system_now.fd[sim_system_now.n_fds] = (sim_descriptor){.kind = kind, .epoll = -1, .peer = -1};
  return FIRST_FD + (int)sim_system_now.n_fds++;
}

uint32_t sim_open_descriptors(void) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < sim_system_now.n_fds; i++) n += sim_system_now.fd[i].kind != SIM_CLOSED;
  return n;
}

/* The agent that waits for this descriptor's epoll. */
static void news(const sim_descriptor *d) {
  if (d->epoll < 0) return;
  sim_wake_those(SIM_WAITS_EVENT, (const void *)(intptr_t)d->epoll);
}

static sim_descriptor *peer_of(const sim_descriptor *d) {
  return d->peer < 0 ? NULL : &sim_system_now.fd[d->peer];
}

/* The other end sees this one end. */
static void end_socket(sim_descriptor *d) {
  sim_descriptor *peer = peer_of(d);
  d->ended = 1;
  if (peer == NULL) return;
  peer->ended = 1;
  peer->peer = d->peer = -1;
  news(peer);
  news(d);
}

/* Messages and counters have a word each, for what the kernel's lock orders. */
static int make_ordered(sim_descriptor_kind kind) {
  int fd = make(kind);
  sim_system_now.fd[fd - FIRST_FD].order = sim_hidden_alloc(sizeof(uint32_t));
  return fd;
}

int sim_stream_descriptor(void *stream, const sim_stream_calls *calls) {
  int fd = make(SIM_STREAM);
  sim_system_now.fd[fd - FIRST_FD].stream = stream;
  sim_system_now.fd[fd - FIRST_FD].calls = calls;
  return fd;
}

void sim_stream_news(int fd) { news(descriptor_of(fd)); }

int sim_eventfd(void) { return make_ordered(SIM_COUNTER); }
int sim_epoll_create(void) { return make_ordered(SIM_COUNTER); }

/* A file is there as long as it has a descriptor, on its way to somebody perhaps, or a mapping. */
static int make_descriptor_of_file(uint32_t file) {
  int fd = make(SIM_FILE);
  sim_system_now.fd[fd - FIRST_FD].file = file;
  sim_system_now.file[file].references++;
  return fd;
}
static void release_file(uint32_t file) {
  sim_file *f = &sim_system_now.file[file];
  if (--f->references == 0 && f->base) sim_unmap(f->base);
}

int sim_memfd(void) { return make_descriptor_of_file(sim_system_now.n_fds); }

static void drop_letters(sim_descriptor *d) {
  for (const sim_queued_message *queued = d->first; queued; queued = queued->next)
    if (queued->file >= 0) release_file((uint32_t)queued->file);
}

int sim_close(int fd) {
  sim_descriptor *d = descriptor_of(fd);
  sim_point_at(&sim_system_now, SIM_WRITES);
  SIM_TRACE("closes", NULL, (uint64_t)fd, 0);
  if (d->kind == SIM_SOCKET) {
    end_socket(d);
    drop_letters(d);
  }
  if (d->kind == SIM_FILE) release_file(d->file);
  const sim_descriptor_kind kind = d->kind;
  d->kind = SIM_CLOSED;
  if (kind == SIM_STREAM) d->calls->close(d->stream);
  return 0;
}

/* ---- processes of ranks */

#if !defined(SO_PEERPIDFD)
#define SO_PEERPIDFD 77
#endif
int sim_getsockopt(int fd, int level, int name, void *value, socklen_t *bytes);
int sim_getsockopt(int fd, int level, int name, void *value, socklen_t *bytes) {
  (void)level, (void)bytes;
  const sim_descriptor *peer = peer_of(descriptor_of(fd));
  if (name != SO_PEERPIDFD || peer == NULL || peer->kind != SIM_SOCKET) return -1;
  const int rank = peer->rank, process = make(SIM_PROCESS);
  sim_system_now.fd[process - FIRST_FD].rank = rank;
  memcpy(value, &process, sizeof process);
  return 0;
}

/* For one process. Its end may be seen later than that of its sockets. */
int sim_poll(struct pollfd *entry, nfds_t n, int timeout_ms);
int sim_poll(struct pollfd *entry, nfds_t n, int timeout_ms) {
  (void)n, (void)timeout_ms;
  const sim_descriptor *d = descriptor_of(entry->fd);
  const int is_late =
      !sim_is_quiet && sim_steps < sim_policy_now.unfair_steps && sim_one_in(&sim_random_now, 2);
  const int has_ended = (int)(sim_system_now.ended >> d->rank & 1) && !is_late;
  sim_point_at(&sim_system_now, SIM_WRITES);
  for (uint32_t a = 0; has_ended && a < sim_agents_now.n; a++)
    if (sim_agents_now.agent[a].rank == d->rank) sim_view_of_joined(a, sim_agents_now.current);
  entry->revents = has_ended ? POLLIN : 0;
  return has_ended;
}

/* The written bytes have been sent. */
int sim_ioctl(int fd, unsigned long request, ...) {
  (void)fd;
  (void)request;
  return -1;
}

void sim_socket_close(int *fd) {
  if (*fd >= 0) sim_close(*fd);
  *fd = -1;
}

int sim_dup(int fd) { return make_descriptor_of_file(descriptor_of(fd)->file); }

/* The first mapping makes the memory, and decides how much it is. */
void *sim_mmap(size_t bytes, int fd) {
  if (fd < 0) return sim_map_new(bytes);
  sim_file *file = &sim_system_now.file[descriptor_of(fd)->file];
  if (file->base == NULL) {
    void *base = sim_map_new(bytes);
    if (base == (void *)-1) return base;
    file->base = base;
    file->bytes = bytes;
  }
  file->references++;
  return file->base;
}

int sim_punch_hole(int fd, off_t offset, off_t bytes) {
  const sim_file *file = &sim_system_now.file[descriptor_of(fd)->file];
  sim_memset((uint8_t *)file->base + offset, 0, (size_t)bytes);
  return 0;
}

int sim_munmap(void *p) {
  for (uint32_t f = 0; f < sim_system_now.n_fds; f++)
    if (sim_system_now.file[f].base == p) {
      release_file(f);
      return 0;
    }
  sim_unmap(p);
  return 0;
}

int sim_fcntl(int fd, int command) {
  descriptor_of(fd);
  return command == F_GET_SEALS ? F_SEAL_SHRINK | F_SEAL_GROW : 0;
}

int sim_fstat(int fd, struct stat *status) {
  status->st_size = (off_t)sim_system_now.file[descriptor_of(fd)->file].bytes;
  return 0;
}

/* ---- counters */

void sim_signal(int fd) {
  sim_descriptor *d = descriptor_of(fd);
  SIM_TRACE("signals", NULL, (uint64_t)fd, 0);
  d->count++;
  sim_release_to(d->order);
  news(d);
}

ssize_t sim_write(int fd, const void *buffer, size_t bytes) {
  if (fd < FIRST_FD) return write(fd, buffer, bytes);
  sim_point_at(&sim_system_now, SIM_WRITES);
  sim_signal(fd);
  return (ssize_t)bytes;
}

ssize_t sim_read(int fd, void *buffer, size_t bytes) {
  if (fd < FIRST_FD) return read(fd, buffer, bytes);
  sim_descriptor *d = descriptor_of(fd);
  sim_point_at(&sim_system_now, SIM_WRITES);
  sim_acquire_from(d->order);
  memcpy(buffer, &d->count, sizeof d->count);
  d->count = 0;
  return (ssize_t)bytes;
}

/* ---- sockets */

void sim_socket_pair(int fds[2], const int ranks[2]) {
  for (int i = 0; i < 2; i++) {
    fds[i] = make_ordered(SIM_SOCKET);
    sim_system_now.fd[fds[i] - FIRST_FD].rank = ranks[i];
  }
  sim_system_now.fd[fds[0] - FIRST_FD].peer = fds[1] - FIRST_FD;
  sim_system_now.fd[fds[1] - FIRST_FD].peer = fds[0] - FIRST_FD;
}

void sim_sockets_die(int rank) {
  sim_system_now.ended |= 1u << rank;
  for (uint32_t i = 0; i < sim_system_now.n_fds; i++) {
    sim_descriptor *d = &sim_system_now.fd[i];
    if (d->kind != SIM_SOCKET || d->rank != rank) continue;
    end_socket(d);
    d->kind = SIM_CLOSED;
  }
}

static int is_full(const sim_descriptor *d) { return d->n_letters >= MESSAGES_AT_ONCE; }

ssize_t sim_sendmsg(int fd, const struct msghdr *header) {
  sim_descriptor *d = descriptor_of(fd);
  if (d->kind == SIM_STREAM)
    return d->calls->send(d->stream, header->msg_iov->iov_base, header->msg_iov->iov_len);
  sim_point_at(&sim_system_now, SIM_WRITES);
  sim_descriptor *peer = peer_of(d);
  if (peer == NULL || d->ended) {
    errno = EPIPE;
    return -1;
  }
  int refuses = !sim_is_quiet && sim_steps < sim_policy_now.unfair_steps && d->epoll >= 0 &&
                sim_one_in(&sim_random_now, 16);
  if (is_full(peer) || refuses) {
    errno = EAGAIN;
    return -1;
  }
  const struct iovec *part = header->msg_iov;
  sim_queued_message *queued = sim_hidden_alloc(sizeof *queued + part->iov_len);
  *queued = (sim_queued_message){.bytes = part->iov_len, .file = -1};
  memcpy(queued + 1, part->iov_base, part->iov_len);
  const struct cmsghdr *rights = header->msg_control ? CMSG_FIRSTHDR(header) : NULL;
  if (rights) {
    int passed;
    memcpy(&passed, CMSG_DATA(rights), sizeof passed);
    queued->file = (int)descriptor_of(passed)->file;
    sim_system_now.file[queued->file].references++;
  }
  *(peer->first ? &((sim_queued_message *)peer->last)->next : (sim_queued_message **)&peer->first) =
      queued;
  peer->last = queued;
  peer->n_letters++;
  SIM_TRACE("sends to", NULL, (uint64_t)peer->rank, 0);
  sim_release_to(peer->order);
  news(peer);
  return (ssize_t)part->iov_len;
}

ssize_t sim_recvmsg(int fd, struct msghdr *header) {
  sim_descriptor *d = descriptor_of(fd);
  if (d->kind == SIM_STREAM)
    return d->calls->recv(d->stream, header->msg_iov->iov_base, header->msg_iov->iov_len);
  sim_point_at(&sim_system_now, SIM_WRITES);
  sim_queued_message *queued = d->first;
  if (queued == NULL) {
    errno = EAGAIN;
    return d->ended ? 0 : -1;
  }
  d->first = queued->next;
  d->n_letters--;
  sim_acquire_from(d->order);
  if (queued->bytes > header->msg_iov->iov_len) sim_fail("a message is too long");
  memcpy(header->msg_iov->iov_base, queued + 1, queued->bytes);
  header->msg_flags = 0;
  if (queued->file >= 0) {
    int copy = make_descriptor_of_file((uint32_t)queued->file);
    release_file((uint32_t)queued->file);
    struct cmsghdr *rights = CMSG_FIRSTHDR(header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof copy);
    memcpy(CMSG_DATA(rights), &copy, sizeof copy);
    header->msg_controllen = CMSG_SPACE(sizeof copy);
  } else {
    header->msg_controllen = 0;
  }
  sim_descriptor *peer = peer_of(d);
  if (peer) news(peer); /* there is room again */
  return (ssize_t)queued->bytes;
}

int sim_shutdown(int fd) {
  sim_descriptor *d = descriptor_of(fd);
  sim_point_at(&sim_system_now, SIM_WRITES);
  if (d->kind == SIM_STREAM)
    d->calls->shutdown(d->stream);
  else
    end_socket(d);
  return 0;
}

/* ---- epoll */

int sim_epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event) {
  sim_descriptor *d = descriptor_of(fd);
  d->epoll = operation == EPOLL_CTL_DEL ? -1 : epoll;
  if (operation == EPOLL_CTL_DEL) return 0;
  d->data = event->data.u32;
  d->events = event->events;
  news(d);
  return 0;
}

static uint32_t events_of(const sim_descriptor *d) {
  if (d->kind == SIM_COUNTER) return d->count ? EPOLLIN : 0;
  if (d->kind == SIM_STREAM) return d->calls->events(d->stream) & (d->events | EPOLLHUP);
  if (d->kind != SIM_SOCKET) return 0;
  const sim_descriptor *peer = peer_of(d);
  uint32_t events = d->first || d->ended ? EPOLLIN : 0;
  if (d->ended) events |= EPOLLHUP;
  if ((d->events & EPOLLOUT) && (peer == NULL || !is_full(peer))) events |= EPOLLOUT;
  return events;
}

int sim_epoll_wait(int epoll, struct epoll_event *events, int n, int timeout_ms) {
  int found = 0;
  uint64_t deadline =
      timeout_ms < 0 ? UINT64_MAX : sim_agents_now.now_ns + (uint64_t)timeout_ms * 1000000u;
  sim_point_at(&sim_system_now, SIM_WRITES);
  for (;;) {
    for (uint32_t i = 0; i < sim_system_now.n_fds && found < n; i++) {
      const sim_descriptor *d = &sim_system_now.fd[i];
      uint32_t happened = d->epoll == epoll ? events_of(d) : 0;
      if (happened) events[found++] = (struct epoll_event){.events = happened, .data.u32 = d->data};
    }
    if (found) return found;
    sim_block(SIM_WAITS_EVENT, (const void *)(intptr_t)epoll, deadline);
    if (sim_agents_now.agent[sim_agents_now.current].timed_out) return 0;
  }
}
