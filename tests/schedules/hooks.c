/*
 * The library is compiled with the instrumentation of ThreadSanitizer, but not linked with its
 * runtime: each plain access calls one of these, and is checked against the simulated
 * happens-before.
 */
#include "shadow.h"

#define HOOK_SIZE(name, bytes, is_write)                                                           \
  void __tsan_##name##bytes(void *p);                                                              \
  void __tsan_##name##bytes(void *p) { access(p, bytes, is_write); }                               \
  void __tsan_unaligned_##name##bytes(void *p);                                                    \
  void __tsan_unaligned_##name##bytes(void *p) { sim_touch(p, bytes, is_write); }

/* Aligned to its size. */
static inline __attribute__((always_inline)) void access(void *p, uint64_t bytes, int is_write) {
  uint64_t offset = (uint64_t)((uintptr_t)p - (uintptr_t)sim_arena);
  if (offset >= SIM_ARENA_BYTES || sim_is_quiet) return;
  if (__builtin_expect(sim_is_exhausting, 0)) {
    if (is_write) sim_written(p, bytes);
    return;
  }
  sim_cell *cells = &sim_cells[offset / 4];
  for (uint64_t i = 0; i < (bytes + 3) / 4; i++)
    if (!sim_touch_again(&cells[i], is_write) && !sim_touch_first(&cells[i], is_write)) {
      sim_touch(p, bytes, is_write);
      return;
    }
}

#define HOOKS(bytes)                                                                               \
  HOOK_SIZE(read, bytes, 0)                                                                        \
  HOOK_SIZE(write, bytes, 1)                                                                       \
  HOOK_SIZE(volatile_read, bytes, 0)                                                               \
  HOOK_SIZE(volatile_write, bytes, 1)
HOOKS(1)
HOOKS(2)
HOOKS(4)
HOOKS(8)
HOOKS(16)

void __tsan_read_range(void *p, unsigned long bytes);
void __tsan_read_range(void *p, unsigned long bytes) { sim_touch(p, bytes, 0); }
void __tsan_write_range(void *p, unsigned long bytes);
void __tsan_write_range(void *p, unsigned long bytes) { sim_touch(p, bytes, 1); }
void __tsan_func_entry(void *caller);
void __tsan_func_entry(void *caller) { (void)caller; }
void __tsan_func_exit(void);
void __tsan_func_exit(void) {}
void __tsan_init(void);
void __tsan_init(void) {}
