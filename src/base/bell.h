/*
 * Bell: an event count on a futex. A full fence between each side's two steps lets one of them see
 * the other (store buffering).
 *   sleeper: sequence = df_bell_prepare; if news: df_bell_cancel, else df_bell_sleep
 *   ringer:  publish the news; df_bell_ring
 */
#ifndef DF_BASE_BELL_H
#define DF_BASE_BELL_H

#include "base/atomic.h"

typedef struct DF_ALIGNED(64) df_bell {
  uint32_t sleepers; /* read-mostly: a look is a cache hit */
  uint32_t sequence; /* the futex */
  /* 1 + the processor where the owner was last stuck, or 0: a hint. */
  uint32_t cpu;
  uint32_t told; /* GPU: how often peers had news for the owner, whose daemon may have left */
} df_bell;
DF_STATIC_ASSERT(sizeof(df_bell) == 64, "a bell is one cache line");

/* A bell whose ringers do the sleeper's work themselves. */
typedef enum {
  DF_CARRY_PUBLISHED, /* what blocks have published or released */
  DF_CARRY_STUCK,     /* the caller's blocks are stuck; it looks again at once */
  DF_CARRY_SLEEPS,    /* the caller is about to sleep: others must carry from now on */
  DF_CARRY_ALL
} df_carry;
typedef struct df_carrier {
  df_bell *bell; /* has a sleeper for ever */
  void *who;
  int (*carry)(void *who, df_carry why); /* never waits. Returns 1 when it did something */
} df_carrier;

#if !defined(__CUDACC__)
uint32_t df_bell_prepare(df_bell *bell);
void df_bell_cancel(df_bell *bell);
/* UINT64_MAX: no limit. May return for no reason. */
void df_bell_sleep(df_bell *bell, uint32_t sequence, uint64_t timeout_ns);
void df_bell_wake(df_bell *bell); /* the slow half of ring */

static inline void df_bell_ring(df_bell *bell) {
  df_wake_fence();
  if (DF_UNLIKELY(df_load_relaxed_u32(&bell->sleepers) != 0)) df_bell_wake(bell);
}

/* Counted, so that nothing is lost on an owner that is about to sleep. */
static inline void df_bell_tell(df_bell *bell) {
  df_system_add_u32(&bell->told, 1);
  df_bell_ring(bell);
}

/* As df_bell_wake, of a bell that may be the carrier's. */
void df_carrier_wake(const df_carrier *carrier, df_bell *bell);
#endif

#endif
