/*
 * A random program: the collectives that all ranks run together, in phases. It follows from a seed
 * alone, so that every rank, in whatever process, makes the same program. Each rank's own decisions
 * (orders, chains, memory) are drawn in execute.c, from the same seed and the rank.
 */
#ifndef DF_TESTS_PROPERTY_PROGRAM_H
#define DF_TESTS_PROPERTY_PROGRAM_H

#include "support/ranks.h"
#include "support/vector_collectives.h"

enum { RANKS_MAX = 12, SLOTS_MAX = 6, PHASES_MAX = 3, RUNS_MAX = 5, EXTRAS_MAX = 2 };

/* One collective in one phase. Its id belongs to the slot and the set of members, so that every
 * member has registered it equally often. */
typedef struct {
  bool fresh; /* registered in this phase; otherwise kept from the phase before */
  bool last;  /* deregistered at the end of this phase */
  df_collective coll;
  int group[RANKS_MAX];
  dfcclCollId_t id;
  int first_run; /* runs since its registration before this phase */
  int runs;      /* in this phase */
} program_slot;

/* DYNAMIC: an AllToAllV whose counts are given to each run. */
typedef enum { EXTRA_VECTOR, EXTRA_EVEN, EXTRA_USER_OPERATOR, EXTRA_DYNAMIC } extra_form;

/* A collective that exists for one phase (extras.h). */
typedef struct {
  extra_form form;
  df_vector_coll vector;
  df_collective even;
  size_t most;   /* elements of a pair in any run, of DYNAMIC */
  bool commutes; /* the user-defined operator commutes */
  int members, group[RANKS_MAX], runs;
} program_extra;

typedef struct {
  int slots;
  program_slot slot[SLOTS_MAX];
  int extras;
  program_extra extra[EXTRAS_MAX];
  int doomed_runs; /* runs of the aborted collective (doomed.h); 0: there is none */
  int aborter;
  size_t doomed_count;
} program_phase;

typedef struct {
  uint64_t seed;
  int ranks, phases;
  bool one_driver; /* one thread submits for all ranks (where they are in one process) */
  bool memory;     /* some buffers are from dfcclMemAlloc */
  bool priorities;
  program_phase phase[PHASES_MAX];
} program;

/* The program must not move in memory, because its collectives point into it. No buffer is larger
 * than largest_bytes (0: no limit). */
void program_make(program *p, uint64_t seed, int ranks, size_t largest_bytes);
/* The count of a run since the registration; 0: as registered. */
size_t program_count(const program_slot *slot, int run);
void program_print(const program *p);

#endif
