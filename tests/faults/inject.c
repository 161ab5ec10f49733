#include "inject.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <linux/futex.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "support/leftovers.h"

static atomic_long counted, target, live_blocks;
static atomic_int armed, kind;
static _Atomic(const char *) fired;
static void (*die)(void);

void df_fault_arm(long position, df_fault_kind which) {
  atomic_store(&fired, NULL);
  atomic_store(&counted, 0);
  atomic_store(&target, position);
  atomic_store(&kind, (int)which);
  atomic_store(&armed, 1);
}

void df_fault_arm_death(long position, void (*how)(void)) {
  die = how;
  df_fault_arm(position, DF_FAULT_DEATH);
}

long df_fault_disarm(void) {
  atomic_store(&armed, 0);
  return atomic_load(&counted);
}

const char *df_fault_fired(void) { return atomic_load(&fired); }

long df_fault_live_blocks(void) { return atomic_load(&live_blocks); }

/* Whether this call must fail. An error of 0 means that the call cannot have that kind of fault; a
 * process can be killed at any call. */
static bool fails(const char *name, int hard, int soft) {
  if (!atomic_load(&armed)) return false;
  int which = atomic_load(&kind), error = which == DF_FAULT_HARD ? hard : soft;
  if (error == 0 && which != DF_FAULT_DEATH) return false;
  if (atomic_fetch_add(&counted, 1) + 1 != atomic_load(&target)) return false;
  atomic_store(&fired, name);
  if (which == DF_FAULT_DEATH) {
    die();
    return false;
  }
  errno = error;
  return true;
}

/* ---- memory ---- */

static void *keep_count(void *block) {
  if (block != NULL) atomic_fetch_add(&live_blocks, 1);
  return block;
}

void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes) {
  return fails("malloc", ENOMEM, 0) ? NULL : keep_count(__real_malloc(bytes));
}

void *__real_calloc(size_t n, size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes) {
  return fails("calloc", ENOMEM, 0) ? NULL : keep_count(__real_calloc(n, bytes));
}

void *__real_realloc(void *old, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes) {
  if (fails("realloc", ENOMEM, 0)) return NULL;
  void *block = __real_realloc(old, bytes);
  return old == NULL ? keep_count(block) : block;
}

void *__real_aligned_alloc(size_t alignment, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes) {
  return fails("aligned_alloc", ENOMEM, 0) ? NULL
                                           : keep_count(__real_aligned_alloc(alignment, bytes));
}

char *__real_strdup(const char *text);
char *__wrap_strdup(const char *text);
char *__wrap_strdup(const char *text) {
  return fails("strdup", ENOMEM, 0) ? NULL : keep_count(__real_strdup(text));
}

void __real_free(void *block);
void __wrap_free(void *block);
void __wrap_free(void *block) {
  if (block != NULL) atomic_fetch_sub(&live_blocks, 1);
  __real_free(block);
}

void *__real_mmap64(void *at, size_t bytes, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap64(void *at, size_t bytes, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap64(void *at, size_t bytes, int protection, int flags, int fd, off_t offset) {
  return fails("mmap", ENOMEM, 0) ? MAP_FAILED
                                  : __real_mmap64(at, bytes, protection, flags, fd, offset);
}

/* ---- calls that return -1 and set errno ---- */

#define WRAP(type, name, hard, soft, parameters, arguments)                                        \
  type __real_##name parameters;                                                                   \
  type __wrap_##name parameters;                                                                   \
  type __wrap_##name parameters { return fails(#name, hard, soft) ? -1 : __real_##name arguments; }

WRAP(int, memfd_create, EMFILE, 0, (const char *n, unsigned flags), (n, flags))
WRAP(int, ftruncate64, ENOSPC, 0, (int fd, off_t bytes), (fd, bytes))
WRAP(int, fstat64, EOVERFLOW, 0, (int fd, struct stat *status), (fd, status))
WRAP(int, dup, EMFILE, 0, (int fd), (fd))
WRAP(int, eventfd, EMFILE, 0, (unsigned count, int flags), (count, flags))
WRAP(int, epoll_create1, EMFILE, 0, (int flags), (flags))
WRAP(int, epoll_ctl, ENOMEM, 0, (int e, int op, int fd, struct epoll_event *v), (e, op, fd, v))
WRAP(int, epoll_wait, ENOMEM, EINTR, (int e, struct epoll_event *v, int n, int ms), (e, v, n, ms))
WRAP(int, poll, ENOMEM, EINTR, (struct pollfd * entries, nfds_t n, int ms), (entries, n, ms))
WRAP(int, socket, EMFILE, 0, (int domain, int type, int protocol), (domain, type, protocol))
WRAP(int, bind, ENOMEM, 0, (int fd, const struct sockaddr *a, socklen_t n), (fd, a, n))
WRAP(int, listen, ENOBUFS, 0, (int fd, int backlog), (fd, backlog))
/* No port is free for the moment. */
WRAP(int, connect, ENOMEM, a->sa_family == AF_INET ? EADDRNOTAVAIL : 0,
     (int fd, const struct sockaddr *a, socklen_t n), (fd, a, n))
WRAP(int, accept4, EMFILE, EINTR, (int fd, struct sockaddr *a, socklen_t *n, int f), (fd, a, n, f))
WRAP(int, getsockname, ENOBUFS, 0, (int fd, struct sockaddr *a, socklen_t *n), (fd, a, n))
WRAP(int, getsockopt, ENOBUFS, 0, (int fd, int l, int o, void *v, socklen_t *n), (fd, l, o, v, n))
WRAP(int, setsockopt, ENOBUFS, 0, (int fd, int l, int o, const void *v, socklen_t n),
     (fd, l, o, v, n))
WRAP(ssize_t, send, ECONNRESET, EINTR, (int fd, const void *b, size_t n, int f), (fd, b, n, f))
WRAP(ssize_t, recv, ECONNRESET, EINTR, (int fd, void *b, size_t n, int f), (fd, b, n, f))
WRAP(ssize_t, sendmsg, EPIPE, ENOBUFS, (int fd, const struct msghdr *m, int f), (fd, m, f))
WRAP(ssize_t, recvmsg, ENOMEM, EINTR, (int fd, struct msghdr *m, int f), (fd, m, f))
WRAP(ssize_t, pwritev64, ENOSPC, EINTR, (int fd, const struct iovec *parts, int n, off_t at),
     (fd, parts, n, at))

int __real_fcntl64(int fd, int command, ...);
int __wrap_fcntl64(int fd, int command, ...);
int __wrap_fcntl64(int fd, int command, ...) {
  va_list arguments;
  va_start(arguments, command);
  long argument = va_arg(arguments, long); /* the library passes an int, or no argument */
  va_end(arguments);
  return fails("fcntl", EPERM, 0) ? -1 : __real_fcntl64(fd, command, argument);
}

int __real_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  int mode = va_arg(arguments, int);
  va_end(arguments);
  return fails("open", EMFILE, 0) ? -1 : __real_open64(path, flags, mode);
}

/* The futex of the bell: a wait that ends at once, which a futex permits. */
long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);
long __wrap_syscall(long number, ...) {
  long a[6];
  va_list arguments;
  va_start(arguments, number);
  for (int i = 0; i < 6; i++) a[i] = va_arg(arguments, long);
  va_end(arguments);
  bool waits = number == SYS_futex && a[1] == FUTEX_WAIT;
  return fails("futex", 0, waits ? EINTR : 0)
             ? -1
             : __real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* ---- threads ---- */

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*body)(void *), void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*body)(void *), void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*body)(void *), void *argument) {
  if (fails("pthread_create", EAGAIN, 0)) return EAGAIN;
  return __real_pthread_create(thread, attributes, body, argument);
}

int df_fault_thread(pthread_t *thread, void *(*body)(void *), void *argument) {
  return __real_pthread_create(thread, NULL, body, argument);
}

df_belongings df_take_stock(void) {
  return (df_belongings){df_thread_count(), df_descriptor_count(), df_fault_live_blocks()};
}
