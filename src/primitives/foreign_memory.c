#include "primitives/foreign_memory.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/clock.h"

df_read_process *df_read_process_call = process_vm_readv;

static struct iovec piece_of(uint64_t address, uint64_t bytes) {
  return (struct iovec){.iov_base = (void *)(uintptr_t)address, .iov_len = (size_t)bytes};
}

static ssize_t call(uint64_t process, const struct iovec here[2], const struct iovec there[2]) {
  ssize_t n;
  do n = df_read_process_call((pid_t)process, here, 2, there, 2, 0);
  while (n < 0 && errno == EINTR);
  return n;
}

void df_process_identify(df_process_identity *identity, uint64_t *number) {
  if (getrandom(number, sizeof *number, 0) != sizeof *number) return;
  *identity = (df_process_identity){.number_at = (uint64_t)(uintptr_t)number, .number = *number};
}

uint64_t df_process_of_socket(int fd) {
  struct ucred peer = {0};
  socklen_t bytes = sizeof peer;
  if (fd < 0 || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0) return 0;
  return peer.pid > 0 && peer.pid != getpid() ? (uint64_t)peer.pid : 0;
}

int df_process_is_readable(uint64_t process, const df_process_identity *identity) {
  /* The last byte is read once more, since later calls have two pieces. */
  uint8_t last = 0;
  uint64_t number = ~identity->number;
  const struct iovec here[2] = {{&number, sizeof number}, {&last, 1}};
  const struct iovec there[2] = {piece_of(identity->number_at, sizeof number),
                                 piece_of(identity->number_at + sizeof number - 1, 1)};
  if (process == 0 || identity->number_at == 0) return 0;
  return call(process, here, there) == sizeof number + 1 && number == identity->number;
}

/* The number is the first piece of each call, so that it belongs to the process of the data. */
static int read_all(const df_foreign_memory *memory, uint8_t *to, uint64_t from, uint64_t bytes) {
  while (bytes > 0) {
    uint64_t number = ~memory->identity.number;
    const struct iovec here[2] = {{&number, sizeof number}, {to, (size_t)bytes}};
    const struct iovec there[2] = {piece_of(memory->identity.number_at, sizeof number),
                                   piece_of(from, bytes)};
    const ssize_t n = call(memory->process, here, there);
    if (n < 0) return errno ? errno : EIO;
    if (n < (ssize_t)sizeof number || number != memory->identity.number) return ESRCH;
    const uint64_t read = (uint64_t)n - sizeof number;
    if (read == 0) return EFAULT;
    if (read > bytes) return EIO;
    to += read;
    from += read;
    bytes -= read;
  }
  return 0;
}

int df_foreign_memory_read(df_foreign_memory *memory, void *to, const void *lent, uint64_t bytes) {
  const uint64_t from = (uint64_t)(uintptr_t)lent & ~DF_LENT_BY_CALL;
  const int error = read_all(memory, to, from, bytes);
  df_device_add_u64(error ? &memory->failures : &memory->reads, 1);
  return error;
}

int df_foreign_memory_is_lost(df_foreign_memory *memory, int error) {
  enum { PATIENCE_NS = 1000000000 };
  if (error != ESRCH) return 1;
  const uint64_t now = df_clock_ns(), since = df_load_relaxed_u64(&memory->gone_ns);
  if (since == 0) df_store_relaxed_u64(&memory->gone_ns, now);
  return since != 0 && now > since && now - since >= PATIENCE_NS;
}

/* ---- the memory of this process ---- */

enum { CHECKED_BITS = 5 };
typedef struct checked {
  const void *buffer;
  uint64_t begin, end;
  int is_readable;
} checked;
static _Thread_local checked latest[1 << CHECKED_BITS];

/* A buffer takes the place of another one with the same hash. */
static checked *find_checked(const void *buffer) {
  const uint64_t hash = ((uint64_t)(uintptr_t)buffer >> 6) * 0x9e3779b97f4a7c15u;
  checked *known = &latest[hash >> (64 - CHECKED_BITS)];
  if (known->buffer != buffer) *known = (checked){.buffer = buffer, .is_readable = 1};
  return known;
}

static int can_read(uint64_t first, uint64_t last) {
  uint8_t bytes[2];
  const struct iovec here[2] = {{&bytes[0], 1}, {&bytes[1], 1}};
  const struct iovec there[2] = {piece_of(first, 1), piece_of(last, 1)};
  return call((uint64_t)getpid(), here, there) == 2;
}

/* A buffer is one piece of memory, so the messages' ranges are joined. */
int df_own_memory_is_readable(const void *buffer, const void *begin, uint64_t bytes) {
  const uint64_t first = (uint64_t)(uintptr_t)begin, end = first + bytes;
  if (buffer == NULL || bytes == 0 || end < first || end & DF_LENT_BY_CALL) return 0;
  checked *known = find_checked(buffer);
  if (DF_LIKELY(first >= known->begin && end <= known->end)) return known->is_readable;
  if (!known->is_readable) return 0;
  known->is_readable = can_read(first, end - 1);
  known->begin = known->end ? DF_MIN(known->begin, first) : first;
  known->end = DF_MAX(known->end, end);
  return known->is_readable;
}
