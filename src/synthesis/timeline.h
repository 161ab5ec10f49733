/*
 * A collective in simulated time: the plans of all ranks, as the step executes them, with loops,
 * chunks and slots, on a model of a network. Discrete events; the same answer every time.
 *
 * A primitive begins when its block has ended the one before, its message has come, and a slot is
 * free for what it sends. Messages of a connection go one after the other. A slot is free again
 * when its reader's release has travelled back.
 */
#ifndef DF_SYNTHESIS_TIMELINE_H
#define DF_SYNTHESIS_TIMELINE_H

#include "plans/plan.h"
#include "synthesis/flows.h"

typedef struct df_timeline_question {
  const df_network *network;
  df_operation operation;
  int algorithm;
  const struct df_plan_file *file; /* the file of DF_FROM_FILE */
  const struct df_trees *trees;    /* the trees of DF_TREES, or NULL */
  uint32_t root;
  uint32_t split;  /* subgroup size of two-level plans; 0: as many as the first host has ranks */
  uint32_t blocks; /* parts of the buffer whose plans are executed side by side; 0: one */
  uint32_t lanes;  /* channels of hierarchical plans; 0: as many as the library uses */
  uint64_t bytes;  /* bytes of a rank's larger buffer, in elements of 4 bytes */
  uint32_t slots;  /* slots of each connection */
  uint64_t slot_bytes;
  /* Called every 1,024 events, with the parts of the work that are done; or NULL. */
  void (*progress)(void *user, uint64_t done, uint64_t all);
  void *progress_user;
} df_timeline_question;

/* The parts of the time until the last result of the slowest rank, in seconds. */
typedef struct df_timeline_path {
  double latency, transfer, work, credit; /* credit: for a slot that comes back */
  uint32_t messages;
} df_timeline_path;

typedef struct df_timeline_answer {
  double seconds, bound;
  uint64_t messages, bytes_moved;
  uint32_t loops;
  uint32_t last_rank; /* which ended last */
  df_timeline_path critical;
  uint32_t busiest; /* port */
  double busiest_seconds;
  uint64_t busiest_bytes;
} df_timeline_answer;

/* For pictures. begin, end: seconds. message of `bytes` from one rank to another; or a wait. */
typedef struct df_timeline_events {
  void *user;
  void (*message)(void *user, uint32_t from, uint32_t to, uint32_t bytes, double begin, double end);
  void (*wait)(void *user, uint32_t rank, uint32_t peer, int for_a_slot, double begin, double end);
} df_timeline_events;

/* events: may be NULL. dfcclInvalidArgument: the algorithm does not have the operation, or its
 * plans would wait for ever; dfcclOutOfMemory. */
dfcclResult_t df_timeline_run(const df_timeline_question *question,
                              const df_timeline_events *events, df_timeline_answer *answer);

/* All but those whose buffers have no size, or that most ranks have no part in. */
int df_timeline_supports(df_operation operation);
/* Whether there are such plans for so many ranks. */
int df_timeline_has(const df_network *network, df_operation operation, int algorithm);

#endif
