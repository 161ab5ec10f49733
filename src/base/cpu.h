/* The processor that the calling thread runs on, and giving it away. Functions of their own, so
 * that a simulation can stand in for them. */
#ifndef DF_BASE_CPU_H
#define DF_BASE_CPU_H

#include <stdint.h>

#define DF_NO_CPU UINT32_MAX

/* The number of the processor; DF_NO_CPU where the system does not say. Costs no system call where
 * the C library registers for restartable sequences (glibc 2.35 and later). A hint: the thread may
 * be elsewhere by the time that the caller looks at it. */
uint32_t df_cpu_current(void);

/* Lets other threads that wait for this processor run first. */
void df_cpu_yield(void);

/* Processors that the calling thread may use, as bits modulo 64 * words; a hint for thresholds. */
void df_cpu_allowed(uint64_t *bits, uint32_t words);

/* Moves the calling thread to a processor that it may use; where it may run is unchanged
 * afterwards. Returns 0 where that was not possible. Two system calls and more. */
int df_cpu_move(uint32_t cpu);

#endif
