#include "common/barrier.h"

#include <sched.h>
#include <sys/mman.h>

void *df_tool_shared_alloc(size_t bytes) {
  void *memory =
      mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? NULL : memory;
}

void df_tool_shared_free(void *memory, size_t bytes) {
  if (memory != NULL) munmap(memory, bytes);
}

void df_tool_barrier_init(df_tool_barrier *barrier, unsigned members) {
  atomic_init(&barrier->arrived, 0);
  atomic_init(&barrier->lap, 0);
  atomic_init(&barrier->broken, false);
  barrier->members = members;
}

bool df_tool_barrier_wait(df_tool_barrier *barrier) {
  /* The lap is read before arriving: afterwards the last member may already have moved it on. */
  unsigned lap = atomic_load_explicit(&barrier->lap, memory_order_acquire);
  /* acq_rel: the chain of increments hands every member's writes to the last one ... */
  unsigned before = atomic_fetch_add_explicit(&barrier->arrived, 1, memory_order_acq_rel);
  if (before + 1 == barrier->members) {
    atomic_store_explicit(&barrier->arrived, 0, memory_order_relaxed);
    /* ... and this release hands them, and the emptied counter, to all. */
    atomic_store_explicit(&barrier->lap, lap + 1, memory_order_release);
  }
  while (atomic_load_explicit(&barrier->lap, memory_order_acquire) == lap) {
    if (atomic_load_explicit(&barrier->broken, memory_order_relaxed)) return false;
    sched_yield();
  }
  return !atomic_load_explicit(&barrier->broken, memory_order_relaxed);
}

void df_tool_barrier_break(df_tool_barrier *barrier) {
  atomic_store_explicit(&barrier->broken, true, memory_order_relaxed);
}
