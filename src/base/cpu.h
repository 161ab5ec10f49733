/* Functions, for a simulation to replace. */
#ifndef DF_BASE_CPU_H
#define DF_BASE_CPU_H

#include <stdint.h>

#define DF_NO_CPU UINT32_MAX

/* A hint; DF_NO_CPU: unknown. No system call since glibc 2.35. */
uint32_t df_cpu_current(void);

void df_cpu_yield(void);

/* The allowed processors as bits, modulo 64 * words. A hint. */
void df_cpu_allowed(uint64_t *bits, uint32_t words);

/* The allowed set stays. 0: failed. */
int df_cpu_move(uint32_t cpu);

#endif
