/*
 * Sharing cores: when a stuck executor gives its core away. With more ranks than cores the peer
 * that it waits for may be waiting for this very core, and spinning on would only keep it from
 * coming. A hand-over by sched_yield costs under a microsecond, one by sleeping and being woken
 * tens of them.
 *
 * Each executor publishes the processor that it was last stuck on, beside its work bell, where its
 * peers see it. A hint: a stale one costs a yield too many, or patience.
 */
#ifndef DF_DAEMON_KERNEL_CORES_CPU_H
#define DF_DAEMON_KERNEL_CORES_CPU_H

#include "base/bell.h"

typedef struct df_cores {
  df_bell *own;      /* where this executor's processor is published */
  uint32_t patience; /* looks in vain before the core is given away although no peer that is waited
                        for was last seen on it */
  uint32_t looks;    /* since something happened, or the core was given away */
} df_cores;

/* Nothing can progress. waits_on: bits, modulo 64, of the processors where the peers waited for
 * were last seen. Yields at once when one of them was on this processor, else when patience is at
 * its end. */
void df_cores_give_way(df_cores *cores, uint64_t waits_on);

static inline void df_cores_progressed(df_cores *cores) { cores->looks = 0; }

#endif
