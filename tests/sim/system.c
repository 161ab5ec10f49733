/*
 * The rest of the operating system: memory from an arena that a new schedule finds as it was, event
 * counters and their epoll. Nothing that was freed is used again in the same schedule, so that a
 * use after free is seen.
 */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/cpu.h"
#include "sim.h"
#include "prelude_declarations.h"

uint8_t sim_arena[SIM_ARENA_BYTES] __attribute__((aligned(4096)));
static uint8_t far_memory[SIM_FAR_BYTES] __attribute__((aligned(4096)));
size_t sim_arena_used, sim_far_used;
uint32_t sim_fail_allocation;
int sim_uses_allocation_failure;
sim_system_state sim_system_now;

enum { FIRST_FD = 100000, LARGE = 32 << 10, HEAD = 16 };

void sim_system_reset(void) {
  memset(sim_arena, 0, sim_arena_used);
  sim_arena_used = sim_far_used = 0;
  memset(&sim_system_now, 0, sizeof sim_system_now);
}

static void *take(size_t alignment, size_t bytes) {
  if (sim_fail_allocation && --sim_fail_allocation == 0) return NULL;
  if (bytes >= LARGE) {
    size_t at = (sim_far_used + HEAD + 63) & ~(size_t)63;
    if (at + bytes > SIM_FAR_BYTES) sim_fail("the world is too large (far memory)");
    sim_far_used = at + bytes;
    *(size_t *)(far_memory + at - HEAD) = 0;
    return far_memory + at;
  }
  if (alignment < 16) alignment = 16;
  size_t at = (sim_arena_used + HEAD + alignment - 1) & ~(alignment - 1);
  size_t end = (at + bytes + 15) & ~(size_t)15;
  if (end > SIM_ARENA_BYTES) sim_fail("the world is too large");
  sim_arena_used = end;
  *(size_t *)(sim_arena + at - HEAD) = bytes;
  return sim_arena + at;
}

void *sim_malloc(size_t bytes) {
  void *p = take(16, bytes);
  if (p && bytes < LARGE) memset(p, 0xa5, bytes);
  return p;
}

void *sim_calloc(size_t n, size_t bytes) {
  void *p = take(16, n * bytes);
  if (p) memset(p, 0, n * bytes);
  return p;
}

void *sim_aligned_alloc(size_t alignment, size_t bytes) {
  void *p = take(alignment, bytes);
  if (p && bytes < LARGE) memset(p, 0xa5, bytes);
  return p;
}

void sim_free(void *p) {
  if (p == NULL) return;
  size_t bytes = *(size_t *)((uint8_t *)p - HEAD);
  if (bytes) sim_forbid(p, bytes);
}

void *sim_realloc(void *old, size_t bytes) {
  void *p = sim_malloc(bytes);
  if (p == NULL || old == NULL) return p;
  size_t before = *(size_t *)((uint8_t *)old - HEAD);
  memcpy(p, old, before < bytes ? before : bytes);
  sim_free(old);
  return p;
}

void *sim_mmap(size_t bytes) {
  void *p = take(64, bytes);
  if (p == NULL) return (void *)-1;
  memset(p, 0, bytes);
  return p;
}

void *sim_memset(void *p, int byte, size_t bytes) {
  sim_touch(p, bytes, 1);
  return memset(p, byte, bytes);
}

void *sim_memcpy(void *to, const void *from, size_t bytes) {
  sim_touch(from, bytes, 0);
  sim_touch(to, bytes, 1);
  return memcpy(to, from, bytes);
}

/* ---- event counters */

int sim_eventfd(void) {
  if (sim_system_now.n_fds == 64) sim_fail("the world has too many descriptors");
  sim_system_now.fd[sim_system_now.n_fds].epoll = -1;
  return FIRST_FD + (int)sim_system_now.n_fds++;
}

int sim_epoll_create(void) { return sim_eventfd(); }
int sim_close(int fd) { return fd >= FIRST_FD ? 0 : close(fd); }

/* What the kernel's lock of the counter orders goes by the address of its record. */
ssize_t sim_write(int fd, const void *buffer, size_t bytes) {
  if (fd < FIRST_FD) return write(fd, buffer, bytes);
  sim_point();
  SIM_TRACE("signals", NULL, (uint64_t)fd, 0);
  sim_system_now.fd[fd - FIRST_FD].count++;
  int epoll = sim_system_now.fd[fd - FIRST_FD].epoll;
  for (uint32_t a = 0; a < sim_agents_now.n; a++)
    if (sim_agents_now.agent[a].state == SIM_WAITS_EVENT &&
        sim_agents_now.agent[a].waits_for == (const void *)(intptr_t)epoll)
      sim_wake(a, 0);
  return (ssize_t)bytes;
}

ssize_t sim_read(int fd, void *buffer, size_t bytes) {
  if (fd < FIRST_FD) return read(fd, buffer, bytes);
  sim_point();
  memcpy(buffer, &sim_system_now.fd[fd - FIRST_FD].count, sizeof(uint64_t));
  sim_system_now.fd[fd - FIRST_FD].count = 0;
  return (ssize_t)bytes;
}

int sim_epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event) {
  if (operation != EPOLL_CTL_ADD || fd < FIRST_FD) return 0;
  sim_system_now.fd[fd - FIRST_FD].epoll = epoll;
  sim_system_now.fd[fd - FIRST_FD].data = event->data.u32;
  return 0;
}

int sim_epoll_wait(int epoll, struct epoll_event *events, int n, int timeout_ms) {
  int found = 0;
  uint64_t deadline =
      timeout_ms < 0 ? UINT64_MAX : sim_agents_now.now_ns + (uint64_t)timeout_ms * 1000000u;
  sim_point();
  for (;;) {
    for (uint32_t i = 0; i < sim_system_now.n_fds && found < n; i++)
      if (sim_system_now.fd[i].epoll == epoll && sim_system_now.fd[i].count)
        events[found++] =
            (struct epoll_event){.events = EPOLLIN, .data.u32 = sim_system_now.fd[i].data};
    if (found) return found;
    sim_block(SIM_WAITS_EVENT, (const void *)(intptr_t)epoll, deadline);
    if (sim_agents_now.agent[sim_agents_now.current].timed_out) return 0;
  }
}

/* ---- processors: two, between which agents are spread */

uint32_t df_cpu_current(void) { return sim_agents_now.current & 1; }
void df_cpu_yield(void) { sim_yield(); }
int df_cpu_move(uint32_t cpu) { return (int)(cpu & 1); }
void df_cpu_allowed(uint64_t *bits, uint32_t words) {
  memset(bits, 0, words * sizeof *bits);
  bits[0] = 3;
}
