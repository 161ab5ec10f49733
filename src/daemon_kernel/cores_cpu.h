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

enum {
  DF_CORES_SEEN = 1024, /* processors are told apart modulo this */
  DF_CORES_FIRST_LOOK = 16,
  DF_CORES_LAST_LOOK = 1 << 14
};

/* What the host knows: how many ranks were last stuck on each processor. */
typedef struct df_cores_host {
  void *host;
  void (*count_ranks)(void *host, uint16_t ranks[DF_CORES_SEEN]);
} df_cores_host;

/* Of one block: its executor's. */
typedef struct df_cores {
  df_bell *own;      /* where this executor's processor is published */
  uint32_t patience; /* looks in vain before the core is given away although no peer that is waited
                        for was last seen on it */
  uint32_t looks;    /* since something happened, or the core was given away */
  uint32_t
      together; /* looks that found a peer on the same core, since the last look for a better */
  uint32_t next_look; /* for a better core, at so many; 0: never. Doubled each time, so that we do
                         not fight a scheduler that knows better */
  df_cores_host host;
} df_cores;

/* Nothing can progress. waits_on: bits, modulo 64, of the processors where the peers waited for
 * were last seen. Yields at once when one of them was on this processor, else when patience is at
 * its end. Ranks that go on meeting on one core spread to emptier ones. */
void df_cores_give_way(df_cores *cores, uint64_t waits_on);

static inline void df_cores_progressed(df_cores *cores) { cores->looks = 0; }

/* The processor to move to from `cpu`: among those that may be used, the one with the fewest ranks,
 * if that makes the larger of the two crowds smaller; else DF_NO_CPU. `ranks` counts this one on
 * `cpu`. */
uint32_t df_cores_better(const uint16_t ranks[DF_CORES_SEEN],
                         const uint64_t allowed[DF_CORES_SEEN / 64], uint32_t cpu);

#endif
