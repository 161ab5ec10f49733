/*
 * Promises of dfcclGetTimes and dfcclGetEvents, by the public API on the emulated runtime. With
 * timers, each SQE, CQE, load and save of a context is recorded once, between the run's submission
 * and its callback, and each run is fetched, prepared and executed once. Without timers, the
 * functions fail.
 */
#include <stdlib.h>
#include <string.h>

#include "calls.h"
#include "support/buffers.h"

enum { TIMED_RUNS = 30, MOST_TIMES = 1000, FIRST_ID = 7 };
typedef struct {
  uint64_t submitted, called; /* CLOCK_MONOTONIC */
} timed_run;

static void note_call(dfcclCollId_t id, dfcclResult_t status, void *arg) {
  (void)id;
  OK(status);
  *(uint64_t *)arg = df_now_ns();
}

static void expect_times(dfcclContext_t ctx, dfcclTime_t kind, size_t expected,
                         const timed_run *runs) {
  /* The clocks are compared by messages between two threads, which may not run for a while. */
  const uint64_t slack = 2000000000u;
  uint64_t durations[MOST_TIMES], moments[MOST_TIMES];
  size_t count = 0;
  OK(dfcclGetTimes(ctx, kind, NULL, NULL, &count));
  CHECK(count == expected, "kind %d: %zu, not %zu", (int)kind, count, expected);
  CHECK(count <= MOST_TIMES, "%zu", count);
  durations[0] = moments[0] = 0;
  count = 1; /* an array that is too short */
  OK(dfcclGetTimes(ctx, kind, durations, moments, &count));
  CHECK(count == expected, "kind %d: %zu, not %zu", (int)kind, count, expected);
  uint64_t alone[2][MOST_TIMES]; /* one array may be requested without the other */
  OK(dfcclGetTimes(ctx, kind, alone[0], NULL, &count));
  OK(dfcclGetTimes(ctx, kind, NULL, alone[1], &count));
  OK(dfcclGetTimes(ctx, kind, durations, moments, &count));
  CHECK(memcmp(alone[0], durations, count * sizeof *durations) == 0, "kind %d: other durations",
        (int)kind);
  for (size_t i = 0; i < count; i++) {
    const timed_run *run = runs ? &runs[i] : NULL;
    CHECK(i == 0 || moments[i] >= moments[i - 1], "kind %d: %zu is before its predecessor",
          (int)kind, i);
    CHECK(alone[1][i] + slack >= moments[i] && alone[1][i] <= moments[i] + slack,
          "kind %d: %llu, and alone %llu", (int)kind, (unsigned long long)moments[i],
          (unsigned long long)alone[1][i]);
    CHECK(durations[i] < slack, "kind %d: %llu ns", (int)kind, (unsigned long long)durations[i]);
    CHECK(run == NULL ||
              (moments[i] + slack >= run->submitted && moments[i] <= run->called + slack),
          "kind %d, run %zu: %llu, not from %llu to %llu", (int)kind, i,
          (unsigned long long)moments[i], (unsigned long long)run->submitted,
          (unsigned long long)run->called);
  }
}

static void note_times(dfcclContext_t ctx, timed_run *runs) {
  for (int i = 0; i < TIMED_RUNS; i++) {
    const dfcclCollId_t c = (dfcclCollId_t)(i % 2) + FIRST_ID;
    runs[i].submitted = df_now_ns();
    OK(dfcclRunAllReduce(ctx, c, NULL, NULL, note_call, &runs[i].called));
    OK(dfcclWait(ctx, c));
  }
  OK(dfcclDeviceSynchronize(ctx));
}

/* The run of a block is fetched, begun (perhaps repeatedly) and completed, in this order. */
static void expect_events(dfcclContext_t ctx, const timed_run *runs) {
  static const uint64_t slack = 2000000000u;
  static dfcclEvent_t events[8 * MOST_TIMES];
  size_t count = 1, fetched = 0, done = 0, launched = 0;
  OK(dfcclGetEvents(ctx, NULL, &count));
  CHECK(count >= 3 * TIMED_RUNS && count <= 8 * MOST_TIMES, "%zu events", count);
  size_t all = count;
  OK(dfcclGetEvents(ctx, events, &count));
  CHECK(count == all, "%zu events, not %zu", count, all);
  for (size_t i = 0; i < count; i++) {
    const dfcclEvent_t *e = &events[i];
    CHECK(e->block == 0, "block %u", e->block);
    CHECK(i == 0 || e->moment >= events[i - 1].moment, "%zu is before its predecessor", i);
    launched += e->kind == dfcclEventLaunched;
    if (e->kind == dfcclEventLaunched) continue;
    size_t run = e->kind == dfcclEventFetched ? fetched : done;
    CHECK(run < TIMED_RUNS && e->collective == run % 2 + FIRST_ID,
          "event %zu, kind %d, of run %zu: collective %llu", i, (int)e->kind, run,
          (unsigned long long)e->collective);
    CHECK(e->moment + slack >= runs[run].submitted && e->moment <= runs[run].called + slack,
          "event %zu is not within its run", i);
    fetched += e->kind == dfcclEventFetched;
    done += e->kind == dfcclEventDone;
    if (e->kind == dfcclEventFetched || e->kind == dfcclEventBegun)
      CHECK(e->queueLength == 1 && e->pendingRuns == 1, "queue of %u, %u pending", e->queueLength,
            e->pendingRuns);
    CHECK(fetched - done <= 1, "run %zu is fetched before its predecessor is done", fetched);
  }
  CHECK(fetched == TIMED_RUNS && done == TIMED_RUNS && launched >= 1,
        "%zu fetched, %zu done, %zu launches", fetched, done, launched);
}

static void times_with(const char *relay, size_t passed) {
  dfcclContext_t ctx;
  timed_run runs[TIMED_RUNS];
  dfcclStats_t stats = DFCCL_STATS_INITIALIZER;
  df_tune("cuda_timers", "1");
  df_tune("cuda_relay", relay);
  setenv("DFCCL_CONTEXT_SLOTS", "1", 1); /* two collectives in turn: each run saves and loads one */
  df_make_contexts(&ctx, 1, NULL);
  for (dfcclCollId_t c = FIRST_ID; c < FIRST_ID + 2; c++)
    OK(dfcclRegisterAllReduce(ctx, c, 0, dfcclFloat32, dfcclSum, NULL));
  note_times(ctx, runs);
  OK(dfcclGetStats(ctx, &stats));
  expect_times(ctx, dfcclTimePass, passed, passed ? runs : NULL);
  expect_times(ctx, dfcclTimeFetch, TIMED_RUNS, runs);
  expect_times(ctx, dfcclTimeCqeWrite, TIMED_RUNS, runs);
  expect_times(ctx, dfcclTimePrepare, TIMED_RUNS, runs);
  expect_times(ctx, dfcclTimeExecute, TIMED_RUNS, runs);
  expect_events(ctx, runs);
  /* A launch begins with empty slots, and leaves by saving their contents, which is not timed. */
  expect_times(ctx, dfcclTimeContextLoad, (size_t)stats.contextLoads, NULL);
  CHECK(stats.contextLoads >= TIMED_RUNS, "%llu loads", (unsigned long long)stats.contextLoads);
  size_t saves = 0;
  OK(dfcclGetTimes(ctx, dfcclTimeContextSave, NULL, NULL, &saves));
  CHECK(saves > 0 && saves + stats.daemonStarts >= stats.contextSaves &&
            saves <= stats.contextSaves,
        "%zu of %llu saves", saves, (unsigned long long)stats.contextSaves);
  df_free_contexts(&ctx, 1);
}

DF_TEST(emulated_times, times_with_the_relay, 120) { times_with("1", TIMED_RUNS); }
DF_TEST(emulated_times, times_without_the_relay, 120) { times_with("0", 0); }

DF_TEST(emulated_times, no_times_without_timers, 60) {
  dfcclContext_t ctx;
  size_t count = 0;
  df_make_contexts(&ctx, 1, NULL);
  CHECK(dfcclGetTimes(ctx, dfcclTimeFetch, NULL, NULL, &count) == dfcclInvalidUsage,
        "there are times");
  CHECK(strstr(dfcclGetLastError(ctx), "cuda_timers of DFCCL_TUNING") != NULL, "%s",
        dfcclGetLastError(ctx));
  CHECK(dfcclGetEvents(ctx, NULL, &count) == dfcclInvalidUsage, "there are events");
  df_free_contexts(&ctx, 1);
}
