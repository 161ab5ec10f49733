/*
 * Bell: an event count on a futex, perhaps in memory that processes share. While nobody sleeps it
 * costs a ringer one load. The sleeper announces itself, then looks again; the ringer publishes,
 * then looks for sleepers. A full fence lies between the two steps on each side, so that one of
 * them sees the other (store buffering).
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
  uint32_t sleepers; /* read-mostly, on its own line: a look is a cache hit */
  uint32_t sequence; /* the futex */
  /* 1 + the processor on which the owner was last stuck; 0: none yet. A hint for peers
   * (devices/cpu/cores.h), on a line that they have at hand. */
  uint32_t cpu;
} df_bell;
DF_STATIC_ASSERT(sizeof(df_bell) == 64, "a bell is one cache line");

#if !defined(__CUDACC__)
uint32_t df_bell_prepare(df_bell *bell);
void df_bell_cancel(df_bell *bell);
/* Sleeps until rung, or for timeout_ns (UINT64_MAX: no limit). May return for no reason. */
void df_bell_sleep(df_bell *bell, uint32_t ticket, uint64_t timeout_ns);
void df_bell_wake(df_bell *bell); /* the slow half of ring */

static inline void df_bell_ring(df_bell *bell) {
  df_wake_fence();
  if (DF_UNLIKELY(df_load_relaxed_u32(&bell->sleepers) != 0)) df_bell_wake(bell);
}
#endif

#endif
