/* Usage: compare-LIBRARY DIRECTORY RANKS [RANK]; the driver (bench/compare/compare) starts it. */
#include "peer.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

static peer_world world;

/* ---- shared data of the ranks of a group: a file of the driver, zeroed */

typedef struct {
  _Alignas(64) unsigned arrived;
  _Alignas(64) unsigned lap;
  _Alignas(64) char exchange[PEER_EXCHANGE_BYTES];
} shared_page;
static shared_page *shared;

void *peer_exchange(void) { return shared->exchange; }

void peer_connect(void) {
  unsigned lap = __atomic_load_n(&shared->lap, __ATOMIC_ACQUIRE);
  if (__atomic_add_fetch(&shared->arrived, 1, __ATOMIC_ACQ_REL) == (unsigned)world.n_ranks) {
    __atomic_store_n(&shared->arrived, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&shared->lap, lap + 1, __ATOMIC_RELEASE);
  }
  while (__atomic_load_n(&shared->lap, __ATOMIC_ACQUIRE) == lap) sched_yield();
}

static bool open_shared(void) {
  char path[512];
  snprintf(path, sizeof path, "%s/shared", world.directory);
  int file = open(path, O_RDWR | O_CLOEXEC);
  if (file < 0) return false;
  shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  return shared != MAP_FAILED;
}

/* ---- the driver's end: lines over a Unix socket */

static FILE *commands;

static bool connect_to_driver(void) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  snprintf(address.sun_path, sizeof address.sun_path, "%s/socket", world.directory);
  int descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (descriptor < 0 || connect(descriptor, (struct sockaddr *)&address, sizeof address) != 0)
    return false;
  commands = fdopen(descriptor, "r+");
  return commands != NULL;
}

/* ---- buffers */

typedef struct {
  void *memory;
  size_t bytes;
  int variant;
} buffer;
static buffer buffers[2];

static void release_buffers(void) {
  for (int i = 0; i < 2; i++) {
    buffer *one = &buffers[i];
    if (one->memory != NULL) peer_free(one->variant, i, one->memory, one->bytes);
    one->memory = NULL;
  }
}

static bool make_buffers(const size_t bytes[2], int variant) {
  bool fit = true;
  for (int i = 0; i < 2; i++)
    fit = fit && buffers[i].memory != NULL && buffers[i].bytes == bytes[i] &&
          buffers[i].variant == variant;
  if (fit) return true;
  release_buffers();
  for (int i = 0; i < 2; i++) {
    buffers[i] = (buffer){peer_alloc(variant, i, bytes[i]), bytes[i], variant};
    if (buffers[i].memory == NULL) return false;
    memset(buffers[i].memory, 0, bytes[i]); /* no measurement meets an untouched page */
  }
  return true;
}

/* ---- data: whole numbers, so that every order of additions gives the same sum */

static unsigned input(int rank, size_t position) {
  unsigned mixed = (unsigned)position * 2654435761u + (unsigned)rank * 40503u;
  return (mixed >> 16) & 1023;
}

static float summed(int ranks, size_t position) {
  unsigned sum = 0;
  for (int r = 0; r < ranks; r++) sum += input(r, position);
  return (float)sum;
}

/* Which buffers have a part for each rank, and who has a result. */
static const struct {
  const char *name;
  bool wide_send, wide_recv, root_only;
} operations[PEER_OPERATIONS] = {[PEER_ALLREDUCE] = {"allreduce", false, false, false},
                                 [PEER_ALLGATHER] = {"allgather", false, true, false},
                                 [PEER_REDUCESCATTER] = {"reducescatter", true, false, false},
                                 [PEER_BROADCAST] = {"broadcast", false, false, false},
                                 [PEER_REDUCE] = {"reduce", false, false, true},
                                 [PEER_ALLTOALL] = {"alltoall", true, true, false},
                                 [PEER_GATHER] = {"gather", false, true, true},
                                 [PEER_SCATTER] = {"scatter", true, false, false},
                                 [PEER_ALLGATHERV] = {"allgatherv", false, true, false},
                                 [PEER_REDUCESCATTERV] = {"reducescatterv", true, false, false},
                                 [PEER_GATHERV] = {"gatherv", false, true, true},
                                 [PEER_SCATTERV] = {"scatterv", true, false, false},
                                 [PEER_ALLTOALLV] = {"alltoallv", true, true, false},
                                 [PEER_ALLTOALLDYNAMIC] = {"alltoalldynamic", true, true, false},
                                 [PEER_NEIGHBOURS] = {"neighbours", false, false, false},
                                 [PEER_SCAN] = {"scan", false, false, false},
                                 [PEER_BARRIER] = {"barrier", false, false, false},
                                 [PEER_SENDRECV] = {"sendrecv", false, false, false}};

static size_t send_count(const peer_case *one) {
  return operations[one->operation].wide_send ? one->count * (size_t)world.n_ranks : one->count;
}

static size_t recv_count(const peer_case *one) {
  return operations[one->operation].wide_recv ? one->count * (size_t)world.n_ranks : one->count;
}

static bool has_result(const peer_case *one) {
  if (one->operation == PEER_BARRIER) return false;
  if (one->operation == PEER_SENDRECV) return world.rank == 1;
  return !operations[one->operation].root_only || world.rank == PEER_ROOT;
}

/* Whether the operation reads this rank's send buffer. */
static bool has_input(const peer_case *one) {
  switch (one->operation) {
  case PEER_BROADCAST:
  case PEER_SCATTER:
  case PEER_SCATTERV:
    return world.rank == PEER_ROOT;
  case PEER_SENDRECV:
    return world.rank == 0;
  default:
    return one->operation != PEER_BARRIER;
  }
}

static void fill(const peer_case *one) {
  size_t count = send_count(one);
  bool reads = one->operation != PEER_BROADCAST || world.rank == PEER_ROOT;
  if (one->recv != one->send) memset(one->recv, 0, recv_count(one) * sizeof(float));
  for (size_t i = 0; i < count; i++) one->send[i] = reads ? (float)input(world.rank, i) : -1;
}

static float expected(const peer_case *one, size_t i) {
  size_t own = (size_t)world.rank * one->count;
  switch (one->operation) {
  case PEER_ALLREDUCE:
  case PEER_REDUCE:
    return summed(world.n_ranks, i);
  case PEER_REDUCESCATTER:
  case PEER_REDUCESCATTERV:
    return summed(world.n_ranks, own + i);
  case PEER_NEIGHBOURS:
    return (float)input((world.rank + world.n_ranks - 1) % world.n_ranks, i);
  case PEER_SCAN:
    return summed(world.rank + 1, i);
  case PEER_BROADCAST:
  case PEER_SENDRECV:
    return (float)input(PEER_ROOT, i);
  case PEER_SCATTER:
  case PEER_SCATTERV:
    return (float)input(PEER_ROOT, own + i);
  case PEER_ALLGATHER:
  case PEER_ALLGATHERV:
  case PEER_GATHER:
  case PEER_GATHERV:
    return (float)input((int)(i / one->count), i % one->count);
  default:
    return (float)input((int)(i / one->count), own + i % one->count);
  }
}

/* One more call on known data; every element of its result. -1: the call failed. */
static long long check(const peer_case *one) {
  fill(one);
  peer_connect();
  if (!peer_call(one)) return -1;
  const float *result = peer_in_place(one) ? one->send : one->recv;
  long long wrong = 0;
  for (size_t i = 0; has_result(one) && i < recv_count(one); i++)
    wrong += result[i] != expected(one, i);
  peer_connect(); /* nobody's buffers change while others still read them */
  memset(one->send, 0,
         send_count(one) * sizeof(float)); /* data that is reduced in place remains finite */
  return wrong;
}

/* ---- one measurement: warm-up, then the same loop of calls for every library */

typedef struct {
  char operation[32];
  size_t count;
  int variant, warmup, iterations, checked, keep, written;
} command;

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

enum { LINE_FLOATS = 64 / sizeof(float) };

/* Programs write their inputs before a call: each line of them is then in the caches of their rank
 * alone. */
static void write_input(const peer_case *one, int call) {
  volatile float *lines = one->send;
  const size_t count = has_input(one) ? send_count(one) : 0;
  for (size_t i = 0; i < count; i += LINE_FLOATS) lines[i] = (float)(call & 1023);
}

/* Programs read their results after a call. */
static void read_result(const peer_case *one) {
  const volatile float *lines = peer_in_place(one) ? one->send : one->recv;
  const size_t count = has_result(one) ? recv_count(one) : 0;
  for (size_t i = 0; i < count; i += LINE_FLOATS) (void)lines[i];
}

/* The time of the writes and reads is counted, for all libraries alike. */
static bool loop(const peer_case *one, int iterations, bool is_written, double *elapsed) {
  peer_connect();
  double start = seconds();
  for (int i = 0; i < iterations; i++) {
    if (is_written) write_input(one, i);
    if (!peer_call(one)) return false;
    if (is_written) read_result(one);
  }
  *elapsed = seconds() - start;
  return true;
}

static bool measure(const command *wanted, double *elapsed, long long *wrong) {
  peer_case one = {.count = wanted->count, .variant = wanted->variant};
  while (one.operation < PEER_OPERATIONS &&
         strcmp(operations[one.operation].name, wanted->operation) != 0)
    one.operation = (peer_operation)(one.operation + 1);
  if (one.operation == PEER_OPERATIONS) return false;
  const size_t bytes[2] = {send_count(&one) * sizeof(float), recv_count(&one) * sizeof(float)};
  if (!make_buffers(bytes, one.variant)) return false;
  one.send = buffers[0].memory;
  one.recv = one.operation == PEER_BROADCAST ? one.send : buffers[1].memory;
  double ignored;
  if (!peer_prepare(&one) || !loop(&one, wanted->warmup, wanted->written, &ignored)) return false;
  if (!loop(&one, wanted->iterations, wanted->written, elapsed)) return false;
  *wrong = wanted->checked ? check(&one) : 0;
  peer_connect();
  if (*wrong < 0 || !peer_finish(&one)) return false;
  if (!wanted->keep) release_buffers();
  peer_connect();
  return true;
}

static bool serve(void) {
  char line[256], version[128];
  peer_version(version, sizeof version);
  fprintf(commands, "hello %d %d %s\n", world.rank, (int)getpid(), version);
  fflush(commands);
  while (fgets(line, sizeof line, commands) != NULL && strcmp(line, "quit\n") != 0) {
    command wanted;
    double elapsed = 0;
    long long wrong = 0;
    bool fine = sscanf(line, "measure %31s %zu %d %d %d %d %d %d", wanted.operation, &wanted.count,
                       &wanted.variant, &wanted.warmup, &wanted.iterations, &wanted.checked,
                       &wanted.keep, &wanted.written) == 8 &&
                measure(&wanted, &elapsed, &wrong);
    fseek(commands, 0, SEEK_CUR); /* from reading to writing */
    fprintf(commands, fine ? "done %.9f %lld\n" : "failed\n", elapsed, wrong);
    fflush(commands);
    if (!fine) return false;
  }
  return true;
}

int main(int argc, char **argv) {
  if (argc < 3 || argc > 4) {
    fprintf(stderr, "usage: %s DIRECTORY RANKS [RANK]; started by the driver\n", argv[0]);
    return 2;
  }
  prctl(PR_SET_PDEATHSIG, SIGKILL); /* no rank outlives its launcher */
  /* Large temporaries of a library stay mapped from call to call, for all libraries alike. */
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, -1);
  mallopt(M_TOP_PAD, 64 << 20);
  world = (peer_world){argv[1], argc == 4 ? atoi(argv[3]) : -1, atoi(argv[2])};
  if (world.n_ranks < 1 || world.n_ranks > PEER_MAX_RANKS || !open_shared()) {
    fprintf(stderr, "%s: not %s ranks, or no shared page in %s\n", argv[0], argv[2], argv[1]);
    return 1;
  }
  if (!peer_open(&world)) return 1;
  if (!connect_to_driver()) {
    fprintf(stderr, "%s: no driver at %s/socket: %s\n", argv[0], argv[1], strerror(errno));
    return 1;
  }
  bool fine = serve();
  release_buffers();
  if (!fine) _exit(1); /* the library might wait for ever */
  peer_close();
  return 0;
}
