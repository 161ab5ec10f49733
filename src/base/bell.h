/*
 * Bell: an event count on a futex. Each side has a full fence between its two steps, so at least
 * one of the two sees the other's store (the store-buffering pattern).
 *   sleeper: sequence = df_bell_prepare; if there is work: df_bell_cancel, else df_bell_sleep
 *   ringer:  publish the work; df_bell_ring
 */
#ifndef DF_BASE_BELL_H
#define DF_BASE_BELL_H

#include "base/atomic.h"

typedef struct DF_ALIGNED(64) df_bell {
  uint32_t sleepers; /* number of sleepers; read-mostly, so that checking it is a cache hit */
  uint32_t sequence; /* the futex word */
  /* 1 + the processor where the owner was last stuck, or 0 (a hint) */
  uint32_t cpu;
  uint32_t notifications; /* GPU: how often peers published work; the daemon may have left */
} df_bell;
DF_STATIC_ASSERT(sizeof(df_bell) == 64, "a bell is one cache line");

/* A carrier is a bell whose ringers do the sleeper's work themselves. */
typedef enum {
  DF_CARRY_PUBLISHED, /* move what the blocks have published or released */
  DF_CARRY_STUCK,     /* the same; the caller's blocks are stuck, and it polls them at once */
  DF_CARRY_SLEEPS,    /* the caller is about to sleep: other threads must carry from here on */
  DF_CARRY_ALL
} df_carry;
typedef struct df_carrier {
  df_bell *bell; /* its count of sleepers is never 0 */
  void *who;
  int (*carry)(void *who, df_carry why); /* never waits; returns 1 if it did something */
} df_carrier;

#if !defined(__CUDACC__)
uint32_t df_bell_prepare(df_bell *bell);
void df_bell_cancel(df_bell *bell);
/* timeout_ns is UINT64_MAX for no limit. The function may return spuriously. */
void df_bell_sleep(df_bell *bell, uint32_t sequence, uint64_t timeout_ns);
void df_bell_wake(df_bell *bell); /* the slow part of df_bell_ring */

static inline void df_bell_ring(df_bell *bell) {
  df_wake_fence();
  if (DF_UNLIKELY(df_load_relaxed_u32(&bell->sleepers) != 0)) df_bell_wake(bell);
}

/* The count ensures that an owner that is about to sleep does not miss the work. */
static inline void df_bell_notify(df_bell *bell) {
  df_system_add_u32(&bell->notifications, 1);
  df_bell_ring(bell);
}

/* Does the same as df_bell_wake for a bell that may be the one of the carrier. */
void df_carrier_wake(const df_carrier *carrier, df_bell *bell);
#endif

#endif
