/*
 * Sharing cores: when a stuck executor gives its core away. With more ranks than cores the peer
 * that it waits for may be waiting for this very core, and spinning on would only keep it from
 * coming. A hand-over by sched_yield costs under a microsecond, one by sleeping and being woken
 * tens of them.
 *
 * Each executor publishes the processor that it was last stuck on, beside its work bell, where its
 * peers see it. A hint: a stale one costs a yield too many, or patience.
 */
#ifndef DF_DEVICES_CPU_CORES_H
#define DF_DEVICES_CPU_CORES_H

#include "base/bell.h"

enum {
  DF_CORES_SEEN = 1024,     /* processors are told apart modulo this */
  DF_CORES_SAMPLE = 4,      /* one of so many yields to a peer is timed */
  DF_CORES_MEETING_NS = 500 /* a yield that takes so long has let somebody else run */
};
/* Time given to others on one core before an emptier one is looked for: about what a move costs.
 * Doubled with each look, so that we do not fight a scheduler that knows better; as at first again
 * when the ranks have stayed apart so many times as long. */
#define DF_CORES_FIRST_LOSS_NS ((uint64_t)200 * 1000)
#define DF_CORES_LARGEST_LOSS_NS ((uint64_t)50 * 1000 * 1000)
#define DF_CORES_APART 64

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
  uint32_t yields;   /* to a peer on the same core */
  uint64_t lost_ns;  /* given to others on the same core, since the last look for a better */
  uint64_t loss_ns;  /* at so much a better one is looked for; 0: never */
  uint64_t together_ns; /* when the core was last given to others */
  df_cores_host host;
} df_cores;

/* Nothing can progress. waits_on: bits, modulo 64, of the processors where the peers waited for
 * were last seen. Yields at once when one of them was on this processor, else when patience is at
 * its end. Ranks that go on meeting on one core spread to emptier ones. */
void df_cores_give_way(df_cores *cores, uint64_t waits_on);

/* A timed yield to a peer on this processor is over. Looks for a better one if too much is lost. */
void df_cores_met(df_cores *cores, uint64_t since_ns, uint64_t now_ns, uint32_t cpu);

static inline void df_cores_progressed(df_cores *cores) { cores->looks = 0; }

/* The processor to move to from `cpu`: among those that may be used, the one with the fewest ranks,
 * if that makes the larger of the two crowds smaller; else DF_NO_CPU. `ranks` counts this one on
 * `cpu`. */
uint32_t df_cores_better(const uint16_t ranks[DF_CORES_SEEN],
                         const uint64_t allowed[DF_CORES_SEEN / 64], uint32_t cpu);

#endif
