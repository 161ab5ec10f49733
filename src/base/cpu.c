#include "base/cpu.h"

#include <sched.h>
#include <string.h>
#include <unistd.h>

uint32_t df_cpu_current(void) {
  int cpu = sched_getcpu();
  return cpu < 0 ? DF_NO_CPU : (uint32_t)cpu;
}

void df_cpu_yield(void) { sched_yield(); }

enum { MOST_CPUS = 16384 }; /* the kernel rejects a set that is smaller than its own */

typedef struct cpu_bits {
  uint64_t words[MOST_CPUS / 64];
} cpu_bits;

static int thread_cpus(cpu_bits *bits) {
  memset(bits, 0, sizeof *bits);
  return sched_getaffinity(0, sizeof *bits, (cpu_set_t *)bits) == 0;
}

void df_cpu_allowed(uint64_t *bits, uint32_t words) {
  cpu_bits all;
  if (!thread_cpus(&all)) {
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    for (long cpu = 0; cpu < online && cpu < MOST_CPUS; cpu++)
      all.words[cpu / 64] |= 1ull << cpu % 64;
  }
  memset(bits, 0, words * sizeof *bits);
  for (uint32_t w = 0; w < MOST_CPUS / 64; w++) bits[w % words] |= all.words[w];
}

int df_cpu_move(uint32_t cpu) {
  cpu_bits all, one;
  memset(&one, 0, sizeof one);
  if (cpu >= MOST_CPUS || !thread_cpus(&all) || !(all.words[cpu / 64] >> cpu % 64 & 1)) return 0;
  one.words[cpu / 64] = 1ull << cpu % 64;
  if (sched_setaffinity(0, sizeof one, (const cpu_set_t *)&one) != 0) return 0;
  if (sched_setaffinity(0, sizeof all, (const cpu_set_t *)&all) == 0) return 1;
  /* The allowed set has changed meanwhile. Allow all processors, because otherwise this thread
   * would remain bound to one. */
  memset(&all, 0xff, sizeof all);
  sched_setaffinity(0, sizeof all, (const cpu_set_t *)&all);
  return 1;
}
