/*
 * Included before a source file of the library that sleeps: a side that goes to sleep ends there.
 * The sleep is noted, and judged at the end of the round: if its sequence number is still the
 * bell's, nothing would ever have ended it.
 */
#ifndef DF_TESTS_LITMUS_ASLEEP_H
#define DF_TESTS_LITMUS_ASLEEP_H

#include <setjmp.h>

#include "litmus.h"

typedef struct litmus_sleep {
  uint32_t sleeps, handle;
  uint64_t timeout_ns;
} litmus_sleep;

static _Thread_local litmus_sleep *asleep; /* where the calling side's sleep is noted ... */
static _Thread_local jmp_buf *bed;         /* ... and where it goes on: to its end */

static void fall_asleep(df_bell *bell, uint32_t handle, uint64_t timeout_ns) {
  (void)bell;
  *asleep = (litmus_sleep){.sleeps = 1, .handle = handle, .timeout_ns = timeout_ns};
  longjmp(*bed, 1);
}
#define df_bell_sleep fall_asleep

/* Whatever may sleep: the last thing that a side does. */
#define LITMUS_MAY_SLEEP(where, call)                                                              \
  do {                                                                                             \
    jmp_buf here;                                                                                  \
    asleep = (where);                                                                              \
    bed = &here;                                                                                   \
    if (_setjmp(here) == 0) call;                                                                  \
  } while (0)

static inline int litmus_sleeps_for_ever(const litmus_sleep *sleep, const df_bell *bell) {
  return sleep->sleeps && df_load_relaxed_u32(&bell->sequence) == sleep->handle;
}

#endif
