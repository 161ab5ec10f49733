/*
 * Promises of DFCCL_PROFILER_PLUGIN, on a profiler plugin for tests (tests/plugin):
 *   - A plugin with a table of any version from 1 to 6 receives each run, once and with its
 *     parents. The newest of several tables is used. Each event is stopped before the run's
 *     callback.
 *   - It receives only the events that it requested, may drop them, and receives refused runs too.
 *   - Links that a network carries are reported, with their peers, and so are the messages of each
 *     run, which end before the run.
 *   - A library that is no profiler plugin, or whose init fails, is named.
 */
#include "../plugin/profiler_plugin.h"
#include "support/buffers.h"
#include "support/processes.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LEAST = 1, MOST = 6, RANKS = 2, RUNS = 20, COUNT = 500 };

static const char *file_of(int version) {
  static char file[512];
  snprintf(file, sizeof file, "%s/libnccl-profiler-dfccltest%d.so", DF_NET_PLUGIN_DIRECTORY,
           version);
  return file;
}

static profiler_plugin_seen look(int version) {
  profiler_plugin_seen (*function)(void);
  void *library = dlopen(file_of(version), RTLD_NOW | RTLD_LOCAL);
  CHECK(library != NULL, "%s", dlerror());
  *(void **)&function = dlsym(library, "profiler_plugin_look");
  return function();
}

static void choose(int version, const char *behaviour) {
  setenv("DFCCL_PROFILER_PLUGIN", file_of(version), 1);
  setenv("DFCCL_TEST_PROFILER", behaviour, 1);
}

typedef struct observed {
  int version;
  int calls;
} observed;

/* The run's own event has ended by now. */
static void count_call(dfcclCollId_t id, dfcclResult_t status, void *arg) {
  observed *h = arg;
  CHECK(id == 1 && status == dfcclSuccess, "%s", df_test_result_name(status));
  h->calls++;
}

static void run_some(int version, observed *h) {
  dfcclContext_t ctxs[RANKS];
  dfcclCollOptions_t options = DFCCL_COLL_OPTIONS_INITIALIZER;
  int32_t send[COUNT], recv[RANKS][COUNT];
  options.algorithm = "ring";
  df_make_contexts(ctxs, RANKS, NULL);
  for (int rank = 0; rank < RANKS; rank++)
    OK(dfcclRegisterAllReduce(ctxs[rank], 1, COUNT, dfcclInt32, dfcclSum, &options));
  for (int run = 0; run < RUNS; run++) {
    for (int i = 0; i < COUNT; i++) send[i] = i + run;
    for (int rank = 0; rank < RANKS; rank++)
      OK(dfcclRunAllReduce(ctxs[rank], 1, send, recv[rank], rank ? NULL : count_call, h));
    for (int rank = 0; rank < RANKS; rank++) OK(dfcclWait(ctxs[rank], 1));
    for (int i = 0; i < COUNT; i++) CHECK(recv[1][i] == RANKS * (i + run), "element %d", i);
    CHECK(look(version).open == 0, "%d events are open", look(version).open);
  }
  df_free_contexts(ctxs, RANKS);
  CHECK(look(version).contexts == 0, "%d contexts", look(version).contexts);
}

DF_TEST(profiler_plugin, each_version_receives_each_run, 60) {
  for (int version = LEAST; version <= MOST; version++) {
    observed h = {.version = version};
    choose(version, "");
    run_some(version, &h);
    const profiler_plugin_seen s = look(version);
    CHECK(s.version == version, "version %d, not %d", s.version, version);
    CHECK(h.calls == RUNS, "%d callbacks", h.calls);
    CHECK(s.colls == RUNS * RANKS && s.groups == RUNS * RANKS, "%d runs, %d groups", s.colls,
          s.groups);
    CHECK(s.calls == (version >= 5 ? RUNS * RANKS : 0) && s.group_calls == s.calls, "%d calls",
          s.calls);
    CHECK(s.number == RUNS - 1 && s.count == COUNT && s.channels == 1, "run %d of %zu elements",
          (int)s.number, s.count);
    CHECK(strcmp(s.function, "AllReduce") == 0 && strcmp(s.algorithm, "RING") == 0 &&
              strcmp(s.datatype, "ncclInt32") == 0 && strcmp(s.protocol, "LL") == 0,
          "%s by %s of %s, %s", s.function, s.algorithm, s.datatype, s.protocol);
  }
}

DF_TEST(profiler_plugin, receives_what_it_requests, 60) {
  for (int version = LEAST; version <= MOST; version++) {
    observed h = {.version = version};
    const profiler_plugin_seen before = look(version);
    choose(version, "events:0");
    run_some(version, &h);
    choose(version, "idle");
    run_some(version, &h);
    choose(version, "drop");
    run_some(version, &h);
    const profiler_plugin_seen s = look(version);
    CHECK(s.colls == before.colls && s.groups == before.groups, "%d runs", s.colls);
    CHECK(h.calls == 3 * RUNS, "%d callbacks", h.calls);
  }
}

DF_TEST(profiler_plugin, refused_runs_leave_nothing_open, 30) {
  dfcclContext_t ctxs[1];
  choose(MOST, "");
  df_make_contexts(ctxs, 1, NULL);
  OK(dfcclRegisterAllReduce(ctxs[0], 1, COUNT, dfcclInt32, dfcclSum, NULL));
  RESULT(dfcclRunAllReduce(ctxs[0], 1, NULL, NULL, NULL, NULL), dfcclInvalidArgument);
  RESULT(dfcclRunAllReduce(ctxs[0], 2, NULL, NULL, NULL, NULL), dfcclInvalidArgument);
  CHECK(look(MOST).open == 0, "%d events are open", look(MOST).open);
  df_free_contexts(ctxs, 1);
}

DF_TEST(profiler_plugin, reports_the_registered_count_of_dynamic_runs, 30) {
  dfcclContext_t ctxs[1];
  int32_t send[COUNT], recv[COUNT];
  const size_t counts[1] = {3};
  size_t received[1];
  choose(MOST, "");
  df_make_contexts(ctxs, 1, NULL);
  OK(dfcclRegisterAllToAllDynamic(ctxs[0], 1, COUNT, dfcclInt32, NULL));
  OK(dfcclRegisterAllReduce(ctxs[0], 2, COUNT, dfcclInt32, dfcclSum, NULL));
  memset(send, 0, sizeof send);
  OK(dfcclRunAllToAllDynamic(ctxs[0], 1, send, counts, NULL, recv, received, NULL, NULL));
  OK(dfcclWait(ctxs[0], 1));
  CHECK(look(MOST).count == COUNT, "%zu elements", look(MOST).count);
  RESULT(dfcclRunAllToAllDynamic(ctxs[0], 2, send, counts, NULL, recv, received, NULL, NULL),
         dfcclInvalidArgument);
  CHECK(look(MOST).count == COUNT, "%zu elements of a refused run", look(MOST).count);
  df_free_contexts(ctxs, 1);
}

/* Long messages travel in several frames. */
enum { NETWORK_COUNT = 100000 };

static void run_over_network(int rank, int ranks, const dfcclUniqueId *id, void *arg) {
  const int version = *(const int *)arg;
  int32_t *send = calloc(NETWORK_COUNT, sizeof *send), *recv = calloc(NETWORK_COUNT, sizeof *recv);
  dfcclContext_t ctx = df_init(rank, ranks, id, NULL);
  for (dfcclCollId_t coll = 1; coll <= 2; coll++)
    OK(dfcclRegisterAllReduce(ctx, coll, coll == 1 ? COUNT : NETWORK_COUNT, dfcclInt32, dfcclSum,
                              NULL));
  for (int run = 0; run < RUNS; run++) {
    for (dfcclCollId_t coll = 1; coll <= 2; coll++)
      OK(dfcclRunAllReduce(ctx, coll, send, recv, NULL, NULL));
    for (dfcclCollId_t coll = 1; coll <= 2; coll++) OK(dfcclWait(ctx, coll));
    CHECK(look(version).open == 0, "%d events are open", look(version).open);
  }
  const profiler_plugin_seen s = look(version);
  CHECK(s.version == version, "version %d, not %d", s.version, version);
  CHECK(s.links >= 2 * RUNS, "%d links in %d runs", s.links, s.colls);
  /* The first runs are submitted before the links are connected. Earlier events are not
   * reported. */
  CHECK(s.steps >= RUNS && s.states > s.steps, "%d messages, %d states", s.steps, s.states);
  df_finish(ctx);
  free(send);
  free(recv);
}

DF_TEST(profiler_plugin, receives_network_links_and_messages, 60) {
  df_family family;
  setenv("DFCCL_NET", "tcp", 1);
  for (int version = LEAST; version <= MOST; version++) {
    choose(version, "");
    df_fork(&family, RANKS, 60, run_over_network, &version);
    df_join(&family);
  }
}

static void expect_refusal(const char *choice, dfcclResult_t result, const char *what) {
  dfcclContext_t ctxs[1];
  setenv("DFCCL_PROFILER_PLUGIN", choice, 1);
  RESULT(dfcclInitAll(ctxs, 1, NULL), result);
  CHECK(strstr(dfcclGetLastError(NULL), what) != NULL, "\"%s\"", dfcclGetLastError(NULL));
}

DF_TEST(profiler_plugin, other_libraries_are_named, 30) {
  char net[512];
  snprintf(net, sizeof net, "%s/libnccl-net-dfccltest4.so", DF_NET_PLUGIN_DIRECTORY);
  expect_refusal("/nowhere.so", dfcclInvalidUsage, "/nowhere.so");
  expect_refusal("dfcclnowhere", dfcclInvalidUsage, "libnccl-profiler-dfcclnowhere.so");
  expect_refusal(net, dfcclInvalidUsage, "has none of ncclProfiler_v1 to _v6");
  setenv("DFCCL_TEST_PROFILER", "init", 1);
  expect_refusal(file_of(3), dfcclSystemError, "DfcclTest (version 3): init fails with 2");
}
