/*
 * Fault injection: the linker leads each call of these functions that the library makes (and the
 * test's own code, which calls none while armed) through a wrapper here, which counts it and lets
 * one of them fail as the system might let it fail.
 *
 * Not wrapped, because they cannot fail with right arguments: close, munmap, clock_gettime, the
 * pthread functions but pthread_create, and write to an event descriptor (EAGAIN means that it is
 * full, and wakes as well).
 */
#ifndef DF_TESTS_FAULTS_INJECT_H
#define DF_TESTS_FAULTS_INJECT_H

#include <pthread.h>
#include <stdbool.h>

typedef enum {
  DF_FAULT_HARD, /* out of memory, of descriptors, of threads: the call is refused */
  DF_FAULT_SOFT, /* interrupted, or "not now": whoever calls must try again; only some can */
  DF_FAULT_DEATH /* before it the process dies (tests/kills) */
} df_fault_kind;

/* Counts calls from now on and lets the one of that number (from 1) fail; 0: only counts. Of soft
 * faults, only calls that can have them count. */
void df_fault_arm(long position, df_fault_kind kind);

/* Counts every call from now on, and at the one of that number calls how, on whatever thread. */
void df_fault_arm_death(long position, void (*how)(void));

/* Stops. Returns how many calls there were. */
long df_fault_disarm(void);

/* The function that was made to fail since the latest arming; NULL: none. */
const char *df_fault_fired(void);

/* Memory that the library has allocated and not freed yet: blocks. */
long df_fault_live_blocks(void);

/* What must be as it was before when all is closed. */
typedef struct {
  int threads, descriptors;
  long blocks;
} df_belongings;
df_belongings df_take_stock(void);

/* pthread_create that is neither counted nor fails, for the test's own threads. */
int df_fault_thread(pthread_t *thread, void *(*body)(void *), void *argument);

#endif
