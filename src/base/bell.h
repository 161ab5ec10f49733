/*
 * Bell: an event count on a futex. A full fence between each side's two steps lets one of them see
 * the other (store buffering).
 *   sleeper: ticket = df_bell_prepare; if news: df_bell_cancel, else df_bell_sleep
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

#if !defined(__CUDACC__)
uint32_t df_bell_prepare(df_bell *bell);
void df_bell_cancel(df_bell *bell);
/* UINT64_MAX: no limit. May return for no reason. */
void df_bell_sleep(df_bell *bell, uint32_t ticket, uint64_t timeout_ns);
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
#endif

#endif
