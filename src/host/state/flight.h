/* The memory of the flight recorder: the latest runs of this rank that have ended. It is always on
 * and has a fixed size.
 * observe/flight.h writes files. The caller of every function holds context->lock. */
#ifndef DF_HOST_STATE_FLIGHT_H
#define DF_HOST_STATE_FLIGHT_H

#include "base/mutex.h"
#include "base/ticks.h"
#include "host/state/collective.h"

#if defined(DF_SIMULATION) /* the simulation copies its worlds */
enum { DF_FLIGHT_RUNS = 4 };
#else
enum { DF_FLIGHT_RUNS = 2048 /* a power of two */ };
#endif
enum {
  DF_FLIGHT_LOSSES = 16,
  DF_FLIGHT_WHY_BYTES = 256,
  DF_FLIGHT_MAY_BE_LATER = 1,     /* bit of a time */
  DF_FLIGHT_ORDER = 31,           /* bits of a time: moments after a reading differ */
  DF_FLIGHT_WITHOUT_READING = 15, /* moments after a reading, if it follows the one before within */
  DF_FLIGHT_TIGHT_TICKS = 16384,  /* some microseconds */
  DF_FLIGHT_IS_RARE = 1 << 16     /* bit of a status */
};

typedef struct df_flight_entry {
  uint64_t submitted, ended; /* df_flight_now */
  uint64_t run;
  uint32_t registration; /* the lower half of df_wait_words.latest */
  uint32_t status;       /* dfcclResult_t, and DF_FLIGHT_IS_RARE */
} df_flight_entry;
DF_STATIC_ASSERT(sizeof(df_flight_entry) == 32, "two entries fill a cache line");

/* Values of a run that did not begin when it was submitted, or does not have the registered
 * count. */
typedef struct df_flight_rare {
  uint64_t begun; /* 0: the daemon never had the run, or gave it back */
  uint64_t count; /* elements; 0: the registered count; AllToAllDynamic: no meaning */
} df_flight_rare;

/* A run with all of it. */
typedef struct df_flight_run_facts {
  uint64_t submitted, begun, ended, run, count;
  uint32_t registration, status;
} df_flight_run_facts;

/* The registration of a collective, as entries need it. */
typedef struct df_flight_coll {
  uint64_t last; /* 1 + number of its latest entry; 0: none */
  dfcclCollId_t id;
  uint64_t count;
  uint32_t registration;
  df_operation operation;
  dfcclDataType_t type;
  uint32_t root, n, position;
  uint32_t *ranks; /* [n]; NULL: none are known */
  char name[DF_MAX_NAME];
} df_flight_coll;

/* A rank that this rank has lost, and the latest run that both took part in. */
typedef struct df_flight_loss {
  uint32_t rank;
  int has_run;
  uint64_t at;             /* df_ticks */
  df_flight_run_facts run; /* valid if has_run, as are id and name */
  dfcclCollId_t id;
  char name[DF_MAX_NAME];
  char why[DF_FLIGHT_WHY_BYTES];
} df_flight_loss;

/* Apart, because the simulation of the tests restores only small memory between schedules. */
typedef struct df_flight_ring {
  df_flight_entry entries[DF_FLIGHT_RUNS];
  df_flight_rare rare[DF_FLIGHT_RUNS]; /* valid if the entry has DF_FLIGHT_IS_RARE */
} df_flight_ring;

typedef struct df_flight {
  df_flight_ring *ring;
  uint64_t n;               /* runs that have ended */
  uint64_t latest_ticks;    /* the latest reading of the counter */
  uint64_t without_reading; /* moments that get its value */
  /* [DF_FLIGHT_RUNS] collectives that no longer exist, each at the place of its latest entry.
   * NULL: there was none, or no memory. */
  df_flight_coll *former;
  uint64_t first_ticks, first_ns; /* one moment */

  /* observe/flight.c owns these */
  dfcclResult_t failed; /* the first failure; dfcclSuccess: none */
  uint64_t failed_at;   /* df_ticks */
  char sentence[DF_SENTENCE_BYTES];
  df_flight_loss losses[DF_FLIGHT_LOSSES];
  uint32_t n_losses;
  uint64_t hold_until_ns;      /* the next file is not written before */
  uint64_t await_until_ns;     /* nobody waits longer for the files that were requested */
  uint32_t reason;             /* df_flight_reason of the next file */
  uint32_t requested, written; /* numbers of files; read without the lock */
  int has_warned;
} df_flight;

/* Returns the counter. A reading takes 10 ns, a tenth of the shortest run. So in a loop of short
 * runs most moments get the value of the latest reading with the lowest bit set. The bit says that
 * the moment may be later, up to the next reading. The four bits above it count these moments, so
 * that their order is known. */
static inline uint64_t df_flight_now(df_flight *flight) DF_RANK_LOCKED {
  if (DF_LIKELY(flight->without_reading > 0)) {
    const uint64_t order = 1 + DF_FLIGHT_WITHOUT_READING - flight->without_reading--;
    return flight->latest_ticks | order << 1 | DF_FLIGHT_MAY_BE_LATER;
  }
  const uint64_t read = df_ticks() & ~(uint64_t)DF_FLIGHT_ORDER;
  const uint64_t now = DF_MAX(read, flight->latest_ticks + DF_FLIGHT_ORDER + 1);
  flight->without_reading =
      now - flight->latest_ticks < DF_FLIGHT_TIGHT_TICKS ? DF_FLIGHT_WITHOUT_READING : 0;
  flight->latest_ticks = now;
  return now;
}

/* The daemon has got the run from the backlog. */
static inline void df_flight_begin(df_flight *flight, df_coll *coll, uint64_t run) DF_RANK_LOCKED {
  if (flight == NULL) return;
  coll->runs.begun_ticks[df_slot_of(coll, run)] = df_flight_now(flight);
  coll->runs.waited_until = run + 1;
}

/* When the daemon got the run that it has. The time of its slot may be that of an earlier run. */
static inline uint64_t df_flight_begun(df_coll *coll, uint64_t run) DF_RANK_LOCKED {
  const uint64_t submitted = df_run_in_device(coll, run)->submitted_ticks;
  if (DF_LIKELY(run >= coll->runs.waited_until)) return submitted;
  return DF_MAX(submitted, coll->runs.begun_ticks[df_slot_of(coll, run)]);
}

/* A run that was counted in runs.taken last. */
static inline void df_flight_note(df_flight *flight, df_coll *coll, const df_run *run,
                                  dfcclResult_t status, uint64_t begun) DF_RANK_LOCKED {
  const uint64_t place = flight->n++ % DF_FLIGHT_RUNS;
  const int is_rare = begun != run->submitted_ticks || run->count != 0;
  flight->ring->entries[place] =
      (df_flight_entry){.submitted = run->submitted_ticks,
                        .ended = df_flight_now(flight),
                        .run = coll->runs.taken - 1,
                        .registration = (uint32_t)coll->runs.words->latest,
                        .status = (uint32_t)status | (is_rare ? DF_FLIGHT_IS_RARE : 0u)};
  if (DF_UNLIKELY(is_rare))
    flight->ring->rare[place] = (df_flight_rare){.begun = begun, .count = run->count};
  coll->runs.last_flight = flight->n;
}

/* Whether the entry that was the latest when `last` was n still exists. */
static inline int df_flight_has(const df_flight *flight, uint64_t last) {
  return last > 0 && last + DF_FLIGHT_RUNS > flight->n;
}

/* Reads the entry at `place` of the ring. */
df_flight_run_facts df_flight_facts(const df_flight *flight, uint64_t place);

/* NULL: no memory. */
df_flight *df_flight_make(void);
void df_flight_free(df_flight *flight); /* may be NULL */

#endif
