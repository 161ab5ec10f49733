/*
 * Promises of DFCCL_NET_SECURITY, for ranks that exchange messages over TCP:
 *   - With auth, integrity and none an observer can read the data; with encrypt and tls it cannot.
 *   - From integrity on, an attacker who changes bits cannot change a result: the connection is
 *     made again, and collectives have a pause. A connection that is cut loses nothing either.
 *   - Ranks with different levels fail with a sentence that has both values.
 *   - With tls, a certificate of another authority ends collectives with the reason, and the
 *     sentence names a file that is missing.
 *   - Unauthenticated callers, many at once, silent ones and malformed ones, receive nothing, take
 *     a bounded number of descriptors, and delay no rank.
 */
#include "support/buffers.h"
#if defined(DF_WITH_TLS)
#include "support/certificates.h"
#endif
#include "support/processes.h"

#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { RANKS = 2, COUNT = 20000, SMALL = 3, FDS = 1024 };
static const int32_t mark[4] = {0x5eca1e, 0x7a57ed, 0x0dd5, 0xfeed};

/* ---- the network: the linker leads the library's calls to these functions */

#define OPEN __attribute__((visibility("default")))

static atomic_int reads_along, was_seen, flips, was_flipped, lengthens;

static void read_along(const void *bytes, size_t length) {
  if (length >= sizeof mark && memmem(bytes, length, mark, sizeof mark)) atomic_store(&was_seen, 1);
}

OPEN ssize_t send(int fd, const void *bytes, size_t length, int flags) {
  if (atomic_load(&reads_along)) read_along(bytes, length);
  return syscall(SYS_sendto, fd, bytes, length, flags, NULL, 0);
}

OPEN ssize_t sendmsg(int fd, const struct msghdr *message, int flags) {
  for (size_t i = 0; atomic_load(&reads_along) && i < message->msg_iovlen; i++)
    read_along(message->msg_iov[i].iov_base, message->msg_iov[i].iov_len);
  return syscall(SYS_sendmsg, fd, message, flags);
}

static int is_tcp(int fd) {
  struct sockaddr_in address = {0};
  socklen_t bytes = sizeof address;
  return getpeername(fd, (struct sockaddr *)&address, &bytes) == 0 && address.sin_family == AF_INET;
}

/* Flips one bit at intervals in bytes that belong to no connection handshake. */
static void flip(int fd, uint8_t *bytes, ssize_t length) {
  static _Thread_local unsigned seed = 5;
  if (length < 1000 || !atomic_load(&flips) || !is_tcp(fd) || rand_r(&seed) % 60) return;
  bytes[(size_t)rand_r(&seed) % (size_t)length] ^= (uint8_t)(1 << rand_r(&seed) % 8);
  atomic_fetch_add(&was_flipped, 1);
}

/* Makes one TLS record longer that has arrived whole and alone: its length is not protected. */
static void lengthen(uint8_t *bytes, ssize_t length) {
  static const uint8_t head[3] = {23, 3, 3};
  int wanted = 1;
  if (length < 5 || memcmp(bytes, head, sizeof head) != 0 ||
      length != 5 + (bytes[3] << 8 | bytes[4]) || length > 4096)
    return;
  if (atomic_compare_exchange_strong(&lengthens, &wanted, 2)) bytes[3] |= 0x10;
}

OPEN ssize_t recv(int fd, void *bytes, size_t length, int flags) {
  const ssize_t came = syscall(SYS_recvfrom, fd, bytes, length, flags, NULL, NULL);
  flip(fd, bytes, came);
  lengthen(bytes, came);
  return came;
}

OPEN ssize_t recvmsg(int fd, struct msghdr *message, int flags) {
  const ssize_t came = syscall(SYS_recvmsg, fd, message, flags);
  const struct iovec *first = message->msg_iov;
  if (came > 0 && first) {
    flip(fd, first->iov_base, came < (ssize_t)first->iov_len ? came : (ssize_t)first->iov_len);
    if (came <= (ssize_t)first->iov_len) lengthen(first->iov_base, came);
  }
  return came;
}

static int connections(int *sockets) {
  int n = 0;
  for (int fd = 0; fd < FDS; fd++)
    if (is_tcp(fd)) sockets[n++] = fd;
  return n;
}

/* ---- ranks */

#if defined(DF_WITH_TLS)
enum { HAS_TLS = 1 };
static void make_certificates(void) {
  const char *directory = df_certificates_directory();
  df_certificate_make(directory, "ca", NULL, 10);
  df_certificate_make(directory, "rank", "ca", 10);
  df_certificate_make(directory, "other-ca", NULL, 10);
  df_certificate_make(directory, "other", "other-ca", 10);
  df_certificates_set("rank", "ca");
}
#else
enum { HAS_TLS = 0 };
static void make_certificates(void) {}
#endif

static void set(const char *level) {
  setenv("DFCCL_NET", "tcp", 1);
  setenv("DFCCL_NET_SECURITY", level, 1);
  setenv("DFCCL_NET_RESUME_MS", "20000", 1);
}

static dfcclContext_t begin(int rank, int ranks, const dfcclUniqueId *id) {
  dfcclContext_t ctx = df_init(rank, ranks, id, NULL);
  OK(dfcclRegisterAllReduce(ctx, 0, COUNT, dfcclInt32, dfcclSum, NULL));
  OK(dfcclRegisterAllGather(ctx, 1, SMALL, dfcclInt32, NULL));
  return ctx;
}

/* Each rank runs them in another order. */
static void run(dfcclContext_t ctx, int rank, int rounds) {
  static int32_t send[COUNT], recv[COUNT], some[SMALL], all[RANKS * SMALL];
  for (int round = 0; round < rounds; round++) {
    for (int i = 0; i < COUNT; i++)
      send[i] = i < 400 ? mark[i % 4]
                        : (rank + 1) * (i + round); /* the data appears unchanged on the network */
    for (int i = 0; i < SMALL; i++) some[i] = rank + round + i;
    for (int i = 0; i < 2; i++)
      if (i == rank)
        OK(dfcclRunAllReduce(ctx, 0, send, recv, NULL, NULL));
      else
        OK(dfcclRunAllGather(ctx, 1, some, all, NULL, NULL));
    OK(dfcclWaitAll(ctx));
    for (int i = 400; i < COUNT; i++)
      CHECK(recv[i] == 3 * (i + round), "round %d, element %d: %d", round, i, recv[i]);
    for (int i = 0; i < RANKS * SMALL; i++)
      CHECK(all[i] == i / SMALL + round + i % SMALL, "round %d, %d: %d", round, i, all[i]);
  }
}

static void listen_in(int rank, int ranks, const dfcclUniqueId *id, void *arg) {
  const char *level = arg;
  set(level);
  atomic_store(&reads_along, 1);
  dfcclContext_t ctx = begin(rank, ranks, id);
  run(ctx, rank, 20);
  const int hides = strcmp(level, "encrypt") == 0 || strcmp(level, "tls") == 0;
  CHECK(atomic_load(&was_seen) == !hides, "%s: data was%s to be seen", level, hides ? "" : " not");
  df_finish(ctx);
}

DF_TEST(security, only_encryption_hides_data, 60) {
  static const char *const levels[] = {"auth", "integrity", "encrypt", "none", "tls"};
  make_certificates();
  for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
    df_family family;
    if (strcmp(levels[i], "tls") == 0 && !HAS_TLS) continue;
    df_fork(&family, RANKS, 30, listen_in, (void *)levels[i]);
    df_join(&family);
  }
}

static void be_changed(int rank, int ranks, const dfcclUniqueId *id, void *arg) {
  set(arg);
  dfcclContext_t ctx = begin(rank, ranks, id);
  run(ctx, rank, 3);
  atomic_store(&flips, 1);
  run(ctx, rank, 300);
  CHECK(atomic_load(&was_flipped), "nothing was changed");
  atomic_store(&flips, 0);
  df_finish(ctx);
}

DF_TEST(security, bits_that_change_are_noticed, 60) {
  static const char *const levels[] = {"integrity", "encrypt", "tls"};
  make_certificates();
  for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
    df_family family;
    if (strcmp(levels[i], "tls") == 0 && !HAS_TLS) continue;
    df_fork(&family, RANKS, 50, be_changed, (void *)levels[i]);
    df_join(&family);
  }
}

/* Rank 0 waits for bytes that never come, and rank 1 for rank 0. */
static void be_lengthened(int rank, int ranks, const dfcclUniqueId *id, void *arg) {
  set(arg);
  setenv("DFCCL_NET_TIMEOUT_MS", "1000", 1);
  dfcclContext_t ctx = begin(rank, ranks, id);
  run(ctx, rank, 3);
  atomic_store(&lengthens, rank == 0);
  run(ctx, rank, 50);
  CHECK(atomic_load(&lengthens) == (rank == 0 ? 2 : 0), "no record was made longer");
  df_finish(ctx);
}

DF_TEST(security, a_record_that_is_made_longer_ends_its_connection, 60) {
  df_family family;
  if (!HAS_TLS) return;
  make_certificates();
  df_fork(&family, RANKS, 50, be_lengthened, "tls");
  df_join(&family);
}

static atomic_int stops;

static void *cut(void *arg) {
  unsigned *seed = arg;
  int sockets[FDS];
  while (!atomic_load(&stops)) {
    df_sleep_ms(5 + rand_r(seed) % 40);
    for (int n = connections(sockets); n > 0; n--)
      if (rand_r(seed) % 2) shutdown(sockets[n - 1], SHUT_RDWR);
  }
  return NULL;
}

static void be_cut(int rank, int ranks, const dfcclUniqueId *id, void *arg) {
  unsigned seed = 1 + (unsigned)rank;
  pthread_t cutter;
  set(arg);
  dfcclContext_t ctx = begin(rank, ranks, id);
  run(ctx, rank, 3);
  CHECK(pthread_create(&cutter, NULL, cut, &seed) == 0, "no thread");
  run(ctx, rank, 400);
  atomic_store(&stops, 1);
  pthread_join(cutter, NULL);
  df_finish(ctx);
}

DF_TEST(security, lost_connections_resume, 60) {
  df_family family;
  df_fork(&family, RANKS, 50, be_cut, "encrypt");
  df_join(&family);
}

static void differ(int rank, int ranks, const dfcclUniqueId *id, void *arg) {
  (void)arg;
  set(rank ? "encrypt" : "integrity");
  dfcclContext_t ctx = NULL;
  const dfcclResult_t result = dfcclInit(&ctx, ranks, *id, rank, NULL);
  CHECK(result == dfcclMismatch, "%s", df_test_result_name(result));
  const char *sentence = dfcclGetLastError(NULL),
             *wanted = rank ? "DFCCL_NET_SECURITY is encrypt on rank 1 and integrity on rank 0"
                            : "DFCCL_NET_SECURITY is integrity on rank 0 and encrypt on rank 1";
  CHECK(strstr(sentence, wanted) != NULL, "\"%s\"", sentence);
}

DF_TEST(security, levels_that_differ_are_named, 60) {
  df_family family;
  df_fork(&family, RANKS, 30, differ, NULL);
  df_join(&family);
}

/* ---- certificates */

#if defined(DF_WITH_TLS)
/* Rank 1's certificate is of another authority. Either rank may notice it first; both report it. */
static void show_another(int rank, int ranks, const dfcclUniqueId *id, void *arg) {
  (void)arg;
  static int32_t send[COUNT], recv[COUNT];
  set("tls");
  if (rank) df_certificates_set("other", "ca");
  dfcclContext_t ctx = begin(rank, ranks, id);
  OK(dfcclRunAllReduce(ctx, 0, send, recv, NULL, NULL));
  df_waiting_for("the refusal");
  const dfcclResult_t result = dfcclWait(ctx, 0);
  CHECK(result == dfcclRemoteError, "%s", df_test_result_name(result));
  CHECK(strstr(dfcclGetLastError(ctx), "certificate"), "\"%s\"", dfcclGetLastError(ctx));
  df_finish(ctx);
}

DF_TEST(security, certificates_of_others_are_refused, 60) {
  df_family family;
  make_certificates();
  df_fork(&family, RANKS, 40, show_another, NULL);
  df_join(&family);
}

static void lack(int rank, int ranks, const dfcclUniqueId *id, void *arg) {
  (void)arg;
  set("tls");
  setenv("DFCCL_TLS_KEY", "/nowhere/rank.key", 1);
  dfcclContext_t ctx = NULL;
  const dfcclResult_t result = dfcclInit(&ctx, ranks, *id, rank, NULL);
  const char *sentence = dfcclGetLastError(NULL);
  CHECK(result == dfcclInvalidUsage, "%s", df_test_result_name(result));
  CHECK(strstr(sentence, "DFCCL_TLS_KEY names \"/nowhere/rank.key\": No such file"), "\"%s\"",
        sentence);
  unsetenv("DFCCL_TLS_KEY");
  dfcclUniqueId another;
  CHECK(dfcclGetUniqueId(&another) == dfcclInvalidUsage, "it was taken");
  sentence = dfcclGetLastError(NULL);
  CHECK(strstr(sentence, "DFCCL_TLS_KEY must name a file"), "\"%s\"", sentence);
}

DF_TEST(security, files_that_are_missing_are_named, 60) {
  df_family family;
  make_certificates();
  df_fork(&family, RANKS, 30, lack, NULL);
  df_join(&family);
}
#endif

/* ---- unauthenticated callers */

enum { STRANGERS = 150, GUESTS = RANKS + 64 };

typedef struct {
  atomic_int ports[RANKS], here;
} scene;

static int listening_port(void) {
  for (int fd = 0; fd < FDS; fd++) {
    struct sockaddr_in address = {0};
    socklen_t bytes = sizeof address, length = sizeof(int);
    int listens = 0;
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &length) != 0 || !listens) continue;
    if (getsockname(fd, (struct sockaddr *)&address, &bytes) == 0 && address.sin_family == AF_INET)
      return ntohs(address.sin_port);
  }
  return 0;
}

static void meet_strangers(int rank, int ranks, const dfcclUniqueId *id, void *arg) {
  scene *s = arg;
  int sockets[FDS];
  set("encrypt");
  dfcclContext_t ctx = begin(rank, ranks, id);
  run(ctx, rank, 3);
  atomic_store(&s->ports[rank], listening_port());
  CHECK(atomic_load(&s->ports[rank]), "rank %d listens nowhere", rank);
  EVENTUALLY(atomic_load(&s->here));
  run(ctx, rank, 200);
  const int n = connections(sockets);
  CHECK(n <= GUESTS + 2 * RANKS, "%d connections", n);
  for (int i = 0; rank == 0 && i < n; i++) shutdown(sockets[i], SHUT_RDWR); /* all call again */
  run(ctx, rank, 50);
  df_finish(ctx);
}

/* Half of the callers are silent; the others send malformed bytes or close within a handshake. */
static void call_all(scene *s, int *fds) {
  static const uint32_t header[4] = {0xdfcc1b57u, 100, 10, 64};
  uint8_t nonsense[600];
  memset(nonsense, 0x5a, sizeof nonsense);
  for (int i = 0; i < STRANGERS; i++) {
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)atomic_load(&s->ports[i % RANKS])),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    fds[i] = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(fds[i] >= 0, "no socket");
    CHECK(connect(fds[i], (struct sockaddr *)&address, sizeof address) == 0, "nobody listens");
    if (i % 4 == 1) (void)!send(fds[i], nonsense, sizeof nonsense, MSG_NOSIGNAL);
    if (i % 4 == 3) (void)!send(fds[i], header, 7 + (size_t)i % 9, MSG_NOSIGNAL);
  }
}

DF_TEST(security, unauthenticated_callers_delay_no_rank, 60) {
  static int fds[STRANGERS];
  scene *s = df_shared(sizeof *s);
  df_family family;
  df_fork(&family, RANKS, 50, meet_strangers, s);
  for (int r = 0; r < RANKS; r++) EVENTUALLY(atomic_load(&s->ports[r]));
  call_all(s, fds);
  atomic_store(&s->here, 1);
  df_join(&family);
  for (int i = 0; i < STRANGERS; i++) {
    uint8_t buffer[64];
    const ssize_t came = recv(fds[i], buffer, sizeof buffer, MSG_DONTWAIT);
    CHECK(came <= 0, "caller %d received %zd bytes", i, came);
    close(fds[i]);
  }
}
