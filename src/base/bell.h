/*
 * Bell: an event count on a futex, possibly in memory shared between processes. Costs its ringers
 * one load while nobody sleeps. The sleeper announces itself, then looks again; the ringer
 * publishes, then looks for sleepers; a full fence lies between the two steps on each side (store
 * buffering: one of them must see the other).
 *
 *   sleeper                                     ringer
 *     ticket = df_bell_prepare(bell)              publish the news
 *     if news: df_bell_cancel(bell)               df_bell_ring(bell)     (fence, look, wake)
 *     else     df_bell_sleep(bell, ticket, ns)
 */
#ifndef DF_BASE_BELL_H
#define DF_BASE_BELL_H

#include "base/atomic.h"

typedef struct DF_ALIGNED(64) df_bell {
  uint32_t sleepers; /* read-mostly: on its own line, so that a look costs a cache hit */
  uint32_t sequence; /* the futex */
  uint32_t cpu; /* 1 + the processor on which the bell's owner was last stuck; 0: none yet. A hint
                   for its peers (devices/cpu/cores.h), on a line that they have at hand */
} df_bell;
DF_STATIC_ASSERT(sizeof(df_bell) == 64, "a bell is one cache line");

#if !defined(__CUDACC__)
uint32_t df_bell_prepare(df_bell *bell);
void df_bell_cancel(df_bell *bell);
/* Sleeps until rung or timeout_ns have passed (UINT64_MAX: no limit). May also return for no
 * reason. */
void df_bell_sleep(df_bell *bell, uint32_t ticket, uint64_t timeout_ns);
void df_bell_wake(df_bell *bell); /* the slow half of ring */

static inline void df_bell_ring(df_bell *bell) {
  df_wake_fence();
  if (DF_UNLIKELY(df_load_relaxed_u32(&bell->sleepers) != 0)) df_bell_wake(bell);
}
#endif

#endif
