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

/* The failure of a collective, or of a context, as a trace describes it. */
typedef struct df_traced_failure {
  int status; /* 0: none */
  int64_t at;
  char *why;
} df_traced_failure;

/* A registration of one rank, as its trace describes it. */
typedef struct df_traced_collective {
  uint64_t id;
  uint32_t rank, number; /* its number in that rank's trace */
  uint32_t turn;         /* the rank's registrations of this id and group before it */
  uint32_t row;          /* row of the job: the same on all members */
  char *name;
  char operation[32];
  char type[16];                           /* empty: an older trace, which does not say it */
  df_traced_configuration *configurations; /* in their order; one at least */
  size_t n_configurations, configurations_room;
  uint64_t bytes;
  uint32_t *group, members;
  uint64_t next_run; /* the run after the one whose end was read last */
  /* The runs that waited, as the trace reports last; equal: none. */
  uint64_t waiting_from, waiting_until;
  int64_t waiting_since;
  df_traced_failure failure;
} df_traced_collective;

typedef enum { DF_SPAN_RUN, DF_SPAN_CALLBACK, DF_SPAN_SYNCHRONISATION } df_span_kind;

typedef struct df_span {
  df_span_kind kind;
  uint32_t rank, row; /* row: of the collective; none of a synchronisation */
  uint64_t run;       /* its number in the whole job's order of this collective */
  int64_t from, to;   /* ns since 1970; after df_job_align on rank 0's clock */
  size_t of;          /* the rank's collective */
  int status;         /* dfcclInProgress: it had not ended when the rank's trace ends */
} df_span;

/* Records of a block of the daemon (DFCCL_TRACE_TURNS). The last three are turns. */
typedef enum {
  DF_TURN_TAKEN, /* the block took a run */
  DF_TURN_LOADED,
  DF_TURN_SAVED,
  DF_TURN_STARTED,
  DF_TURN_QUIT,
  DF_TURN_LOST, /* so many records are missing: `polls` */
  DF_TURN_DONE,
  DF_TURN_PREEMPTED,
  DF_TURN_KEPT,
  DF_TURN_KINDS
} df_turn_kind;

#define DF_NO_COLLECTIVE SIZE_MAX

typedef struct df_traced_turn {
  df_turn_kind kind;
  uint32_t rank, block, queue, pending;
  size_t of; /* the rank's collective; DF_NO_COLLECTIVE: none, or it was deregistered since */
  int64_t from, to;
  uint64_t steps, polls;
  int64_t waited, longest; /* ns; 0: it has not waited */
  bool sends;              /* the longest wait was for a slot, not for a message */
  uint32_t peer;
  size_t order; /* in which the files have them */
} df_traced_turn;

/* A message that a network has carried for a link of a block (DFCCL_TRACE_TURNS), from its first
 * byte until it had arrived; a sent one, until the credit for it had come; equal: it did not. */
typedef struct df_traced_message {
  uint32_t rank, block, peer;
  bool is_sent;
  size_t of; /* as in df_traced_turn */
  int64_t from, to;
  uint64_t number, bytes;
} df_traced_message;

/* The common properties of all registrations of one collective. */
typedef struct df_traced_row {
  const df_traced_collective *first; /* collective of the member with the lowest rank */
  uint32_t traced;                   /* members whose traces are here */
  size_t spans, n_spans;             /* its runs, after df_job_align */
} df_traced_row;

typedef struct df_traced_rank {
  bool is_there, is_whole;
  char host[256];
  int process;
  int64_t offset_ns; /* offset of its clock to 1970 */
  int64_t moved_ns;  /* by df_job_align */
  int64_t last_ns;   /* latest time of a run in its trace */
  uint64_t lost_messages;
  df_traced_failure failure;
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
  df_traced_turn *turns; /* after df_job_align by rank, block and time */
  size_t n_turns, turns_room;
  df_traced_message *messages; /* after df_job_align by rank, peer, direction and time */
  size_t n_messages, messages_room;
  size_t n_empty; /* files without a whole line */
} df_job_trace;

static inline bool df_is_turn(const df_traced_turn *turn) { return turn->kind >= DF_TURN_DONE; }

/* Reads all rank-*.trace of the directory, of which one at least has a line. False: it failed, and
 * has printed the reason, with file and line. */
bool df_job_read(const char *directory, df_job_trace *job);
/* Moves the clocks of other hosts than rank 0's by the least that no run ends before a member that
 * it needs has submitted it. Spans are in order of row, run and rank afterwards. */
void df_job_align(df_job_trace *job);
void df_job_free(df_job_trace *job);

/* Whether no member ends a run before all members have submitted it. */
bool df_traced_needs_all(const df_traced_collective *traced);
/* On what the rank executed the run. */
const df_traced_configuration *df_traced_configuration_of(const df_traced_collective *traced,
                                                          uint64_t run);
/* "ring, 1 block, 8 slots of 4096 bytes, flagged" */
void df_traced_choice(const df_traced_configuration *c, char *text, size_t bytes);

#endif
