/*
 * Jobs of processes that lose ranks and go on (config.survive). Each rank runs collectives of
 * several kinds in an order of its own, in place and out of place, with several runs of each under
 * way. Promises that the ranks check:
 *   (a) Each run of each collective ends once, and in the same way on all ranks that end it: with
 *       the contributions of the same ranks, or failed. That includes a rank that is lost later.
 *       Runs that end because their rank must not go on are no such end.
 *   (b) Each result has the contribution of every rank of whose loss the application has not been
 *       notified, and a set of ranks never grows again from run to run.
 *   (c) With survive 1 no run fails.
 *   (d) The application is notified of each view, in order. Each view lost some of the ranks that
 *       something happened to. The notification comes before a run without a lost rank completes.
 */
#ifndef DF_TESTS_SURVIVAL_JOB_H
#define DF_TESTS_SURVIVAL_JOB_H

#include "support/processes.h"

enum { JOB_RANKS = 8, JOB_ROUNDS = 400, JOB_DEPTH = 3, JOB_COLLECTIVES = 9, JOB_SENTENCE = 320 };

typedef enum { JOB_RUNS, JOB_WENT_ON, JOB_STOPPED } job_outcome;

/* Memory that the processes of one job share with the program. */
typedef struct {
  _Atomic uint32_t may_lose; /* ranks to which something has happened */
  /* Per rank: when that was; time from then to the first run without the rank; end of its runs. */
  _Atomic uint64_t struck_ns[JOB_RANKS], next_ns[JOB_RANKS], stopped_ns[JOB_RANKS];
  atomic_int outcome[JOB_RANKS];          /* job_outcome */
  _Atomic uint32_t view_of[JOB_RANKS];    /* members of the latest view of a rank */
  char sentence[JOB_RANKS][JOB_SENTENCE]; /* why a rank has stopped */
  /* 0: not yet; else how the run has ended on a rank that ended it */
  _Atomic uint32_t ended[JOB_COLLECTIVES][JOB_ROUNDS];
  atomic_int begun, rounds;      /* ranks that have begun; rounds of the rank that is ahead */
  atomic_int may_end;            /* until then ranks stay before their last runs */
  atomic_int late_rank, late_ms; /* this rank sleeps for a while before its next run; 0 ms: no */
} job_log;

typedef struct {
  int ranks, survive, rounds, patience_s;
  int may_stop; /* ranks may end all their runs, because they must not go on */
  /* several blocks; memory of the library; a switch after each step; the online tuner */
  int blocks, lends, preempts, tunes;
  int any_part;   /* ranks go on that are no majority; all that are lost are dead */
  int uses_again; /* two ranks have used the ids before, with a group of their own */
  uint64_t seed;
} job_shape;

extern job_log *job_shared;
extern job_shape job;

/* Draws what is not given (0) from the seed. */
void job_draw(uint64_t seed, int ranks, int survive, df_random *random);
/* Prints on standard error what was drawn. */
void job_say_shape(void);
/* Starts the processes of `job`, and waits until all have begun. */
void job_start(df_family *family);
/* Something happens to the rank now: it may be lost. */
void job_strike(int rank);

/* ---- Parts of a rank, for programs whose ranks register more than once. Rounds are numbered on
 * from registration to registration. */

typedef void (*job_membership)(dfcclContext_t, const dfcclMembership_t *, void *);
/* The configuration of `job`; it also sets variables of the environment. */
dfcclConfig_t job_configure(job_membership membership);
/* Makes this process a rank: gets memory for its collectives. */
void job_be(dfcclContext_t ctx, int rank);
/* first: the round of the first runs. */
void job_register(int first);
void job_deregister(void);
/* Runs all collectives, in orders of its own. Returns whether the rank has gone on to the end. */
int job_run(df_random *random, int until);
/* The ranks whose contributions each result must have; by default those of whose loss the
 * application has not been notified. It is called on the callback thread, too. */
extern uint32_t (*job_needed)(void);

/* Times in ns, of all jobs. */
typedef struct {
  uint64_t *ns;
  int n;
} job_times;
void job_note(job_times *times, uint64_t ns);
void job_print(const job_times *times, const char *what); /* number, median, worst */

#endif
