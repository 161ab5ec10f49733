/*
 * Fault injection. The linker leads each call of these functions that the library makes (and the
 * test's own code, which calls none while armed) through a wrapper here. The wrapper counts the
 * call and lets one of them fail in a way in which the system may let it fail.
 *
 * Not wrapped are functions that cannot fail with right arguments: close, munmap, clock_gettime,
 * the pthread functions except pthread_create, and write to an event descriptor (EAGAIN means that
 * it is full, and has the same effect).
 */
#ifndef DF_TESTS_FAULTS_INJECT_H
#define DF_TESTS_FAULTS_INJECT_H

#include <pthread.h>
#include <stdbool.h>

typedef enum {
  DF_FAULT_HARD, /* out of memory, of descriptors, of threads: the call is refused */
  DF_FAULT_SOFT, /* interrupted, or "not now": the caller must retry; only some calls can */
  DF_FAULT_DEATH /* the process is killed before the call (tests/kills) */
} df_fault_kind;

/* Counts calls from now on and lets the call of that number (from 1) fail; 0: only counts. For soft
 * faults, only calls that can have them count. */
void df_fault_arm(long position, df_fault_kind kind);

/* Counts every call from now on. At the call of that number it calls `how`, on whichever thread. */
void df_fault_arm_death(long position, void (*how)(void));

/* Stops counting. Returns the number of calls. */
long df_fault_disarm(void);

/* The function that has failed by injection since the latest arming; NULL: none. */
const char *df_fault_fired(void);

/* The number of blocks that the library has allocated and not yet freed. */
long df_fault_live_blocks(void);

/* The counts that must be the same before a scenario and after it. */
typedef struct {
  int threads, descriptors;
  long blocks;
} df_belongings;
df_belongings df_take_stock(void);

/* pthread_create that is neither counted nor fails, for the test's own threads. */
int df_fault_thread(pthread_t *thread, void *(*body)(void *), void *argument);

#endif
