/* Summaries of a job's traces: for each collective, for all collectives of one signature, for each
 * rank, and the runs that failed or that some member never submitted. */
#ifndef DF_BENCH_TRACE_SUMMARY_H
#define DF_BENCH_TRACE_SUMMARY_H

#include "dfccl.h"
#include "trace/job.h"
#include "trace/turns.h"

/* The runs of one or more collectives. Times are those of the runs that all members have ended with
 * success. */
typedef struct df_run_summary {
  uint64_t runs, failed; /* all members have ended them; failed: one at least with a failure */
  uint64_t partial;      /* a member has not submitted them, or had not ended them; runs whose
                            lines are lost from a member's trace, but that need all, are in runs */
  double time_us;        /* median time of the last member: it waited least */
  double total_us;       /* the sum of these times */
  double wait_us;        /* median of the additional time of the first member */
  uint32_t last_rank;    /* the rank that came last most often */
  double last_share;     /* in so many of the runs, 0 to 1 */
} df_run_summary;

/* The collectives of one signature: operation, data type, bytes and members. */
typedef struct df_signature {
  const uint32_t *rows; /* in order of ids */
  size_t n_rows;
  df_run_summary summary;
} df_signature;

typedef struct df_rank_summary {
  uint64_t runs, failed, waiting;
  uint64_t missing; /* runs that another member submitted, and that are not in this rank's trace */
  uint64_t last;    /* runs for which it came last */
  /* Sums: the times of its runs, and the times beyond the member that waited least. */
  double time_us, wait_us, callbacks_us, synchronisations_us;
} df_rank_summary;

/* Consecutive runs of a collective that failed or are partial, in the same way on each member. */
typedef struct df_problem {
  uint32_t row;
  uint64_t first_run, last_run;
  size_t span, n_spans; /* the first of these runs */
  int64_t from;         /* first submission */
} df_problem;

typedef enum {
  DF_OUTCOME_COMPLETED,
  DF_OUTCOME_FAILED,
  DF_OUTCOME_WAITING,         /* at the end of its trace */
  DF_OUTCOME_NEVER_SUBMITTED, /* its trace is whole */
  DF_OUTCOME_NOT_IN_TRACE,    /* its trace has no end, so perhaps it submitted the run later */
  DF_OUTCOME_LOST_FROM_TRACE, /* another member has completed the run, which needs all members */
  DF_OUTCOME_NO_TRACE,
  DF_OUTCOMES
} df_outcome;

typedef enum {
  DF_SORT_ID,
  DF_SORT_NAME,
  DF_SORT_OPERATION,
  DF_SORT_BYTES,
  DF_SORT_RUNS,
  DF_SORT_FAILED,
  DF_SORT_PARTIAL,
  DF_SORT_TIME,
  DF_SORT_WAIT,
  DF_SORT_TOTAL,
  DF_SORTS
} df_sort;

/* A table of signatures, and for each row the index of its signature. */
typedef struct df_signatures {
  df_signature *all;
  size_t n;
  uint32_t *of_row; /* [job->n_rows] */
  uint32_t *rows;   /* [job->n_rows]: the signatures point into it */
} df_signatures;

typedef struct df_job_summary {
  const df_job_trace *job;
  df_signatures signatures;
  df_signatures collectives; /* each collective alone */
  df_rank_summary *ranks;    /* [job->n_ranks] */
  df_problem *problems;      /* by time of the first submission */
  size_t n_problems, problems_room;
  df_turn_summary turns;
} df_job_summary;

/* The words of --sort, and those of "outcome" in the JSON object. */
extern const char *const df_sort_names[DF_SORTS];
extern const char *const df_outcome_names[DF_OUTCOMES];

/* The job's clocks are aligned (df_job_align). Signatures are in the order that `sort` names: names
 * and ids upwards, figures downwards. Returns false, after an error message, if there is no memory.
 */
bool df_job_summarise(const df_job_trace *job, df_sort sort, df_job_summary *summary);
void df_job_summary_free(df_job_summary *summary);

/* The runs from `from` until `until` of these rows. */
df_run_summary df_summarise_runs(const df_job_trace *job, const uint32_t *rows, size_t n_rows,
                                 uint64_t from, uint64_t until);

/* Finds the problems, for df_job_summarise. False: no memory. */
bool df_find_problems(df_job_summary *summary);
/* Whether the run has ended with success on a member, and needs all members: then all have
 * submitted it, also those whose traces lack it. */
bool df_run_has_all(const df_job_trace *job, const df_span *run, size_t n);
/* The number of spans, from the first one on, that belong to the same run. */
size_t df_length_of_run(const df_job_trace *job, size_t first);
/* The rank's span among these n of one run, which are in order of ranks; NULL: it has none. */
const df_span *df_span_of_rank(const df_span *run, size_t n, uint32_t rank);
/* The outcome on the member; *status gets that of its run, or 0. */
df_outcome df_outcome_on(const df_job_trace *job, const df_problem *problem, uint32_t rank,
                         int *status);
/* "grad 0", or "grad 0 and 31 more" */
void df_signature_name(const df_job_trace *job, const df_signature *signature, char *text,
                       size_t bytes);

#endif
