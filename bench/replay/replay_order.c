/* Orders of the calls of each rank, and the check that no order of execution is needed. */
#include <stdlib.h>
#include <string.h>

#include "common/cli.h"
#include "common/random.h"
#include "replay_plan.h"

/* ---- circles ---- */

typedef struct {
  const replay_plan *plan;
  uint32_t *arrived;    /* by call: members that have made it */
  uint64_t *first_call; /* by collective: its calls in arrived */
  uint64_t *at, *open;  /* by rank: the next item; all items before `open` are complete */
  uint32_t *step;       /* by rank: the next step of that item */
  bool *has_arrived;    /* by rank: at its next item, a call */
  bool blocks;          /* a rank is past a call only when the call is complete */
  bool progressed;
  const char *engine;
} worklist;

static bool is_complete(const worklist *work, uint32_t collective, uint32_t ordinal) {
  return work->arrived[work->first_call[collective] + ordinal] ==
         work->plan->collective[collective].n_members;
}

static bool all_complete(worklist *work, int rank) {
  const replay_plan *plan = work->plan;
  for (; work->open[rank] < work->at[rank]; work->open[rank]++) {
    const replay_item *item = &plan->item[work->open[rank]];
    if (item->collective != REPLAY_WAIT_ALL && !is_complete(work, item->collective, item->ordinal))
      return false;
  }
  return true;
}

/* Whether the rank gets past its next wait or call. */
static bool advance(worklist *work, int rank) {
  const replay_plan *plan = work->plan;
  const replay_item *item = &plan->item[work->at[rank]];
  for (; work->step[rank] < item->step_count; work->step[rank]++) {
    const replay_step *step = &plan->step[item->first_step + work->step[rank]];
    if (step->waits && !is_complete(work, step->collective, step->ordinal)) return false;
  }
  if (item->collective == REPLAY_WAIT_ALL) {
    if (!all_complete(work, rank)) return false;
  } else {
    if (!work->has_arrived[rank]) {
      work->arrived[work->first_call[item->collective] + item->ordinal]++;
      work->progressed = true;
    }
    work->has_arrived[rank] = true;
    if (work->blocks && !is_complete(work, item->collective, item->ordinal)) return false;
  }
  work->at[rank]++;
  work->step[rank] = 0;
  work->has_arrived[rank] = false;
  work->progressed = true;
  return true;
}

static const char *awaited_by(const worklist *work, int rank) {
  const replay_plan *plan = work->plan;
  const replay_item *item = &plan->item[work->at[rank]];
  if (work->step[rank] < item->step_count)
    return plan->collective[plan->step[item->first_step + work->step[rank]].collective].name;
  if (item->collective != REPLAY_WAIT_ALL) return plan->collective[item->collective].name;
  return plan->collective[plan->item[work->open[rank]].collective].name;
}

static bool report(const worklist *work, const char *file) {
  int stuck[2] = {-1, -1}, count = 0;
  for (int rank = 0; rank < work->plan->n_ranks; rank++)
    if (work->at[rank] < work->plan->first_item[rank + 1]) {
      if (count < 2) stuck[count] = rank;
      count++;
    }
  if (count == 0) return true;
  if (work->blocks)
    df_tool_error("%s: the ranks have no common order, which engine %s needs: rank %d has "
                  "\"%.80s\" next, and rank %d \"%.80s\"",
                  file, work->engine, stuck[0], awaited_by(work, stuck[0]), stuck[1],
                  awaited_by(work, stuck[1]));
  else if (count == 1)
    df_tool_error("%s: rank %d waits for \"%.80s\" for ever", file, stuck[0],
                  awaited_by(work, stuck[0]));
  else
    df_tool_error("%s: %d ranks wait for each other in a circle, in any library: rank %d for "
                  "\"%.80s\", rank %d for \"%.80s\"",
                  file, count, stuck[0], awaited_by(work, stuck[0]), stuck[1],
                  awaited_by(work, stuck[1]));
  return false;
}

static bool run_worklist(worklist *work, const char *file) {
  const replay_plan *plan = work->plan;
  for (int rank = 0; rank < plan->n_ranks; rank++)
    work->at[rank] = work->open[rank] = plan->first_item[rank];
  do {
    work->progressed = false;
    for (int rank = 0; rank < plan->n_ranks; rank++)
      while (work->at[rank] < plan->first_item[rank + 1] && advance(work, rank)) continue;
  } while (work->progressed);
  return report(work, file);
}

/* engine: NULL, or its name, if its calls block. */
static bool check_plan(const replay_plan *plan, const char *file, const char *engine) {
  const size_t ranks = (size_t)plan->n_ranks;
  uint64_t calls = 0;
  worklist work = {.plan = plan,
                   .blocks = engine != NULL,
                   .engine = engine,
                   .has_arrived = calloc(ranks, sizeof *work.has_arrived),
                   .first_call = calloc(plan->collective_count + 1u, sizeof *work.first_call),
                   .at = calloc(ranks, sizeof *work.at),
                   .open = calloc(ranks, sizeof *work.open),
                   .step = calloc(ranks, sizeof *work.step)};
  for (uint32_t i = 0; i < plan->collective_count && work.first_call; i++) {
    work.first_call[i] = calls;
    calls += plan->collective[i].calls;
  }
  work.arrived = calloc(calls + 1, sizeof *work.arrived);
  bool fine =
      work.arrived && work.first_call && work.at && work.open && work.step && work.has_arrived;
  if (!fine)
    df_tool_error("out of memory for the trace");
  else
    fine = run_worklist(&work, file);
  free(work.arrived);
  free(work.first_call);
  free(work.at);
  free(work.open);
  free(work.step);
  free(work.has_arrived);
  return fine;
}

bool df_replay_plan_check(const replay_plan *plan, const char *file) {
  return check_plan(plan, file, NULL);
}

bool df_replay_plan_check_common_order(const replay_plan *plan, const replay_options *options) {
  return check_plan(plan, options->files[0], replay_engine_names[options->engine]);
}

/* ---- orders ---- */

/* Whether the call has a wait before it, which stays the first of its window. */
static bool waits_first(const replay_plan *plan, const replay_item *item) {
  for (uint32_t i = 0; i < item->step_count; i++)
    if (plan->step[item->first_step + i].waits) return true;
  return false;
}

static void shuffle(uint32_t *order, uint64_t count, df_tool_random *random) {
  for (uint64_t i = count; i > 1; i--) {
    const uint64_t j = df_tool_random_below(random, (uint32_t)i);
    const uint32_t moved = order[i - 1];
    order[i - 1] = order[j];
    order[j] = moved;
  }
}

void df_replay_order(const replay_plan *plan, const replay_options *options, int rank,
                     uint32_t iteration, uint32_t *order) {
  const uint64_t first = plan->first_item[rank], last = plan->first_item[rank + 1];
  df_tool_random random = {df_tool_mix3(options->seed, (uint64_t)rank, iteration)};
  for (uint64_t i = first; i < last; i++) order[i - first] = (uint32_t)(i - first);
  if (options->order != REPLAY_SHUFFLE) return;
  for (uint64_t from = first, to; from < last; from = to) {
    for (to = from + 1; to < last && plan->item[to].window == plan->item[from].window;) to++;
    const uint64_t head = waits_first(plan, &plan->item[from]);
    shuffle(order + (from - first) + head, to - from - head, &random);
  }
}

typedef struct {
  uint32_t window, place, index;
} sort_key;

static int by_key(const void *a, const void *b) {
  const sort_key *left = a, *right = b;
  if (left->window != right->window) return left->window < right->window ? -1 : 1;
  if (left->place != right->place) return left->place < right->place ? -1 : 1;
  return (left->index > right->index) - (left->index < right->index);
}

/* places[call]: where the first member of the collective made the call in its first iteration. */
static bool find_places(const replay_plan *plan, const replay_options *options,
                        const uint64_t *first_call, uint32_t *places) {
  for (int rank = 0; rank < plan->n_ranks; rank++) {
    const uint64_t first = plan->first_item[rank], count = plan->first_item[rank + 1] - first;
    uint32_t *order = malloc((count + 1) * sizeof *order);
    if (!order) return false;
    df_replay_order(plan, options, rank, 0, order);
    for (uint64_t i = 0; i < count; i++) {
      const replay_item *item = &plan->item[first + order[i]];
      if (item->collective == REPLAY_WAIT_ALL) continue;
      if (plan->collective[item->collective].members[0] == rank)
        places[first_call[item->collective] + item->ordinal] = (uint32_t)i;
    }
    free(order);
  }
  return true;
}

bool df_replay_first_step_order(const replay_plan *plan, const replay_options *options, int rank,
                                uint32_t *order) {
  const uint64_t first = plan->first_item[rank], count = plan->first_item[rank + 1] - first;
  uint64_t *first_call = calloc(plan->collective_count + 1u, sizeof *first_call), calls = 0;
  for (uint32_t i = 0; i < plan->collective_count && first_call; i++) {
    first_call[i] = calls;
    calls += plan->collective[i].calls;
  }
  uint32_t *places = calloc(calls + 1, sizeof *places);
  sort_key *keys = malloc((count + 1) * sizeof *keys);
  const bool fine = first_call && places && keys && find_places(plan, options, first_call, places);
  for (uint64_t i = 0; i < count && fine; i++) {
    const replay_item *item = &plan->item[first + i];
    keys[i] = (sort_key){item->window, 0, (uint32_t)i};
    if (item->collective != REPLAY_WAIT_ALL)
      keys[i].place = places[first_call[item->collective] + item->ordinal];
  }
  if (fine) qsort(keys, count, sizeof *keys, by_key);
  for (uint64_t i = 0; i < count && fine; i++) order[i] = keys[i].index;
  free(first_call);
  free(places);
  free(keys);
  return fine;
}
