#include "base/cpu.h"

#include <sched.h>
#include <string.h>
#include <unistd.h>

uint32_t df_cpu_current(void) {
  int cpu = sched_getcpu();
  return cpu < 0 ? DF_NO_CPU : (uint32_t)cpu;
}

void df_cpu_yield(void) { sched_yield(); }

void df_cpu_allowed(uint64_t *bits, uint32_t words) {
  enum { MOST = 16384 }; /* the kernel refuses a set that is smaller than its own */
  size_t bytes = CPU_ALLOC_SIZE(MOST);
  cpu_set_t *set = CPU_ALLOC(MOST);
  memset(bits, 0, words * sizeof *bits);
  if (set != NULL) CPU_ZERO_S(bytes, set);
  int known = set != NULL && sched_getaffinity(getpid(), bytes, set) == 0;
  long online = known ? MOST : sysconf(_SC_NPROCESSORS_ONLN);
  for (long cpu = 0; cpu < online; cpu++)
    if (!known || CPU_ISSET_S((size_t)cpu, bytes, set))
      bits[(uint32_t)cpu / 64 % words] |= 1ull << (cpu % 64);
  CPU_FREE(set);
}
