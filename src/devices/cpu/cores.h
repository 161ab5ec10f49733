/*
 * Sharing cores: when a stuck executor gives its core away. With more ranks than cores, the peer
 * that an executor waits for may need this very core. A hand-over by sched_yield costs under a
 * microsecond, a hand-over by sleep and wake-up tens of them.
 *
 * Each executor publishes the processor on which it was last stuck, beside its work bell. Peers
 * take the number as a hint: a stale one costs a needless yield, or patience.
 */
#ifndef DF_DEVICES_CPU_CORES_H
#define DF_DEVICES_CPU_CORES_H

#include "base/bell.h"

enum {
  DF_CORES_SEEN = 1024,     /* processors are told apart modulo this */
  DF_CORES_SAMPLE = 4,      /* one of so many yields to a peer is timed */
  DF_CORES_MEETING_NS = 500 /* somebody else ran during a yield that took so long */
};
/* Time given to others on one core before an executor looks for an emptier one: about the cost of
 * a move. Each look doubles the limit, because the system's scheduler may know better. The limit
 * starts anew when the ranks have stayed apart DF_CORES_APART times as long. */
#define DF_CORES_FIRST_LOSS_NS ((uint64_t)200 * 1000)
#define DF_CORES_LARGEST_LOSS_NS ((uint64_t)50 * 1000 * 1000)
#define DF_CORES_APART 64

/* The host knows how many ranks were last stuck on each processor. */
typedef struct df_cores_host {
  void *host;
  void (*count_ranks)(void *host, uint16_t ranks[DF_CORES_SEEN]);
} df_cores_host;

/* Of one block: its executor's. */
typedef struct df_cores {
  df_bell *own; /* publishes this executor's processor */
  uint32_t
      patience;     /* looks in vain before a yield, if no awaited peer was last seen on the core */
  uint32_t looks;   /* since something happened, or since the last yield */
  uint32_t yields;  /* to a peer on the same core */
  uint64_t lost_ns; /* given to others on the core since the last look for a better one */
  uint64_t loss_ns; /* limit of lost_ns; 0: the executor never looks for a better core */
  uint64_t together_ns; /* moment at which others last ran on the core */
  df_cores_host host;
} df_cores;

/* Nothing can progress. waits_on: bits, modulo 64, of the processors on which the awaited peers
 * were last seen. Yields at once if one of them was on this processor, else when patience ends.
 * Ranks that keep meeting on one core spread to emptier ones. */
void df_cores_give_way(df_cores *cores, uint64_t waits_on);

/* A timed yield to a peer on this processor is over. Looks for a better core if too much time is
 * lost. */
void df_cores_met(df_cores *cores, uint64_t since_ns, uint64_t now_ns, uint32_t cpu);

static inline void df_cores_progressed(df_cores *cores) { cores->looks = 0; }

/* The processor to move to from `cpu`: the allowed one with the fewest ranks, if the move makes the
 * larger of the two crowds smaller; else DF_NO_CPU. `ranks` counts this rank on `cpu`. */
uint32_t df_cores_better(const uint16_t ranks[DF_CORES_SEEN],
                         const uint64_t allowed[DF_CORES_SEEN / 64], uint32_t cpu);

#endif
