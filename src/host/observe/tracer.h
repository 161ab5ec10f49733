/* The record of a rank's trace. Only trace.c and turns.c use it. */
#ifndef DF_HOST_OBSERVE_TRACER_H
#define DF_HOST_OBSERVE_TRACER_H

#include "base/growing_text.h"
#include "base/limits.h"
#include "base/mutex.h"
#include "host/state/context.h"

typedef struct df_tracer {
  int fd;
  int ended;       /* writing has failed: nothing more is added */
  int has_failure; /* lines that wait contain the end of a failed run */
  uint32_t collectives;
  df_growing_text lines;
  uint64_t turns[DF_MAX_BLOCKS]; /* number of records of each block's log that were read, or lost */
} df_tracer;

/* Describes the collective, which has no number in the trace yet. */
void df_tracer_describe(dfcclContext_t context, df_coll *coll) DF_RANK_LOCKED;
/* Keeps whole lines, or no part of them. before: the length of `lines` before they were added. */
void df_tracer_end_lines(dfcclContext_t context, size_t before) DF_RANK_LOCKED;

#endif
