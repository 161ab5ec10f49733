/* Wait graph of a standstill: GPUs wait for collectives, and members hold the collectives back.
 */
#ifndef DF_SIM_WAIT_GRAPH_H
#define DF_SIM_WAIT_GRAPH_H

#include "engine_dense.h"
#include "sequences.h"

/* gpu executes collective and waits for it; held_by is a member that has not come to it. */
typedef struct {
  uint32_t gpu, collective, held_by;
} df_wait;

typedef struct {
  df_wait *wait;  /* wait[i].held_by == wait[i + 1].gpu, and the last one's is wait[0].gpu */
  uint32_t count; /* 0: nobody waits in a circle */
  bool shortest;  /* false: the search was cut short; there may be a shorter one */
} df_circle;

/* Finds a shortest circle in the standstill that dense holds for sequences; among several, one
 * through the lowest-numbered GPU. The caller frees circle->wait. */
dfcclResult_t df_wait_graph_circle(const df_sequences *sequences, const df_dense *dense,
                                   df_circle *circle);

#endif
