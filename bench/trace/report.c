/* The tables that a person reads. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cli.h"
#include "trace/report.h"

enum {
  MOST_PROBLEMS = 20, /* that are printed; the JSON object has all */
  RANKS_BYTES = 200
};

void df_traced_choice(const df_traced_configuration *c, char *text, size_t bytes) {
  snprintf(text, bytes, "%s, %" PRIu64 " block%s, %" PRIu64 " slots of %" PRIu64 " bytes%s%s%s",
           c->algorithm, c->blocks, c->blocks == 1 ? "" : "s", c->slots, c->slot_bytes,
           c->form[0] ? ", " : "", c->form, c->lends ? ", lends" : "");
}

/* ---- ranks as words: "rank 3", "ranks 0, 2-5" ---- */

typedef struct rank_words {
  char text[RANKS_BYTES];
  uint32_t n, first, last; /* the range that was not written yet */
  bool is_cut;
} rank_words;

static void end_range(rank_words *words) {
  const size_t used = strlen(words->text);
  char range[32];
  if (words->n == 0 || words->is_cut) return;
  if (words->first == words->last)
    snprintf(range, sizeof range, "%u", words->first);
  else
    snprintf(range, sizeof range, "%u%s%u", words->first,
             words->first + 1 == words->last ? ", " : "-", words->last);
  words->is_cut = used + strlen(range) + 8 > sizeof words->text;
  snprintf(words->text + used, sizeof words->text - used, "%s%s", used ? ", " : "",
           words->is_cut ? "..." : range);
}

/* Ranks come in any order; each range of neighbours is one word. */
static void add_rank(rank_words *words, uint32_t rank) {
  if (words->n > 0 && rank == words->last + 1) {
    words->last = rank;
  } else {
    end_range(words);
    words->first = words->last = rank;
  }
  words->n++;
}

static void print_ranks(rank_words *words) {
  end_range(words);
  printf("%s %s", words->n == 1 ? "rank" : "ranks", words->text);
}

/* ---- notes about the whole job ---- */

static void print_notes(const df_job_trace *job) {
  rank_words missing = {.n = 0}, cut = {.n = 0};
  for (uint32_t r = 0; r < job->n_ranks; r++) {
    if (!job->ranks[r].is_there) add_rank(&missing, r);
    if (job->ranks[r].is_there && !job->ranks[r].is_whole) add_rank(&cut, r);
  }
  if (missing.n > 0) {
    printf("The traces of %u of %u ranks are missing: ", missing.n, job->n_ranks);
    print_ranks(&missing);
    puts(".");
  }
  if (job->n_empty > 0)
    printf("%zu trace file%s empty: killed at the start of the program, or no room on the disk.\n",
           job->n_empty, job->n_empty == 1 ? " is" : "s are");
  if (cut.n > 0) {
    fputs(cut.n == 1 ? "The trace of " : "The traces of ", stdout);
    print_ranks(&cut);
    puts(cut.n == 1 ? " has no end: its program runs, was killed, ended without dfcclDestroy, or\n"
                      "found no room on the disk."
                    : " have no end: their programs run, were killed, ended without dfcclDestroy,\n"
                      "or found no room on the disk.");
  }
  for (uint32_t r = 0; r < job->n_ranks; r++)
    if (job->ranks[r].moved_ns != 0)
      printf("The clock of rank %u (%s) was moved by %.1f us.\n", r, job->ranks[r].host,
             (double)job->ranks[r].moved_ns / 1e3);
}

/* ---- signatures ---- */

/* The algorithm that they all have used last. */
static const char *algorithm_of(const df_job_trace *job, const df_signature *signature) {
  const char *algorithm = NULL;
  for (size_t i = 0; i < signature->n_rows; i++) {
    const df_traced_collective *traced = job->rows[signature->rows[i]].first;
    const char *last = traced->configurations[traced->n_configurations - 1].algorithm;
    if (algorithm && strcmp(algorithm, last) != 0) return "several algorithms";
    algorithm = last;
  }
  return algorithm;
}

static void print_signatures(const df_job_trace *job, const df_signatures *lines) {
  puts("partial: runs that a member did not submit, or had not ended\n"
       "time: us from dfcclRun* to the run's end, on the member that waited least (median)\n"
       "wait: how much longer the member waited that waited most (median)\n"
       "total: the sum of the times, in ms\n"
       "last: the rank that came last most often, and in how many of the runs\n\n"
       "      runs   failed  partial    time us    wait us   total ms  last         bytes"
       "  operation, type, algorithm, name");
  for (size_t i = 0; i < lines->n; i++) {
    const df_signature *signature = &lines->all[i];
    const df_run_summary *s = &signature->summary;
    const df_traced_collective *traced = job->rows[signature->rows[0]].first;
    char last[32] = "-", name[256];
    if (s->runs > 0) snprintf(last, sizeof last, "%u (%.0f%%)", s->last_rank, 100 * s->last_share);
    df_signature_name(job, signature, name, sizeof name);
    printf("%10" PRIu64 " %8" PRIu64 " %8" PRIu64 " %10.1f %10.1f %10.2f  %-10s %7" PRIu64
           "  %s, %s%s%s, %s\n",
           s->runs, s->failed, s->partial, s->time_us, s->wait_us, s->total_us / 1e3, last,
           traced->bytes, traced->operation, traced->type, traced->type[0] ? ", " : "",
           algorithm_of(job, signature), name);
  }
}

/* ---- ranks ---- */

static void print_rank_sums(const df_job_summary *summary) {
  const df_job_trace *job = summary->job;
  puts(
      "\nSums for each rank, in ms. wait: what its runs took longer than those of the member that\n"
      "waited least; missing: runs of other members that its trace lacks; last: it came last\n\n"
      "  rank       runs   failed  waiting  missing       last       runs ms       wait ms"
      "  callbacks ms      syncs ms  host");
  for (uint32_t r = 0; r < job->n_ranks; r++) {
    const df_rank_summary *s = &summary->ranks[r];
    if (!job->ranks[r].is_there) continue;
    printf("%6u %10" PRIu64 " %8" PRIu64 " %8" PRIu64 " %8" PRIu64 " %10" PRIu64
           " %13.2f %13.2f %13.2f %13.2f  %s\n",
           r, s->runs, s->failed, s->waiting, s->missing, s->last, s->time_us / 1e3,
           s->wait_us / 1e3, s->callbacks_us / 1e3, s->synchronisations_us / 1e3,
           job->ranks[r].host);
  }
}

/* ---- configurations ---- */

static bool same_choices(const df_traced_collective *a, const df_traced_collective *b) {
  if (a->n_configurations != b->n_configurations) return false;
  for (size_t i = 0; i < a->n_configurations; i++) {
    const df_traced_configuration *one = &a->configurations[i], *other = &b->configurations[i];
    if (one->from_run != other->from_run || one->blocks != other->blocks ||
        one->slots != other->slots || one->slot_bytes != other->slot_bytes ||
        one->lends != other->lends || strcmp(one->algorithm, other->algorithm) != 0 ||
        strcmp(one->form, other->form) != 0 || strcmp(one->why, other->why) != 0)
      return false;
  }
  return true;
}

static void print_choices(const df_job_trace *job, const df_signature *alike) {
  const df_traced_collective *traced = job->rows[alike->rows[0]].first;
  char name[256];
  df_signature_name(job, alike, name, sizeof name);
  if (alike->n_rows == 1)
    printf("%s, id %" PRIu64 ", %s\n", name, traced->id, traced->operation);
  else
    printf("%s, %s of %" PRIu64 " bytes\n", name, traced->operation, traced->bytes);
  for (size_t i = 0; i < traced->n_configurations; i++) {
    const df_traced_configuration *c = &traced->configurations[i];
    const uint64_t until = i + 1 < traced->n_configurations ? c[1].from_run : UINT64_MAX;
    const df_run_summary s = df_summarise_runs(job, alike->rows, alike->n_rows, c->from_run, until);
    char choice[160];
    df_traced_choice(c, choice, sizeof choice);
    printf("%10" PRIu64 " %8" PRIu64 " %10.1f  %s%s%s\n", c->from_run, s.runs, s.time_us, choice,
           c->why[0] ? ": " : "", c->why);
  }
}

/* Collectives of one signature that were executed in the same way have one entry. */
static bool print_configurations(const df_job_trace *job, const df_signatures *lines) {
  uint32_t *alike = calloc(job->n_rows + 1, sizeof *alike);
  bool *is_printed = calloc(job->n_rows + 1, sizeof *is_printed);
  puts("\nfrom: the first run that was executed so; why: who chose it, or asked for it\n\n"
       "      from     runs    time us  how, and why");
  for (size_t i = 0; alike && is_printed && i < lines->n; i++) {
    const df_signature *signature = &lines->all[i];
    for (size_t k = 0; k < signature->n_rows; k++) {
      const df_traced_collective *traced = job->rows[signature->rows[k]].first;
      df_signature entry = {.rows = alike};
      for (size_t m = k; !is_printed[signature->rows[k]] && m < signature->n_rows; m++)
        if (!is_printed[signature->rows[m]] &&
            same_choices(traced, job->rows[signature->rows[m]].first))
          alike[entry.n_rows++] = signature->rows[m];
      for (size_t m = 0; m < entry.n_rows; m++) is_printed[alike[m]] = true;
      if (entry.n_rows > 0) print_choices(job, &entry);
    }
  }
  const bool fine = alike && is_printed;
  free(alike);
  free(is_printed);
  if (!fine) df_tool_error("no memory for %zu collectives", job->n_rows);
  return fine;
}

/* ---- problems ---- */

/* Where a member's trace has earlier runs of the collective, the last one tells how far it came. */
static void print_last_run(const df_job_trace *job, const df_problem *problem, uint32_t rank) {
  const df_traced_row *row = &job->rows[problem->row];
  for (size_t i = problem->span; i-- > row->spans;)
    if (job->spans[i].rank == rank) {
      printf("; its last one is run %" PRIu64, job->spans[i].run);
      return;
    }
  fputs("; it has no earlier one", stdout);
}

static void print_outcome(const df_job_trace *job, const df_problem *problem, df_outcome outcome,
                          int status) {
  const df_traced_collective *traced = job->rows[problem->row].first;
  rank_words words = {.n = 0};
  for (uint32_t m = 0; m < traced->members; m++) {
    int of_member;
    if (df_outcome_on(job, problem, traced->group[m], &of_member) == outcome && of_member == status)
      add_rank(&words, traced->group[m]);
  }
  if (words.n == 0) return;
  fputs("    ", stdout);
  print_ranks(&words);
  const bool one = words.n == 1;
  const uint32_t rank = words.last;
  switch (outcome) {
  case DF_OUTCOME_NEVER_SUBMITTED:
    printf(" never submitted %s", problem->first_run == problem->last_run ? "it" : "them");
    if (one) print_last_run(job, problem, rank);
    putchar('\n');
    return;
  case DF_OUTCOME_NOT_IN_TRACE:
    printf(": not in %s, which %s no end", one ? "its trace" : "their traces",
           one ? "has" : "have");
    if (one) print_last_run(job, problem, rank);
    putchar('\n');
    return;
  case DF_OUTCOME_LOST_FROM_TRACE:
    printf(" submitted, too: only the end of %s is lost\n", one ? "its trace" : "their traces");
    return;
  case DF_OUTCOME_NO_TRACE:
    puts(one ? ": its trace is missing" : ": their traces are missing");
    return;
  case DF_OUTCOME_WAITING:
    printf(" submitted and still waited at the end of %s\n", one ? "its trace" : "their traces");
    return;
  case DF_OUTCOME_FAILED:
    printf(" failed: %s\n", dfcclGetErrorString((dfcclResult_t)status));
    return;
  default:
    puts(" completed");
  }
}

/* The sentences that the members' traces have about the collective's failure, each once. */
static void print_reasons(const df_job_trace *job, uint32_t row) {
  const char *printed = "";
  for (size_t i = 0; i < job->n_collectives; i++) {
    const df_traced_collective *traced = &job->collectives[i];
    const char *why = traced->row == row ? traced->failure.why : NULL;
    if (why == NULL || strcmp(why, printed) == 0) continue;
    printf("    rank %u reported: %s\n", traced->rank, why);
    printed = why;
  }
}

static void print_problem(const df_job_trace *job, const df_problem *problem) {
  const df_traced_collective *traced = job->rows[problem->row].first;
  printf("%s \"%s\" (id %" PRIu64 "), run", traced->operation, traced->name, traced->id);
  if (problem->first_run == problem->last_run)
    printf(" %" PRIu64 ":\n", problem->first_run);
  else
    printf("s %" PRIu64 " to %" PRIu64 ":\n", problem->first_run, problem->last_run);
  print_outcome(job, problem, DF_OUTCOME_NEVER_SUBMITTED, 0);
  print_outcome(job, problem, DF_OUTCOME_NOT_IN_TRACE, 0);
  print_outcome(job, problem, DF_OUTCOME_LOST_FROM_TRACE, 0);
  print_outcome(job, problem, DF_OUTCOME_NO_TRACE, 0);
  print_outcome(job, problem, DF_OUTCOME_WAITING, dfcclInProgress);
  for (size_t i = 0; i < problem->n_spans; i++) {
    const df_span *spans = &job->spans[problem->span];
    size_t first = 0;
    while (spans[first].status != spans[i].status) first++;
    if (first == i && spans[i].status != 0 && spans[i].status != dfcclInProgress)
      print_outcome(job, problem, DF_OUTCOME_FAILED, spans[i].status);
  }
  print_outcome(job, problem, DF_OUTCOME_COMPLETED, 0);
  print_reasons(job, problem->row);
}

/* Failures of collectives that have no run, and of whole contexts. */
static void print_failures(const df_job_summary *summary) {
  const df_job_trace *job = summary->job;
  size_t n = 0;
  for (size_t i = 0; i < job->n_rows; i++) {
    const df_traced_collective *traced = job->rows[i].first;
    if (job->rows[i].n_spans > 0 || traced->failure.status == 0 || n++ >= MOST_PROBLEMS) continue;
    printf("%s \"%s\" (id %" PRIu64 ") failed before its first run:\n", traced->operation,
           traced->name, traced->id);
    print_reasons(job, (uint32_t)i);
  }
  if (n > MOST_PROBLEMS) printf("... and %zu more such collectives\n", n - MOST_PROBLEMS);
  for (uint32_t r = 0; r < job->n_ranks; r++) {
    const char *why = job->ranks[r].failure.why;
    rank_words words = {.n = 0};
    bool is_first = why != NULL;
    for (uint32_t other = 0; why && other < job->n_ranks; other++) {
      const char *same = job->ranks[other].failure.why;
      if (same == NULL || strcmp(same, why) != 0) continue;
      if (other < r) is_first = false;
      add_rank(&words, other);
    }
    if (!is_first) continue;
    fputs("All collectives of ", stdout);
    print_ranks(&words);
    printf(" ended:\n    %s\n", why);
  }
}

static void print_problems(const df_job_summary *summary) {
  const size_t n = summary->n_problems;
  bool any = n > 0;
  for (size_t i = 0; i < summary->job->n_collectives && !any; i++)
    any = summary->job->collectives[i].failure.status != 0;
  for (uint32_t r = 0; r < summary->job->n_ranks && !any; r++)
    any = summary->job->ranks[r].failure.status != 0;
  if (!any) return;
  puts("\nFailed and partial runs, in order of their first submission:\n");
  for (size_t i = 0; i < n && i < MOST_PROBLEMS; i++)
    print_problem(summary->job, &summary->problems[i]);
  if (n > MOST_PROBLEMS)
    printf("... and %zu more, which the output of --json has\n", n - MOST_PROBLEMS);
  print_failures(summary);
}

bool df_job_print(const df_job_summary *summary, const df_signatures *lines) {
  print_notes(summary->job);
  print_signatures(summary->job, lines);
  print_rank_sums(summary);
  if (!print_configurations(summary->job, lines)) return false;
  df_job_print_turns(summary);
  df_job_print_messages(summary->job);
  print_problems(summary);
  return df_tool_flush_or_say();
}
