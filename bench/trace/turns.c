#include "trace/turns.h"

#include <stdlib.h>

#include "trace/read.h"

static bool add_wait(df_turn_summary *summary, const df_traced_wait *wait) {
  if (!df_make_room((void **)&summary->waits, &summary->waits_room, summary->n_waits,
                    sizeof *summary->waits))
    return false;
  summary->waits[summary->n_waits++] = *wait;
  return true;
}

static bool is_same_wait(const df_traced_wait *wait, const df_traced_turn *turn) {
  return turn->polls > 0 && turn->peer == wait->peer && turn->sends == wait->sends;
}

/*
 * A wait begins with the last polls of a turn that did not end the run, and ends in the first turn
 * of the collective that has a success, or that polls another link. Only the longest wait of a turn
 * is known. In a turn that does not end the run it stands for the last one, which has reached the
 * spin threshold; in a turn that ends the run, for the first one.
 *
 * open: the wait of each collective in this block; turns 0: none.
 */
static bool take_turn(df_turn_summary *summary, df_traced_wait *open, const df_traced_turn *turn) {
  const bool goes_on = turn->kind != DF_TURN_DONE;
  bool is_counted = false;
  if (open->turns > 0) {
    is_counted = is_same_wait(open, turn) && (turn->steps == 0 || !goes_on);
    open->to = turn->from + (is_counted ? turn->longest : 0);
    if (is_counted) {
      open->turns++;
      open->polls += turn->polls;
    }
    if (is_counted && goes_on) {
      open->to = turn->to;
      return true;
    }
    if (!add_wait(summary, open)) return false;
    open->turns = 0;
  }
  if (turn->polls == 0 || is_counted) return true;
  const df_traced_wait wait = {.rank = turn->rank,
                               .block = turn->block,
                               .peer = turn->peer,
                               .sends = turn->sends,
                               .of = turn->of,
                               .from = goes_on ? turn->to - turn->longest : turn->from,
                               .to = goes_on ? turn->to : turn->from + turn->longest,
                               .turns = 1,
                               .polls = turn->polls};
  if (!goes_on) return add_wait(summary, &wait);
  *open = wait;
  return true;
}

static int by_duration(const void *a, const void *b) {
  const df_traced_wait *left = a, *right = b;
  const int64_t one = left->to - left->from, other = right->to - right->from;
  if (one != other) return one > other ? -1 : 1;
  return left->from < right->from ? -1 : left->from > right->from;
}

static void count(const df_job_trace *job, df_turn_summary *summary, const df_traced_turn *turn) {
  const size_t row = turn->of == DF_NO_COLLECTIVE ? job->n_rows : job->collectives[turn->of].row;
  df_row_turns *turns = &summary->rows[row];
  summary->ranks[turn->rank][turn->kind] += turn->kind == DF_TURN_LOST ? turn->polls : 1;
  turns->of_kind[turn->kind]++;
  if (turn->kind != DF_TURN_TAKEN) return;
  turns->queue_sum += turn->queue;
  if (turn->queue > turns->queue_most) turns->queue_most = turn->queue;
}

/* The turns of one block, in order. Waits that do not end are as long as the trace has them. */
static bool find_waits(const df_job_trace *job, df_turn_summary *summary,
                       const df_traced_turn *turns, size_t n, df_traced_wait *open) {
  for (size_t i = 0; i < n; i++)
    if (df_is_turn(&turns[i]) && turns[i].of != DF_NO_COLLECTIVE &&
        !take_turn(summary, &open[turns[i].of], &turns[i]))
      return false;
  for (size_t i = 0; i < job->n_collectives; i++) {
    if (open[i].turns > 0 && !add_wait(summary, &open[i])) return false;
    open[i].turns = 0;
  }
  return true;
}

bool df_turns_summarise(const df_job_trace *job, df_turn_summary *summary) {
  df_traced_wait *open = calloc(job->n_collectives + 1, sizeof *open);
  *summary = (df_turn_summary){.ranks = calloc(job->n_ranks, sizeof *summary->ranks),
                               .rows = calloc(job->n_rows + 1, sizeof *summary->rows)};
  bool fine = open && summary->ranks && summary->rows;
  for (size_t i = 0; fine && i < job->n_turns;) {
    size_t n = 0;
    while (i + n < job->n_turns && job->turns[i + n].rank == job->turns[i].rank &&
           job->turns[i + n].block == job->turns[i].block)
      count(job, summary, &job->turns[i + n++]);
    fine = find_waits(job, summary, &job->turns[i], n, open);
    i += n;
  }
  free(open);
  if (fine && summary->n_waits > 0)
    qsort(summary->waits, summary->n_waits, sizeof *summary->waits, by_duration);
  return fine;
}

void df_turns_free(df_turn_summary *summary) {
  free(summary->ranks);
  free(summary->rows);
  free(summary->waits);
  *summary = (df_turn_summary){0};
}
