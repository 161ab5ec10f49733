/* One rank of a replay. */
#ifndef DF_BENCH_REPLAY_REPLAY_RANK_H
#define DF_BENCH_REPLAY_REPLAY_RANK_H

#include <pthread.h>
#include <stdatomic.h>

#include "common/barrier.h"
#include "common/launch.h"
#include "replay_data.h"
#include "replay_plan.h"

/* One iteration of one rank, in seconds. */
typedef struct {
  double wall, compute;
  double communication; /* an iteration without computing */
} replay_times;

typedef struct {
  uint64_t runs; /* runs of the checked iteration that ended with success */
  int64_t wrong; /* elements */
  /* The process's times in the timed iterations. Ranks that are threads: only rank 0 has them. */
  uint64_t ran_ns, waited_ns;
  double rounds, round_seconds; /* coordinator: of all timed iterations */
  replay_times times[];         /* [iterations] */
} replay_report;

typedef struct {
  replay_options options;
  replay_plan plan;
  replay_data data;
  df_tool_barrier *barrier;
  char library[96];    /* and its version */
  char directory[256]; /* in which ranks of the engine gloo find each other */
} replay_job;

/* A collective of this rank. `lock` protects the counts, and the order of the submissions. */
typedef struct replay_rank replay_rank;
typedef struct {
  replay_rank *rank;
  uint32_t number;
  replay_buffers buffers;
  pthread_mutex_t lock;
  uint64_t released;  /* calls that the engine no longer holds back */
  uint64_t submitted; /* to the library; with callbacks at most `slots` more than completed */
  uint64_t completed; /* with a callback only */
} replay_channel;

struct replay_rank {
  replay_job *job;
  df_tool_rank *self;
  replay_channel *channel; /* by collective */
  uint32_t *order, *release_order;
  bool *made;      /* first-step: by item, whether the program has made the call */
  uint64_t next;   /* first-step: place in release_order */
  uint64_t base;   /* iterations so far: numbers of runs continue */
  bool is_checked; /* results are checked in callbacks */
  double compute_seconds;
  atomic_llong runs, wrong;
  atomic_int failed;                      /* dfcclResult_t of the first failure */
  struct replay_coordinator *coordinator; /* NULL: another engine */
  struct replay_peer_rank *peer;          /* NULL: an engine of this library */
};

/* rank_main of df_tool_launch; its argument is the job. */
void df_replay_rank_main(df_tool_rank *self);
void df_replay_on_failure(void *argument);

/* Notes the rank's first failure, and ends the rank's runs. Any thread. */
void df_replay_note_failure(replay_rank *rank, dfcclResult_t result);

/* Releases the next call of the collective: it is submitted as soon as a slot is free. */
void df_replay_release(replay_rank *rank, uint32_t collective);

/* ---- replay_peer_rank.c: calls that another library executes, in the order of the submissions. */

bool df_replay_peer_rank_open(replay_rank *rank);
void df_replay_peer_rank_close(replay_rank *rank);
void df_replay_peer_submit(replay_rank *rank, uint32_t collective);
/* Waits for the run of that number; REPLAY_WAIT_ALL: for all. */
void df_replay_peer_await(replay_rank *rank, uint32_t collective, uint64_t number);
/* A barrier of all ranks. sleeps: waits without a core. */
bool df_replay_peer_meet(replay_rank *rank, bool sleeps);
void df_replay_peer_wake(replay_rank *rank); /* after a failure */

/* ---- replay_coordinator.c */

bool df_replay_coordinator_open(replay_rank *rank);
void df_replay_coordinator_close(replay_rank *rank);
bool df_replay_coordinator_begin(replay_rank *rank); /* starts the thread of an iteration */
void df_replay_coordinator_made(replay_rank *rank, uint32_t collective);
/* Waits until a call has been released, or all of the rank (collective REPLAY_WAIT_ALL) that the
 * program has made. */
void df_replay_coordinator_await(replay_rank *rank, uint32_t collective, uint64_t number);
void df_replay_coordinator_end(replay_rank *rank); /* joins the thread */
void df_replay_coordinator_cost(const replay_rank *rank, double *rounds, double *seconds);
void df_replay_coordinator_reset(replay_rank *rank);

#endif
