/* Processors of the calling thread. These are functions, so that a simulation can replace them. */
#ifndef DF_BASE_CPU_H
#define DF_BASE_CPU_H

#include <stdint.h>

#define DF_NO_CPU UINT32_MAX

/* Returns the current processor as a hint, or DF_NO_CPU if it is unknown. With glibc 2.35 or later
 * this is no system call. */
uint32_t df_cpu_current(void);

void df_cpu_yield(void);

/* Sets one bit for each allowed processor, modulo 64 * words. The result is a hint. */
void df_cpu_allowed(uint64_t *bits, uint32_t words);

/* Moves the calling thread to the processor without changing its allowed set. Returns 0 on
 * failure. */
int df_cpu_move(uint32_t cpu);

#endif
