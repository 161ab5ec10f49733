/*
 * No library: the least that each operation must do, in memory that all ranks map. It is the mark
 * for the libraries. Nobody copies data that can be read in place; ranks say "ready" before and
 * "done" after. Each size has another fastest way, so there are several, and the driver takes the
 * best at each point:
 *
 * 0, direct: reductions are divided among the ranks; each stores its part wherever it is wanted.
 *
 * 1, streamed: the same with stores that bypass the caches.
 *
 * 2, mailboxes: small messages, each beside the number that announces it.
 *
 * 3, alone: every rank computes the whole of its own result.
 */
#include <fcntl.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#ifdef __SSE2__
#include <immintrin.h>
#endif

#include "peer.h"

enum { DIRECT, STREAMED, MAILBOXES, ALONE };
enum { MAIL_SLOTS = 16, MAIL_BYTES = 4096, CHUNK = 1024 /* floats */ };
#define BUFFER_BYTES ((size_t)1 << 30)

typedef struct {
  _Alignas(64) uint64_t count;
} counter;

typedef struct {
  _Alignas(64) uint64_t number; /* number of the message, from 1 on; written last */
  char data[MAIL_BYTES];        /* its beginning shares the line */
} letter;

typedef struct {
  letter slots[MAIL_SLOTS];
  counter taken; /* by the reader */
} mailbox;

static struct {
  counter *ready, *done; /* one for each rank */
  mailbox *boxes;        /* [reader * ranks + writer] */
  char *buffers;         /* two of BUFFER_BYTES for each rank */
} shared;
static peer_world *world;
static uint64_t call_number;
static uint64_t written[PEER_MAX_RANKS], read_[PEER_MAX_RANKS], room[PEER_MAX_RANKS];
static bool oversubscribed; /* more ranks than processors: a rank that waits must not hold one */

static void wait_for(const uint64_t *word, uint64_t least) {
  while (__atomic_load_n(word, __ATOMIC_ACQUIRE) < least)
    if (oversubscribed) sched_yield();
}

/* ---- memory: one file without a name, which the other ranks open through /proc */

static bool map_shared(size_t bytes, size_t head) {
  struct {
    int process, descriptor;
  } owner;
  int file = -1;
  if (world->rank == 0) {
    file = memfd_create("compare", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, (off_t)bytes) != 0) return false;
    owner.process = getpid();
    owner.descriptor = file;
    memcpy(peer_exchange(), &owner, sizeof owner);
  }
  peer_connect();
  if (world->rank != 0) {
    char path[64];
    memcpy(&owner, peer_exchange(), sizeof owner);
    snprintf(path, sizeof path, "/proc/%d/fd/%d", owner.process, owner.descriptor);
    file = open(path, O_RDWR | O_CLOEXEC);
  }
  char *memory =
      file < 0 ? MAP_FAILED
               : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
  if (memory == MAP_FAILED) return false;
  size_t ranks = (size_t)world->n_ranks;
  shared.ready = (counter *)(void *)memory;
  shared.done = shared.ready + ranks;
  shared.boxes = (mailbox *)(void *)(shared.done + ranks);
  shared.buffers = memory + head;
  peer_connect();
  return true;
}

bool peer_open(peer_world *self) {
  world = self;
  size_t ranks = (size_t)world->n_ranks;
  size_t head = 2 * ranks * sizeof(counter) + ranks * ranks * sizeof(mailbox);
  head = (head + 4095) / 4096 * 4096;
  oversubscribed = world->n_ranks > sysconf(_SC_NPROCESSORS_ONLN);
  for (size_t r = 0; r < ranks; r++) room[r] = MAIL_SLOTS;
  if (map_shared(head + 2 * ranks * BUFFER_BYTES, head)) return true;
  fprintf(stderr, "bound: no shared memory\n");
  return false;
}

void peer_close(void) {}

void peer_version(char *text, size_t bytes) { snprintf(text, bytes, "shared memory"); }

bool peer_in_place(const peer_case *one) {
  (void)one;
  return false;
}

static float *buffer_of(int rank, int buffer) {
  size_t number = 2 * (size_t)rank + (size_t)buffer;
  return (float *)(void *)(shared.buffers + number * BUFFER_BYTES);
}

void *peer_alloc(int variant, int buffer, size_t bytes) {
  (void)variant;
  return bytes <= BUFFER_BYTES ? buffer_of(world->rank, buffer) : NULL;
}

void peer_free(int variant, int buffer, void *memory, size_t bytes) {
  (void)variant, (void)buffer;
  if (bytes > 0) madvise(memory, (bytes + 4095) / 4096 * 4096, MADV_REMOVE);
}

bool peer_prepare(const peer_case *one) {
  (void)one;
  return true;
}

bool peer_finish(const peer_case *one) {
  (void)one;
  return true;
}

/* ---- moving data */

static void store(float *to, const float *from, size_t count, bool streamed) {
#ifdef __SSE2__
  if (streamed && ((uintptr_t)to & 15) == 0) {
    size_t i = 0;
    for (; i + 4 <= count; i += 4) _mm_stream_ps(to + i, _mm_loadu_ps(from + i));
    for (; i < count; i++) to[i] = from[i];
    return;
  }
#endif
  (void)streamed;
  memcpy(to, from, count * sizeof *to);
}

/* Elements [first, first + count) of the sum of all ranks, into several places. */
static void reduce_range(const peer_case *one, size_t first, size_t count, float *const *places,
                         int n_places, bool streamed) {
  const float *inputs[PEER_MAX_RANKS];
  for (int r = 0; r < world->n_ranks; r++) inputs[r] = buffer_of(r, 0) + first;
  (void)one;
  for (size_t at = 0; at < count; at += CHUNK) {
    float sum[CHUNK];
    size_t length = count - at < CHUNK ? count - at : CHUNK;
    for (size_t i = 0; i < length; i++) sum[i] = inputs[0][at + i] + inputs[1][at + i];
    for (int r = 2; r < world->n_ranks; r++)
      for (size_t i = 0; i < length; i++) sum[i] += inputs[r][at + i];
    for (int p = 0; p < n_places; p++) store(places[p] + at, sum, length, streamed);
  }
}

/* This rank's share of count elements, a whole number of lines. */
static size_t share(size_t count, size_t *first) {
  size_t ranks = (size_t)world->n_ranks, lines = (count + 15) / 16;
  size_t from = lines * (size_t)world->rank / ranks * 16;
  size_t end = lines * ((size_t)world->rank + 1) / ranks * 16;
  *first = from < count ? from : count;
  return (end < count ? end : count) - *first;
}

static void direct_reductions(const peer_case *one, bool streamed) {
  float *places[PEER_MAX_RANKS];
  int n_places = 0;
  size_t first = 0, count = one->count;
  if (one->operation == PEER_REDUCESCATTER) {
    places[n_places++] = one->recv;
    first = (size_t)world->rank * count;
  } else if (one->variant == ALONE) {
    if (one->operation == PEER_REDUCE && world->rank != PEER_ROOT) return;
    places[n_places++] = one->recv;
  } else {
    count = share(count, &first);
    int wanted = one->operation == PEER_REDUCE ? 1 : world->n_ranks;
    for (int r = 0; r < wanted; r++) places[n_places++] = buffer_of(r, 1) + first;
  }
  reduce_range(one, first, count, places, n_places, streamed);
}

static void direct(const peer_case *one) {
  bool streamed = one->variant == STREAMED;
  size_t own = (size_t)world->rank * one->count;
  switch (one->operation) {
  case PEER_BROADCAST:
    if (world->rank != PEER_ROOT) store(one->recv, buffer_of(PEER_ROOT, 0), one->count, streamed);
    break;
  case PEER_ALLGATHER:
  case PEER_ALLTOALL:
    for (int i = 0; i < world->n_ranks; i++) {
      int r = (world->rank + i) % world->n_ranks;
      const float *from = buffer_of(r, 0) + (one->operation == PEER_ALLTOALL ? own : 0);
      store(one->recv + (size_t)r * one->count, from, one->count, streamed);
    }
    break;
  default:
    direct_reductions(one, streamed);
  }
#ifdef __SSE2__
  if (streamed) _mm_sfence();
#endif
}

static bool call_direct(const peer_case *one) {
  uint64_t number = ++call_number;
  bool from_root = one->operation == PEER_BROADCAST, is_root = world->rank == PEER_ROOT;
  __atomic_store_n(&shared.ready[world->rank].count, number, __ATOMIC_RELEASE);
  for (int r = 0; r < world->n_ranks; r++)
    if (!from_root || r == PEER_ROOT) wait_for(&shared.ready[r].count, number);
  direct(one);
  __atomic_store_n(&shared.done[world->rank].count, number, __ATOMIC_RELEASE);
  for (int r = 0; r < world->n_ranks; r++)
    if (!from_root || is_root) wait_for(&shared.done[r].count, number);
  return true;
}

/* ---- mailboxes */

static mailbox *box(int reader, int writer) {
  return &shared.boxes[reader * world->n_ranks + writer];
}

static void send_to(int reader, const float *from, size_t count) {
  mailbox *to = box(reader, world->rank);
  uint64_t number = ++written[reader];
  while (room[reader] < number) {
    room[reader] = __atomic_load_n(&to->taken.count, __ATOMIC_ACQUIRE) + MAIL_SLOTS;
    if (room[reader] < number && oversubscribed) sched_yield();
  }
  letter *slot = &to->slots[number % MAIL_SLOTS];
  memcpy(slot->data, from, count * sizeof *from);
  __atomic_store_n(&slot->number, number, __ATOMIC_RELEASE);
}

static const char *receive_from(int writer) {
  mailbox *from = box(world->rank, writer);
  uint64_t number = ++read_[writer];
  letter *slot = &from->slots[number % MAIL_SLOTS];
  wait_for(&slot->number, number);
  return slot->data;
}

static void take(int writer) {
  mailbox *from = box(world->rank, writer);
  if (read_[writer] % (MAIL_SLOTS / 4) == 0)
    __atomic_store_n(&from->taken.count, read_[writer], __ATOMIC_RELEASE);
}

static bool adds(peer_operation operation) {
  return operation == PEER_ALLREDUCE || operation == PEER_REDUCESCATTER || operation == PEER_REDUCE;
}

static void post(const peer_case *one, int to) {
  bool parts = one->operation == PEER_ALLTOALL || one->operation == PEER_REDUCESCATTER;
  send_to(to, one->send + (parts ? (size_t)to * one->count : 0), one->count);
}

static void collect(const peer_case *one, int from) {
  const char *data = receive_from(from);
  if (adds(one->operation)) {
    for (size_t i = 0; i < one->count; i++) {
      float value;
      memcpy(&value, data + i * sizeof value, sizeof value);
      one->recv[i] += value;
    }
  } else {
    bool parts = one->operation == PEER_ALLTOALL || one->operation == PEER_ALLGATHER;
    memcpy(one->recv + (parts ? (size_t)from * one->count : 0), data, one->count * sizeof(float));
  }
  take(from);
}

static void keep_own(const peer_case *one) {
  size_t own = (size_t)world->rank * one->count;
  bool from_part = one->operation == PEER_ALLTOALL || one->operation == PEER_REDUCESCATTER;
  bool to_part = one->operation == PEER_ALLTOALL || one->operation == PEER_ALLGATHER;
  memcpy(one->recv + (to_part ? own : 0), one->send + (from_part ? own : 0),
         one->count * sizeof(float));
}

static bool call_mailboxes(const peer_case *one) {
  bool root = world->rank == PEER_ROOT;
  bool sends = one->operation == PEER_BROADCAST ? root : one->operation != PEER_REDUCE || !root;
  bool receives = one->operation == PEER_BROADCAST ? !root : one->operation != PEER_REDUCE || root;
  for (int i = 1; sends && i < world->n_ranks; i++) {
    int to = (world->rank + i) % world->n_ranks;
    if (one->operation == PEER_REDUCE && to != PEER_ROOT) continue;
    post(one, to);
  }
  if (receives && one->operation != PEER_BROADCAST) keep_own(one);
  for (int i = 1; receives && i < world->n_ranks; i++) {
    int from = (world->rank + i) % world->n_ranks;
    if (one->operation == PEER_BROADCAST && from != PEER_ROOT) continue;
    collect(one, from);
  }
  return true;
}

bool peer_call(const peer_case *one) {
  if (one->variant != MAILBOXES) return call_direct(one);
  return one->count * sizeof(float) <= MAIL_BYTES && call_mailboxes(one);
}
