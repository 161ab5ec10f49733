/* Promises of src/host/switching/online_tuner.c:
 *   - A search begins with the registered configuration, and tries each other algorithm, whatever
 *     algorithm the collective has switched to before.
 *   - Times of more or fewer runs than requested are ignored, and so are times that a member sends
 *     twice.
 *   - While the tuner pauses, or watches and no window is near, no run reads a clock and no times
 *     are sent. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mutex.h"
#include "host/switching/plan_switch.h"
#include "host/state/registry.h"
#include "host/switching/online_tuner.h"
#include "two_ranks.h"

enum { COLL = 1, WARM = 48 /* runs before the tuner begins */ };

static void run(dfcclContext_t ctxs[2]) {
  static int32_t send[2] = {1, 2}, recv[2][2];
  for (int r = 0; r < 2; r++) OK(dfcclRunAllReduce(ctxs[r], COLL, send, recv[r], NULL, NULL));
  for (int r = 0; r < 2; r++) {
    OK(dfcclWait(ctxs[r], COLL));
    CHECK(recv[r][0] == 2 && recv[r][1] == 4, "%d, %d", recv[r][0], recv[r][1]);
  }
}

typedef struct {
  int algorithm, is_busy;
  df_tuner_summary tuner;
} look;

static look look_at(dfcclContext_t ctx) {
  look l;
  df_rank_lock(&ctx->lock);
  const df_coll *registered = df_find(ctx, COLL);
  l.algorithm = registered->exec.plan->key.algorithm;
  l.is_busy = df_plan_switch_is_busy(registered);
  CHECK(df_tuner_summarise(registered, &l.tuner), "it is not tuned");
  df_rank_unlock(&ctx->lock);
  return l;
}

static void begin(dfcclContext_t ctxs[2], const char *budget) {
  dfcclCollOptions_t options = DFCCL_COLL_OPTIONS_INITIALIZER;
  options.algorithm = "ring";
  options.tune = 1;
  setenv("DFCCL_TUNE_BUDGET", budget, 1);
  two_ranks_open(ctxs);
  for (int r = 0; r < 2; r++)
    OK(dfcclRegisterAllReduce(ctxs[r], COLL, 2, dfcclInt32, dfcclSum, &options));
  run(ctxs);
}

/* All members have answered, and switch as their runs reach the agreed one. */
static int is_committed(dfcclContext_t ctx) {
  df_rank_lock(&ctx->lock);
  const int is = !df_find(ctx, COLL)->plan_switch->asks;
  df_rank_unlock(&ctx->lock);
  return is;
}

DF_TEST(tuner, a_search_begins_with_the_registered_algorithm, 120) {
  dfcclContext_t ctxs[2];
  int runs = 1, was_back = 0, was_tried = 0, is_past = 0;
  begin(ctxs, "0");
  OK(dfcclSetAlgorithm(ctxs[0], COLL, "doubling"));
  EVENTUALLY(is_committed(ctxs[0]));
  for (; look_at(ctxs[0]).algorithm != DF_DOUBLING; runs++) run(ctxs);
  EVENTUALLY(!look_at(ctxs[0]).is_busy);
  CHECK(runs < WARM, "%d runs", runs);
  /* Algorithms are tried in the order of their numbers. */
  while (!was_tried && !is_past) {
    run(ctxs);
    const look l = look_at(ctxs[0]);
    CHECK(l.tuner.state != DF_SEARCH_STOPPED, "it has stopped");
    was_back |= l.algorithm == DF_RING;
    was_tried |= was_back && l.algorithm == DF_DOUBLING;
    is_past |= l.algorithm > DF_DOUBLING;
  }
  CHECK(was_tried, "another one was tried before");
  two_ranks_close(ctxs);
}

/* Rank 1 refuses the latest plan that rank 0 has proposed. */
static void refuse(dfcclContext_t ctx) {
  df_message message = {.kind = DF_MESSAGE_READY, .id = COLL, .b = 1};
  df_rank_lock(&ctx->lock);
  message.variant = df_find(ctx, COLL)->plan_switch->number;
  df_plan_switch_receive(ctx, 1, &message);
  df_rank_unlock(&ctx->lock);
}

DF_TEST(tuner, a_switch_of_the_application_that_is_cancelled_before_the_search, 120) {
  dfcclContext_t ctxs[2];
  begin(ctxs, "0");
  OK(dfcclSetAlgorithm(ctxs[0], COLL, "doubling"));
  refuse(ctxs[0]);
  CHECK(look_at(ctxs[0]).tuner.state == DF_SEARCH_WARMING, "it %s",
        df_search_state_name(look_at(ctxs[0]).tuner.state));
  while (look_at(ctxs[0]).tuner.measured < 3) run(ctxs);
  CHECK(look_at(ctxs[0]).tuner.begun == 1, "%u searches", look_at(ctxs[0]).tuner.begun);
  two_ranks_close(ctxs);
}

/* Rank 1 reports that one run has taken 1 ns. */
static void report_one_time(dfcclContext_t ctx) {
  struct {
    df_message message;
    uint32_t ns;
  } d = {.message = {.kind = DF_MESSAGE_TIMES, .payload_bytes = sizeof d.ns, .id = COLL, .a = 100},
         .ns = 1};
  df_rank_lock(&ctx->lock);
  d.message.variant = df_find(ctx, COLL)->plan_switch->number;
  df_plan_switch_receive(ctx, 1, &d.message);
  df_rank_unlock(&ctx->lock);
}

DF_TEST(tuner, only_as_many_times_as_were_requested, 120) {
  dfcclContext_t ctxs[2];
  begin(ctxs, "0");
  while (look_at(ctxs[0]).tuner.state != DF_SEARCH_MEASURING) run(ctxs);
  EVENTUALLY(is_committed(ctxs[0]));
  for (int i = 0; i < 2; i++) report_one_time(ctxs[0]);
  CHECK(look_at(ctxs[0]).tuner.measured == 0, "a variant was measured by one run");
  while (look_at(ctxs[0]).tuner.measured == 0) run(ctxs);
  two_ranks_close(ctxs);
}

static int by_size(const void *a, const void *b) {
  const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return (x > y) - (x < y);
}

/* In the simplest case, at the usual budget, nothing has been earned yet. Runs that take longer are
 * watched earlier: from 24 us on within the 132 runs of this test, as in a build with a
 * sanitizer. */
DF_TEST(tuner, while_it_waits_a_run_costs_one_compare, 120) {
  enum { SHORT_NS = 12000 };
  static uint64_t ns[WARM];
  dfcclContext_t ctxs[2];
  int n = 0;
  begin(ctxs, "1");
  while (look_at(ctxs[0]).tuner.state == DF_SEARCH_WARMING) {
    const uint64_t start = df_clock_ns();
    run(ctxs);
    ns[n++ % WARM] = df_clock_ns() - start;
  }
  n = n < WARM ? n : WARM;
  qsort(ns, (size_t)n, sizeof *ns, by_size);
  if (n == 0 || ns[n / 2] > SHORT_NS) {
    fprintf(stderr, "runs take %llu ns here, so they are watched\n", (unsigned long long)ns[n / 2]);
    two_ranks_close(ctxs);
    return;
  }
  for (int i = 0; i < 100; i++) run(ctxs);
  CHECK(look_at(ctxs[0]).tuner.state == DF_SEARCH_RESTING, "it %s",
        df_search_state_name(look_at(ctxs[0]).tuner.state));
  for (int r = 0; r < 2; r++) {
    df_rank_lock(&ctxs[r]->lock);
    const df_coll *registered = df_find(ctxs[r], COLL);
    CHECK(ctxs[r]->runs.timing == 0, "rank %d: %u collectives read clocks", r,
          ctxs[r]->runs.timing);
    CHECK(registered->runs.watched_from > registered->runs.retired + 100,
          "rank %d: run %llu is heeded", r, (unsigned long long)registered->runs.watched_from);
    df_rank_unlock(&ctxs[r]->lock);
  }
  two_ranks_close(ctxs);
}
