/* One rank's part of a random program. */
#ifndef DF_TESTS_PROPERTY_EXECUTE_H
#define DF_TESTS_PROPERTY_EXECUTE_H

#include "doomed.h"
#include "extras.h"
#include "program.h"
#include "support/buffers.h"

typedef struct execution execution;

/* One run on this rank. Everything about it is decided before the phase starts; callbacks draw no
 * random numbers. */
typedef struct {
  df_buffers buffers;
  df_collective coll; /* with this run's count */
  execution *owner;
  int slot, run; /* run: within the phase */
  bool with_callback, check_in_callback;
  bool by_number; /* submitted by dfcclRun */
  atomic_int calls;
} run_record;

typedef struct {
  bool member;
  bool registered;
  df_collective local; /* as this rank registers it: its own priority */
  int chained_from;    /* runs from this one on are submitted by the callback of the run before */
  int started_by;      /* the slot whose last callback starts this slot; -1: the driver does */
  run_record records[RUNS_MAX];
} slot_state;

struct execution {
  const program *program;
  dfcclContext_t ctx;
  int rank, phase;
  df_random random;
  slot_state slots[SLOTS_MAX];
  doomed doomed;
  extra extras[EXTRAS_MAX];
  /* The order of submissions, and of the operations on other collectives. */
  int actions[(SLOTS_MAX + EXTRAS_MAX) * RUNS_MAX + RUNS_MAX + 1], action_count, next_action;
  int next_run[SLOTS_MAX];
  atomic_int calls; /* callbacks of this phase that have almost returned */
  int expected_calls;
  uint64_t runs_done, elements_done;
};

void execution_begin(execution *e, const program *p, dfcclContext_t ctx, int rank);
/* Draws this rank's decisions for the next phase and allocates its buffers; false: no phase is
 * left. */
bool execution_begin_phase(execution *e);
/* Submits the next run, or makes another call in between; false: nothing is left to submit. */
bool execution_step(execution *e);
/* Waits for the phase's runs, checks every element, and frees everything. */
void execution_end_phase(execution *e);

/* Plays all phases, one after the other. */
void execution_play(execution *e);

#endif
