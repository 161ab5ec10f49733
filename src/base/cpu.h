/* The calling thread's processor, and giving it away. Functions, so that a simulation can replace
 * them. */
#ifndef DF_BASE_CPU_H
#define DF_BASE_CPU_H

#include <stdint.h>

#define DF_NO_CPU UINT32_MAX

/* The processor's number; DF_NO_CPU if the system does not say. No system call where the C library
 * uses restartable sequences (glibc 2.35 and later). A hint: the thread may move at any time. */
uint32_t df_cpu_current(void);

/* Lets other threads that wait for this processor run first. */
void df_cpu_yield(void);

/* Processors that the calling thread may use, as bits modulo 64 * words. A hint, for thresholds. */
void df_cpu_allowed(uint64_t *bits, uint32_t words);

/* Moves the calling thread to a processor that it may use. The allowed set stays as it was. Returns
 * 0 if the move failed. Costs at least two system calls. */
int df_cpu_move(uint32_t cpu);

#endif
