/* A rank's whole life in a job of tests/kills, up to its end or to a rank's death. */
#ifndef DF_TESTS_KILLS_LIFE_H
#define DF_TESTS_KILLS_LIFE_H

#include "support/ranks.h"

enum { KILLS_RANKS_MAX = 4, KILLS_COLLECTIVES_MAX = 6, KILLS_DEPTH_MAX = 3, KILLS_LIVES_MAX = 2 };

/* The phases of a rank's life, in order. Each but the first and the last occurs once in each
 * life. */
typedef enum {
  KILLS_INIT,
  KILLS_REGISTER,
  KILLS_MEMORY,     /* dfcclMemAlloc */
  KILLS_LINKS,      /* the first runs */
  KILLS_RUNS,       /* further runs */
  KILLS_DEREGISTER, /* then the rank may begin another life */
  KILLS_FREE,
  KILLS_DESTROY,
  KILLS_LEFT, /* dfcclDestroy has returned */
  KILLS_PHASES
} kills_phase;

/* How the victim dies. Each way but the first is counted within the victim's process, from the
 * beginning of the phase. */
typedef enum {
  KILLS_BY_TIME, /* another process kills it, some microseconds after the phase has begun */
  KILLS_BY_CALL, /* at a system call or an allocation (tests/faults/inject.h) */
  KILLS_BY_MOVE, /* in the middle of moving data (moves.h) */
  KILLS_BY_STEP, /* between two calls to the library */
  KILLS_WAYS
} kills_way;

typedef struct {
  df_collective coll;
  int group[KILLS_RANKS_MAX];
  bool lent, in_place;
} kills_collective;

/* The whole description of a job; it follows from the seed. */
typedef struct {
  uint64_t seed;
  int ranks, lives, rounds, depth, n_collectives, max_blocks;
  kills_collective collectives[KILLS_COLLECTIVES_MAX];
  bool kills; /* otherwise all ranks live to the end */
  int victim, life;
  kills_phase phase;
  kills_way way;
  long position; /* microseconds, calls, movements or steps */
} kills_job;

/* Shared by the processes of a job. */
typedef struct {
  atomic_int progress;        /* the victim's progress: life * KILLS_PHASES + phase */
  atomic_int killed, died_in; /* the progress of died_in at the moment of the death */
  atomic_ullong killed_ns;
  atomic_ullong noticed_ns[KILLS_RANKS_MAX]; /* the first error; 0: none */
  atomic_int came[KILLS_RANKS_MAX];          /* dfcclInit succeeded */
  atomic_int accepted, succeeded, failed;    /* runs */
} kills_stage;

typedef struct {
  const kills_job *job;
  kills_stage *stage;
} kills_scene;

int kills_progress(int life, kills_phase phase);

/* A df_rank_body; arg: kills_scene. */
void kills_live(int rank, int ranks, const dfcclUniqueId *id, void *arg);

#endif
