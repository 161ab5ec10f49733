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
  STEP_ABORT_ONE, /* dfcclAbortCollectives */
  STEP_PAUSE,
  STEP_LEAVE, /* the remaining actions are omitted: the context is closed */
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
  uint32_t second_thread;
  int has_aborted, has_aborted_one, leaves, lingers, is_closed, is_dead;
  int closes;                     /* dfcclDestroy has begun */
  uint32_t views, lost;           /* notifications; lost: ranks, by bit */
  uint32_t latest_set[MAX_COLLS]; /* ranks whose contributions the latest run has */
} rank_state;

/* The action of a callback, besides being counted. */
typedef enum { NOTHING, MOVES_ON, ABORTS, PAUSES } callback_deed;

/* The run of a registration between the two lives; of a varying one, behind a run of equal counts.
 * */
typedef struct between_run {
  uint32_t rank, coll, callbacks, earlier_callbacks;
  int accepted, earlier_accepted;
  int32_t *send, *recv;
} between_run;

typedef struct endings {
  rank_state rank[MAX_RANKS];
  callback_deed deed[MAX_RANKS][MAX_COLLS][MAX_RUNS];
  dfcclResult_t status[MAX_RANKS][MAX_COLLS][MAX_RUNS];
  uint32_t first[MAX_COLLS]; /* so many runs in the first life */
  int interlude[MAX_COLLS];  /* there is a registration without runs between the two lives ... */
  int odd[MAX_COLLS];        /* ... which on this rank is of another count; -1 */
  int visited[MAX_COLLS];    /* ... or with one run, after all, which each rank waits for */
  between_run between[MAX_RANKS][MAX_COLLS];
  uint64_t allocations; /* by the application itself */
  int aborts, deaths, early, late, no_memory;
  int dying; /* this rank; -1 */
  uint32_t deaths_left;
  uint32_t ended[MAX_COLLS][MAX_RUNS]; /* with config.survive: how the run has ended: survive.c */
} endings;

extern endings *sim_endings_now; /* in the arena */
/* Buffers between two lives, of which one registration may have an element more. */
enum { BETWEEN_BYTES = (MAX_ELEMENTS + MAX_RANKS) * sizeof(int32_t) };
extern int32_t *sim_between_send[MAX_RANKS][MAX_COLLS], *sim_between_recv[MAX_RANKS][MAX_COLLS];

#endif
