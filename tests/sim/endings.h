/* Schedules that end: what endings_draw.c decides and endings.c does and checks. */
#ifndef DF_TESTS_SIM_ENDINGS_H
#define DF_TESTS_SIM_ENDINGS_H

#include "prelude_declarations.h"
#include "world.h"

enum { LIVES = 2, MAX_STEPS = 48 };

typedef enum {
  STEP_SUBMIT,
  STEP_WAIT,
  STEP_WAIT_ALL,
  STEP_SYNC,
  STEP_TRY_DEREGISTER, /* although runs may be outstanding, or to come */
  STEP_DEREGISTER,
  STEP_REGISTER,
  STEP_ABORT,
  STEP_PAUSE,
  STEP_LEAVE, /* what remains is not done: the context is closed */
  STEP_NAP,   /* as long as a timeout */
  STEP_LATER  /* when others' runs have timed out */
} step_kind;

typedef struct step {
  step_kind kind;
  uint32_t coll, n;
} step;

typedef struct coll_state { /* on one rank */
  uint32_t life, next;      /* registration, and run to submit */
  uint32_t accepted[LIVES];
  int refused[LIVES];
} coll_state;

typedef struct rank_state {
  step steps[MAX_THREADS][MAX_STEPS];
  uint32_t n_steps[MAX_THREADS];
  coll_state coll[MAX_COLLS];
  uint32_t helper;
  int has_aborted, leaves, lingers, is_closed, is_dead;
} rank_state;

/* What a callback does beside being counted. */
typedef enum { NOTHING, MOVES_ON, ABORTS, PAUSES } callback_deed;

typedef struct endings {
  rank_state rank[MAX_RANKS];
  callback_deed deed[MAX_RANKS][MAX_COLLS][MAX_RUNS];
  dfcclResult_t status[MAX_RANKS][MAX_COLLS][MAX_RUNS];
  uint32_t first[MAX_COLLS]; /* so many runs in the first life */
  int interlude[MAX_COLLS];  /* there is a registration without runs between the two lives ... */
  int odd[MAX_COLLS];        /* ... which on this rank is of another count; -1 */
  uint64_t allocations;      /* of the application itself */
  int aborts, deaths, early, late, no_memory;
  int dying; /* this rank; -1 */
} endings;

extern endings *sim_endings_now; /* in the arena */

#endif
