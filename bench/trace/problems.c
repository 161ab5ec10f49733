/* The runs that failed, and those that a member did not submit or had not ended. */
#include <stdlib.h>

#include "trace/summary.h"

const char *const df_outcome_names[DF_OUTCOMES] = {
    "completed",           "failed",  "waiting", "never submitted", "not in its trace",
    "lost from its trace", "no trace"};

df_outcome df_outcome_on(const df_job_trace *job, const df_problem *problem, uint32_t rank,
                         int *status) {
  const df_span *span = df_span_of_rank(&job->spans[problem->span], problem->n_spans, rank);
  *status = span ? span->status : 0;
  if (span) {
    if (span->status == dfcclInProgress) return DF_OUTCOME_WAITING;
    return span->status ? DF_OUTCOME_FAILED : DF_OUTCOME_COMPLETED;
  }
  if (!job->ranks[rank].is_there) return DF_OUTCOME_NO_TRACE;
  if (df_run_has_all(job, &job->spans[problem->span], problem->n_spans))
    return DF_OUTCOME_LOST_FROM_TRACE;
  return job->ranks[rank].is_whole ? DF_OUTCOME_NEVER_SUBMITTED : DF_OUTCOME_NOT_IN_TRACE;
}

static bool is_problem(const df_job_trace *job, size_t first, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (job->spans[first + i].status != 0) return true;
  return !df_run_has_all(job, &job->spans[first], n);
}

/* The same members have the same outcomes. */
static bool continues(const df_job_trace *job, const df_problem *before, size_t first, size_t n) {
  const df_span *old = &job->spans[before->span], *new = &job->spans[first];
  if (before->row != new->row || before->last_run + 1 != new->run || before->n_spans != n)
    return false;
  for (size_t i = 0; i < n; i++)
    if (old[i].rank != new[i].rank || old[i].status != new[i].status) return false;
  return true;
}

static bool add_problem(df_job_summary *summary, size_t first, size_t n) {
  const df_span *span = &summary->job->spans[first];
  if (summary->n_problems > 0) {
    df_problem *before = &summary->problems[summary->n_problems - 1];
    if (continues(summary->job, before, first, n)) {
      before->last_run = span->run;
      return true;
    }
  }
  if (summary->n_problems == summary->problems_room) {
    const size_t room = summary->problems_room ? 2 * summary->problems_room : 64;
    df_problem *larger = realloc(summary->problems, room * sizeof *larger);
    if (larger == NULL) return false;
    summary->problems = larger;
    summary->problems_room = room;
  }
  df_problem *problem = &summary->problems[summary->n_problems++];
  *problem = (df_problem){.row = span->row,
                          .first_run = span->run,
                          .last_run = span->run,
                          .span = first,
                          .n_spans = n,
                          .from = span->from};
  for (size_t i = 1; i < n; i++)
    if (span[i].from < problem->from) problem->from = span[i].from;
  return true;
}

static int by_time(const void *a, const void *b) {
  const df_problem *left = a, *right = b;
  if (left->from != right->from) return left->from < right->from ? -1 : 1;
  if (left->row != right->row) return left->row < right->row ? -1 : 1;
  return left->first_run < right->first_run ? -1 : 1;
}

bool df_find_problems(df_job_summary *summary) {
  const df_job_trace *job = summary->job;
  for (size_t i = 0; i < job->n_spans && job->spans[i].kind == DF_SPAN_RUN;) {
    const size_t n = df_length_of_run(job, i);
    if (is_problem(job, i, n) && !add_problem(summary, i, n)) return false;
    i += n;
  }
  if (summary->n_problems > 0)
    qsort(summary->problems, summary->n_problems, sizeof *summary->problems, by_time);
  return true;
}
