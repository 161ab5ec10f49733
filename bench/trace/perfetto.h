/* The writer of the file for Perfetto. */
#ifndef DF_BENCH_TRACE_PERFETTO_H
#define DF_BENCH_TRACE_PERFETTO_H

#include <stdio.h>

#include "trace/summary.h"

enum { MOST_LANES = 64, LANES_OF_CALLBACKS = 1 };

typedef struct df_perfetto {
  FILE *file;
  uint64_t events;
  int64_t zero; /* the first time of all */
  const df_job_trace *job;
  const df_job_summary *summary;
  const df_signatures *lines;
  bool has_failed; /* no memory */
  uint8_t *lanes;  /* [job->n_spans] the lane of each run among those of its signature */
} df_perfetto;

void df_perfetto_next(df_perfetto *w); /* before each event */
void df_perfetto_string(df_perfetto *w, const char *text);
/* Names a thread. order: threads of a rank are shown in this order. */
void df_perfetto_thread(df_perfetto *w, uint32_t rank, uint64_t thread, int64_t order,
                        const char *name, const char *kind);
/* The thread of a span in this lane of its signature. */
uint64_t df_perfetto_lane(const df_perfetto *w, const df_span *span, uint32_t lane);
/* The daemon's turns: a track for each block, and bars under those of the runs. */
void df_perfetto_turns(df_perfetto *w);
/* The messages of networks: a track for each rank that sends, and for each one that receives. */
void df_perfetto_messages(df_perfetto *w);

#endif
