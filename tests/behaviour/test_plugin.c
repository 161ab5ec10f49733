/*
 * Promises of DFCCL_NET=plugin:NAME, on a network plugin for tests (tests/plugin):
 *   - Ranks of different processes exchange messages over a plugin with a table of any version from
 *     4 to 12. Everything else that plugins may do (return no request, report wrong sizes, accept
 *     few bytes at a time, wait in accept) changes no result.
 *   - A connection over a plugin that fails is made again. If that fails too, the collectives fail
 *     with the plugin's name, its call and its error, on both ends.
 *   - While no message is sent the plugin is not called; the next message arrives nevertheless.
 *   - Messages that a rank has sent before it leaves arrive.
 *   - The sentence names a plugin that is missing, fails, or has no device, and the attempted
 *     steps.
 *   - A process that was forked from a process that uses the plugin cannot use it.
 */
#include "support/buffers.h"
#include "support/processes.h"
#include "support/rest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RANKS = 2, COUNT = 50000, LEAST = 4, MOST = 12, COLL = 3 };

static void choose_version(int version) {
  char text[512];
  snprintf(text, sizeof text, "plugin:%s/libnccl-net-dfccltest%d.so", DF_NET_PLUGIN_DIRECTORY,
           version);
  setenv("DFCCL_NET", text, 1);
}

static void run_rounds(dfcclContext_t ctx, int rank, int ranks, int rounds) {
  static int32_t send[COUNT], recv[COUNT];
  for (int round = 0; round < rounds; round++) {
    for (int i = 0; i < COUNT; i++) send[i] = (rank + 1) * (i + round);
    OK(dfcclRunAllReduce(ctx, COLL, send, recv, NULL, NULL));
    OK(dfcclWait(ctx, COLL));
    for (int i = 0; i < COUNT; i++)
      CHECK(recv[i] == ranks * (ranks + 1) / 2 * (i + round), "element %d: %d", i, recv[i]);
  }
}

static dfcclContext_t begin(int rank, int ranks, const dfcclUniqueId *id) {
  dfcclContext_t ctx = df_init(rank, ranks, id, NULL);
  OK(dfcclRegisterAllReduce(ctx, COLL, COUNT, dfcclInt32, dfcclSum, NULL));
  return ctx;
}

static void run_some(int rank, int ranks, const dfcclUniqueId *id, void *arg) {
  (void)arg;
  dfcclContext_t ctx = begin(rank, ranks, id);
  run_rounds(ctx, rank, ranks, 20);
  df_finish(ctx);
}

static void run_family(int ranks, df_rank_body body, void *arg) {
  df_family family;
  df_fork(&family, ranks, 60, body, arg);
  df_join(&family);
}

DF_TEST(plugin, carries_messages_whatever_its_version, 120) {
  for (int version = LEAST; version <= MOST; version++) {
    choose_version(version);
    run_family(version % 3 == 0 ? 3 : RANKS, run_some, NULL);
  }
}

DF_TEST(plugin, may_behave_as_plugins_do, 120) {
  static const char *const habits[] = {"later:60", "short", "slow:3", "small:600",
                                       "hang:30",  "log",   "waits"};
  for (size_t i = 0; i < sizeof habits / sizeof *habits; i++)
    for (int version = LEAST; version <= MOST; version += 4) {
      setenv("DFCCL_TEST_PLUGIN_FAULT", habits[i], 1);
      choose_version(version);
      run_family(RANKS, run_some, NULL);
    }
}

DF_TEST(plugin, connections_that_fail_are_made_anew, 120) {
  static const char *const faults[] = {"send:17", "receive:21", "test:15", "spoil:13"};
  for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
    for (int version = LEAST; version <= MOST; version += 4) {
      setenv("DFCCL_TEST_PLUGIN_FAULT", faults[i], 1);
      choose_version(version);
      run_family(RANKS, run_some, NULL);
    }
}

/* ---- connections that cannot be made again */

typedef struct failing {
  const char *fault, *text;
} failing;

static void meet_failure(int rank, int ranks, const dfcclUniqueId *id, void *arg) {
  const failing *expected = arg;
  static int32_t send[COUNT], recv[COUNT];
  if (rank == 1) setenv("DFCCL_TEST_PLUGIN_FAULT", expected->fault, 1);
  /* The rank whose plugin fails gives up first, so that its sentence is not the other rank's. */
  setenv("DFCCL_NET_RESUME_MS", rank == 1 ? "200" : "5000", 1);
  dfcclContext_t ctx = begin(rank, ranks, id);
  dfcclResult_t result = dfcclRunAllReduce(ctx, COLL, send, recv, NULL, NULL);
  if (result == dfcclSuccess) result = dfcclWait(ctx, COLL);
  RESULT(result, dfcclRemoteError);
  const char *sentence = dfcclGetLastError(ctx);
  CHECK(strstr(sentence, expected->text) || strstr(sentence, "cannot be reached"), "\"%s\"",
        sentence);
  if (rank == 1 || strstr(sentence, "the other end says"))
    CHECK(strstr(sentence, expected->text), "\"%s\"", sentence);
  df_finish(ctx);
}

DF_TEST(plugin, failures_have_the_plugins_name_and_call, 120) {
  static const failing all[] = {
      {"listen", "network plugin DfcclTest, device test1: listen fails with 2 (system error)"},
      {"connect", "network plugin DfcclTest, device test1: connect fails with 6 (remote error)"},
      {"accept", "network plugin DfcclTest, device test1: accept fails with 2 (system error)"},
      {"register", "network plugin DfcclTest, device test1: regMr fails with 2 (system error)"},
      {"send:1", "network plugin DfcclTest, device test1: isend fails with 3 (internal error)"},
      {"name", "network plugin is"}};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    for (int version = LEAST; version <= MOST; version += 8) {
      choose_version(version);
      run_family(RANKS, meet_failure, (void *)(uintptr_t)&all[i]);
    }
}

/* ---- idle connections, and the end */

typedef struct stage {
  atomic_int arrived;
} stage;

static void rest_between(int rank, int ranks, const dfcclUniqueId *id, void *arg) {
  stage *all = arg;
  dfcclContext_t ctx = begin(rank, ranks, id);
  for (int round = 0; round < 12; round++) {
    run_rounds(ctx, rank, ranks, 1);
    atomic_fetch_add(&all->arrived, 1);
    EVENTUALLY(atomic_load(&all->arrived) >= ranks * (round + 1));
    df_sleep_ms(round % 4 * 20 +
                rank); /* the plugin's threads fall asleep within some milliseconds */
  }
  df_finish(ctx);
}

DF_TEST(plugin, messages_come_after_a_rest, 60) {
  for (int version = LEAST; version <= MOST; version += 4) {
    choose_version(version);
    run_family(RANKS, rest_between, df_shared(sizeof(stage)));
  }
}

/* Rank 0's last messages are still in flight when it leaves. */
static void leave_at_once(int rank, int ranks, const dfcclUniqueId *id, void *arg) {
  (void)arg;
  static int32_t data[COUNT];
  dfcclConfig_t config = DFCCL_CONFIG_INITIALIZER;
  dfcclContext_t ctx = df_init(rank, ranks, id, &config);
  OK(dfcclRegisterBroadcast(ctx, COLL, COUNT, dfcclInt32, 0, NULL));
  for (int i = 0; i < COUNT; i++) data[i] = rank ? 0 : i;
  OK(dfcclRunBroadcast(ctx, COLL, data, data, NULL, NULL));
  OK(dfcclWait(ctx, COLL));
  for (int i = 0; i < COUNT; i++) CHECK(data[i] == i, "element %d: %d", i, data[i]);
  df_finish(ctx);
}

DF_TEST(plugin, messages_of_a_leaving_rank_arrive, 60) {
  setenv("DFCCL_TEST_PLUGIN_FAULT", "slow:20", 1);
  for (int i = 0; i < 6; i++) {
    choose_version(i % 2 ? LEAST : MOST);
    run_family(RANKS, leave_at_once, NULL);
  }
}

/* Contexts of one process share the plugin, one after the other. */
static void live_again(int rank, int ranks, const dfcclUniqueId *id, void *arg) {
  const dfcclUniqueId *ids = arg;
  (void)id;
  for (int i = 0; i < 4; i++) run_some(rank, ranks, &ids[i], NULL);
}

DF_TEST(plugin, is_opened_again, 60) {
  dfcclUniqueId *ids = df_shared(4 * sizeof *ids);
  choose_version(MOST);
  for (int i = 0; i < 4; i++) OK(dfcclGetUniqueId(&ids[i]));
  run_family(RANKS, live_again, ids);
}

/* ---- refused */

typedef struct refused {
  const char *net, *fault, *text;
} refused;

static void be_refused(int rank, int ranks, const dfcclUniqueId *id, void *arg) {
  const refused *expected = arg;
  dfcclContext_t ctx = NULL;
  if (expected->fault) setenv("DFCCL_TEST_PLUGIN_FAULT", expected->fault, 1);
  if (expected->net)
    setenv("DFCCL_NET", expected->net, 1);
  else
    choose_version(MOST);
  CHECK(dfcclInit(&ctx, ranks, *id, rank, NULL) != dfcclSuccess, "it was not refused");
  const char *sentence = dfcclGetLastError(NULL);
  CHECK(strstr(sentence, expected->text), "\"%s\"", sentence);
}

DF_TEST(plugin, unusable_plugins_are_named, 60) {
  static const refused all[] = {
      {"plugin:nowhere", NULL, "libnccl-net-nowhere.so: cannot open shared object file"},
      {"plugin:/nowhere/x.so", NULL, "/nowhere/x.so: cannot open shared object file"},
      {"plugin:libm.so.6", NULL, "has none of ncclNetPlugin_v4 to _v12"},
      {NULL, "init", "init fails with 2 (system error); it says \"no such luck (1 of 2)\""},
      {NULL, "devices", "devices fails with 3 (internal error)"},
      {NULL, "none", "finds no device on this host"},
      {NULL, "device", "finds no device that takes host memory"},
      {NULL, "small:4", "finds no device that takes host memory in messages of 512 bytes"}};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    run_family(RANKS, be_refused, (void *)(uintptr_t)&all[i]);
}

static void fork_with_it(int rank, int ranks, const dfcclUniqueId *id, void *arg) {
  const dfcclUniqueId *of_children = arg;
  int status;
  dfcclContext_t ctx = begin(rank, ranks, id), other;
  run_rounds(ctx, rank, ranks, 1);
  df_quiet_before_fork();
  pid_t child = fork();
  if (child == 0) {
    dfcclResult_t result = dfcclInit(&other, ranks, *of_children, rank, NULL);
    const int is_named = strstr(dfcclGetLastError(NULL), "that this one was forked from") != NULL;
    _exit(result == dfcclInvalidUsage && is_named ? 0 : 1);
  }
  CHECK(waitpid(child, &status, 0) == child && status == 0, "the child's status is 0x%x", status);
  run_rounds(ctx, rank, ranks, 5);
  df_finish(ctx);
}

DF_TEST(plugin, a_forked_child_is_refused_it, 60) {
  dfcclUniqueId *of_children = df_shared(sizeof *of_children);
  OK(dfcclGetUniqueId(of_children));
  choose_version(MOST);
  run_family(RANKS, fork_with_it, of_children);
}
