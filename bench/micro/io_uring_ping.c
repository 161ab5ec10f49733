/*
 * Whether io_uring gains anything over one TCP connection, without the library: two processes
 * exchange messages by nonblocking calls, and by io_uring, one request at a time, without and with
 * deferred task work (IORING_SETUP_DEFER_TASKRUN), and with zero-copy sending besides. Neither end
 * ever sleeps. For development, not installed.
 *
 * Usage: bench-io-uring-ping listen PORT
 *        bench-io-uring-ping call ADDRESS PORT [ROUNDS]
 * The caller prints, for each size and way, the median over the rounds (ways take turns) of half a
 * round trip, of an exchange (both ends send, then receive; up to 32 KB), and of gigabytes a second
 * in one direction; and of how many zero-copy sends the system made copies nevertheless.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/io_uring.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { ENTRIES = 128, UNFREED_MOST = 64, LEAST = 8, MOST = 2 << 20, ROUNDS_MOST = 101 };
enum { EXCHANGED_MOST = 32 << 10 }; /* fits into the sockets, as both ends send first */
enum { TRIPS_BYTES = 64 << 20, TRIPS_MOST = 1000, STREAM_BYTES = 64 << 20, STREAM_MOST = 20000 };
typedef enum { CALLS, RING, RING_DEFERRED, RING_ZERO_COPY, WAYS } way;
static const char *const names[WAYS] = {"calls", "io_uring", "io_uring, deferred",
                                        "io_uring, zero copy"};

/* A flag of Linux 6.2: each notification reports whether the bytes were copied. */
#define REPORT_USAGE (1u << 3)
#define WERE_COPIED (1u << 31)

typedef struct {
  int fd, is_deferred;
  uint32_t *sq_tail, *sq_mask, *sq_array, *cq_head, *cq_tail, *cq_mask;
  struct io_uring_sqe *entries;
  struct io_uring_cqe *done;
} ring;
typedef struct {
  int fd;
  ring rings[2]; /* the second one is deferred */
  char *bytes;
  uint32_t unfreed; /* zero-copy sends whose bytes the system may still read */
  uint64_t sent, copied;
} end;
typedef struct {
  double half_us, exchange_us, gb_per_s;
} figures;

static void must(int is_right, const char *what) {
  if (is_right) return;
  fprintf(stderr, "bench-io-uring-ping: %s: %s\n", what, strerror(errno));
  exit(1);
}

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- io_uring, without a library of it */

static void open_ring(ring *r, int is_deferred) {
  struct io_uring_params p = {
      .flags = is_deferred ? IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN : 0};
  r->is_deferred = is_deferred;
  r->fd = (int)syscall(__NR_io_uring_setup, ENTRIES, &p);
  must(r->fd >= 0, "io_uring_setup");
  must((p.features & IORING_FEAT_SINGLE_MMAP) != 0, "one mapping of both queues");
  const size_t sq_bytes = p.sq_off.array + p.sq_entries * sizeof(uint32_t);
  const size_t cq_bytes = p.cq_off.cqes + p.cq_entries * sizeof(struct io_uring_cqe);
  char *both = mmap(NULL, sq_bytes > cq_bytes ? sq_bytes : cq_bytes, PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_POPULATE, r->fd, IORING_OFF_SQ_RING);
  r->entries = mmap(NULL, p.sq_entries * sizeof *r->entries, PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_POPULATE, r->fd, IORING_OFF_SQES);
  must(both != MAP_FAILED && r->entries != MAP_FAILED, "mmap");
  r->sq_tail = (uint32_t *)(both + p.sq_off.tail);
  r->sq_mask = (uint32_t *)(both + p.sq_off.ring_mask);
  r->sq_array = (uint32_t *)(both + p.sq_off.array);
  r->cq_head = (uint32_t *)(both + p.cq_off.head);
  r->cq_tail = (uint32_t *)(both + p.cq_off.tail);
  r->cq_mask = (uint32_t *)(both + p.cq_off.ring_mask);
  r->done = (struct io_uring_cqe *)(both + p.cq_off.cqes);
}

static void submit(ring *r, int fd, uint8_t op, char *at, size_t bytes) {
  const uint32_t tail = *r->sq_tail, i = tail & *r->sq_mask;
  r->entries[i] = (struct io_uring_sqe){.opcode = op,
                                        .fd = fd,
                                        .ioprio = op == IORING_OP_SEND_ZC ? REPORT_USAGE : 0,
                                        .addr = (uint64_t)(uintptr_t)at,
                                        .len = (uint32_t)bytes,
                                        .msg_flags = op == IORING_OP_RECV ? 0 : MSG_NOSIGNAL};
  r->sq_array[i] = i;
  __atomic_store_n(r->sq_tail, tail + 1, __ATOMIC_RELEASE);
  must(syscall(__NR_io_uring_enter, r->fd, 1, 0, 0, NULL, 0) == 1, "io_uring_enter");
}

/* Spins until there is a completion. 1: it is the request's, with its result; 0: bytes are free
 * again. */
static int reap(end *e, ring *r, int *result) {
  const uint32_t head = *r->cq_head;
  while (__atomic_load_n(r->cq_tail, __ATOMIC_ACQUIRE) == head)
    if (r->is_deferred) /* the completion is made by a call */
      must(syscall(__NR_io_uring_enter, r->fd, 0, 0, IORING_ENTER_GETEVENTS, NULL, 0) >= 0,
           "io_uring_enter");
  const struct io_uring_cqe *done = &r->done[head & *r->cq_mask];
  const int is_free = (done->flags & IORING_CQE_F_NOTIF) != 0;
  if (done->flags & IORING_CQE_F_MORE) e->unfreed++;
  if (is_free) {
    e->unfreed--;
    e->copied += ((uint32_t)done->res & WERE_COPIED) != 0;
  }
  *result = done->res;
  __atomic_store_n(r->cq_head, head + 1, __ATOMIC_RELEASE);
  return !is_free;
}

static size_t transfer_by_ring(end *e, ring *r, uint8_t op, char *at, size_t bytes) {
  int result;
  while (e->unfreed == UNFREED_MOST) (void)reap(e, r, &result);
  e->sent += op == IORING_OP_SEND_ZC;
  submit(r, e->fd, op, at, bytes);
  while (!reap(e, r, &result)) {
  }
  errno = result < 0 ? -result : 0;
  must(result > 0, op == IORING_OP_RECV ? "receiving by io_uring" : "sending by io_uring");
  return (size_t)result;
}

/* ---- a message */

static void send_all(end *e, way by, size_t bytes) {
  for (size_t at = 0; at < bytes;) {
    if (by != CALLS) {
      const uint8_t op = by == RING_ZERO_COPY ? IORING_OP_SEND_ZC : IORING_OP_SEND;
      at += transfer_by_ring(e, &e->rings[by != RING], op, e->bytes + at, bytes - at);
      continue;
    }
    const ssize_t n = send(e->fd, e->bytes + at, bytes - at, MSG_DONTWAIT | MSG_NOSIGNAL);
    must(n > 0 || errno == EAGAIN, "send");
    if (n > 0) at += (size_t)n;
  }
}

static void receive_all(end *e, way by, size_t bytes) {
  for (size_t at = 0; at < bytes;) {
    if (by != CALLS) {
      at += transfer_by_ring(e, &e->rings[by != RING], IORING_OP_RECV, e->bytes + at, bytes - at);
      continue;
    }
    const ssize_t n = recv(e->fd, e->bytes + at, bytes - at, MSG_DONTWAIT);
    must(n > 0 || (n < 0 && errno == EAGAIN), "recv");
    if (n > 0) at += (size_t)n;
  }
}

/* ---- both ends do the same, in turn */

static int times(size_t all, size_t bytes, int most) {
  return all / bytes > (size_t)most ? most : (int)(all / bytes);
}

static figures play(end *e, int calls, way by, size_t bytes) {
  const int trips = times(TRIPS_BYTES, bytes, TRIPS_MOST);
  const int messages = times(STREAM_BYTES, bytes, STREAM_MOST);
  double begin = seconds();
  for (int i = 0; i < trips; i++) {
    if (calls) send_all(e, by, bytes);
    receive_all(e, by, bytes);
    if (!calls) send_all(e, by, bytes);
  }
  figures f = {.half_us = (seconds() - begin) / trips / 2 * 1e6};
  begin = seconds();
  for (int i = 0; bytes <= EXCHANGED_MOST && i < trips; i++) {
    send_all(e, by, bytes);
    receive_all(e, by, bytes);
  }
  f.exchange_us = (seconds() - begin) / trips * 1e6;
  begin = seconds();
  if (calls) {
    for (int i = 0; i < messages; i++) send_all(e, by, bytes);
    receive_all(e, CALLS, 1); /* all has come */
  } else {
    for (int i = 0; i < messages; i++) receive_all(e, by, bytes);
    send_all(e, CALLS, 1);
  }
  f.gb_per_s = (double)bytes * messages * 1e-9 / (seconds() - begin);
  for (int result; by == RING_ZERO_COPY && e->unfreed;) (void)reap(e, &e->rings[1], &result);
  return f;
}

static int by_value(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(const figures *all, int n, size_t which) {
  double values[ROUNDS_MOST];
  for (int i = 0; i < n; i++) memcpy(&values[i], (const char *)&all[i] + which, sizeof values[i]);
  qsort(values, (size_t)n, sizeof *values, by_value);
  return values[n / 2];
}

static void print(size_t bytes, way by, const figures *all, int rounds) {
  char exchange[32] = "-";
  if (bytes <= EXCHANGED_MOST)
    snprintf(exchange, sizeof exchange, "%.2f",
             median(all, rounds, offsetof(figures, exchange_us)));
  printf("%9zu  %-20s %10.2f %14s %8.3f\n", bytes, names[by],
         median(all, rounds, offsetof(figures, half_us)), exchange,
         median(all, rounds, offsetof(figures, gb_per_s)));
}

static void measure(end *e, int calls, int rounds) {
  static figures all[WAYS][ROUNDS_MOST];
  if (calls)
    printf("%9s  %-20s %10s %14s %8s\n", "bytes", "way", "half (us)", "exchange (us)", "GB/s");
  for (size_t bytes = LEAST; bytes <= MOST; bytes *= 8) {
    for (int round = 0; round < rounds; round++)
      for (int by = 0; by < WAYS; by++) all[by][round] = play(e, calls, (way)by, bytes);
    for (int by = 0; calls && by < WAYS; by++) print(bytes, (way)by, all[by], rounds);
    fflush(stdout);
  }
  if (calls)
    printf("%llu of %llu zero-copy sends were copies\n", (unsigned long long)e->copied,
           (unsigned long long)e->sent);
}

static int meet(const char *address, uint16_t port) {
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
  const int one = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  if (address) {
    must(inet_pton(AF_INET, address, &to.sin_addr) == 1, address);
    must(connect(fd, (struct sockaddr *)&to, sizeof to) == 0, "connect");
    return fd;
  }
  must(bind(fd, (struct sockaddr *)&to, sizeof to) == 0 && listen(fd, 1) == 0, "listen");
  const int accepted = accept(fd, NULL, NULL);
  must(accepted >= 0, "accept");
  close(fd);
  return accepted;
}

int main(int argc, char **argv) {
  const int calls = argc > 3 && strcmp(argv[1], "call") == 0, one = 1;
  if (!calls && (argc != 3 || strcmp(argv[1], "listen") != 0)) {
    fprintf(stderr, "usage: %s listen PORT | call ADDRESS PORT [ROUNDS]\n", argv[0]);
    return 2;
  }
  uint32_t rounds = calls && argc > 4 ? (uint32_t)atoi(argv[4]) : 7;
  end e = {.fd = meet(calls ? argv[2] : NULL, (uint16_t)atoi(argv[calls ? 3 : 2]))};
  must(setsockopt(e.fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) == 0, "TCP_NODELAY");
  must(posix_memalign((void **)&e.bytes, 4096, MOST) == 0, "memory");
  memset(e.bytes, 1, MOST);
  for (int i = 0; i < 2; i++) open_ring(&e.rings[i], i);
  const ssize_t transferred = calls ? send(e.fd, &rounds, sizeof rounds, 0)
                                    : recv(e.fd, &rounds, sizeof rounds, MSG_WAITALL);
  must(transferred == (ssize_t)sizeof rounds && rounds > 0 && rounds < ROUNDS_MOST, "ROUNDS");
  measure(&e, calls, (int)rounds);
  return 0;
}
