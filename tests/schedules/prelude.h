/*
 * Included before every source file of the library that is compiled for the simulation: the words
 * by which the library reaches processor and operating system become calls of the simulator. The
 * sources themselves are the real ones, atomic.h included, so that a wrong memory order there is
 * found as well.
 */
#ifndef DF_TESTS_SIM_PRELUDE_H
#define DF_TESTS_SIM_PRELUDE_H

#include "prelude_declarations.h"

/* Only its instrumentation is used: fences are fences here. */
#undef __SANITIZE_THREAD__

/* ---- memory: memory.c */
#define SIM_TYPED(p, call) ((__typeof__(*(p) + 0))(call))
#define __atomic_load_n(p, order) SIM_TYPED(p, sim_load((p), sizeof *(p), (order)))
#define __atomic_store_n(p, v, order) sim_store((p), (uint64_t)(v), sizeof *(p), (order))
#define SIM_MODIFY(p, v, op, order)                                                                \
  SIM_TYPED(p, sim_modify((p), (uint64_t)(v), sizeof *(p), (op), (order)))
#define __atomic_fetch_add(p, v, order) SIM_MODIFY(p, v, SIM_ADD, order)
#define __atomic_fetch_sub(p, v, order) SIM_MODIFY(p, v, SIM_SUB, order)
#define __atomic_fetch_or(p, v, order) SIM_MODIFY(p, v, SIM_OR, order)
#define __atomic_fetch_and(p, v, order) SIM_MODIFY(p, v, SIM_AND, order)
#define __atomic_exchange_n(p, v, order) SIM_MODIFY(p, v, SIM_EXCHANGE, order)
#define __atomic_compare_exchange_n(p, expected, v, weak, success, failure)                        \
  sim_compare_exchange((p), (expected), (uint64_t)(v), sizeof *(p), (success), (failure))
#define __atomic_thread_fence(order) sim_fence(order)

/* ---- agents: agents.c. A thread's own variables change hands with the processor. */
#define _Thread_local __attribute__((section("sim_thread_local")))
#define __builtin_ia32_pause() sim_pause()
#define sched_yield() sim_yield()
#define usleep(us) sim_usleep(us)
#define pthread_create(thread, attributes, run, argument)                                          \
  sim_thread_create(thread, attributes, run, argument)
#define pthread_join(thread, result) sim_thread_join(thread, result)
#define pthread_mutex_init(mutex, attributes) sim_mutex_init(mutex)
#define pthread_mutex_destroy(mutex) ((void)(mutex), 0)
#define pthread_mutex_lock(mutex) sim_mutex_lock(mutex)
#define pthread_mutex_trylock(mutex) sim_mutex_trylock(mutex)
#define pthread_mutex_unlock(mutex) sim_mutex_unlock(mutex)
#define syscall(number, word, operation, value, timeout, other, bits)                              \
  sim_futex((word), (operation), (uint32_t)(value), (timeout))
#define clock_gettime(clock, now) sim_clock(clock, now)

/* ---- the rest of the operating system: system.c */
#define malloc(bytes) sim_malloc(bytes)
#define calloc(n, bytes) sim_calloc(n, bytes)
#define realloc(p, bytes) sim_realloc(p, bytes)
#define aligned_alloc(alignment, bytes) sim_aligned_alloc(alignment, bytes)
#define free(p) sim_free(p)
#define memset(p, byte, bytes) sim_memset(p, byte, bytes)
#define memcpy(to, from, bytes) sim_memcpy(to, from, bytes)
#define memmove(to, from, bytes) sim_memmove(to, from, bytes)
#define strdup(text) sim_strdup(text)
#define mmap(at, bytes, protection, flags, fd, offset) sim_mmap(bytes, fd)
#define munmap(p, bytes) ((void)(bytes), sim_munmap(p))
#define madvise(p, bytes, advice) ((void)(p), (void)(bytes), 0)
#define memfd_create(name, flags) sim_memfd()
#define fallocate(fd, mode, offset, bytes) sim_punch_hole(fd, offset, bytes)
#define ftruncate(fd, bytes) ((void)(fd), (void)(bytes), 0)
#define fcntl(fd, ...) sim_fcntl(fd, SIM_FIRST_OF(__VA_ARGS__, 0))
#define SIM_FIRST_OF(first, ...) first
#define fstat(fd, status) sim_fstat(fd, status)
#define dup(fd) sim_dup(fd)
#define sendmsg(fd, header, flags) sim_sendmsg(fd, header)
#define recvmsg(fd, header, flags) sim_recvmsg(fd, header)
/* Members of that name are called without these arguments. */
#define shutdown(fd, how) sim_shutdown(fd)
#define ioctl(fd, request, result) sim_ioctl(fd, request, result)
#define df_socket_close(fd) sim_socket_close(fd)
#define eventfd(value, flags) sim_eventfd()
/* Without arguments: members of that name are renamed with their uses. */
#define close sim_close
#define read sim_read
#define write sim_write
#define getsockopt sim_getsockopt
#define poll sim_poll
#define epoll_create1(flags) sim_epoll_create()
#define epoll_ctl(epoll, operation, fd, event) sim_epoll_ctl(epoll, operation, fd, event)
#define epoll_wait(epoll, events, n, timeout_ms) sim_epoll_wait(epoll, events, n, timeout_ms)
/* Nobody forks in a simulation, and worlds are thrown away without being closed. */
#define df_fork_guard_add sim_fork_guard_add
#define df_fork_guard_remove sim_fork_guard_remove
#define df_fork_waits_for sim_fork_waits_for
/* Used by dumps only. */
#define df_sleeper_enter sim_sleeper_enter
#define df_sleeper_leave sim_sleeper_leave
#define df_waits_enter sim_waits_enter
#define df_waits_leave sim_waits_leave
/* Nobody watches a simulated job. */
#define df_snapshot_server_open sim_snapshot_server_open
#define df_snapshot_server_close sim_snapshot_server_close
#define df_snapshot_server_close_in_child sim_snapshot_server_close_in_child
#define df_snapshot_receive_question sim_snapshot_receive
#define df_snapshot_receive_answer sim_snapshot_receive
#endif
