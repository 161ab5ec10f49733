/* The rules by which a stuck executor yields its core, because the awaited peer may need this very
 * core. sched_yield switches threads in under a microsecond, sleep and wake-up in tens of
 * microseconds. Each executor publishes the processor where it was last stuck, beside its work
 * bell. A stale number costs little. */
#ifndef DF_DEVICES_CORES_H
#define DF_DEVICES_CORES_H

#include "base/bell.h"

enum {
  /* Number of processors that are distinguished; larger numbers are taken modulo this. */
  DF_CORES_SEEN = 1024,
  DF_CORES_SAMPLE = 4,      /* one of this many yields is timed */
  DF_CORES_MEETING_NS = 500 /* a yield of at least this time means that another thread ran */
};
/* Time lost on a core before the executor searches for a better one: about the cost of a move.
 * Each search doubles the limit. A period of DF_CORES_APART times the limit without a meeting
 * resets it. */
#define DF_CORES_FIRST_LOSS_NS ((uint64_t)200 * 1000)
#define DF_CORES_LARGEST_LOSS_NS ((uint64_t)50 * 1000 * 1000)
#define DF_CORES_APART 64

typedef struct df_cores_host {
  void *host;
  void (*count_ranks)(void *host, uint16_t ranks[DF_CORES_SEEN]);
} df_cores_host;

typedef struct df_cores {
  df_bell *own; /* the bell through which other ranks see the core of this thread */
  /* Unsuccessful polls before a yield if no peer is known to be on this core. */
  uint32_t patience;
  uint32_t looks;       /* unsuccessful polls since the last event or yield */
  uint32_t yields;      /* yields to a peer on this core */
  uint64_t lost_ns;     /* time that other threads ran since the last search for a core */
  uint64_t loss_ns;     /* limit of lost_ns; 0: the executor never searches */
  uint64_t together_ns; /* time when another thread last ran on the core */
  df_cores_host host;
  const df_carrier *carrier; /* NULL: none; otherwise each poll carries, and patience is 0 */
  uint32_t carrier_patience; /* unsuccessful carries before a yield */
} df_cores;

/* Yields at once if an awaited peer was last on this processor, otherwise when the patience ends.
 * waits_on: a bit for each processor of the peers, modulo 64. Ranks that meet repeatedly move
 * apart. */
void df_cores_give_way(df_cores *cores, uint64_t waits_on);

/* Accounts for a timed yield to a peer on this processor. */
void df_cores_met(df_cores *cores, uint64_t since_ns, uint64_t now_ns, uint32_t cpu);

static inline void df_cores_progressed(df_cores *cores) { cores->looks = 0; }

/* Returns the allowed processor with the fewest ranks, if a move there makes the larger number of
 * ranks on one processor smaller, otherwise DF_NO_CPU. `ranks` counts this rank on `cpu`. */
uint32_t df_cores_better(const uint16_t ranks[DF_CORES_SEEN],
                         const uint64_t allowed[DF_CORES_SEEN / 64], uint32_t cpu);

#endif
