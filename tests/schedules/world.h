/* A world's plan and its application, as the files that make, run and check it see them. */
#ifndef DF_TESTS_SIM_WORLD_H
#define DF_TESTS_SIM_WORLD_H

#include "host/state/context.h"
#include "sim.h"

enum {
  MAX_RANKS = 4,
  MAX_COLLS = 3,
  MAX_RUNS = 7, /* for one collective: more than the daemon may hold at one time */
  FEW_RUNS = 3, /* in most worlds */
  MAX_ELEMENTS = 96,
  MAX_THREADS = 2
};

typedef struct coll_plan {
  df_operation operation;
  uint32_t count, root, runs;
  int in_place;
  const char *algorithm;
  int priority;
  uint32_t members, n_members; /* ranks, by bit */
  int varying;
  uint32_t counts[MAX_RUNS]; /* for varying runs; 0: as registered */
} coll_plan;

extern uint32_t sim_bulk_stride; /* system.c */

typedef struct world_plan {
  uint32_t n_ranks, n_colls, n_threads;
  int warm, deep;
  int visits;         /* registrations between two lives may have a run */
  int processes;      /* each rank is in one of its own */
  int wires;          /* ... and messages go over TCP */
  int hosts;          /* ... and the control channels, too */
  uint32_t rails;     /* ... and large messages have so many */
  uint32_t impatient; /* ranks, by bit, that have the timeout; the others have none */
  uint32_t shared_from;
  uint32_t places[MAX_RANKS]; /* for collectives and variants in the device; 0: its own number */
  coll_plan coll[MAX_COLLS];
  df_settings settings;
} world_plan;

typedef enum { STYLE_WAIT_ALL, STYLE_WAIT_EACH, STYLE_CALLBACKS, STYLE_SYNC, STYLES } app_style;

typedef struct app_run {
  uint32_t rank, coll, run;
  int has_callback, accepted;
  int is_numbered; /* by dfcclRun, and waited for by dfcclWaitRun */
  uint32_t callbacks;
  int checked;
  int32_t *send, *recv;
} app_run;

typedef struct app_rank {
  uint32_t rank;
  dfcclContext_t context;
  uint32_t order[MAX_COLLS * MAX_RUNS], n_order;
  uint32_t thread_begin[MAX_THREADS + 1];
  app_style style;
  uint32_t resubmits; /* runs that callbacks submit */
} app_rank;

typedef struct app {
  app_rank rank[MAX_RANKS];
  app_run run[MAX_RANKS][MAX_COLLS][MAX_RUNS];
  uint32_t threads_left, callbacks_left;
  uint32_t switches; /* asked for */
} app;

extern world_plan sim_plan;
extern app *sim_app; /* in the arena */
extern int sim_world_stands;

/* ---- survive.c */
void sim_survive_notified(dfcclContext_t context, const dfcclMembership_t *membership, void *arg);
int sim_survive_may_fail(uint32_t coll);
void sim_survive_ended(app_run *run, dfcclResult_t status);
void sim_survive_next_death(uint64_t begin);

/* ---- snapshot.c */
void sim_snapshot_take(void);
void sim_snapshot_restore(void);

/* ---- values.c */
int32_t sim_value_of(uint32_t rank, const app_run *run, uint32_t element);
uint32_t sim_count_of(const app_run *run);
uint32_t sim_elements_of(const coll_plan *coll, uint32_t count, int output);
int sim_is_member(uint32_t rank, uint32_t coll);
void sim_check_run(app_run *run); /* all elements; from here on the buffers are the application's */
void sim_take_back(app_run *run); /* a run that failed: they are, too */
/* As sim_check_run, although ranks may be lost. Returns the members whose contributions a sum has;
 * 0: the run has no sum on this rank. */
uint32_t sim_check_survivors(app_run *run, uint32_t lost);

/* ---- application.c */
void sim_app_prepare(void); /* decisions of a schedule about it */
/* count 0: as registered. */
dfcclResult_t sim_submit(uint32_t rank, uint32_t coll, uint32_t count, const void *send, void *recv,
                         dfcclCallback_t callback, void *argument);
void sim_app_check(void);
void sim_ask_to_switch(uint32_t rank); /* perhaps; in worlds of --switches */
void *sim_app_thread(void *argument);  /* rank * MAX_THREADS + thread */

/* ---- endings.c */
void sim_endings_make(void);
void sim_endings_prepare(void);
void *sim_endings_thread(void *argument); /* the first closes the rank's context, the other helps */
uint32_t sim_endings_failing_allocation(void);
void sim_endings_check(void);

/* ---- world_draw.c */
void sim_world_draw(uint64_t seed);

/* ---- world.c */
dfcclResult_t sim_register(uint32_t rank, uint32_t coll, uint32_t more); /* elements than planned */
uint32_t sim_app_agent(uint32_t rank, uint32_t thread);

/* ---- core_world.c */
void *sim_worlds_get(void);
void sim_worlds_set(void *list);

#endif
