/*
 * When a stuck executor gives its core away: the awaited peer may need this very core. sched_yield
 * hands over in under a microsecond, sleep and wake-up in tens. Each executor publishes where it
 * was last stuck, beside its work bell. A stale number costs little.
 */
#ifndef DF_DEVICES_CORES_H
#define DF_DEVICES_CORES_H

#include "base/bell.h"

enum {
  DF_CORES_SEEN = 1024,     /* processors, modulo this */
  DF_CORES_SAMPLE = 4,      /* one of so many yields is timed */
  DF_CORES_MEETING_NS = 500 /* somebody else ran in a yield this long */
};
/* Time lost on a core before a look for a better one: about the cost of a move. Each look
 * doubles the limit. DF_CORES_APART times the limit spent apart resets it. */
#define DF_CORES_FIRST_LOSS_NS ((uint64_t)200 * 1000)
#define DF_CORES_LARGEST_LOSS_NS ((uint64_t)50 * 1000 * 1000)
#define DF_CORES_APART 64

typedef struct df_cores_host {
  void *host;
  void (*count_ranks)(void *host, uint16_t ranks[DF_CORES_SEEN]);
} df_cores_host;

typedef struct df_cores {
  df_bell *own;         /* The bell through which others see this thread's core. */
  uint32_t patience;    /* Vain looks before a yield if no peer is known to be here. */
  uint32_t looks;       /* Vain looks since an event or a yield. */
  uint32_t yields;      /* Yields to a peer on this core. */
  uint64_t lost_ns;     /* Time that others had since the last look for a core. */
  uint64_t loss_ns;     /* limit of lost_ns; 0: never looks */
  uint64_t together_ns; /* when others last ran on the core */
  df_cores_host host;
  const df_carrier *carrier; /* NULL: none. Else each look carries, and patience is 0 */
  uint32_t carrier_patience; /* vain carries before a yield */
} df_cores;

/* Yields at once if an awaited peer was last on this processor, else when patience ends.
 * waits_on: bits, modulo 64, of the peers' processors. Ranks that keep meeting spread. */
void df_cores_give_way(df_cores *cores, uint64_t waits_on);

/* After a timed yield to a peer on this processor. */
void df_cores_met(df_cores *cores, uint64_t since_ns, uint64_t now_ns, uint32_t cpu);

static inline void df_cores_progressed(df_cores *cores) { cores->looks = 0; }

/* The allowed processor with the fewest ranks, if the larger crowd gets smaller; else DF_NO_CPU.
 * `ranks` counts this rank on `cpu`. */
uint32_t df_cores_better(const uint16_t ranks[DF_CORES_SEEN],
                         const uint64_t allowed[DF_CORES_SEEN / 64], uint32_t cpu);

#endif
