/* The traces of a job's ranks (DFCCL_TRACE, src/host/observe/trace.c), read and brought onto one
 * clock. */
#ifndef DF_BENCH_TRACE_JOB_H
#define DF_BENCH_TRACE_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How one rank executed the runs from one on, until the next of its configurations, and why. */
typedef struct df_traced_configuration {
  uint64_t from_run, switches; /* switches: of the rank until then */
  int64_t at;                  /* ns; 0: an older trace, which does not say when and why */
  char algorithm[32], form[16], purpose[16];
  uint64_t split, blocks, slot_bytes, slots;
  bool lends;
  char *why;
} df_traced_configuration;

/* A registration of one rank, as its trace describes it. */
typedef struct df_traced_collective {
  uint64_t id;
  uint32_t rank, number; /* its number in that rank's trace */
  uint32_t turn;         /* the rank's registrations of this id and group before it */
  uint32_t row;          /* row of the job: the same on all members */
  char *name;
  char operation[32];
  df_traced_configuration *configurations; /* in their order; one at least */
  size_t n_configurations, configurations_room;
  uint64_t bytes;
  uint32_t *group, members;
  uint64_t next_run; /* while the file is read: the run after the one whose end was read last */
} df_traced_collective;

typedef enum { DF_SPAN_RUN, DF_SPAN_CALLBACK, DF_SPAN_SYNCHRONISATION } df_span_kind;

typedef struct df_span {
  df_span_kind kind;
  uint32_t rank, row; /* row: of the collective; none of a synchronisation */
  uint64_t run;       /* its number in the whole job's order of this collective */
  int64_t from, to;   /* ns since 1970; after df_job_align on rank 0's clock */
  size_t of;          /* the rank's collective */
  int status;
} df_span;

/* The common properties of all registrations of one collective. */
typedef struct df_traced_row {
  const df_traced_collective *first; /* collective of the member with the lowest rank */
  uint32_t seen;                     /* members whose traces are here */
} df_traced_row;

typedef struct df_traced_rank {
  bool is_there, is_whole;
  char host[256];
  int process;
  int64_t offset_ns; /* offset of its clock to 1970 */
  int64_t moved_ns;  /* by df_job_align */
} df_traced_rank;

typedef struct df_job_trace {
  uint32_t n_ranks;
  df_traced_rank *ranks;
  df_traced_collective *collectives;
  size_t n_collectives, collectives_room;
  df_traced_row *rows;
  size_t n_rows;
  df_span *spans;
  size_t n_spans, spans_room;
} df_job_trace;

/* Reads all rank-*.trace of the directory. False: it failed, and said why, with file and line. */
bool df_job_read(const char *directory, df_job_trace *job);
/* Moves the clocks of other hosts than rank 0's by the least that no run ends before a member that
 * it needs has submitted it. Spans are in order of row, run and rank afterwards. */
void df_job_align(df_job_trace *job);
void df_job_free(df_job_trace *job);

/* The result of one collective: medians over the runs that all members have ended. */
typedef struct df_row_summary {
  uint64_t runs, failed;
  double time_us;     /* time of the last member: it waited least */
  double wait_us;     /* additional time of the first member */
  uint32_t last_rank; /* the rank that came last most often */
  double last_share;  /* in so many of the runs, 0 to 1 */
} df_row_summary;

df_row_summary df_row_summarise(const df_job_trace *job, uint32_t row);
/* The same of the runs from `from` until `until`. */
df_row_summary df_row_summarise_runs(const df_job_trace *job, uint32_t row, uint64_t from,
                                     uint64_t until);

/* On what the rank executed the run. */
const df_traced_configuration *df_traced_configuration_of(const df_traced_collective *traced,
                                                          uint64_t run);
/* "ring, 1 block, 8 slots of 4096 bytes, flagged" */
void df_traced_choice(const df_traced_configuration *c, char *text, size_t bytes);

/* Returns false if it failed and has printed the reason. */
bool df_job_print(const df_job_trace *job, bool json);
/* A file for Perfetto or chrome://tracing. */
bool df_job_write(const df_job_trace *job, const char *file);

#endif
