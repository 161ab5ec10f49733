/* The simulator takes the place of processor and operating system. See prelude.h. */
#ifndef DF_TESTS_SIM_PRELUDE_DECLARATIONS_H
#define DF_TESTS_SIM_PRELUDE_DECLARATIONS_H

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* ---- memory: memory.c */
uint64_t sim_load(const volatile void *p, unsigned bytes, int order);
void sim_store(volatile void *p, uint64_t value, unsigned bytes, int order);
typedef enum { SIM_ADD, SIM_SUB, SIM_OR, SIM_AND, SIM_EXCHANGE } sim_operation;
uint64_t sim_modify(volatile void *p, uint64_t operand, unsigned bytes, sim_operation operation,
                    int order);
int sim_compare_exchange(volatile void *p, void *expected, uint64_t desired, unsigned bytes,
                         int success, int failure);
void sim_fence(int order);

/* ---- wires. Slots beyond are those of large messages. */
extern uint32_t sim_bulk_stride;

/* ---- agents: agents.c. A thread's own variables change hands with the processor. */
void sim_pause(void);
int sim_yield(void);
void sim_usleep(unsigned us);
int sim_thread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                      void *argument);
int sim_thread_join(pthread_t thread, void **result);
int sim_mutex_init(pthread_mutex_t *mutex);
int sim_mutex_lock(pthread_mutex_t *mutex);
int sim_mutex_trylock(pthread_mutex_t *mutex);
int sim_mutex_unlock(pthread_mutex_t *mutex);
long sim_futex(uint32_t *word, int operation, uint32_t value, const struct timespec *timeout);
int sim_clock(clockid_t clock, struct timespec *now);

/* ---- the rest of the operating system: system.c */
void *sim_malloc(size_t bytes);
void *sim_calloc(size_t n, size_t bytes);
void *sim_realloc(void *old, size_t bytes);
void *sim_aligned_alloc(size_t alignment, size_t bytes);
void sim_free(void *p);
struct msghdr;
char *sim_strdup(const char *text);
void *sim_mmap(size_t bytes, int fd);
int sim_munmap(void *p);
int sim_memfd(void);
int sim_punch_hole(int fd, off_t offset, off_t bytes);
int sim_dup(int fd);
int sim_fcntl(int fd, int command);
int sim_fstat(int fd, struct stat *status);
ssize_t sim_sendmsg(int fd, const struct msghdr *header);
ssize_t sim_recvmsg(int fd, struct msghdr *header);
int sim_shutdown(int fd);
int sim_ioctl(int fd, unsigned long request, ...);
void sim_socket_close(int *fd);
int sim_eventfd(void);
int sim_close(int fd);
ssize_t sim_read(int fd, void *buffer, size_t bytes);
ssize_t sim_write(int fd, const void *buffer, size_t bytes);
int sim_epoll_create(void);
int sim_epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event);
int sim_epoll_wait(int epoll, struct epoll_event *events, int n, int timeout_ms);
void *sim_memset(void *p, int byte, size_t bytes);
void *sim_memcpy(void *to, const void *from, size_t bytes);
void *sim_memmove(void *to, const void *from, size_t bytes);

#endif
