#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "host/observe/flight.h"
#include "host/state/flight_colls.h"
#include "host/state/survival.h"

/* Runs of one collective that have not ended, and of all collectives, in a copy. */
enum { OPEN_OF_ONE = 64, OPEN_RUNS = 2048 };

/* ---- collectives ---- */

static uint32_t n_open(const df_coll *coll) DF_RANK_LOCKED {
  return (coll->survival ? coll->survival->n_held : 0) + df_runs_in_device(coll) +
         coll->runs.backlog_length;
}

/* NULL: no run of the collective is in the copy. */
static const df_coll *described(dfcclContext_t context, uint32_t index) DF_RANK_LOCKED {
  const df_coll *coll = context->registry.by_index[index];
  if (coll == NULL || coll->registered) return NULL;
  return df_flight_has(context->flight, coll->runs.last_flight) || n_open(coll) > 0 ? coll : NULL;
}

static const df_flight_coll *former(const df_flight *flight, uint32_t place) {
  if (flight->former == NULL || !df_flight_has(flight, flight->former[place].last)) return NULL;
  return &flight->former[place];
}

static int reserve(dfcclContext_t context, df_flight_copy *copy) DF_RANK_LOCKED {
  const df_flight *flight = context->flight;
  const uint32_t *ranks;
  uint64_t n_ranks = 0, n_runs = DF_MIN(flight->n, (uint64_t)DF_FLIGHT_RUNS);
  uint32_t n_colls = 0;
  for (uint32_t i = 0; i < context->registry.n_indices; i++) {
    const df_coll *coll = described(context, i);
    if (coll == NULL) continue;
    n_colls++;
    n_ranks += df_flight_group(coll, &ranks);
    copy->n_open += n_open(coll);
  }
  for (uint32_t i = 0; i < DF_FLIGHT_RUNS; i++) {
    const df_flight_coll *gone = former(flight, i);
    if (gone == NULL) continue;
    n_colls++;
    n_ranks += gone->n;
  }
  n_runs += DF_MIN(copy->n_open, (uint64_t)OPEN_RUNS);
  copy->colls = malloc((n_colls + 1) * sizeof *copy->colls);
  copy->ranks = malloc((n_ranks + 1) * sizeof *copy->ranks);
  copy->runs = malloc((n_runs + 1) * sizeof *copy->runs);
  return copy->colls != NULL && copy->ranks != NULL && copy->runs != NULL;
}

static void add_coll(df_flight_copy *copy, const df_flight_coll *coll, const uint32_t *ranks,
                     uint32_t n, uint32_t **next_ranks) {
  df_flight_coll *to = &copy->colls[copy->n_colls++];
  *to = *coll;
  to->ranks = *next_ranks;
  to->n = ranks ? n : 0;
  if (ranks) memcpy(to->ranks, ranks, n * sizeof *ranks);
  *next_ranks += to->n;
}

static int by_registration(const void *a, const void *b) {
  const uint32_t left = ((const df_flight_coll *)a)->registration,
                 right = ((const df_flight_coll *)b)->registration;
  return (left > right) - (left < right);
}

static void add_colls(dfcclContext_t context, df_flight_copy *copy) DF_RANK_LOCKED {
  uint32_t *next_ranks = copy->ranks;
  for (uint32_t i = 0; i < context->registry.n_indices; i++) {
    const df_coll *coll = described(context, i);
    const uint32_t *ranks;
    if (coll == NULL) continue;
    const df_flight_coll facts = df_flight_describe(coll);
    const uint32_t n = df_flight_group(coll, &ranks);
    add_coll(copy, &facts, ranks, n, &next_ranks);
  }
  for (uint32_t i = 0; i < DF_FLIGHT_RUNS; i++) {
    const df_flight_coll *gone = former(context->flight, i);
    if (gone) add_coll(copy, gone, gone->ranks, gone->n, &next_ranks);
  }
  qsort(copy->colls, copy->n_colls, sizeof *copy->colls, by_registration);
}

/* ---- runs ---- */

static void add_run(df_flight_copy *copy, const df_flight_run_facts *entry, df_flight_state state) {
  const df_flight_coll key = {.registration = entry->registration};
  const df_flight_coll *coll =
      bsearch(&key, copy->colls, copy->n_colls, sizeof *copy->colls, by_registration);
  copy->runs[copy->n_runs++] = (df_flight_run){
      .entry = *entry, .state = state, .coll = coll ? (uint32_t)(coll - copy->colls) : DF_NOBODY};
}

static void add_open(df_flight_copy *copy, const df_coll *coll, const df_run *run, uint64_t number,
                     uint64_t begun) DF_RANK_LOCKED {
  const df_flight_run_facts entry = {.submitted = run->submitted_ticks,
                                     .begun = begun,
                                     .run = number,
                                     .count = run->count,
                                     .registration = (uint32_t)coll->runs.words->latest};
  add_run(copy, &entry, begun ? DF_FLIGHT_RUNNING : DF_FLIGHT_WAITING);
}

/* Runs that were taken back come before those in the device, and the backlog follows. */
static void add_open_of(df_flight_copy *copy, df_coll *coll, uint32_t most) DF_RANK_LOCKED {
  const uint32_t n_held = coll->survival ? coll->survival->n_held : 0;
  const uint32_t n_device = df_runs_in_device(coll);
  uint64_t number = coll->runs.taken;
  most = DF_MIN(most, (uint32_t)OPEN_OF_ONE);
  for (uint32_t i = 0; i < n_held && most > 0; i++, most--)
    add_open(copy, coll, &coll->survival->held[i].run, number++,
             coll->survival->held[i].run.submitted_ticks);
  for (uint32_t i = 0; i < n_device && most > 0; i++, most--)
    add_open(copy, coll, df_run_in_device(coll, coll->runs.retired + i), number++,
             df_flight_begun(coll, coll->runs.retired + i));
  for (uint32_t i = 0; i < coll->runs.backlog_length && most > 0; i++, most--)
    add_open(copy, coll,
             &coll->runs.backlog[(coll->runs.backlog_head + i) % coll->runs.backlog_capacity],
             number++, 0);
}

static int by_submission(const void *a, const void *b) {
  const df_flight_run_facts *left = &((const df_flight_run *)a)->entry,
                            *right = &((const df_flight_run *)b)->entry;
  if (left->submitted != right->submitted) return left->submitted < right->submitted ? -1 : 1;
  return (left->run > right->run) - (left->run < right->run);
}

static void add_runs(dfcclContext_t context, df_flight_copy *copy) DF_RANK_LOCKED {
  const df_flight *flight = context->flight;
  const uint64_t n = DF_MIN(flight->n, (uint64_t)DF_FLIGHT_RUNS);
  copy->n_before = flight->n - n;
  for (uint64_t i = flight->n - n; i < flight->n; i++) {
    const df_flight_run_facts facts = df_flight_facts(flight, i % DF_FLIGHT_RUNS);
    add_run(copy, &facts, DF_FLIGHT_ENDED);
  }
  uint32_t room = (uint32_t)DF_MIN(copy->n_open, (uint64_t)OPEN_RUNS);
  for (uint32_t i = 0; i < context->registry.n_indices && room > 0; i++) {
    const uint32_t before = copy->n_runs;
    if (described(context, i) == NULL) continue;
    add_open_of(copy, context->registry.by_index[i], room);
    room -= copy->n_runs - before;
  }
  qsort(copy->runs, copy->n_runs, sizeof *copy->runs, by_submission);
}

/* ---- the whole ---- */

static void take_time(const df_flight *flight, df_flight_copy *copy) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  copy->now_ticks = df_ticks();
  const uint64_t now_ns = df_clock_ns();
  copy->now_unix_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
  copy->ns_per_tick =
      copy->now_ticks > flight->first_ticks
          ? (double)(now_ns - flight->first_ns) / (double)(copy->now_ticks - flight->first_ticks)
          : 1;
}

uint64_t df_flight_unix_ns(const df_flight_copy *copy, uint64_t ticks) {
  const double back = (double)(int64_t)(copy->now_ticks - ticks) * copy->ns_per_tick;
  return copy->now_unix_ns - (uint64_t)(int64_t)back;
}

int df_flight_copy_make(dfcclContext_t context, df_flight_copy *copy) {
  DF_ASSERT_RANK_LOCKED(&context->lock);
  memset(copy, 0, sizeof *copy);
  if (context->flight == NULL || !reserve(context, copy)) {
    df_flight_copy_free(copy);
    return 0;
  }
  take_time(context->flight, copy);
  add_colls(context, copy);
  add_runs(context, copy);
  return 1;
}

void df_flight_copy_free(df_flight_copy *copy) {
  free(copy->colls);
  free(copy->ranks);
  free(copy->runs);
  memset(copy, 0, sizeof *copy);
}
