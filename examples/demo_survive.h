/*
 * `dfccl-demo survive`: processes run all-reduces in random orders while one of them is killed
 * from time to time, until two are left. Then each of them is started again and joins. The
 * launcher (demo_survive.c) kills, starts, waits and prints; the ranks (demo_survive_rank.c) run,
 * check every element, and write what they see into shared memory.
 */
#ifndef DFCCL_DEMO_SURVIVE_H
#define DFCCL_DEMO_SURVIVE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "dfccl.h"

enum {
  SURVIVE_MIN_RANKS = 3,
  SURVIVE_MAX_RANKS = 64, /* a set of ranks is a 64-bit number */
  SURVIVE_LEFT = 2,       /* ranks that are never killed */
  SURVIVE_COLLECTIVES = 6,
  SURVIVE_DEPTH = 2,     /* runs of a collective that are under way at once */
  SURVIVE_WINDOW = 1024, /* runs whose outcomes are compared; ranks are never so far apart */
};

typedef struct {
  int n_ranks, survive, interval_ms;
  bool json;
  uint64_t seed;
} survive_options;

/* The loss of one rank, or that it has joined, as seen by another one. */
typedef struct {
  _Atomic uint64_t view;
  atomic_int reason; /* a dfcclResult_t */
  atomic_int open;   /* runs that were under way at the notification and have not ended yet */
  _Atomic uint64_t view_ns; /* time of the notification; 0: not yet */
  _Atomic uint64_t next_ns; /* time of the first run that ended well after it; 0: not yet */
  _Atomic uint64_t kept;    /* runs that ended well between the kill and the notification */
  _Atomic uint64_t repeated, failed; /* runs that were under way at the notification, by outcome */
} survive_notice;

typedef struct {
  _Atomic uint64_t runs, repeated, failed, wrong;
  survive_notice lost[SURVIVE_MAX_RANKS], joined[SURVIVE_MAX_RANKS];
} survive_record;

/* Memory that the launcher and all ranks share. */
typedef struct {
  survive_options options;
  atomic_int has_id; /* 1: id is valid */
  dfcclUniqueId id;
  atomic_int ready;  /* ranks that have registered all collectives */
  atomic_int victim; /* the latest rank that was killed; -1: none */
  /* The latest round that a rank has begun; how many processes join, times SURVIVE_GENERATION; and
   * SURVIVE_STOP: no later round begins. Ranks of an earlier generation begin no later round, but
   * take a process in. */
  _Atomic uint64_t gate;
  uint64_t first_round; /* the first round of this generation */
  atomic_int has_join_id[SURVIVE_MAX_RANKS];
  dfcclUniqueId join_ids[SURVIVE_MAX_RANKS];
  atomic_int newcomer; /* the rank of the process that joins; -1: not known yet */
  /* The run's number and a digest of the outcome, by the first rank that ended the run. 0: nothing
   * yet. */
  _Atomic uint64_t outcomes[SURVIVE_COLLECTIVES][SURVIVE_WINDOW];
  survive_record ranks[SURVIVE_MAX_RANKS];
} survive_shared;

#define SURVIVE_STOP (UINT64_C(1) << 63)
#define SURVIVE_GENERATION (UINT64_C(1) << 48)

/* Runs the demo; returns the exit status. Must be called by the process's only thread. */
int demo_survive(const survive_options *options);

/* The whole life of a rank's process. */
_Noreturn void demo_survive_rank(survive_shared *shared, int rank);
/* The same of a process that joins by the id of rank `host`, which is a member. */
_Noreturn void demo_survive_newcomer(survive_shared *shared, int host);

#endif
