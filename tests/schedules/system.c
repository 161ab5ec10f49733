/*
 * The rest of the operating system: memory from an arena that a new schedule finds as it was, and
 * processors. Nothing that was freed is used again in the same schedule, so that a use after free
 * is seen.
 */
#include <errno.h>
#include <string.h>

#include "base/cpu.h"
#include "sim.h"
#include "prelude_declarations.h"
#include "bootstrap/net/fork_guard.h"
#include "host/observe/wait_graph.h"

uint8_t sim_arena[SIM_ARENA_BYTES] __attribute__((aligned(4096)));
static uint8_t far_memory[SIM_FAR_BYTES] __attribute__((aligned(4096)));
static uint8_t far_snapshot[SIM_FAR_BYTES] __attribute__((aligned(4096)));
uint32_t sim_bulk_stride = 4096; /* drawn in world_draw.c */
size_t sim_arena_used, sim_far_used;
uint32_t sim_fail_allocation, sim_more_failures;
int sim_uses_allocation_failure;
sim_system_state sim_system_now;

enum { LARGE = 48 << 10, HEAD = 16, FIRST = 64 };
static const size_t FREED = SIZE_MAX;
DF_STATIC_ASSERT(sizeof(struct dfcclContext) + 4096 < LARGE,
                 "a context, and a litmus test with one, outlive a schedule");

void sim_system_reset(void) {
  memset(sim_arena, 0, sim_arena_used);
  sim_arena_used = FIRST; /* the first words stand for locks outside of the arena: agents.c */
  sim_far_used = 0;
  memset(&sim_system_now, 0, sizeof sim_system_now);
}

void sim_far_take(void) { memcpy(far_snapshot, far_memory, sim_far_used); }

void sim_far_restore(size_t used) {
  enum { PAGE = 4096 };
  for (size_t at = 0; at < used; at += PAGE) {
    const size_t bytes = used - at < PAGE ? used - at : PAGE;
    if (memcmp(far_memory + at, far_snapshot + at, bytes) != 0)
      memcpy(far_memory + at, far_snapshot + at, bytes);
  }
  sim_far_used = used;
}

static void *take(size_t alignment, size_t bytes) {
  if (sim_fail_allocation && --sim_fail_allocation == 0) {
    if (sim_more_failures) sim_fail_allocation = 1, sim_more_failures--;
    return NULL;
  }
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
  if (sim_is_exhausting) sim_written(sim_arena + at - HEAD, end - at + HEAD);
  return sim_arena + at;
}

static void *counted(void *p) {
  sim_system_now.allocations += p != NULL;
  return p;
}

void *sim_malloc(size_t bytes) {
  void *p = take(16, bytes);
  if (p && bytes < LARGE) memset(p, 0xa5, bytes);
  return counted(p);
}

void *sim_calloc(size_t n, size_t bytes) {
  void *p = take(16, n * bytes);
  if (p) memset(p, 0, n * bytes);
  return counted(p);
}

void *sim_aligned_alloc(size_t alignment, size_t bytes) {
  void *p = take(alignment, bytes);
  if (p && bytes < LARGE) memset(p, 0xa5, bytes);
  return counted(p);
}

/* Memory of the simulated kernel: neither counted nor freed. */
void *sim_hidden_alloc(size_t bytes) {
  uint32_t fails = sim_fail_allocation;
  sim_fail_allocation = 0;
  void *p = take(16, bytes);
  sim_fail_allocation = fails;
  return p;
}

/* The kernel's order is enough to unmap: is_mapping. */
static void release(void *p, int is_mapping) {
  if (p == NULL) return;
  size_t *bytes = (size_t *)((uint8_t *)p - HEAD);
  if (*bytes == FREED) sim_fail("memory is freed twice");
  sim_system_now.allocations--;
  if ((uintptr_t)p - (uintptr_t)sim_arena >= SIM_ARENA_BYTES) return;
  if (!is_mapping) sim_touch(p, *bytes, 1);
  sim_forbid(p, *bytes);
  sim_written(bytes, sizeof *bytes);
  *bytes = FREED;
}
void sim_free(void *p) { release(p, 0); }
void sim_unmap(void *p) { release(p, 1); }

void *sim_realloc(void *old, size_t bytes) {
  void *p = sim_malloc(bytes);
  if (p == NULL || old == NULL) return p;
  size_t before = *(size_t *)((uint8_t *)old - HEAD);
  memcpy(p, old, before < bytes ? before : bytes);
  sim_free(old);
  return p;
}

char *sim_strdup(const char *text) {
  size_t bytes = strlen(text) + 1;
  char *copy = sim_malloc(bytes);
  return copy ? memcpy(copy, text, bytes) : NULL;
}

void *sim_map_new(size_t bytes) {
  void *p = take(64, bytes);
  if (p == NULL) {
    errno = ENOMEM;
    return (void *)-1;
  }
  memset(p, 0, bytes);
  return counted(p);
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

void *sim_memmove(void *to, const void *from, size_t bytes) {
  sim_touch(from, bytes, 0);
  sim_touch(to, bytes, 1);
  return memmove(to, from, bytes);
}

/* ---- processors: two, between which agents are spread */

uint32_t df_cpu_current(void) { return sim_is_exhausting ? 0 : sim_agents_now.current & 1; }
void df_cpu_yield(void) { sim_yield(); }
int df_cpu_move(uint32_t cpu) { return (int)(cpu & 1); }
void df_cpu_allowed(uint64_t *bits, uint32_t words) {
  memset(bits, 0, words * sizeof *bits);
  bits[0] = 3;
}

/* ---- forks: there are none ---- */

void sim_fork_guard_add(df_fork_guard *guard, void (*in_child)(df_fork_guard *guard));
void sim_fork_guard_remove(df_fork_guard *guard);
void sim_fork_waits_for(struct df_mutex *lock, int is_outer);
void sim_fork_guard_add(df_fork_guard *guard, void (*in_child)(df_fork_guard *guard)) {
  (void)guard;
  (void)in_child;
}
void sim_fork_guard_remove(df_fork_guard *guard) { (void)guard; }
void sim_fork_waits_for(struct df_mutex *lock, int is_outer) { (void)lock, (void)is_outer; }

/* ---- dumps: nobody reads who sleeps ---- */

uint32_t sim_sleeper_enter(dfcclContext_t context, const df_call *call);
void sim_sleeper_leave(uint32_t sleeper);
void sim_waits_enter(dfcclContext_t context);
void sim_waits_leave(dfcclContext_t context);
uint32_t sim_sleeper_enter(dfcclContext_t context, const df_call *call) {
  (void)context;
  (void)call;
  return 0;
}
void sim_sleeper_leave(uint32_t sleeper) { (void)sleeper; }
void sim_waits_enter(dfcclContext_t context) { (void)context; }
void sim_waits_leave(dfcclContext_t context) { (void)context; }

void sim_snapshot_server_open(dfcclContext_t context);
void sim_snapshot_server_close(dfcclContext_t context);
void sim_snapshot_server_close_in_child(dfcclContext_t context);
void sim_snapshot_server_open(dfcclContext_t context) { (void)context; }
void sim_snapshot_server_close(dfcclContext_t context) { (void)context; }
void sim_snapshot_server_close_in_child(dfcclContext_t context) { (void)context; }
void sim_snapshot_receive(dfcclContext_t context, uint32_t from, const df_message *message);
void sim_snapshot_receive(dfcclContext_t context, uint32_t from, const df_message *message) {
  (void)context;
  (void)from;
  (void)message;
}
